//! The schedulers that reservations are compared with do what was published of them.

#[path = "baselines/driver.rs"]
mod driver;

use driver::Load::{Hog, Thinking};
use driver::{periodic, play, Load};
use giusto_policy::{Id, Kind, Order, Params, Pool};
use giusto_simulator::baselines::{Credit, Error, Fair};
use giusto_simulator::Scheduler;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

const MS: u64 = 1_000_000;
const SECOND: u64 = 1_000 * MS;
/// Of Credit, and the base slice of Fair.
const CREDIT: u64 = 30 * MS;
const FAIR: u64 = 3 * MS;

/// Reservations on one core, for comparison: the server with the smaller number goes first.
struct Reserved {
    pool: Pool,
    ids: Vec<Id>,
}

impl Reserved {
    /// (budget, period) each; nothing reserved if the period is 0.
    fn new(servers: &[(u64, u64)]) -> Reserved {
        let mut pool = Pool::new(Order::FixedPriority);
        let mut ids = Vec::new();
        for (priority, &(budget, period)) in (0..).zip(servers) {
            let kind = if period == 0 { Kind::Unlimited } else { Kind::Deferrable };
            ids.push(pool.add(kind, Params { budget, period, first: 0, priority }, 0).unwrap());
        }
        Reserved { pool, ids }
    }
}

impl Scheduler for Reserved {
    fn charge(&mut self, core: u32, ran: u64, now: u64) {
        self.pool.charge(core, ran, now);
    }
    fn ready(&mut self, server: usize, is_ready: bool, now: u64) {
        self.pool.ready(self.ids[server], is_ready, now);
    }
    fn decide(&mut self, now: u64) -> Option<u64> {
        self.pool.decide(now).until
    }
    fn running(&self, core: u32) -> Option<usize> {
        self.pool.running(core).map(Id::index)
    }
}

fn credit(cores: u32, weights: &[u32]) -> Credit {
    Credit::new(cores, weights, &[]).unwrap()
}

fn fair(cores: u32, weights: &[u32]) -> Fair {
    Fair::new(cores, weights).unwrap()
}

/// Hogs get the time of all cores by weight, each within `within`, from 10 s on: Credit knows a server only once it ran, so
/// the first slices depend on the order.
fn shares<S: Scheduler>(new: impl Fn(u32, &[u32]) -> S, cores: u32, weights: &[u32], within: u64) {
    let hogs = vec![Hog; weights.len()];
    let begin = play(&mut new(cores, weights), cores, &hogs, 10 * SECOND);
    let end = play(&mut new(cores, weights), cores, &hogs, 610 * SECOND);
    assert_eq!(end.wasted, 0);
    let time = 600 * SECOND * u64::from(cores);
    let all: u64 = weights.iter().map(|&weight| u64::from(weight)).sum();
    for ((begin, end), &weight) in begin.ran.iter().zip(&end.ran).zip(weights) {
        let off = (end - begin).abs_diff(time * u64::from(weight) / all);
        assert!(off <= within, "{weights:?} on {cores}: weight {weight} is {off} off its share");
    }
}

#[test]
fn hogs_get_shares_by_weight() {
    for weights in [&[256, 256][..], &[256, 512, 1024], &[100, 300], &[1, 2, 3, 4, 5], &[256; 7]] {
        // Credit lets every server save a slice, and owe one. Fair: lag is less than a request, at both ends.
        shares(credit, 1, weights, 2 * CREDIT);
        shares(fair, 1, weights, 2 * FAIR);
    }
}

#[test]
fn hogs_get_shares_by_weight_on_several_cores() {
    // No server can use more than one core. Fair keeps shares per core, so the weights on each core must be the same.
    for (cores, weights) in [(2, &[256, 256, 256][..]), (2, &[1, 2, 3]), (4, &[256; 10]), (3, &[5, 4, 3, 3])] {
        shares(credit, cores, weights, 2 * CREDIT);
    }
    for (cores, weights) in [(2, &[1, 1, 3, 3][..]), (4, &[1024; 12])] {
        shares(fair, cores, weights, 2 * FAIR);
    }
}

