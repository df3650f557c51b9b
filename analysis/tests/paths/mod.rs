//! Paths that are played, by a player that shares no code with what bounds them: message by message, stage by stage, in floating
//! ns. Stages are in the order of their numbers.

use giusto_analysis::path::{Net, Stage, Step, Visit};
use giusto_analysis::response::{Server, Share};
use rand::rngs::StdRng;
use rand::RngExt;

/// A message at a stage.
#[derive(Clone, Copy)]
struct Message {
    at: f64,
    flow: usize,
    number: usize,
    work: f64,
}

/// What is played beside the net: how bounded stages and servers in company behave at their worst is drawn.
pub(crate) struct Player<'a> {
    pub(crate) net: &'a Net,
    /// Last in, first out, without preemption: a hypothesis broken on purpose.
    pub(crate) last_first: bool,
}

/// A server of (B, P) on a grid that begins at `phase`.
struct Grid {
    share: Share,
    company: bool,
    phase: f64,
    now: f64,
    used: f64,
    /// In company: where in the present period the budget lies.
    place: (i64, f64),
}

impl Grid {
    fn new(share: Share, company: bool, rng: &mut StdRng) -> Grid {
        let phase = rng.random::<f64>() * share.period.ns() as f64;
        Grid { share, company, phase, now: 0.0, used: 0.0, place: (-1, 0.0) }
    }

    /// When work that begins at `at` or later is done.
    fn serve(&mut self, at: f64, mut work: f64, rng: &mut StdRng) -> f64 {
        let (budget, period) = (self.share.budget.ns() as f64, self.share.period.ns() as f64);
        if budget >= period {
            self.now = self.now.max(at) + work;
            return self.now;
        }
        let number = |time: f64| ((time + self.phase) / period).floor() as i64;
        let begin = |number: i64| number as f64 * period - self.phase;
        let start = at.max(self.now);
        let mut turn = number(start);
        if turn > number(self.now) {
            self.used = 0.0;
        }
        self.now = start;
        let deferrable = self.share.server == Server::Deferrable && !self.company;
        loop {
            let end = begin(turn + 1);
            if deferrable {
                let left = (budget - self.used).min(end - self.now).max(0.0);
                if work <= left {
                    self.now += work;
                    self.used += work;
                    return self.now;
                }
                work -= left;
            } else {
                if self.place.0 != turn {
                    // The worst that others leave: often the begin of one period and the end of the next.
                    let late = match rng.random_range(0..4) {
                        0 => 0.0,
                        1 => rng.random::<f64>(),
                        _ => 1.0,
                    };
                    self.place = (turn, if self.company { late } else { 0.0 });
                }
                let from = begin(turn) + self.place.1 * (period - budget);
                let at = self.now.max(from);
                let left = (from + budget - at).max(0.0);
                if work <= left {
                    self.now = at + work;
                    return self.now;
                }
                work -= left;
            }
            turn += 1;
            self.now = begin(turn);
            self.used = 0.0;
        }
    }
}

fn pick(rng: &mut StdRng, all: &[(giusto_model::Duration, f64)]) -> f64 {
    let mut u: f64 = rng.random();
    for (time, p) in all {
        u -= p;
        if u < 0.0 {
            return time.ns() as f64;
        }
    }
    all[0].0.ns() as f64
}

/// The step of a flow that a stage is in, the branch, the place in it.
fn place(route: &[Step], stage: usize) -> Option<(usize, usize, usize, &Visit)> {
    route.iter().enumerate().find_map(|(step, there)| match there {
        Step::At(visit) => (visit.stage == stage).then_some((step, 0, 0, visit)),
        Step::All(branches) => branches.iter().enumerate().find_map(|(number, branch)| {
            let place = branch.iter().position(|visit| visit.stage == stage)?;
            Some((step, number, place, &branch[place]))
        }),
    })
}

