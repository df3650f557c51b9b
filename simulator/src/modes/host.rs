//! The event loop: guests on their cores, the manager on its own.

use super::guest::{Done, Vcpu};
use super::scene::{Costs, Scene, Seen};
use crate::system::Error;
use giusto_model::{Instant, Server};
use giusto_modes::{Action, Agent, AgentAction, AgentEvent, Event, FromAgent, Intention, Manager, Target, ToAgent};
use giusto_policy::{Id, Kind, Order, Params, Pool};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

/// Something at a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum At {
    /// The manager's core is done with what it did.
    Manager,
    /// A message is at the agent's end: it reads it when the machine's first virtual CPU runs.
    Mail(usize),
    /// A virtual CPU releases a job.
    Release(usize),
    /// The manager wants a Tick.
    Tick(u64),
    /// A reservation is to change with the next replenishment.
    Set { vcpu: usize, budget: u64, period: u64 },
    /// The mode is to change.
    Request,
    /// Boosts may end.
    Boost,
}

/// What the manager's core does.
pub(super) enum Work {
    Do(Action),
    Take(Event),
}

pub(super) type Admission = Box<dyn Fn(usize, &[Server]) -> bool>;

pub(super) struct Host<'a> {
    pub(super) scene: &'a Scene,
    pub(super) pool: Pool,
    pub(super) ids: Vec<Id>,
    pub(super) vcpus: Vec<Vcpu>,
    /// The first virtual CPU of each machine, and where each belongs.
    pub(super) first: Vec<usize>,
    pub(super) agents: Vec<Agent>,
    /// Commands that an agent has not read yet.
    pub(super) mail: Vec<VecDeque<ToAgent>>,
    pub(super) manager: Manager<Admission>,
    /// What it was told and has not taken; what it wants done and has not done.
    pub(super) inbox: VecDeque<Event>,
    pub(super) outbox: VecDeque<Action>,
    pub(super) works: Option<Work>,
    /// As they are set, or will be.
    pub(super) budgets: Vec<u64>,
    pub(super) tick: u64,
    pub(super) asked: Option<u64>,
    pub(super) seen: Seen,
    pub(super) rng: ChaCha8Rng,
    pub(super) now: u64,
    pub(super) queue: BinaryHeap<Reverse<(u64, At)>>,
    pub(super) touched: Vec<usize>,
    pub(super) news: bool,
}

pub(super) fn refused(index: usize, why: &dyn std::fmt::Display) -> Error {
    Error::Server { index, why: why.to_string() }
}

