//! One core and its servers, ns by ns, written from the definitions of the kinds alone: what the policy core must do, and
//! small enough that every state can be visited.

use giusto_analysis::admission::Order;
use giusto_model::ServerKind;

/// Most servers and most chunks of a sporadic one.
pub(crate) const SERVERS: usize = 3;
const CHUNKS: usize = 4;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Spec {
    pub(crate) kind: ServerKind,
    pub(crate) budget: i16,
    pub(crate) period: i16,
}

/// What the workload of a server does at an instant, and until the next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Work {
    Idle,
    Ready,
    /// Goes idle and comes back at this very instant.
    Anew,
}

/// A server between two instants; times count from now.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Server {
    pub(crate) left: i16,
    /// Its replenishment (a grid) or deadline; below 0: past.
    pub(crate) due: i16,
    pub(crate) ready: bool,
    /// Had its first budget.
    pub(crate) begun: bool,
    /// Ready throughout its present period, which began with a full budget, and what it had in it.
    pub(crate) whole: bool,
    pub(crate) got: i16,
    /// Sporadic: what is used of the first chunk; (time, amount).
    used: i16,
    chunks: [(i16, i16); CHUNKS],
}

pub(crate) type State = [Server; SERVERS];

/// What one ns did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Ran {
    /// Who had the core.
    pub(crate) who: Option<usize>,
    /// Who was ready throughout a period and did not have its budget in it.
    pub(crate) short: Option<usize>,
}

pub(crate) fn on_grid(kind: ServerKind) -> bool {
    !matches!(kind, ServerKind::ConstantBandwidth | ServerKind::Sporadic)
}

fn periodic(kind: ServerKind) -> bool {
    use ServerKind::{PeriodicConserving, PeriodicReclaiming, PeriodicStrict};
    matches!(kind, PeriodicStrict | PeriodicConserving | PeriodicReclaiming)
}

/// All idle; grids begin `phases` from now, without a budget until then.
pub(crate) fn begin(specs: &[Spec], phases: &[i16]) -> State {
    let mut state = State::default();
    for ((server, spec), &phase) in state.iter_mut().zip(specs).zip(phases) {
        *server = match spec.kind {
            ServerKind::Sporadic => {
                let mut chunks = [(0, 0); CHUNKS];
                chunks[0].1 = spec.budget;
                Server { left: spec.budget, due: spec.period, begun: true, chunks, ..Server::default() }
            }
            ServerKind::ConstantBandwidth => Server { left: spec.budget, begun: true, ..Server::default() },
            _ => Server { left: 0, due: phase, ..Server::default() },
        };
    }
    state
}

/// One ns.
pub(crate) fn step(order: Order, specs: &[Spec], state: &State, works: &[Work]) -> (State, Ran) {
    let mut next = *state;
    let servers = &mut next[..specs.len()];
    let mut short = None;
    for (i, (server, spec)) in servers.iter_mut().zip(specs).enumerate() {
        if arrive(server, spec, works[i]) {
            short = short.or(Some(i));
        }
    }
    let who = choose(order, specs, servers);
    if let Some((i, pays)) = who {
        servers[i].got += 1;
        if pays {
            pay(&mut servers[i], &specs[i]);
        }
    }
    for (server, spec) in servers.iter_mut().zip(specs) {
        pass(server, spec);
    }
    (next, Ran { who: who.map(|(i, _)| i), short })
}

/// What an instant brings: replenishments, then who woke or slept. Whether a budget was due and not had.
fn arrive(server: &mut Server, spec: &Spec, work: Work) -> bool {
    let (was, ready) = (server.ready, work != Work::Idle);
    let (slept, woke) = (was && work != Work::Ready, ready && !(was && work == Work::Ready));
    let mut short = false;
    server.ready = ready;
    match spec.kind {
        ServerKind::Sporadic => {
            short = was && server.due == 0 && server.chunks[0].0 <= 0;
            if slept {
                split(server, spec);
            }
            if woke && server.used == 0 {
                server.chunks[0].0 = server.chunks[0].0.max(0);
                while server.chunks[1].1 > 0 && server.chunks[1].0 <= server.chunks[0].0 + server.chunks[0].1 {
                    let (time, amount) = (server.chunks[0].0, server.chunks[0].1);
                    server.chunks.rotate_left(1);
                    server.chunks[CHUNKS - 1] = (0, 0);
                    server.chunks[0] = (time, amount + server.chunks[0].1);
                }
            }
            let due: i16 = server.chunks.iter().filter(|chunk| chunk.0 <= 0).map(|chunk| chunk.1).sum();
            server.left = due - server.used;
            server.due = server.chunks[0].0 + spec.period;
        }
        ServerKind::ConstantBandwidth => {
            short = server.due == 0 && server.whole && server.left > 0;
            if server.left == 0 && server.due <= 0 {
                server.due += (-server.due / spec.period + 1) * spec.period;
                (server.left, server.whole) = (spec.budget, true);
            }
            let exceeds = server.due <= 0 || server.left * spec.period > server.due * spec.budget;
            server.whole &= ready && !woke;
            if woke && server.left > 0 && exceeds {
                (server.left, server.due, server.whole) = (spec.budget, spec.period, true);
            }
        }
        kind => {
            if server.due == 0 {
                short = server.whole && server.got < spec.budget;
                let has = kind != ServerKind::Polling || ready;
                (server.left, server.due) = (if has { spec.budget } else { 0 }, spec.period);
                (server.begun, server.whole, server.got) = (true, true, 0);
            }
            if kind == ServerKind::Polling && !ready {
                server.left = 0;
            }
            server.whole &= ready;
        }
    }
    short
}

