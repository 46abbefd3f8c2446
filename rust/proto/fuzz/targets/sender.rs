// SPDX-License-Identifier: GPL-2.0

//! The send queue under any requests, responses and times.

use super::Numbers;
use rxe_proto::{
    completer::RespStep,
    num::{
        Key,
        Mtu,
        Qpn, //
    },
    opcode::{
        Opcode,
        Service, //
    },
    packet::PacketInfo,
    psn::{
        Msn,
        Psn, //
    },
    requester::TxStep,
    sender::{
        Sender,
        SenderConfig, //
    },
    status::{
        AccessFault,
        WcStatus, //
    },
    time::{
        Duration,
        Instant, //
    },
    window::SendEntry,
    wire::Imm,
    wr::{
        SendFlags,
        SendOp,
        SendWr,
        UdTarget, //
    },
};

const MTU: u32 = 256;

fn any_request(numbers: &mut Numbers<'_>, wr_id: u64) -> SendWr {
    let (va, key) = (0x1000, Key::new(0x4200));
    let mut length = numbers.len(MTU);
    let op = match numbers.u8() % 14 {
        0 => SendOp::Send,
        1 => SendOp::SendImm(Imm([1; 4])),
        2 => SendOp::SendInv(key),
        3 => SendOp::Write { va, key },
        4 => SendOp::WriteImm {
            va,
            key,
            imm: Imm([2; 4]),
        },
        5 | 6 => SendOp::Read { va, key },
        7 => SendOp::CompareSwap {
            va,
            key,
            compare: 1,
            swap: 2,
        },
        8 => SendOp::FetchAdd { va, key, add: 1 },
        9 => SendOp::AtomicWrite { va, key },
        10 => SendOp::Flush {
            va,
            key,
            len: length,
            level: 0,
            placement: 1,
        },
        11 => SendOp::LocalInv(key),
        12 => SendOp::RegMr { key, access: 1 },
        _ => SendOp::Write {
            va: u64::MAX - 100,
            key,
        },
    };
    match op {
        SendOp::CompareSwap { .. } | SendOp::FetchAdd { .. } | SendOp::AtomicWrite { .. } => {
            length = 8;
        }
        SendOp::LocalInv(_) | SendOp::RegMr { .. } | SendOp::Flush { .. } => length = 0,
        _ => {}
    }
    let flags = numbers.u8();
    SendWr {
        wr_id,
        op,
        flags: SendFlags {
            signaled: flags & 1 != 0,
            solicited: flags & 2 != 0,
            fence: flags & 4 != 0,
            inline: false,
        },
        length,
        num_sge: 1,
        ud: UdTarget::default(),
    }
}

fn any_response(numbers: &mut Numbers<'_>, next: Psn) -> PacketInfo {
    const RESPONSES: [Opcode; 6] = [
        Opcode::RcAck,
        Opcode::RcAtomicAck,
        Opcode::RcReadResponseFirst,
        Opcode::RcReadResponseMiddle,
        Opcode::RcReadResponseLast,
        Opcode::RcReadResponseOnly,
    ];
    let mut info = PacketInfo::new(match numbers.u8() {
        n @ 0..=251 => RESPONSES[usize::from(n) % RESPONSES.len()],
        n => Opcode::ALL[usize::from(n) % Opcode::ALL.len()],
    });
    info.psn = match numbers.u8() {
        n @ 0..=250 => next.wrapping_sub_n(u32::from(n % 20)),
        _ => Psn::new(numbers.u32()),
    };
    info.aeth.syndrome = match numbers.u8() {
        0..=159 => 0x1f,
        160..=191 => 0x20 | 1,
        192..=223 => 0x60,
        n => n,
    };
    info.aeth.msn = Msn::new(numbers.u32());
    if info.opcode.may_have_payload() {
        info.set_payload_len(numbers.len(MTU));
    }
    info
}