impl<'a> Host<'a> {
    pub(super) fn new(scene: &'a Scene, seed: u64) -> Result<Host<'a>, Error> {
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        let table = scene.table()?;
        let cores = scene.cores;
        // As in the paper (section 2.3.2): the bandwidth of all virtual CPUs never exceeds the cores.
        let admission: Admission = Box::new(move |_, servers| {
            let share =
                |server: &Server| u128::from(server.budget.ns()) * 1_000_000_000 / u128::from(server.period.ns());
            servers.iter().map(share).sum::<u128>() <= u128::from(cores) * 1_000_000_000
        });
        let locals = vec![0; scene.vms.len()];
        let manager = Manager::new(table, scene.settings, admission, &locals).map_err(|why| refused(0, &why))?;
        let mut host = Host {
            scene,
            pool: Pool::with_cores(Order::Edf, cores),
            ids: Vec::new(),
            vcpus: Vec::new(),
            first: Vec::new(),
            agents: Vec::new(),
            mail: vec![VecDeque::new(); scene.vms.len()],
            manager,
            inbox: VecDeque::new(),
            outbox: VecDeque::new(),
            works: None,
            budgets: Vec::new(),
            tick: 0,
            asked: None,
            seen: Seen::default(),
            rng: ChaCha8Rng::seed_from_u64(rng.random()),
            now: 0,
            queue: BinaryHeap::new(),
            touched: Vec::new(),
            news: true,
        };
        for (index, vm) in scene.vms.iter().enumerate() {
            host.first.push(host.vcpus.len());
            let Server { budget, period, .. } = vm[0].server;
            for tasks in &vm[0].tasks {
                let first = rng.random_range(0..period.ns());
                let params = Params { budget: budget.ns(), period: period.ns(), first, priority: 0 };
                host.budgets.push(budget.ns());
                host.ids.push(host.pool.add(Kind::Deferrable, params, 0).map_err(|why| refused(index, &why))?);
                let mut vcpu = Vcpu::default();
                vcpu.switch(tasks, 0, |period| rng.random_range(0..period));
                host.touched.push(host.vcpus.len());
                host.vcpus.push(vcpu);
            }
            host.start_agent(index, vm.len())?;
        }
        host.ask_later();
        Ok(host)
    }

    /// Agents are there and known from the start.
    fn start_agent(&mut self, index: usize, modes: usize) -> Result<(), Error> {
        let names: Vec<String> = (0..modes).map(|mode| mode.to_string()).collect();
        let (mut out, now) = (Vec::new(), Instant::ZERO);
        let agent = Agent::new(&names, Intention { local: 0, change: 0 }, now, &mut out);
        let mut agent = agent.ok_or_else(|| refused(index, &"1 to 65535 modes are expected"))?;
        agent.handle(now, AgentEvent::Connected, &mut out);
        agent.handle(now, AgentEvent::Switched, &mut out);
        for action in out {
            if let AgentAction::Send(message) = action {
                self.manager.handle(now, Event::Message { member: index, message }, &mut Vec::new());
            }
        }
        self.agents.push(agent);
        Ok(())
    }

    pub(super) fn play(mut self, horizon: u64) -> Result<Seen, Error> {
        let mut until = 0;
        loop {
            self.happens()?;
            self.wake();
            if std::mem::take(&mut self.news) || self.now >= until {
                until = self.pool.decide(self.now).until.unwrap_or(u64::MAX);
            }
            let over = self.scene.ends && self.asked.is_none() && self.changes() >= self.scene.changes;
            if self.now >= horizon || over {
                break;
            }
            let mut next = until.min(horizon);
            if let Some(Reverse((at, _))) = self.queue.peek() {
                next = next.min(*at);
            }
            let running: Vec<usize> =
                (0..self.scene.cores).filter_map(|core| self.pool.running(core).map(Id::index)).collect();
            for &vcpu in &running {
                next = next.min(self.vcpus[vcpu].left().map_or(next, |left| self.now + left));
            }
            let ran = next.max(self.now) - self.now;
            self.now += ran;
            for vcpu in running {
                match self.vcpus[vcpu].run(ran, self.now) {
                    Done::Nothing => {}
                    Done::Agent => self.agent_is_done(vcpu)?,
                    Done::Job => self.touched.push(vcpu),
                }
            }
        }
        for vcpu in &mut self.vcpus {
            vcpu.end(self.now);
            self.seen.jobs += vcpu.counted.0;
            self.seen.misses += vcpu.counted.1;
        }
        Ok(self.seen)
    }

    /// All that is due.
    fn happens(&mut self) -> Result<(), Error> {
        while let Some(&Reverse((at, what))) = self.queue.peek() {
            if at > self.now {
                break;
            }
            self.queue.pop();
            match what {
                At::Manager => {
                    match self.works.take() {
                        Some(Work::Do(action)) => self.done(action)?,
                        Some(Work::Take(event)) => self.take(event),
                        None => {}
                    }
                    self.manager_goes_on()?;
                }
                At::Mail(member) => {
                    let switch = self.cost(|costs| &costs.switch_ns);
                    let vcpu = self.first[member];
                    self.vcpus[vcpu].agent_wakes(switch);
                    self.touched.push(vcpu);
                }
                At::Release(vcpu) => self.touched.push(vcpu),
                At::Tick(number) if number == self.tick => self.tell_manager(Event::Tick)?,
                At::Tick(_) => {}
                At::Set { vcpu, budget, period } => self.set(vcpu, budget, period, giusto_policy::When::NextPeriod)?,
                At::Request => {
                    let mode = (self.changes() + 1) % self.scene.vms[0].len();
                    self.asked = Some(self.now);
                    self.tell_manager(Event::Request { request: self.now, target: Target::Mode(mode) })?;
                }
                At::Boost => self.news = true,
            }
        }
        Ok(())
    }

    /// Releases jobs where they are due, and tells the policy who wants to run.
    fn wake(&mut self) {
        while let Some(vcpu) = self.touched.pop() {
            let it = &mut self.vcpus[vcpu];
            it.release(self.now);
            if let Some(next) = it.next_release() {
                if it.known != next {
                    it.known = next;
                    self.queue.push(Reverse((next, At::Release(vcpu))));
                }
            }
            if it.ready != it.wants() {
                it.ready = it.wants();
                self.pool.ready(self.ids[vcpu], it.ready, self.now);
                self.news = true;
            }
        }
    }

    pub(super) fn cost(&mut self, of: impl Fn(&Costs) -> &[u64]) -> u64 {
        let times = of(&self.scene.costs);
        times[self.rng.random_range(0..times.len())]
    }

    pub(super) fn ask_later(&mut self) {
        let (least, most) = self.scene.between;
        let at = self.now + self.rng.random_range(least.ns()..=most.ns().max(least.ns()));
        self.queue.push(Reverse((at, At::Request)));
    }

    /// Changes that have ended.
    pub(super) fn changes(&self) -> usize {
        self.seen.latencies.len() + self.seen.failed as usize
    }

    /// The agent on this virtual CPU has done a piece of work: it has read a command and switched.
    fn agent_is_done(&mut self, vcpu: usize) -> Result<(), Error> {
        self.touched.push(vcpu);
        let Some(member) = self.first.iter().position(|&first| first == vcpu) else { return Ok(()) };
        let Some(message) = self.mail[member].pop_front() else { return Ok(()) };
        let now = Instant::from_ns(self.now);
        let mut out = Vec::new();
        self.agents[member].handle(now, AgentEvent::Message(message), &mut out);
        let mut next = 0;
        while next < out.len() {
            match out[next].clone() {
                AgentAction::Switch { local } => {
                    self.switch_tasks(member, usize::from(local));
                    self.agents[member].handle(now, AgentEvent::Switched, &mut out);
                }
                AgentAction::Send(message) => self.answer(member, message)?,
                AgentAction::Keep(_) | AgentAction::Answer { .. } => {}
            }
            next += 1;
        }
        Ok(())
    }

    fn switch_tasks(&mut self, member: usize, local: usize) {
        for (part, tasks) in self.scene.vms[member][local].tasks.iter().enumerate() {
            let vcpu = self.first[member] + part;
            self.vcpus[vcpu].switch(tasks, self.now, |_| 0);
            self.touched.push(vcpu);
        }
    }

    /// The manager reads it when it has time.
    fn answer(&mut self, member: usize, message: FromAgent) -> Result<(), Error> {
        self.tell_manager(Event::Message { member, message })
    }
}
