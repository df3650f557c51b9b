//! The plan for the packets of this host in force.

use crate::bank::Banks;
use crate::bucket::Limit;
use crate::events::Events;
use crate::held::{Goal, Held};
use crate::kind::Around;
use crate::namespace::{Namespace, Neighbours};
use crate::proof::Proof;
use crate::rebalance::{may_move, priorities, worthwhile, Move, Ranked, Vif};
use crate::sorter::For;
use crate::{undo, Error, Recorder, Thread, Undo};
use giusto_model::{NetworkPlan, PacketClass};
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::time::{Duration, Instant};

/// Interfaces of a plan with their threads and buckets. Dropping it changes nothing: the recorder's records are the way back.
pub struct Network {
    home: Namespace,
    events: Events,
    banks: Banks,
    neighbours: Neighbours,
    cores: Vec<u32>,
    /// Those of them to which nothing is moved.
    quiet: BTreeSet<u32>,
    held: Vec<Held>,
    /// When uplinks were told last what is for which interface.
    sorted: Instant,
    /// Whether an interface may have changed since.
    unsorted: bool,
}

/// How often they are, after an interface has changed and at least.
const SORTED: (Duration, Duration) = (Duration::from_millis(500), Duration::from_secs(2));

/// So many looks it takes until each interface was looked at without a cause.
const ROUTINE: usize = 30;

/// How an interface stands.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LinkStatus {
    /// Its name on the host.
    pub name: String,
    /// The service it belongs to; `None`: an uplink.
    pub service: Option<String>,
    /// Its class; `None`: an uplink, above all.
    pub class: Option<PacketClass>,
    /// The core that processes its packets now.
    pub core: u32,
    /// SCHED_FIFO priority of its threads now; `None`: SCHED_OTHER.
    pub priority: Option<u8>,
    /// Its threads; none while it is down or gone.
    pub threads: Vec<u32>,
    /// Whether they really process its packets.
    pub proof: Proof,
    /// How it is kept to its bucket.
    pub limit: Limit,
    /// Packets that the bucket let through.
    pub passed: Option<u64>,
    /// Packets that it dropped.
    pub dropped: Option<u64>,
    /// Packets that bypassed the bucket at the sender's own end, and were dropped at the host's.
    pub bypassed: Option<u64>,
    /// Whether its threads have the lowest priority, as it makes the host work more than its bucket allows.
    pub demoted: bool,
    /// Packets in the last second, both ways.
    pub packets_per_s: f64,
    /// What is wrong, with what to do.
    pub warning: Option<String>,
}

impl Network {
    /// Puts the plan in force in the network namespace of the calling thread, and records before each change. An interface that
    /// is down gets what it can, and the rest when it is up; one that is absent or unfit is waited for
    /// ([`LinkStatus::warning`]). Errors: what none of them can be without; what was done is undone, as far as it can be, and
    /// stands in `record`.
    pub fn apply(plan: &NetworkPlan, record: &mut dyn Recorder<Undo>) -> Result<Network, Error> {
        let home = Namespace::here()?;
        let events = Events::new().map_err(|source| Error::kernel("listen to changes of interfaces", source))?;
        let mut network = Network {
            home,
            events,
            banks: Banks::default(),
            neighbours: Neighbours::default(),
            cores: vec![],
            quiet: BTreeSet::new(),
            held: vec![],
            sorted: Instant::now(),
            unsorted: false,
        };
        match network.set(plan, record) {
            Ok(()) => Ok(network),
            Err(error) => {
                let _ = network.clear(); // what cannot be undone now stands in the record
                Err(error)
            }
        }
    }