impl Player<'_> {
    /// Response times of flow 0, in the order of its messages, all sources having the `arrivals` given (ascending, by flow).
    pub(crate) fn play(&self, arrivals: &[Vec<f64>], rng: &mut StdRng) -> Vec<f64> {
        let flows = &self.net.flows;
        // When each message comes to its present step, and when it has come to the end of it.
        let mut begins: Vec<Vec<f64>> = arrivals.to_vec();
        let mut ends: Vec<Vec<f64>> = arrivals.to_vec();
        let mut branch: Vec<Vec<f64>> = arrivals.to_vec();
        let mut step_of: Vec<usize> = vec![0; flows.len()];
        for (stage, kind) in self.net.stages.iter().enumerate() {
            let (mut there, mut lost): (Vec<Message>, Vec<(usize, usize)>) = Default::default();
            for (flow, of) in flows.iter().enumerate() {
                let Some((step, _, nth, visit)) = place(&of.route, stage) else { continue };
                if step != step_of[flow] {
                    begins[flow] = std::mem::replace(&mut ends[flow], vec![0.0; arrivals[flow].len()]);
                    step_of[flow] = step;
                } else if step == 0 && nth == 0 && ends[flow] == arrivals[flow] {
                    ends[flow] = vec![0.0; arrivals[flow].len()];
                }
                let comes = if nth == 0 { &begins[flow] } else { &branch[flow] };
                let hold = visit.hold.ns() as f64;
                for (number, at) in comes.iter().enumerate() {
                    if at.is_infinite() {
                        lost.push((flow, number));
                        continue;
                    }
                    let work = if matches!(kind, Stage::Share { .. }) { pick(rng, &visit.service) } else { 1.0 };
                    there.push(Message { at: at.max(arrivals[flow][number] + hold), flow, number, work });
                }
            }
            there.sort_by(|a, b| a.at.total_cmp(&b.at));
            lost.iter().for_each(|(flow, number)| branch[*flow][*number] = f64::INFINITY);
            let done = self.stage(kind, &there, rng);
            for (message, done) in there.iter().zip(done) {
                branch[message.flow][message.number] = done;
            }
            for (flow, of) in flows.iter().enumerate() {
                let Some((step, number, nth, _)) = place(&of.route, stage) else { continue };
                let last = match &of.route[step] {
                    Step::At(_) => true,
                    Step::All(branches) => nth + 1 == branches[number].len(),
                };
                if last {
                    let (ends, branch) = (&mut ends[flow], &branch[flow]);
                    ends.iter_mut().zip(branch).for_each(|(end, done)| *end = end.max(*done));
                }
            }
        }
        ends[0].iter().zip(&arrivals[0]).map(|(end, at)| end - at).collect()
    }

    /// When each of `there`, in the order of arrival, is done.
    fn stage(&self, kind: &Stage, there: &[Message], rng: &mut StdRng) -> Vec<f64> {
        match kind {
            Stage::Bounded(most) => {
                // Late for a while, then at once: as jitter is worst.
                let most = most.ns() as f64;
                let (mut until, mut late, mut before) = (0.0, 0.0, 0.0f64);
                let mut pass = |message: &Message| {
                    while message.at >= until {
                        until = until.max(message.at) + most * (0.5 + rng.random::<f64>());
                        late = if rng.random::<bool>() { 1.0 } else { 0.0 };
                    }
                    let all = if late > 0.0 { (until - message.at).min(most) } else { 0.0 };
                    before = before.max(message.at + all);
                    before
                };
                there.iter().map(&mut pass).collect()
            }
            Stage::Measured(times) => {
                // Stalls, after which all that has come leaves at once: for a part of the time as long as the law has it.
                let [(least, most_of), (most, _)] = times[..] else { panic!("{times:?}") };
                let (least, most) = (least.ns() as f64, most.ns() as f64);
                let apart = (most - least) * most_of / (1.0 - most_of);
                let mut stall = -rng.random::<f64>().ln() * apart;
                let mut pass = |message: &Message| {
                    while message.at >= stall + most - least {
                        stall += most - least - rng.random::<f64>().ln() * apart;
                    }
                    message.at + if message.at < stall { least } else { most - (message.at - stall) }
                };
                there.iter().map(&mut pass).collect()
            }
            Stage::Bucket(bucket) => {
                let (rate, depth) = (bucket.rate.per_ns(), bucket.depth.as_f64());
                let (mut tokens, mut now) = (depth, 0.0f64);
                let mut take = |message: &Message| {
                    let at = message.at.max(now);
                    tokens = (tokens + (at - now) * rate).min(depth);
                    let wait = ((1.0 - tokens) / rate).max(0.0);
                    now = at + wait;
                    tokens = tokens + wait * rate - 1.0;
                    now
                };
                there.iter().map(&mut take).collect()
            }
            Stage::Policed(bucket) => {
                let (rate, depth) = (bucket.rate.per_ns(), bucket.depth.as_f64());
                let (mut tokens, mut now) = (depth, 0.0f64);
                let mut take = |message: &Message| {
                    tokens = (tokens + (message.at - now) * rate).min(depth);
                    now = message.at;
                    if tokens < 1.0 {
                        return f64::INFINITY;
                    }
                    tokens -= 1.0;
                    now
                };
                there.iter().map(&mut take).collect()
            }
            Stage::Share { share, company } => {
                let mut server = Grid::new(*share, *company, rng);
                if !self.last_first {
                    return there.iter().map(|message| server.serve(message.at, message.work, rng)).collect();
                }
                let mut done = vec![0.0; there.len()];
                let (mut waiting, mut next): (Vec<usize>, usize) = (Vec::new(), 0);
                while next < there.len() || !waiting.is_empty() {
                    if waiting.is_empty() || next < there.len() && there[next].at <= server.now {
                        waiting.push(next);
                        next += 1;
                        continue;
                    }
                    let message = waiting.pop().expect("not empty");
                    done[message] = server.serve(there[message].at, there[message].work, rng);
                }
                done
            }
        }
    }
}