/// A sporadic server goes idle: what it used of its first chunk comes back a period after that began.
fn split(server: &mut Server, spec: &Spec) {
    let (time, amount) = server.chunks[0];
    if server.used > 0 {
        server.chunks[0] = (time, amount - server.used);
        put(server, time + spec.period, server.used);
        server.used = 0;
    }
}

fn put(server: &mut Server, time: i16, amount: i16) {
    let at = server.chunks.iter().position(|chunk| chunk.1 == 0 || chunk.0 > time).expect("B is at most CHUNKS");
    server.chunks[at..].rotate_right(1);
    server.chunks[at] = (time, amount);
}

/// Who has the core, and whether it pays [Lee11, Algorithm 2].
fn choose(order: Order, specs: &[Spec], servers: &mut [Server]) -> Option<(usize, bool)> {
    let rank = |servers: &[Server], i: usize| match order {
        Order::FixedPriority => (0, i),
        Order::Edf => (servers[i].due, i),
    };
    let first = |servers: &[Server], member: &dyn Fn(usize) -> bool| {
        (0..specs.len()).filter(|&i| member(i)).min_by_key(|&i| rank(servers, i))
    };
    let has = |servers: &[Server], i: usize| servers[i].left > 0;
    let top = first(servers, &|i| has(servers, i) && (servers[i].ready || periodic(specs[i].kind)))?;
    if servers[top].ready {
        return Some((top, true));
    }
    servers[top].left -= 1;
    if specs[top].kind == ServerKind::PeriodicStrict {
        return None;
    }
    let reclaims = |i: usize| specs[i].kind == ServerKind::PeriodicReclaiming;
    if let Some(next) = first(servers, &|i| has(servers, i) && servers[i].ready) {
        return Some((next, !(reclaims(top) && reclaims(next))));
    }
    if !reclaims(top) {
        return None;
    }
    first(servers, &|i| reclaims(i) && servers[i].ready).map(|next| (next, false))
}

fn pay(server: &mut Server, spec: &Spec) {
    server.left -= 1;
    if spec.kind == ServerKind::Sporadic {
        server.used += 1;
        let (time, amount) = server.chunks[0];
        if server.used == amount {
            server.chunks.rotate_left(1);
            server.chunks[CHUNKS - 1] = (0, 0);
            put(server, time + spec.period, amount);
            server.used = 0;
            server.due = server.chunks[0].0 + spec.period;
        }
    }
}

/// Time moves on. Idle states that can never be told apart become one.
fn pass(server: &mut Server, spec: &Spec) {
    server.due -= 1;
    match spec.kind {
        ServerKind::Sporadic => {
            for chunk in server.chunks.iter_mut().filter(|chunk| chunk.1 > 0) {
                chunk.0 = if server.ready { chunk.0 - 1 } else { (chunk.0 - 1).max(0) };
            }
            if !server.ready {
                while server.chunks[1].1 > 0 && server.chunks[1].0 == 0 {
                    server.chunks[1].1 += server.chunks[0].1;
                    server.chunks.rotate_left(1);
                    server.chunks[CHUNKS - 1] = (0, 0);
                }
            }
            server.got = 0;
        }
        ServerKind::ConstantBandwidth => {
            let fresh = server.left > 0 && (server.due <= 0 || server.left * spec.period > server.due * spec.budget);
            if !server.ready && (fresh || (server.left == 0 && server.due <= 0)) {
                (server.left, server.due) = (spec.budget, 0);
            }
            server.got = 0;
        }
        _ => {}
    }
    if !server.whole {
        server.got = 0;
    }
}
