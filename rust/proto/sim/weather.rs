// SPDX-License-Identifier: GPL-2.0

//! Random work lists in good and bad weather.

use super::{
    super::{
        num::Mtu,
        opcode::Service,
        psn::Psn,
        status::WcStatus,
        time::Duration, //
    },
    endpoint::Setup,
    network::{
        Side,
        Weather, //
    },
    pair::Pair,
    plan::Plan,
    rng::Rng, //
};
use std::{
    cell::Cell,
    panic::{
        catch_unwind,
        resume_unwind,
        AssertUnwindSafe, //
    },
    println,
};

/// Seeds with which a test failed once.
const REGRESSIONS: &[u64] = &[];

/// Runs a test for many seeds and prints the one that fails. `RXE_SIM_SEEDS` sets how many, and
/// `RXE_SIM_FIRST` with which to begin.
fn for_seeds(count: u64, test: impl Fn(u64)) {
    let number = |name| std::env::var(name).ok().and_then(|text| text.parse().ok());
    let first = number("RXE_SIM_FIRST").unwrap_or(0);
    let count = number("RXE_SIM_SEEDS").unwrap_or(count);
    for seed in REGRESSIONS.iter().copied().chain(first..first + count) {
        if let Err(panic) = catch_unwind(AssertUnwindSafe(|| test(seed))) {
            println!("failed with RXE_SIM_FIRST={seed}");
            resume_unwind(panic);
        }
    }
}

fn setup(service: Service, rng: &mut Rng) -> Setup {
    let mtus = [Mtu::B256, Mtu::B1024, Mtu::B4096];
    Setup {
        service,
        mtu: mtus[rng.below(3) as usize],
        psn: [0, 1].map(|_| match rng.below(2) {
            // Soon to wrap.
            0 => Psn::new(0u32.wrapping_sub(rng.below(100) as u32)),
            _ => Psn::new(rng.next() as u32),
        }),
        max_rd_atomic: 1 + rng.below(8) as u8,
        retry_cnt: 7,
        rnr_retry: 7,
        ack_timeout: Some(Duration::from_millis(1)),
        min_rnr_timer: 1 + rng.below(12) as u8,
        window: 1 << rng.below(8),
        balk: rng.below(2) as u32 * 100,
        refuse: match service {
            Service::Rc => rng.below(2) as u32 * 200,
            Service::Uc | Service::Ud | Service::Cnp => 0,
        },
        run: 1 + rng.below(2) * 15,
        burst: rng.below(2) * 20_000,
    }
}

/// Runs one list in each direction.
fn run(setup: Setup, weather: Weather, seed: u64, late: Option<u64>) -> (Pair, [Plan; 2]) {
    let mut pair = Pair::new(setup, weather, seed);
    let plans = [0, 1].map(|i| Plan::new(seed * 2 + i, setup.service, setup.mtu, 80));
    for (plan, side) in plans.iter().zip(Side::BOTH) {
        plan.install(&mut pair, side, late);
    }
    pair.run();
    (pair, plans)
}

#[test]
fn in_fine_weather_nothing_is_sent_twice() {
    let runs = Cell::new(0);
    for_seeds(60, |seed| {
        for service in [Service::Rc, Service::Uc, Service::Ud] {
            let setup = setup(service, &mut Rng::new(seed));
            let (mut pair, plans) = run(setup, Weather::FINE, seed, None);
            for (plan, side) in plans.iter().zip(Side::BOTH) {
                plan.check(&mut pair, side);
            }
            assert_eq!(pair.retries, [0, 0]);
            for side in Side::BOTH {
                let requests = pair
                    .net
                    .log
                    .iter()
                    .filter(|sent| sent.from == side && sent.info.opcode.is_request());
                let mut last = setup.psn[side as usize].wrapping_sub_n(1);
                for sent in requests {
                    assert!(sent.info.psn.is_after(last));
                    last = sent.info.psn;
                }
                runs.set(runs.get() + pair.end(side).runs[0]);
            }
        }
    });
    assert!(runs.get() > 0);
}

#[test]
fn late_receivers_cost_time_only() {
    for_seeds(60, |seed| {
        let setup = setup(Service::Rc, &mut Rng::new(seed));
        let (mut pair, plans) = run(setup, Weather::FINE, seed, Some(300_000));
        for (plan, side) in plans.iter().zip(Side::BOTH) {
            plan.check(&mut pair, side);
        }
        assert_eq!(pair.retries, [0, 0]);
        assert_ne!(pair.rnr_naks, [0, 0]);
    });
}

#[test]
fn in_bad_weather_everything_happens_exactly_once() {
    let runs = [Cell::new(0), Cell::new(0)];
    for_seeds(300, |seed| {
        let mut rng = Rng::new(seed);
        let setup = setup(Service::Rc, &mut rng);
        let weather = Weather {
            drop: rng.below(60) as u32,
            duplicate: rng.below(60) as u32,
            reorder: rng.below(200) as u32,
            damage: rng.below(20) as u32,
            delay: 10_000,
        };
        let late = rng.chance(300).then_some(100_000);
        let (mut pair, plans) = run(setup, weather, seed, late);
        for (plan, side) in plans.iter().zip(Side::BOTH) {
            plan.check(&mut pair, side);
            for (sum, count) in runs.iter().zip(pair.end(side).runs) {
                sum.set(sum.get() + count);
            }
        }
    });
    // Runs were taken at once, and some had to be taken apart.
    assert!(runs.iter().all(|sum| sum.get() > 0));
}

#[test]
fn in_a_hurricane_a_queue_fails_in_order() {
    let failed = Cell::new(0);
    let runs = Cell::new(0);
    for_seeds(200, |seed| {
        let mut rng = Rng::new(seed);
        let setup = Setup {
            retry_cnt: rng.below(3) as u8,
            rnr_retry: rng.below(3) as u8,
            ..setup(Service::Rc, &mut rng)
        };
        let weather = Weather {
            drop: 250,
            duplicate: 100,
            reorder: 300,
            damage: 50,
            delay: 10_000,
        };
        let (mut pair, plans) = run(setup, weather, seed, None);
        for (plan, side) in plans.iter().zip(Side::BOTH) {
            let good = pair.successes(side, plan.len());
            plan.check_part(&mut pair, side, good);
            if good != plan.len() {
                failed.set(failed.get() + 1);
                let status = pair.end(side).sent[good].status;
                let expected = [WcStatus::RetryExcErr, WcStatus::RnrRetryExcErr];
                assert!(expected.contains(&status), "{status:?}");
            }
        }
        runs.set(runs.get() + 2);
    });
    assert!(2 * failed.get() > runs.get());
}
