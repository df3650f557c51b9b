//! Whole schedules against the oracle: random systems of any load, behaviour and driver.

use super::oracle::{Cases, Oracle};
use giusto_policy::{Back, CoreMode, Id, Kind, Mixed, Order, Params, Pool, When};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

/// How often a case occurred.
type Case = fn(&Cases) -> u64;

fn reservation(random: &mut ChaCha8Rng, high: bool) -> Mixed {
    let period: u64 = random.random_range(2..=24);
    let optimistic = random.random_range(1..=period.div_ceil(2));
    if !high {
        return Mixed { optimistic, worst: None, period, virtual_deadline: period };
    }
    if random.random_bool(0.5) {
        let worst = Some(random.random_range(optimistic..=period));
        return Mixed { optimistic, worst, period, virtual_deadline: random.random_range(optimistic..=period) };
    }
    // Denser in LO than in HI, so that a wake-up may have to wait.
    let virtual_deadline = random.random_range(optimistic..=2 * optimistic).min(period);
    Mixed { optimistic, worst: Some((optimistic + random.random_range(0..2)).min(period)), period, virtual_deadline }
}

struct Pair {
    pool: Pool,
    oracle: Oracle,
    ids: Vec<Id>,
    log: String,
}

impl Pair {
    fn add(&mut self, vm: Option<Mixed>, first: u64, now: u64) {
        let unlimited = Params { budget: 0, period: 0, first: 0, priority: 0 };
        let added = match vm {
            Some(vm) => self.pool.add_mixed(vm, first, now),
            None => self.pool.add(Kind::Unlimited, unlimited, now),
        };
        self.ids.push(added.unwrap());
        self.oracle.add(vm, first, now);
        self.log += &format!("{now}: add {vm:?} from {first}\n");
    }

    fn call(&mut self, random: &mut ChaCha8Rng, now: u64) {
        let i = random.random_range(0..self.ids.len());
        if self.oracle.servers[i].gone {
            return;
        }
        let (id, vm) = (self.ids[i], self.oracle.servers[i].vm);
        match (random.random_range(0..20), vm) {
            (0..3, Some(old)) => {
                let new = reservation(random, old.worst.is_some());
                let new = match random.random_range(0..3) {
                    0 => old,
                    1 => Mixed { period: old.period, virtual_deadline: old.period, ..new },
                    _ => new,
                };
                let fits = new.worst.unwrap_or(new.optimistic) <= new.period;
                let new = if fits { new } else { old };
                let when = if random.random_bool(0.5) { When::Now } else { When::NextPeriod };
                self.log += &format!("{now}: set {i} {new:?} {when:?}\n");
                self.pool.set_mixed(id, new, when, now).unwrap();
                self.oracle.set(i, new, when == When::Now, now);
            }
            (3, _) => {
                let until = now + random.random_range(0..30);
                self.log += &format!("{now}: boost {i} {until}\n");
                assert_eq!(self.pool.boost(id, until, now).is_ok(), self.oracle.boost(i, until, now), "{}", self.log);
            }
            (4, _) if self.ids.len() < 7 => {
                let vm = random.random_bool(0.8).then(|| reservation(random, true));
                let first = if random.random_bool(0.5) { now + random.random_range(0..20) } else { 0 };
                self.add(vm, first, now);
            }
            (5, _) if random.random_bool(0.3) => {
                self.log += &format!("{now}: remove {i}\n");
                assert_eq!(self.pool.remove(id, now), Ok(self.oracle.remove(i, now)), "freed\n{}", self.log);
            }
            _ => {
                let is_ready = random.random_bool(0.6);
                self.log += &format!("{now}: {i} {}\n", if is_ready { "ready" } else { "idle" });
                self.pool.ready(id, is_ready, now);
                self.oracle.ready(i, is_ready, now);
            }
        }
    }

    fn charge(&mut self, ran: u64, now: u64) {
        self.log += &format!("{now}: charge {ran}\n");
        self.pool.charge(0, ran, now);
        self.oracle.charge(ran, now);
    }

