//! One run: the shipped machines on a virtual clock and a virtual network that delays, loses, repeats and reorders,
//! with crashes.

use crate::scene::{scene, Scene};
use crate::world::{World, US};
use giusto_modes::{Admission, Agent, Event, FromAgent, Intention, Kept, Manager, ToAgent, Transition};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};

/// Something that will happen.
#[derive(Clone, Debug)]
pub(crate) enum Next {
    ToAgent(usize, u64, ToAgent),
    FromAgent(usize, u64, FromAgent),
    Connect(usize),
    Lose(usize),
    Switched(usize, u64, bool),
    Restart(usize),
    Carried(usize, u64, u64, bool),
    Set(u64, usize, giusto_modes::Parts, usize, giusto_modes::When),
    Answer(u64, u64, Event),
    Tick(u64),
    Manager,
    Request,
    Time,
}

/// What goes wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Fault {
    Lost,
    AgentCrash,
    ManagerCrash,
    SetFails,
    SwitchFails,
    Repeated,
    Frozen,
    Request,
}

pub(crate) const FAULTS: [Fault; 8] = [
    Fault::Lost,
    Fault::AgentCrash,
    Fault::ManagerCrash,
    Fault::SetFails,
    Fault::SwitchFails,
    Fault::Repeated,
    Fault::Frozen,
    Fault::Request,
];

/// How far a member is, as seen from outside: by what was asked of whom, not by what the manager says.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Seen {
    Idle,
    Waits,
    Raising,
    Commanded,
    Lowering,
    Done,
}

pub(crate) const SEEN: [Seen; 6] =
    [Seen::Idle, Seen::Waits, Seen::Raising, Seen::Commanded, Seen::Lowering, Seen::Done];

/// What a run was good for.
#[derive(Default)]
pub(crate) struct Counts {
    pub(crate) cells: BTreeMap<(Seen, Fault), u64>,
    pub(crate) outcomes: BTreeMap<String, u64>,
    pub(crate) kinds: BTreeMap<String, u64>,
    pub(crate) events: u64,
}

pub(crate) struct AgentSide {
    pub(crate) machine: Option<Agent>,
    pub(crate) kept: Intention,
    pub(crate) life: u64,
    pub(crate) session: u64,
    pub(crate) connected: bool,
    pub(crate) frozen: u64,
    pub(crate) done: u64,
    pub(crate) clock: (u64, u64),
}

pub(crate) struct Play<'a> {
    pub(crate) scene: &'a Scene,
    pub(crate) world: World,
    pub(crate) rng: ChaCha8Rng,
    pub(crate) now: u64,
    pub(crate) queue: BinaryHeap<Reverse<(u64, u64)>>,
    pub(crate) what: BTreeMap<u64, Next>,
    pub(crate) seq: u64,
    pub(crate) manager: Option<Manager<Test>>,
    pub(crate) life: u64,
    pub(crate) kept: Kept,
    pub(crate) agents: Vec<AgentSide>,
    pub(crate) sound: Vec<bool>,
    pub(crate) touched: Vec<bool>,
    pub(crate) seen: Vec<Seen>,
    pub(crate) faults: u32,
    pub(crate) set_fails: u32,
    pub(crate) set_free: u64,
    pub(crate) tick: u64,
    pub(crate) carry: Vec<u64>,
    /// Who was boosted in this change.
    pub(crate) boosted: Vec<usize>,
    /// Who was boosted when, by this manager.
    pub(crate) paid: Vec<(usize, u64)>,
    /// When each request was made, by its number; answered ones are gone.
    pub(crate) open: BTreeMap<u64, u64>,
    pub(crate) asked: u64,
    pub(crate) wanted: Vec<Vec<usize>>,
    pub(crate) stuck: bool,
    pub(crate) quiet: bool,
    pub(crate) counts: &'a mut Counts,
    pub(crate) log: Vec<String>,
}

/// The admission test that is handed to the manager.
pub(crate) struct Test(pub(crate) Vec<crate::scene::Test>);

impl Admission for Test {
    fn fits(&self, place: usize, servers: &[giusto_model::Server]) -> bool {
        crate::scene::passes(self.0[place], &servers.iter().map(crate::scene::in_us).collect::<Vec<_>>())
    }
}

/// Plays a run of this seed with this many faults at most. What went wrong, with everything that happened before.
pub(crate) fn play(seed: u64, faults: u32, counts: &mut Counts) -> Result<(), String> {
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let scene = scene(&mut rng);
    let mut play = Play::new(&scene, rng, faults, counts);
    let result = play.run();
    result.map_err(|why| {
        let start = play.log.len().saturating_sub(120);
        format!("seed {seed}: {why}\n{:?}\n{}", scene.settings, play.log[start..].join("\n"))
    })
}