#[test]
fn no_core_idles_while_a_server_waits() {
    let mut rng = ChaCha8Rng::seed_from_u64(1);
    for _ in 0..200 {
        let cores = rng.random_range(1..=4);
        let loads: Vec<Load> = (0..rng.random_range(1..=10))
            .map(|_| match rng.random_range(0..4) {
                0 => Hog,
                _ => {
                    let period = rng.random_range(1..=50) * MS;
                    periodic(rng.random_range(1..=period), period, rng.random_range(0..=period))
                }
            })
            .collect();
        let weights: Vec<u32> = loads.iter().map(|_| rng.random_range(1..=1024)).collect();
        let mut once = Vec::new();
        for _ in 0..2 {
            let credit = play(&mut credit(cores, &weights), cores, &loads, 2 * SECOND);
            let fair = play(&mut fair(cores, &weights), cores, &loads, 2 * SECOND);
            assert_eq!((credit.wasted, fair.wasted), (0, 0));
            once.push((credit, fair));
        }
        assert!(once[0] == once[1], "the same input gave another schedule");
    }
}

#[test]
fn credit_preempts_over_at_once_for_under_but_not_for_over() {
    let mut credit = credit(1, &[1024, 1]);
    credit.ready(0, true, 0);
    credit.ready(1, true, 0);
    let run = |credit: &mut Credit, from: u64, to: u64| {
        for now in from..to {
            credit.decide(now * MS);
            credit.charge(0, MS, (now + 1) * MS);
        }
    };
    // 1 runs its slice from 30 to 60 ms, and has next to no share: from then on it is OVER.
    run(&mut credit, 0, 61);
    assert_eq!(credit.running(0), Some(0));
    credit.ready(0, false, 61 * MS);
    run(&mut credit, 61, 65);
    assert_eq!(credit.running(0), Some(1));
    // UNDER preempts OVER.
    credit.ready(0, true, 65 * MS);
    run(&mut credit, 65, 66);
    assert_eq!(credit.running(0), Some(0));
    // OVER preempts no server: 1 gets the core only when 0 sleeps.
    credit.ready(1, false, 66 * MS);
    run(&mut credit, 66, 67);
    credit.ready(1, true, 67 * MS);
    run(&mut credit, 67, 80);
    assert_eq!(credit.running(0), Some(0));
}

#[test]
fn credit_serves_a_light_server_at_once_beside_hogs() {
    // It uses a twentieth, less than its share. From 1 s on: hogs that have just begun are boosted, too.
    let light = periodic(MS, 20 * MS, SECOND + 7 * MS);
    let played = play(&mut credit(1, &[256; 3]), 1, &[Hog, Hog, light], 60 * SECOND);
    assert_eq!(played.worst[2], MS);
    // One that asks for more than its third runs into debt, and then waits for the slices of both hogs.
    let heavy = Thinking { run: 8 * MS, sleep: 5 * MS };
    let played = play(&mut credit(1, &[256; 3]), 1, &[Hog, Hog, heavy], 60 * SECOND);
    assert!(played.worst[2] > CREDIT && played.worst[2] <= 4 * CREDIT + 8 * MS, "{}", played.worst[2]);
}

#[test]
fn boosted_neighbours_cost_latency_that_a_reservation_saves() {
    // Woken by I/O, too, but with more to do at a time.
    let loads = [periodic(MS, 20 * MS, 7 * MS), periodic(8 * MS, 51 * MS, 0), periodic(9 * MS, 83 * MS, 0), Hog];
    let horizon = 60 * SECOND;
    let reserved = play(&mut Reserved::new(&[(MS, 20 * MS), (0, 0), (0, 0), (0, 0)]), 1, &loads, horizon);
    assert_eq!(reserved.worst[0], MS);

    let weights = [256; 4];
    let credit = play(&mut credit(1, &weights), 1, &loads, horizon);
    // It is boosted, so it waits for others that are (8 + 9 ms); after a tick or accounting took its place, also for a
    // slice of the hog.
    assert!(credit.worst[0] > 8 * MS && credit.worst[0] <= (8 + 9 + 1) * MS + CREDIT, "{}", credit.worst[0]);

    let fair = play(&mut fair(1, &weights), 1, &loads, horizon);
    // A request ends by its deadline (slice / share) and one slice: theorem 1 of Stoica and Abdel-Wahab.
    assert!(fair.worst[0] > FAIR && fair.worst[0] <= 4 * FAIR + FAIR, "{}", fair.worst[0]);
}

#[test]
fn fair_latency_grows_with_the_hogs() {
    let mut last = 0;
    for hogs in [1, 3, 7, 15] {
        let mut loads = vec![Hog; hogs];
        // No multiple of a slice, so that it wakes at every phase.
        loads.push(periodic(MS, 101 * MS + 37_000, 7 * MS));
        let played = play(&mut fair(1, &vec![1024; hogs + 1]), 1, &loads, 60 * SECOND);
        let worst = played.worst[hogs];
        assert!(worst > last && worst <= (hogs as u64 + 1) * FAIR + FAIR, "{hogs} hogs: {worst}");
        last = worst;
    }
}

