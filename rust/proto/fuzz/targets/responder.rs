// SPDX-License-Identifier: GPL-2.0

//! The responder under any packets in a world that fails at will.

use super::Numbers;
use rxe_proto::{
    effect::{
        Effect,
        Input,
        RecvFault,
        RecvTaken,
        RemoteSpan, //
    },
    memkey::Access,
    num::{
        Key,
        Mtu,
        Qpn, //
    },
    opcode::{
        Opcode,
        Position,
        Service, //
    },
    packet::PacketInfo,
    psn::Psn,
    resources::Resource,
    responder::{
        Responder,
        ResponderConfig, //
    },
    status::{
        AccessFault,
        CqOverflow, //
    },
};

const START: u64 = 0x1_0000;
const LEN: u64 = 0x1_0000;
const KEY: Key = Key::new(0x4200);
const MTU: u32 = 256;

/// Tells whether a span is within another.
fn within(span: &RemoteSpan, va: u64, len: u64) -> bool {
    span.va
        .checked_sub(va)
        .and_then(|skipped| len.checked_sub(skipped))
        .is_some_and(|rest| u64::from(span.len) <= rest)
}

/// A packet of which every header may be sensible or not.
fn any_packet(numbers: &mut Numbers<'_>, expected: Psn) -> PacketInfo {
    let opcode = Opcode::ALL[usize::from(numbers.u8()) % Opcode::ALL.len()];
    let mut info = PacketInfo::new(opcode);
    info.psn = match numbers.u8() {
        0..=191 => expected,
        n @ 192..=254 => expected.wrapping_add(u32::from(n)).wrapping_sub_n(223),
        255 => Psn::new(numbers.u32()),
    };
    let flags = numbers.u8();
    info.ack_req = flags & 1 != 0;
    info.solicited = flags & 2 != 0;
    info.set_payload_len(match opcode.position() {
        _ if !opcode.may_have_payload() => 0,
        Position::First | Position::Middle if flags & 4 == 0 => MTU,
        _ => numbers.len(MTU),
    });
    if flags & 8 != 0 {
        info.pad = numbers.u8() % 4;
    }
    info.reth.va = match flags >> 6 {
        0 => numbers.u64(),
        1 => START.wrapping_add(u64::from(numbers.u16())),
        _ => START.wrapping_add(u64::from(numbers.u8()) * 8),
    };
    info.reth.key = if flags & 16 == 0 {
        KEY
    } else {
        Key::new(numbers.u32())
    };
    info.reth.len = if flags & 32 == 0 && opcode.position() == Position::Only {
        info.payload_len
    } else {
        numbers.len(MTU)
    };
    info.atomic.va = info.reth.va;
    info.atomic.key = info.reth.key;
    info.feth.placement = flags & 3;
    info.feth.level = (flags >> 2) & 1;
    info.ieth = info.reth.key;
    info
}