impl<'a> Play<'a> {
    pub(crate) fn new(scene: &'a Scene, mut rng: ChaCha8Rng, faults: u32, counts: &'a mut Counts) -> Play<'a> {
        let members = scene.table.members().len();
        let world = World::new(scene, 0, || rng.random_range(0..10_000) * US);
        let locals = vec![0; members];
        let test = Test(scene.tests.clone());
        let manager = Manager::new(scene.table.clone(), scene.settings, test, &locals).expect("settings");
        let agent = || AgentSide {
            machine: None,
            kept: Intention { local: 0, change: 0 },
            life: 0,
            session: 0,
            connected: false,
            frozen: 0,
            done: 0,
            clock: (0, 0),
        };
        Play {
            scene,
            world,
            rng,
            now: 20_000 * US,
            queue: BinaryHeap::new(),
            what: BTreeMap::new(),
            seq: 0,
            manager: Some(manager),
            life: 0,
            kept: Kept {
                change: 0,
                from: locals.clone(),
                to: locals.clone(),
                back: false,
                open: false,
                unsound: Vec::new(),
            },
            agents: (0..members).map(|_| agent()).collect(),
            sound: vec![true; members],
            touched: vec![false; members],
            seen: vec![Seen::Idle; members],
            faults,
            set_fails: 0,
            set_free: 0,
            tick: 0,
            carry: vec![0; members],
            boosted: Vec::new(),
            paid: Vec::new(),
            open: BTreeMap::new(),
            asked: 0,
            wanted: vec![locals],
            stuck: false,
            quiet: false,
            counts,
            log: Vec::new(),
        }
    }

    pub(crate) fn at(&mut self, time: u64, next: Next) {
        self.seq += 1;
        self.queue.push(Reverse((time.max(self.now), self.seq)));
        self.what.insert(self.seq, next);
    }

    pub(crate) fn after(&mut self, least_us: u64, most_us: u64, next: Next) {
        let time = self.now + self.rng.random_range(least_us..=most_us) * US;
        self.at(time, next);
    }

    pub(crate) fn run(&mut self) -> Result<(), String> {
        for m in 0..self.agents.len() {
            if self.scene.table.members()[m].agent {
                self.at(self.now, Next::Restart(m));
            }
        }
        // Requests may come while the first agents still connect.
        for _ in 0..self.rng.random_range(2..=5) {
            self.after(0, 30_000, Next::Request);
        }
        let calm = self.now + 60_000 * US;
        let end = self.now + 1_500_000 * US;
        while let Some(Reverse((time, seq))) = self.queue.pop() {
            let next = self.what.remove(&seq).expect("an event");
            if time > calm && !self.quiet {
                self.quiet = true;
                self.agents.iter_mut().for_each(|agent| agent.frozen = 0);
            }
            if time > end || seq > 100_000 {
                return Err("it does not come to rest".into());
            }
            while let Some(change) = self.world.next().filter(|&change| change < time) {
                self.now = change;
                self.world.pass(change);
                self.check()?;
            }
            self.now = time;
            self.world.pass(time);
            self.counts.events += 1;
            self.log.push(format!("{:>9} us {next:?}", time / US));
            self.happen(next)?;
            self.check()?;
            self.maybe_fault();
            if let Some((request, asked)) = self.open.iter().map(|(r, a)| (*r, *a)).next() {
                if self.now - asked > self.longest() {
                    return Err(format!("request {request} is not answered after {} us", (self.now - asked) / US));
                }
            }
        }
        while let Some(change) = self.world.next() {
            self.now = change;
            self.world.pass(change);
            self.check()?;
        }
        self.at_rest()
    }

    /// A change of n members: twice a time-out and four changes of a reservation each, twice the longest period where
    /// it is guaranteed; and up to six such before it, or interrupted ones.
    pub(crate) fn longest(&self) -> u64 {
        let n = self.agents.len() as u64;
        let wait = if self.scene.settings.transition == Transition::Guaranteed { 2 * 20_000 } else { 0 };
        (7 * 2 * n * (2000 + 4 * 100 + wait) + 60_000) * US
    }

    pub(crate) fn kind(&mut self, name: &str) {
        *self.counts.kinds.entry(name.into()).or_default() += 1;
    }

    pub(crate) fn check(&mut self) -> Result<(), String> {
        self.world.check(self.scene, &self.sound)?;
        let doubted = (0..self.sound.len()).find(|&m| !self.sound[m] && !self.touched[m]);
        doubted.map_or(Ok(()), |m| Err(format!("4: nothing went wrong with vm{m}, and it lost its guarantee")))
    }

    /// Everything is delivered, everyone is up: all must be in one mode that was wanted, tasks and reservations
    /// alike.
    pub(crate) fn at_rest(&mut self) -> Result<(), String> {
        let Some(manager) = &self.manager else { return Err("no manager".into()) };
        if manager.changing().is_some() {
            return Err("at rest, and a change is under way".into());
        }
        if let Some((request, _)) = self.open.iter().next() {
            return Err(format!("at rest, and request {request} is not answered"));
        }
        if self.stuck || self.kept.open {
            return Ok(());
        }
        let mode = manager.locals().to_vec();
        if !self.wanted.contains(&mode) {
            return Err(format!("a mode that was not wanted: {mode:?}"));
        }
        for (m, &local) in mode.iter().enumerate() {
            let member = &self.scene.table.members()[m];
            let same = |a: usize, p: usize| member.locals[a].servers.get(p) == member.locals[local].servers.get(p);
            let tasks = &self.world.tasks[m];
            let failed = !manager.sound(m) && self.agents[m].machine.as_ref().is_none_or(|agent| agent.at().is_none());
            if !failed && (tasks != &vec![local] || !manager.sound(m)) {
                return Err(format!("at rest in m{local}, vm{m} runs {tasks:?}, sound: {}", manager.sound(m)));
            }
            if (0..member.parts.len()).any(|p| !same(self.world.reserved[m][p].local, p)) {
                return Err(format!("at rest in m{local}, vm{m} has {:?}", self.world.reserved[m]));
            }
        }
        self.kind("at rest in one mode");
        Ok(())
    }
}