#[test]
fn credit_boost_ends_at_the_tick() {
    // 0 wakes at 1 ms, 1 at 5 ms: both are boosted, so it waits. At 10 ms the tick finds 0, and 2 wakes at 15 ms.
    let loads = [periodic(25 * MS, SECOND, MS), periodic(MS, SECOND, 5 * MS), periodic(MS, SECOND, 15 * MS)];
    let played = play(&mut credit(1, &[256; 3]), 1, &loads, 100 * MS);
    let schedule =
        [(0, None), (MS, Some(0)), (15 * MS, Some(1)), (16 * MS, Some(2)), (17 * MS, Some(0)), (28 * MS, None)];
    assert_eq!(played.schedule, schedule.map(|(at, index)| (at, vec![index])));
}

#[test]
fn fair_keeps_every_server_within_a_slice_of_its_share_at_any_time() {
    // The bound on lag of Stoica and Abdel-Wahab. Without eligibility the heavy one would run its ten slices in a row.
    let weights = [1000, 100, 100, 100, 100, 100, 100, 100, 100, 100, 100];
    for end in 1..400 {
        let played = play(&mut fair(1, &weights), 1, &[Hog; 11], end * MS);
        for (ran, weight) in played.ran.iter().zip(weights) {
            let off = ran.abs_diff(end * MS * u64::from(weight) / 2000);
            assert!(off <= FAIR, "weight {weight} is {off} off its share after {end} ms");
        }
    }
}

#[test]
fn fair_preempts_for_an_earlier_deadline() {
    let wakes = periodic(MS, SECOND, 6 * MS + MS / 2);
    // A slice at weight 8192 is due before the rest of the hog's request; at the same weight it is not.
    let heavy = play(&mut fair(1, &[1024, 8192]), 1, &[Hog, wakes], 500 * MS);
    assert_eq!(heavy.worst[1], MS);
    let two = play(&mut fair(1, &[1024, 1024, 8192]), 1, &[Hog, Hog, wakes], 500 * MS);
    assert_eq!(two.worst[2], MS);
    let equal = play(&mut fair(1, &[1024, 1024]), 1, &[Hog, wakes], 500 * MS);
    assert_eq!(equal.worst[1], MS + 2 * MS + MS / 2);
    // With an idle core it disturbs no server: its own is busy, as 0 is the only one that began on core 0.
    let loads = [Hog, periodic(1, SECOND, 0), wakes];
    let idle = play(&mut fair(2, &[1024, 1024, 8192]), 2, &loads, 500 * MS);
    assert!(idle.schedule.iter().all(|(_, running)| running[0] == Some(0)));
}

/// Asks ten times as often as needed.
struct Eager<S>(S);

impl<S: Scheduler> Scheduler for Eager<S> {
    fn charge(&mut self, core: u32, ran: u64, now: u64) {
        self.0.charge(core, ran, now);
    }
    fn ready(&mut self, server: usize, is_ready: bool, now: u64) {
        self.0.ready(server, is_ready, now);
    }
    fn decide(&mut self, now: u64) -> Option<u64> {
        Some(self.0.decide(now).unwrap_or(u64::MAX).min(now + MS / 10))
    }
    fn running(&self, core: u32) -> Option<usize> {
        self.0.running(core)
    }
}

#[test]
fn decisions_that_are_not_needed_change_nothing() {
    let loads =
        [Hog, Hog, periodic(2 * MS, 7 * MS, MS), periodic(11 * MS, 50 * MS, 0), Thinking { run: MS, sleep: MS }];
    for cores in [1, 2, 3] {
        // Powers of two: virtual times are exact, however often they are added up.
        let weights = [1024, 512, 2048, 1024, 256];
        let lazy = play(&mut credit(cores, &weights), cores, &loads, SECOND);
        assert!(lazy == play(&mut Eager(credit(cores, &weights)), cores, &loads, SECOND), "credit on {cores}");
        let lazy = play(&mut fair(cores, &weights), cores, &loads, SECOND);
        assert!(lazy == play(&mut Eager(fair(cores, &weights)), cores, &loads, SECOND), "fair on {cores}");
    }
}

