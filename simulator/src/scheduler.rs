//! What plays in virtual time: the policy core, or something to compare it with.

use crate::system::{Change, Error, ServerSpec, System};
use giusto_model::Renewal;
use giusto_policy::{Id, Params, Pool};

/// Decides which servers have the cores of a pool. Servers are numbered in the order in which they were added; times are ns.
///
/// At one instant: charge each core, then ready, then decide.
pub trait Scheduler {
    /// The server on `core` had the processor for `ran` since the last charge.
    fn charge(&mut self, core: u32, ran: u64, now: u64);
    /// The server's workload became ready or went idle.
    fn ready(&mut self, server: usize, is_ready: bool, now: u64);
    /// Assigns all cores. Returns when to decide again at the latest; `None`: nothing will change by itself.
    fn decide(&mut self, now: u64) -> Option<u64>;
    /// Who has `core`.
    fn running(&self, core: u32) -> Option<usize>;
    /// What is left of a server's budget at the last decision, in ns; below 0 is debt. `None`: it has none.
    fn left(&self, _server: usize) -> Option<i64> {
        None
    }
    /// Changes a reservation. What knows none ignores it.
    fn change(&mut self, _change: &Change, _now: u64) -> Result<(), Error> {
        Ok(())
    }
}

/// The policy core, and how late its driver enforces.
pub(crate) struct Core {
    pool: Pool,
    ids: Vec<Id>,
    /// Which of them have no budget.
    endless: Vec<bool>,
    /// Budgets end at a multiple of this; ns.
    tick: Option<u64>,
}

impl Core {
    pub(crate) fn new(system: &System) -> Result<Core, Error> {
        let mut pool = Pool::with_cores(system.order, system.cores);
        let (mut ids, mut endless) = (Vec::new(), Vec::new());
        for (index, spec) in system.servers.iter().enumerate() {
            for _ in 0..spec.vcpus {
                endless.push(spec.kind.renewal() == Renewal::Unlimited);
                ids.push(add(&mut pool, spec).map_err(|why| Error::Server { index, why: why.to_string() })?);
            }
        }
        let tick = system.tick.map(|tick| tick.ns()).filter(|&tick| tick > 0);
        Ok(Core { pool, ids, endless, tick })
    }
}

/// A server without limits that has a core to itself: whenever it is ready it has the core, and there is nothing to decide. What
/// the policy core does with it, in a third less time for all of a simulation.
pub(crate) struct Sole {
    is_ready: bool,
}

impl Sole {
    /// `None`: there is something to decide.
    pub(crate) fn of(system: &System) -> Option<Sole> {
        let [server] = &system.servers[..] else { return None };
        let sole = server.kind.renewal() == Renewal::Unlimited && server.vcpus == 1 && system.cores == 1;
        (sole && system.changes.is_empty()).then_some(Sole { is_ready: false })
    }
}

impl Scheduler for Sole {
    #[inline]
    fn charge(&mut self, _core: u32, _ran: u64, _now: u64) {
        // It has no budget.
    }
    #[inline]
    fn ready(&mut self, _server: usize, is_ready: bool, _now: u64) {
        self.is_ready = is_ready;
    }
    #[inline]
    fn decide(&mut self, _now: u64) -> Option<u64> {
        None
    }
    #[inline]
    fn running(&self, _core: u32) -> Option<usize> {
        self.is_ready.then_some(0)
    }
}

fn add(pool: &mut Pool, spec: &ServerSpec) -> Result<Id, giusto_policy::Error> {
    let params =
        Params { budget: spec.budget.ns(), period: spec.period.ns(), first: spec.first.ns(), priority: spec.priority };
    pool.add(spec.kind, params, 0)
}