/// No effect leaves the bounds that the packet and the posted buffer set.
pub fn responder_ops(data: &[u8]) {
    let mut numbers = Numbers(data);
    let service = match numbers.u8() % 6 {
        0 => Service::Uc,
        1 => Service::Ud,
        _ => Service::Rc,
    };
    let cfg = ResponderConfig {
        service,
        mtu: Mtu::B256,
        psn: Psn::new(numbers.u32()),
        dest_qpn: Qpn::new(2),
        pkey: 0xffff,
        access: Access::REMOTE.union(Access::FLUSH),
        min_rnr_timer: 1,
        announce: true,
    };
    let depth = usize::from(numbers.u8() % 5);
    let mut resp = Responder::new(cfg, vec![Resource::UNUSED; depth]);
    resp.set_response_run(u32::from(numbers.u8() % 8));
    let mut recv: Option<u32> = None;
    let mut range: Option<(u64, u32)> = None;

    while !numbers.is_empty() {
        match numbers.u8() {
            0 => {
                let depth = usize::from(numbers.u8() % 5);
                resp.replace_storage(vec![Resource::UNUSED; depth]);
            }
            1 => {
                resp.enter_error();
                assert_eq!(resp.flush().is_some(), recv.take().is_some());
                resp.reset(cfg);
            }
            _ => {}
        }
        let mut info = any_packet(&mut numbers, resp.expected_psn());
        let packets = match numbers.u8() {
            0..=199 => 1,
            n => u32::from(n - 199),
        };
        if packets > 1 && numbers.u8() < 200 {
            let before = (packets - 1) * MTU;
            info.set_payload_len(info.payload_len.saturating_add(before));
        }
        // One bit for each kind of thing that goes wrong.
        let world = numbers.u8();
        let fails = world >= 0xe0;
        let memory = |span: &RemoteSpan| {
            if span.key == KEY && within(span, START, LEN) && !(fails && world & 1 != 0) {
                Ok(())
            } else {
                Err(AccessFault::Bounds)
            }
        };

        let mut input = if packets == 1 {
            Input::Packet(&info)
        } else {
            Input::Run {
                packet: &info,
                packets,
            }
        };
        loop {
            input = match resp.step(input) {
                Effect::TakeRecv => Input::Recv(if fails && world & 2 != 0 {
                    Err(RecvFault::Empty)
                } else {
                    assert_eq!(recv, None);
                    let length = numbers.len(MTU);
                    recv = Some(length);
                    if fails && world & 4 != 0 {
                        Err(RecvFault::Malformed { wr_id: 1 })
                    } else {
                        Ok(RecvTaken { wr_id: 1, length })
                    }
                }),
                Effect::Check { span } => {
                    assert_eq!((span.va, span.len), (info.reth.va, info.reth.len));
                    range = Some((span.va, span.len));
                    Input::Access(memory(&span))
                }
                Effect::StoreRecv { offset, len } => {
                    let end = offset.checked_add(len).expect("no overflow");
                    assert!(len == info.payload_len && end <= recv.expect("a receive"));
                    Input::Access(if fails && world & 8 != 0 {
                        Err(AccessFault::Key)
                    } else {
                        Ok(())
                    })
                }
                Effect::StoreGrh => {
                    assert!(recv.expect("a receive") >= 40);
                    Input::Access(Ok(()))
                }
                Effect::StoreRemote { span } => {
                    let (va, len) = if info.opcode.position() == Position::Only {
                        (info.reth.va, info.reth.len)
                    } else {
                        range.expect("a checked range")
                    };
                    assert!(span.len == info.payload_len);
                    assert!(within(&span, va, u64::from(len)) || memory(&span).is_err());
                    Input::Access(memory(&span))
                }
                Effect::Atomic { span, .. } => {
                    assert!(span.len == 8 && span.va % 8 == 0);
                    Input::AtomicValue(memory(&span).map(|()| 7))
                }
                Effect::AtomicWrite { span } => {
                    assert!(span.len == 8 && span.va % 8 == 0 && info.payload_len == 8);
                    Input::Access(memory(&span))
                }
                Effect::Flush { span, .. } => Input::Access(memory(&span)),
                Effect::Invalidate(_) => Input::Access(if world & 16 != 0 {
                    Err(AccessFault::Key)
                } else {
                    Ok(())
                }),
                Effect::Send(reply) => {
                    assert_eq!(service, Service::Rc);
                    let mut sum = 0;
                    for index in 0..reply.packets {
                        let header = reply.header_of(index);
                        assert!(header.opcode.is_response() && header.payload_len <= MTU);
                        sum += header.payload_len;
                    }
                    assert_eq!(sum, reply.payload.map_or(0, |span| span.len));
                    match reply.payload {
                        Some(span) => {
                            assert!(
                                within(&span, info.reth.va, u64::from(info.reth.len))
                                    || memory(&span).is_err()
                            );
                            match memory(&span) {
                                Ok(()) => Input::Sent,
                                Err(fault) => Input::Access(Err(fault)),
                            }
                        }
                        None => Input::Sent,
                    }
                }
                Effect::Complete(completion) => {
                    let length = recv.take().expect("a receive");
                    if completion.opcode == rxe_proto::status::WcOpcode::Recv {
                        assert!(completion.byte_len <= length);
                    }
                    Input::Completed(if fails && world & 16 != 0 {
                        Err(CqOverflow)
                    } else {
                        Ok(())
                    })
                }
                Effect::Event(_) => Input::Sent,
                Effect::Fatal(_) => {
                    assert_eq!(resp.flush().is_some(), recv.take().is_some());
                    resp.reset(cfg);
                    break;
                }
                Effect::Done(_) => break,
            };
        }
        assert!(!resp.is_busy());
    }
    assert_eq!(resp.flush().is_some(), recv.is_some());
}