#[test]
fn sleep_gives_no_unbounded_credit() {
    // 3 s of work, done at 6 s, as the hog has the other half; again from 60 s on, and half of that by 63 s.
    let loads = [Hog, periodic(3 * SECOND, 60 * SECOND, 0)];
    let fair = play(&mut fair(1, &[1024; 2]), 1, &loads, 63 * SECOND);
    assert!(fair.ran[1].abs_diff(4500 * MS) <= 2 * FAIR, "{:?}", fair.ran);
    let credit = play(&mut credit(1, &[256; 2]), 1, &loads, 63 * SECOND);
    assert!(credit.ran[1].abs_diff(4500 * MS) <= 2 * CREDIT, "{:?}", credit.ran);
}

#[test]
fn credit_keeps_weights_beside_a_light_server() {
    // 1 : 3 between the hogs. Somewhat less, as what the light one cannot save is lost; if it were dealt credits at every
    // accounting, it would be 1 : 1.
    for light in [periodic(MS, 30 * MS, 7 * MS), periodic(MS, 20 * MS, 7 * MS)] {
        let ran = play(&mut credit(1, &[100, 300, 400]), 1, &[Hog, Hog, light], 600 * SECOND).ran;
        assert!(ran[1] * 10 > ran[0] * 24 && ran[1] < ran[0] * 3, "{ran:?}");
    }
}

#[test]
fn short_sleeps_do_not_escape_a_share() {
    // It never runs when the tick comes, and could have 9 of every 10 ms; it gets a half.
    let ran = play(&mut credit(1, &[256; 2]), 1, &[Hog, Thinking { run: 9 * MS, sleep: MS }], 60 * SECOND).ran[1];
    assert!(ran <= 30 * SECOND + 2 * CREDIT, "{ran}");
    // It sleeps whenever it is ahead, and could have 99 %; it gets 8/9.
    let ran = play(&mut fair(1, &[1024, 8192]), 1, &[Hog, Thinking { run: MS, sleep: MS / 100 }], 9 * SECOND).ran[1];
    assert!(ran <= 8 * SECOND + 2 * FAIR, "{ran}");
}

#[test]
fn caps_hold_and_others_get_the_rest() {
    let horizon = 60 * SECOND;
    for cap in [1, 10, 25, 50, 99] {
        let most = horizon * cap / 100;
        let mut alone = Credit::new(1, &[256], &[cap as u32]).unwrap();
        let ran = play(&mut alone, 1, &[Hog], horizon).ran[0];
        assert!(ran.abs_diff(most) <= 2 * CREDIT, "cap {cap}: {ran} of {most}");

        let mut beside = Credit::new(1, &[1024, 1], &[cap as u32, 0]).unwrap();
        let played = play(&mut beside, 1, &[Hog, Hog], horizon);
        assert_eq!(played.wasted, 0);
        assert!(played.ran[0].abs_diff(most) <= 2 * CREDIT, "cap {cap}: {} of {most}", played.ran[0]);
    }
}

#[test]
fn a_waiting_server_moves_to_an_idle_core() {
    // All start on core 0 and 1; core 1 idles from 5 ms on.
    let loads = [Hog, periodic(5 * MS, SECOND, 0), Hog];
    for (name, played) in [
        ("credit", play(&mut credit(2, &[256; 3]), 2, &loads, SECOND)),
        ("fair", play(&mut fair(2, &[1024; 3]), 2, &loads, SECOND)),
    ] {
        let (at, running) = played.schedule.last().unwrap();
        assert_eq!((played.wasted, *at), (0, 5 * MS), "{name}");
        assert!(running.contains(&Some(0)) && running.contains(&Some(2)), "{name}: {running:?}");
    }
}

#[test]
fn senseless_parameters_are_refused() {
    assert_eq!(Credit::new(0, &[1], &[]).err(), Some(Error::Cores(0)));
    assert_eq!(Fair::new(65, &[1]).err(), Some(Error::Cores(65)));
    assert_eq!(Credit::new(1, &[1, 0], &[]).err(), Some(Error::Weight { server: 1, weight: 0 }));
    assert_eq!(Fair::new(1, &[1 << 21]).err(), Some(Error::Weight { server: 0, weight: 1 << 21 }));
    assert_eq!(Credit::new(1, &[1], &[0, 50]).err(), Some(Error::Cap { server: 1, servers: 1 }));
    assert_eq!(Fair::with_slice(1, &[1], 0).err(), Some(Error::Slice(0)));
}