    /// Another plan: interfaces that are not in it any more are let go first, those that stay are changed in place, then new ones
    /// come. Errors: the first one, as of [`Network::apply`]; the others are as the plan says.
    pub fn set(&mut self, plan: &NetworkPlan, record: &mut dyn Recorder<Undo>) -> Result<(), Error> {
        let goals = goals(plan);
        self.cores.clone_from(&plan.cores);
        self.quiet = quiet(plan);
        let (stay, go): (Vec<Held>, Vec<Held>) = std::mem::take(&mut self.held).into_iter().partition(|held| {
            // A bucket that is to be there no more is undone with the rest.
            goals
                .iter()
                .any(|goal| goal.name == held.goal.name && (goal.buckets.is_some() || held.goal.buckets.is_none()))
        });
        let mut failed = let_go(go);
        self.held = stay;
        let order: Vec<String> = goals.iter().map(|goal| goal.name.clone()).collect();
        let mut first = Ok(());
        self.neighbours.anew();
        let expected = goals.iter().filter(|goal| goal.buckets.is_some()).count();
        for goal in goals {
            let index = self.held.iter().position(|held| held.goal.name == goal.name).unwrap_or_else(|| {
                self.held.push(Held::new(goal.clone()));
                self.held.len() - 1
            });
            self.held[index].goal = goal;
            let claimed = self.claimed(index);
            let (home, neighbours, banks) = (&self.home, &self.neighbours, &self.banks);
            let around = Around { home, neighbours, banks, expected, claimed };
            let held = &mut self.held[index];
            match held.hold(&around, record) {
                Ok(()) => held.worry = None,
                Err(error) if error.is_of_one() => held.wait(&error),
                Err(error) => {
                    held.worry = Some(error.to_string());
                    first = first.and(Err(error));
                }
            }
        }
        self.sort();
        self.held.sort_by_key(|held| order.iter().position(|name| *name == held.goal.name));
        if let (Some(why), Ok(())) = (failed.pop(), &first) {
            return Err(Error::kernel("let an interface go", std::io::Error::other(why)));
        }
        first
    }

    /// Lets all interfaces go. Errors: what could not be undone; the recorder's records stay the way back.
    pub fn clear(&mut self) -> Result<(), Error> {
        let failed = let_go(std::mem::take(&mut self.held));
        match failed.is_empty() {
            true => Ok(()),
            false => Err(Error::kernel("let an interface go", std::io::Error::other(failed.join("; ")))),
        }
    }

    /// Whether an interface has changed such that [`Network::check`] should be called. Of many changes in a row of one interface
    /// not each calls, so that a storm of them costs a look a second.
    pub fn changed(&mut self) -> bool {
        self.listen();
        let now = Instant::now();
        self.held.iter().any(|held| held.calls(now))
    }

    /// Whether a change has not been looked at yet.
    pub fn is_behind(&mut self) -> bool {
        self.listen();
        self.held.iter().any(Held::is_stirred)
    }

    fn listen(&mut self) {
        let changes = self.events.take();
        if !changes.is_empty() {
            self.held.iter_mut().for_each(|held| held.stirred(&changes));
        }
    }

    /// Looks whether an interface makes the host work more than its bucket allows, and gives its threads the lowest
    /// priority while it does. Returns whether that has changed for any. Call it ten times a second; O(interfaces), without a
    /// system call while none does. Errors: a thread cannot be given its priority.
    pub fn bound(&mut self, record: &mut dyn Recorder<Undo>) -> Result<bool, Error> {
        let (mut any, mut first) = (false, Ok(()));
        for held in &mut self.held {
            match held.bound(record) {
                Ok(changed) => any |= changed,
                Err(error) => first = first.and(Err(error)),
            }
        }
        first.map(|()| any)
    }

    /// Looks after everything: what events, ended threads or others have undone is done again. Call it ten times a second or less. Returns
    /// what is wrong.
    pub fn check(&mut self, record: &mut dyn Recorder<Undo>) -> Vec<String> {
        self.listen();
        self.neighbours.anew();
        let expected = self.held.iter().filter(|held| held.goal.buckets.is_some()).count();
        let mut routine = self.held.len().div_ceil(ROUTINE);
        for index in 0..self.held.len() {
            if !self.held[index].is_due(&mut routine) {
                self.held[index].count(&self.home, record);
                continue;
            }
            let claimed = self.claimed(index);
            let (home, neighbours, banks) = (&self.home, &self.neighbours, &self.banks);
            let around = Around { home, neighbours, banks, expected, claimed };
            self.held[index].look(&around, record);
            self.unsorted = true;
        }
        if self.sorted.elapsed() >= if self.unsorted { SORTED.0 } else { SORTED.1 } {
            self.sort();
        }
        self.held.iter().flat_map(Held::worries).collect()
    }