impl Scheduler for Core {
    #[inline]
    fn charge(&mut self, _core: u32, _ran: u64, _now: u64) {
        // Nothing is stolen in virtual time: the pool charges a core for all the time that has passed by itself.
    }
    #[inline]
    fn ready(&mut self, server: usize, is_ready: bool, now: u64) {
        self.pool.ready(self.ids[server], is_ready, now);
    }
    #[inline]
    fn decide(&mut self, now: u64) -> Option<u64> {
        let until = self.pool.decide(now).until?;
        let Some(tick) = self.tick else { return Some(until) };
        let refill = self.pool.replenishes().unwrap_or(u64::MAX);
        // Replenishing has a timer of its own; that a budget has ended is seen at the tick.
        Some(refill.min(until.div_ceil(tick) * tick))
    }
    #[inline]
    fn running(&self, core: u32) -> Option<usize> {
        self.pool.running(core).map(Id::index)
    }
    fn left(&self, server: usize) -> Option<i64> {
        (!self.endless[server]).then(|| self.pool.left_ns(self.ids[server]))
    }
    fn change(&mut self, change: &Change, now: u64) -> Result<(), Error> {
        let (Change::Set { server, .. } | Change::Boost { server, .. }) = *change;
        let refused = |why: &dyn std::fmt::Display| Error::Server { index: server, why: why.to_string() };
        let id = *self.ids.get(server).ok_or_else(|| refused(&"a change is for a server that is not there"))?;
        match *change {
            Change::Set { budget, period, priority, when, .. } => {
                self.pool.set(id, budget.ns(), period.ns(), priority, when, now)
            }
            Change::Boost { until, .. } => self.pool.boost(id, until.ns(), now),
        }
        .map_err(|why| refused(&why))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::simulate_with;
    use crate::system::{Execution, Guest, Sporadic, Workload};
    use crate::trace::Observer;
    use giusto_model::{Duration, JobRecord, Release, ServerKind, Task};
    use giusto_policy::Order;
    use rand::{RngExt, SeedableRng};
    use rand_chacha::ChaCha8Rng;

    /// All that is told, in its order.
    #[derive(Default, PartialEq, Debug)]
    struct Told(Vec<String>);

    impl Observer for Told {
        fn job(&mut self, server: usize, job: &JobRecord) -> Result<(), Error> {
            self.0.push(format!("job {server} {job:?}"));
            Ok(())
        }
        fn slice(&mut self, server: usize, job: Option<(u32, u64)>, from: u64, to: u64) -> Result<(), Error> {
            self.0.push(format!("slice {server} {job:?} {from} {to}"));
            Ok(())
        }
        fn idle(&mut self, core: u32, from: u64, to: u64) -> Result<(), Error> {
            self.0.push(format!("idle {core} {from} {to}"));
            Ok(())
        }
        fn shows_budgets(&self) -> bool {
            true
        }
        fn budget(&mut self, server: usize, at: u64, left: i64) -> Result<(), Error> {
            self.0.push(format!("budget {server} {at} {left}"));
            Ok(())
        }
    }

    fn some(rng: &mut ChaCha8Rng) -> System {
        let ms = Duration::from_ms;
        let mut tasks = Vec::new();
        for _ in 0..rng.random_range(1..6) {
            let period = rng.random_range(2..20);
            let mut task = Task::sporadic("", ms(rng.random_range(1..=period)), ms(period));
            task.offset = ms(rng.random_range(0..9));
            task.release = [Release::Sporadic, Release::KeptOffset][rng.random_range(0..2)];
            tasks.push(task);
        }
        let guests = [Guest::Fifo, Guest::RateMonotonic, Guest::DeadlineMonotonic, Guest::Listed, Guest::Edf];
        let sporadic = [Sporadic::Densest, Sporadic::Random, Sporadic::Poisson][rng.random_range(0..3)].clone();
        let (guest, execution) = (guests[rng.random_range(0..5)], Execution::Uniform { percent: 50 });
        let workload = rng.random_bool(0.9).then_some(Workload { tasks, guest, execution, sporadic });
        let server = ServerSpec {
            kind: ServerKind::Unlimited,
            budget: Duration::ZERO,
            period: Duration::ZERO,
            first: ms(rng.random_range(0..2) * 50),
            priority: 3,
            vcpus: 1,
            workload,
        };
        let switch = Duration::from_us(rng.random_range(0..2) * 7);
        let tick = rng.random_bool(0.5).then(|| ms(1));
        System { switch, tick, ..System::new([Order::Edf, Order::FixedPriority][rng.random_range(0..2)], vec![server]) }
    }

    #[test]
    fn a_server_that_has_a_core_to_itself_is_played_as_the_policy_core_plays_it() {
        let rng = &mut ChaCha8Rng::seed_from_u64(1);
        let mut jobs = 0;
        for seed in 0..300 {
            let system = some(rng);
            let (horizon, mut ours, mut cores) = (Duration::from_ms(400), Told::default(), Told::default());
            let sole = Sole::of(&system).expect("it is the only server");
            let own = simulate_with(&mut { sole }, &system, horizon, seed, &mut ours).unwrap();
            let theirs = simulate_with(&mut Core::new(&system).unwrap(), &system, horizon, seed, &mut cores).unwrap();
            assert_eq!(ours, cores, "{system:?}");
            assert_eq!((own[0].consumed, own[0].unfinished), (theirs[0].consumed, theirs[0].unfinished));
            jobs += own[0].jobs();
        }
        assert!(jobs > 5000, "{jobs}");
    }

    #[test]
    fn where_something_is_decided_the_policy_core_does() {
        let rng = &mut ChaCha8Rng::seed_from_u64(2);
        let one = some(rng);
        assert!(Sole::of(&one).is_some());
        let with = |change: &dyn Fn(&mut System)| {
            let mut other = one.clone();
            change(&mut other);
            Sole::of(&other).is_none()
        };
        assert!(with(&|other| other.cores = 2));
        assert!(with(&|other| other.servers[0].vcpus = 2));
        assert!(with(&|other| other.servers[0].kind = ServerKind::Deferrable));
        assert!(with(&|other| other.servers.push(other.servers[0].clone())));
        let until = giusto_model::Instant::from_ns(1);
        assert!(with(&|other| other.changes.push((until, Change::Boost { server: 0, until }))));
    }
}