/// Every request completes once and in order, and no payload leaves its message.
pub fn sender_ops(data: &[u8]) {
    let mut numbers = Numbers(data);
    let service = match numbers.u8() % 6 {
        0 => Service::Uc,
        1 => Service::Ud,
        _ => Service::Rc,
    };
    let cfg = SenderConfig {
        service,
        mtu: Mtu::B256,
        psn: Psn::new(numbers.u32()),
        qpn: Qpn::new(17),
        dest_qpn: Qpn::new(18),
        pkey: 0xffff,
        qkey: 1,
        max_rd_atomic: numbers.u8() % 4,
        retry_cnt: numbers.u8() % 8,
        rnr_retry: numbers.u8() % 8,
        ack_timeout: Some(Duration(1000)),
    };
    let entries = usize::from(numbers.u8() % 40);
    let mut sender = Sender::new(cfg, vec![SendEntry::EMPTY; entries]);
    let (mut pushed, mut popped) = (0u64, 0u64);
    let mut now = Instant(1);

    while !numbers.is_empty() {
        match numbers.u8() % 16 {
            0..=3 => {
                let wr = any_request(&mut numbers, pushed);
                let room = sender.room();
                let taken = sender.push(wr).is_ok();
                assert_eq!(taken, room > 0);
                pushed += u64::from(taken);
            }
            4 => {
                if sender.push_bad(pushed, WcStatus::LocQpOpErr).is_ok() {
                    pushed += 1;
                }
            }
            5..=9 => {
                let max = u32::from(numbers.u8() % 20) + 1;
                let commit = numbers.u8();
                match sender.poll_run(now, max) {
                    TxStep::Packet(tx) => {
                        let wr = *sender.request(tx.slot).expect("a request");
                        assert!(1 <= tx.packets && tx.packets <= max);
                        assert!(tx.offset.checked_add(tx.len).expect("no overflow") <= wr.length);
                        let mut sum = 0;
                        for i in 0..tx.packets {
                            let header = sender.header(&tx, i).expect("a header");
                            assert!(header.payload_len <= MTU && header.opcode.is_request());
                            assert_eq!(header.psn, tx.psn.wrapping_add(i));
                            sum += header.payload_len;
                        }
                        assert_eq!(sum, tx.len);
                        match commit {
                            0..=199 => sender.commit_tx(&tx, now),
                            // Not committed, it is offered again.
                            200..=253 => assert_eq!(sender.poll_run(now, max), TxStep::Packet(tx)),
                            _ => sender.tx_fault(tx.slot, WcStatus::LocProtErr),
                        }
                    }
                    TxStep::Local { slot, .. } => sender.local_done(
                        slot,
                        if commit < 250 {
                            Ok(())
                        } else {
                            Err(WcStatus::LocQpOpErr)
                        },
                    ),
                    TxStep::Idle => {}
                }
            }
            10..=13 => {
                let info = any_response(&mut numbers, sender.sq_psn());
                let mut step = sender.on_response(&info, now);
                for _ in 0..4 {
                    let result = if numbers.u8() < 250 {
                        Ok(())
                    } else {
                        Err(AccessFault::Key)
                    };
                    step = match step {
                        RespStep::Store { slot, offset, len } => {
                            let wr = sender.request(slot).expect("a request");
                            assert!(len <= info.payload_len);
                            assert!(offset.checked_add(len).expect("no overflow") <= wr.length);
                            sender.stored(result)
                        }
                        RespStep::StoreAtomic { .. } => sender.stored(result),
                        RespStep::Done => break,
                    };
                }
            }
            14 => {
                now = Instant(now.0.saturating_add(u64::from(numbers.u16())));
                sender.on_timeout(now);
            }
            _ => match numbers.u8() {
                0 => sender.enter_error(),
                1..=3 => sender.set_draining(true),
                4..=60 => sender.set_draining(false),
                _ => {
                    while let Some(done) = sender.pop_completion() {
                        assert_eq!(done.wr_id, popped);
                        popped += 1;
                    }
                    if sender.is_broken() {
                        assert!(sender.is_empty());
                        sender.reset();
                    }
                }
            },
        }
    }

    sender.enter_error();
    while let Some(done) = sender.pop_completion() {
        assert_eq!(done.wr_id, popped);
        popped += 1;
    }
    assert_eq!(pushed, popped);
    assert!(sender.is_empty());
}