    /// Tells uplinks what is for interfaces of the high class.
    fn sort(&mut self) {
        (self.sorted, self.unsorted) = (Instant::now(), false);
        if self.held.iter().all(|held| held.goal.arrivals.is_none()) {
            return;
        }
        // Without them, what cards say.
        let neighbours = self.home.route.neighbours().unwrap_or_default();
        let interfaces: Vec<For> = self.held.iter().filter_map(|held| held.addressed(&neighbours)).collect();
        self.held.iter_mut().for_each(|held| held.sort(&interfaces));
    }

    /// Moves interfaces to other cores where the loads measured since the last call say that it is worth it. Call it when an interface came
    /// or went, and every ten seconds or so. Errors: a thread cannot be moved.
    pub fn rebalance(&mut self, record: &mut dyn Recorder<Undo>) -> Result<Vec<Move>, Error> {
        let loads: Vec<u64> = self.held.iter_mut().map(Held::load).collect();
        let closed = (0..self.cores.len()).filter(|&index| self.quiet.contains(&self.cores[index]));
        let closed: Vec<usize> = closed.collect();
        let mut base = vec![0u64; self.cores.len()];
        let core_of = |cores: &[u32], core: u32| cores.iter().position(|&known| known == core);
        let mut moves = Vec::new();
        // The high class first: what it takes of a core counts for the low one, not the other way round.
        for pass in [None, Some(PacketClass::High), Some(PacketClass::Low)] {
            let class = |held: &Held| held.goal.vif.as_ref().map(|(_, class)| *class);
            let free = |held: &Held| {
                class(held).is_some_and(|class| may_move(class, held.goal.promised)) && held.there.is_some()
            };
            let (mut indices, mut vifs) = (Vec::new(), Vec::new());
            for (index, held) in self.held.iter().enumerate().filter(|(_, held)| class(held) == pass) {
                let Some(at) = core_of(&self.cores, held.goal.core) else { continue };
                if free(held) {
                    indices.push(index);
                    vifs.push(Vif { name: held.goal.name.clone(), at, load: loads[index] });
                } else {
                    base[at] = base[at].saturating_add(loads[index]);
                }
            }
            for ((index, vif), to) in indices.into_iter().zip(&vifs).zip(worthwhile(&base, &vifs, &closed)) {
                base[to] = base[to].saturating_add(vif.load);
                if to != vif.at {
                    let (from, to) = (self.cores[vif.at], self.cores[to]);
                    moves.push((index, Move { name: vif.name.clone(), from, to }));
                }
            }
        }
        self.carry_out(moves, record)
    }

    /// Priorities follow, as those with a promise come first on each core; where they do not fit no thread moves.
    fn carry_out(&mut self, moves: Vec<(usize, Move)>, record: &mut dyn Recorder<Undo>) -> Result<Vec<Move>, Error> {
        if moves.is_empty() {
            return Ok(vec![]);
        }
        let mut goals: Vec<Goal> = self.held.iter().map(|held| held.goal.clone()).collect();
        moves.iter().for_each(|(index, way)| goals[*index].core = way.to);
        let concerned = |core: u32| moves.iter().any(|(_, way)| [way.from, way.to].contains(&core));
        for &core in self.cores.iter().filter(|core| concerned(**core)) {
            let here: Vec<usize> = (0..goals.len())
                .filter(|&index| {
                    goals[index].core == core && goals[index].vif.is_some() && goals[index].planned.is_some()
                })
                .collect();
            let ranked: Vec<Ranked> = here
                .iter()
                .map(|&index| Ranked {
                    name: goals[index].name.clone(),
                    planned: goals[index].planned.unwrap_or(0),
                    promised: goals[index].promised,
                })
                .collect();
            let Some(given) = priorities(&ranked) else { return Ok(vec![]) };
            here.iter().zip(given).for_each(|(&index, priority)| goals[index].priority = Some(priority));
        }
        for (held, goal) in self.held.iter_mut().zip(goals) {
            if held.goal != goal {
                held.goal = goal;
                held.reschedule(record)?;
            }
        }
        Ok(moves.into_iter().map(|(_, way)| way).collect())
    }