    fn decide(&mut self, now: u64) -> Option<u64> {
        let (got, expected) = (self.pool.decide(now).until, self.oracle.decide(now));
        self.log += &format!("{now}: decide\n");
        // Of those that had a slot, the last has it.
        let of = |id: Option<Id>| id.and_then(|id| self.ids.iter().rposition(|&other| other == id));
        let got_runs = (of(self.pool.running(0)), of(self.pool.payer(0)));
        let runs = self.oracle.runs;
        let expected_runs = (runs.map(|(i, _)| i), runs.filter(|&(_, pays)| pays).map(|(i, _)| i));
        assert_eq!(self.pool.core_mode(0) == CoreMode::Hi, self.oracle.hi, "the mode at {now}\n{}", self.log);
        for (i, &id) in self.ids.iter().enumerate().filter(|&(i, _)| !self.oracle.servers[i].gone) {
            let got = (self.pool.left_ns(id), self.pool.deadline_ns(id), self.pool.boost_ns(id));
            let (left, deadline) = self.oracle.look(i);
            let expected = (left, deadline, self.oracle.servers[i].boost_ns);
            assert_eq!(got, expected, "left, deadline, boost_ns of {i} at {now}\n{}", self.log);
        }
        let order: Vec<(usize, bool)> =
            self.pool.order(usize::MAX).iter().map(|place| (of(Some(place.id)).unwrap(), place.leftovers)).collect();
        assert_eq!(order, self.oracle.order(), "the order at {now}\n{}", self.log);
        assert_eq!(got_runs, expected_runs, "who runs, who pays at {now}\n{}", self.log);
        assert_eq!(got, expected, "until at {now}\n{}", self.log);
        got
    }
}

#[test]
fn every_schedule_is_that_of_the_oracle() {
    let runs: u64 = if std::env::var_os("GIUSTO_SOAK").is_some() { 100_000 } else { 5_000 };
    let mut covered = Vec::new();
    for seed in 0..runs {
        println!("seed {seed}"); // shown when it fails
        let mut random = ChaCha8Rng::seed_from_u64(seed);
        let (degrees, back) = (random.random_range(0..3), if seed % 4 == 0 { Back::Temperature } else { Back::Idle });
        let mut pool = Pool::new(Order::MixedCriticality);
        pool.cooling(degrees, back);
        let mut pair = Pair { pool, oracle: Oracle::new(degrees, back), ids: vec![], log: String::new() };
        for _ in 0..random.random_range(1..=5) {
            let high = random.random_bool(0.5);
            let vm = random.random_bool(0.9).then(|| reservation(&mut random, high));
            pair.add(vm, 0, 0);
        }
        let late = if seed % 3 == 0 { 0.2 } else { 0.0 };
        let calm = random.random_range(1..12);
        let (mut now, mut next_call, mut until) = (0, 0, Some(0));
        while now < 300 {
            let at = until.unwrap_or(u64::MAX).min(next_call);
            let at = at + if random.random_bool(late) { random.random_range(1..40) } else { 0 };
            if random.random_bool(0.2) {
                let ran = random.random_range(0..=at - now);
                pair.charge(ran, at);
            }
            now = at;
            if now >= next_call {
                next_call = now + random.random_range(0..=2 * calm);
                pair.call(&mut random, now);
            }
            until = pair.decide(now);
        }
        covered.push(pair.oracle.cases);
    }
    let cases: [(&str, Case); 15] = [
        ("LO -> HI", |c| c.to_hi),
        ("HI -> LO", |c| c.to_lo),
        ("asked in HI", |c| c.heated_in_hi),
        ("debt", |c| c.debt),
        ("boosted beyond the budget", |c| c.boosted_beyond),
        ("a high one on leftovers", |c| c.high_leftovers),
        ("a low one on leftovers", |c| c.low_leftovers),
        ("a low one with budget in HI", |c| c.low_pays_in_hi),
        ("an unlimited one", |c| c.unlimited),
        ("a wake-up that cuts the worst budget", |c| c.shares_cut),
        ("a wake-up that waits", |c| c.deferred),
        ("forgiven", |c| c.forgiven),
        ("a change that waited", |c| c.taken_later),
        ("removed in HI", |c| c.removed_in_hi),
        ("added to begin later", |c| c.begun_later),
    ];
    for (name, case) in cases {
        let count = covered.iter().filter(|c| case(c) > 0).count() as u64;
        eprintln!("{name}: in {count} of {runs} runs");
        assert!(count * 100 >= runs, "{name} in fewer than 1 % of the runs: {count} of {runs}");
    }
}
