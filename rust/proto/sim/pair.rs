// SPDX-License-Identifier: GPL-2.0

//! Two endpoints, the network between them, and the clock.

use super::{
    super::{
        status::WcStatus,
        time::Instant,
        window::gap, //
    },
    endpoint::{
        Endpoint,
        Post,
        Recv,
        Setup, //
    },
    network::{
        Network,
        Side,
        Weather, //
    },
};
use std::vec::Vec;

/// What is known of a send queue's last progress.
#[derive(Clone, Copy, Default)]
struct Progress {
    una: u32,
    retries: u32,
}

pub(super) struct Pair {
    setup: Setup,
    pub(super) now: Instant,
    pub(super) net: Network,
    pub(super) ends: [Endpoint; 2],
    /// Receives to be posted later, in the order of time.
    later: Vec<(Instant, Side, Recv)>,
    progress: [Progress; 2],
    /// Transport retries and RNR NAKs of both sides so far.
    pub(super) retries: [u32; 2],
    pub(super) rnr_naks: [u32; 2],
}

/// More events than any test needs.
const MAX_EVENTS: u32 = 2_000_000;

impl Pair {
    pub(super) fn new(setup: Setup, weather: Weather, seed: u64) -> Self {
        Self {
            setup,
            now: Instant(1),
            net: Network::new(weather, seed),
            ends: Side::BOTH.map(|side| Endpoint::new(side, setup, seed ^ side as u64)),
            later: Vec::new(),
            progress: [Progress::default(); 2],
            retries: [0; 2],
            rnr_naks: [0; 2],
        }
    }

    pub(super) fn end(&mut self, side: Side) -> &mut Endpoint {
        &mut self.ends[side as usize]
    }

    pub(super) fn post(&mut self, side: Side, post: Post) {
        self.end(side).post(post);
    }

    pub(super) fn recv(&mut self, side: Side, recv: Recv) {
        self.end(side).recvs.push_back(recv);
    }

    /// Posts a receive at a later time. Calls are made in the order of time.
    pub(super) fn recv_at(&mut self, at: Instant, side: Side, recv: Recv) {
        self.later.push((at, side, recv));
    }

    /// Lets time pass until nothing is left to happen.
    pub(super) fn run(&mut self) {
        for _ in 0..MAX_EVENTS {
            for end in &mut self.ends {
                end.work(&mut self.net, self.now);
            }
            self.check();
            let Some(next) = self.next_event() else {
                return;
            };
            self.now = self.now.max(next);
            self.step();
        }
        panic!("no end in sight at {:?}", self.now);
    }

    fn next_event(&self) -> Option<Instant> {
        let arrival = self.net.next_arrival();
        let later = self.later.first().map(|(at, ..)| *at);
        let ends = self
            .ends
            .iter()
            .flat_map(|end| [end.sender.next_deadline(), end.retry_at]);
        ends.chain([arrival, later]).flatten().min()
    }

    /// Lets happen what is due now.
    fn step(&mut self) {
        while self.later.first().is_some_and(|(at, ..)| *at <= self.now) {
            let (_, side, recv) = self.later.remove(0);
            self.recv(side, recv);
        }
        let until = Instant(self.now.0 + self.setup.burst);
        let mut bursts = [Vec::new(), Vec::new()];
        while let Some((side, bytes)) = self.net.arrive(until) {
            bursts[side as usize].push(bytes);
            if self.setup.burst == 0 {
                break;
            }
        }
        for (end, burst) in self.ends.iter_mut().zip(bursts) {
            end.receive(&mut self.net, &burst, self.now);
        }
        self.check();
        for side in Side::BOTH {
            let now = self.now;
            let sender = &mut self.end(side).sender;
            if sender.next_deadline().is_some_and(|at| at <= now) {
                sender.on_timeout(now);
                assert!(sender.next_deadline().is_none_or(|at| at > now));
            }
        }
    }

    /// Checks what must hold at all times.
    fn check(&mut self) {
        for side in Side::BOTH {
            let i = side as usize;
            let retry_cnt = u32::from(self.setup.retry_cnt);
            let sender = &mut self.ends[i].sender;
            let counts = sender.take_counts();
            self.retries[i] += counts.retries;
            self.rnr_naks[i] += counts.rnr_naks;

            // Cursors are in order.
            assert!(gap(sender.nxt, sender.una) <= gap(sender.top, sender.una));
            assert!(sender.ack.wrapping_sub(sender.head) <= sender.len());

            // Retries without progress are bounded.
            let progress = &mut self.progress[i];
            if progress.una != sender.una.get() || counts.rnr_naks != 0 {
                *progress = Progress {
                    una: sender.una.get(),
                    retries: 0,
                };
                // Progress and the retry that came with it cannot be told apart here.
                assert!(counts.retries <= retry_cnt.max(1));
            } else {
                progress.retries += counts.retries;
            }
            assert!(progress.retries <= retry_cnt);

            // Limits.
            assert!(sender.rd_out <= self.setup.max_rd_atomic);
        }
    }

    /// Checks that completions are in order, one for each request, with a success in front, then at
    /// most one error, and flushes behind it. Returns the number of successes.
    pub(super) fn successes(&self, side: Side, posted: usize) -> usize {
        let sent = &self.ends[side as usize].sent;
        assert!(self.ends[side as usize].is_finished());
        assert_eq!(sent.len(), posted);
        for (i, completion) in sent.iter().enumerate() {
            assert_eq!(completion.wr_id, i as u64);
        }
        let good = sent
            .iter()
            .take_while(|c| c.status == WcStatus::Success)
            .count();
        for (i, completion) in sent.iter().enumerate().skip(good + 1) {
            assert_eq!(completion.status, WcStatus::WrFlushErr, "{i}");
        }
        good
    }
}