    /// How every interface stands, uplinks first.
    pub fn status(&self) -> Vec<LinkStatus> {
        self.held.iter().map(status).collect()
    }

    /// Threads that are known to be others'.
    fn claimed(&self, index: usize) -> BTreeSet<Thread> {
        let others = self.held.iter().enumerate().filter(|(other, _)| *other != index);
        others.filter_map(|(_, held)| held.there.as_ref()).flat_map(|there| there.threads()).collect()
    }
}

/// Undoes what was done to them, together; returns what could not be undone.
fn let_go(all: Vec<Held>) -> Vec<String> {
    let undos: Vec<Undo> = all.into_iter().flat_map(Held::let_go).collect();
    undo(&undos).failed
}

fn status(held: &Held) -> LinkStatus {
    let goal = &held.goal;
    let arrived = held.sorter.as_ref().map(|sorter| sorter.arrived());
    let counts = held.bucket.as_ref().map(|bucket| bucket.counts());
    LinkStatus {
        name: goal.name.clone(),
        service: goal.vif.as_ref().map(|(service, _)| service.clone()),
        class: goal.vif.as_ref().map(|(_, class)| *class),
        core: goal.core,
        priority: goal.priority,
        threads: held.there.iter().flat_map(|there| there.threads()).map(|thread| thread.tid).collect(),
        proof: held.proof(),
        limit: match (&held.sorter, &held.bucket) {
            (Some(_), _) => Limit::Sort,
            (None, bucket) => bucket.as_ref().map_or(Limit::None, |bucket| bucket.limit),
        },
        passed: counts.map(|counts| counts.passed).or(arrived.map(|arrived| arrived.passed)),
        dropped: counts.map(|counts| counts.dropped).or(arrived.map(|arrived| arrived.dropped)),
        bypassed: counts.map(|counts| counts.bypassed),
        demoted: held.demoted,
        packets_per_s: held.there.as_ref().map_or(0.0, |there| there.a_second),
        warning: held.worry.clone(),
    }
}

/// Cores with something promised where neither an uplink nor the low class is: the bounds there may rest on that.
fn quiet(plan: &NetworkPlan) -> BTreeSet<u32> {
    let promised = plan.vifs.iter().filter(|vif| !vif.promise.is_empty()).map(|vif| vif.core);
    let shared = |core: &u32| {
        let low = plan.vifs.iter().any(|vif| vif.core == *core && vif.class == PacketClass::Low);
        low || plan.uplinks.iter().any(|uplink| uplink.core == *core)
    };
    promised.filter(|core| !shared(core)).collect()
}

fn goals(plan: &NetworkPlan) -> Vec<Goal> {
    let (packets, ns) = plan.capacity.fraction();
    let cost = ns.div_ceil(packets.max(1));
    let uplinks = plan.uplinks.iter().map(|uplink| Goal {
        name: uplink.uplink.name.clone(),
        vif: None,
        core: uplink.core,
        planned: Some(uplink.priority),
        priority: Some(uplink.priority),
        buckets: None,
        arrivals: Some(uplink.uplink.bucket),
        unit: plan.count,
        cost,
        promised: false,
    });
    let vifs = plan.vifs.iter().map(|vif| Goal {
        name: vif.name.clone(),
        vif: Some((vif.service.clone(), vif.class)),
        core: vif.core,
        planned: vif.priority,
        priority: vif.priority,
        buckets: vif.buckets(),
        arrivals: None,
        unit: plan.count,
        cost,
        promised: !vif.promise.is_empty(),
    });
    uplinks.chain(vifs).collect()
}
