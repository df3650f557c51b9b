//! ZooKeeper's ticks: as the site says, or planned from what is known of hosts and links, so that a silent leader is missed as
//! soon as can be, and none for nothing (`giusto_analysis::silence`).

use super::refusal::{Faster, How, SlowRecovery, FEWEST};
use crate::refusal::Refusal;
use crate::words::{reason, time};
use giusto_analysis::recovery::Bound;
use giusto_analysis::silence::{Patience, Silence};
use giusto_model::{
    Coordination, Duration, Epochs, Reason, RecoveryTimes, SilenceAsked, SilencePlan, Ticks, ZooKeeper, STOCK_WAIT,
    WAIT_MARGIN,
};

/// Ticks that are planned, in ms: even, since half of one is a heartbeat. On three idle servers one of 10 ms takes 14 % of a
/// core at the leader and 6 % at a follower, one of 30 ms 7 % and 2 %, one of 200 ms 2 % and 1 % (docs/silence.md).
const SHORTEST: u64 = 10;
const LONGEST: u64 = 200;

/// A tick with what follows from it.
#[derive(Clone, Copy)]
pub(super) struct Choice {
    pub(super) tick: Duration,
    pub(super) sync_limit: u32,
    /// w, and whether servers replace it by what they measure.
    pub(super) wait: Duration,
    pub(super) adaptive: bool,
    /// Where they are planned.
    pub(super) silence: Option<SilencePlan>,
    pub(super) promised: Option<Duration>,
    patience: Option<Patience>,
}

impl Choice {
    /// The longest recovery where the leader's machine is lost.
    pub(super) fn machine_loss(&self, times: &RecoveryTimes, bound: &Bound) -> Result<Duration, Refusal> {
        let found = match &self.patience {
            Some(patience) => patience.machine_loss(times, bound).ok(),
            None => self.silent().and_then(|silence| bound.total.checked_add(silence)),
        };
        found.ok_or(Refusal::NoRecovery(giusto_analysis::Error::Recovery))
    }

    /// What of a recovery depends on the tick, in ns.
    fn missed(&self) -> u128 {
        let noticed = self.patience.map_or(0, |patience| patience.noticed.ns());
        u128::from(noticed) + u128::from(self.wait.ns())
    }

    fn silent(&self) -> Option<Duration> {
        self.tick.checked_mul(u64::from(self.sync_limit))
    }
}

/// What may be taken, the longest tick first, as each costs words. Without a promise those with which a leader is missed almost
/// as soon as it can be: within a tenth more.
pub(super) fn choices(own: &ZooKeeper, servers: usize) -> Result<Vec<Choice>, Refusal> {
    let asked = match own.ticks {
        Ticks::Written { tick, sync_limit } => {
            let (wait, adaptive) = (own.wait(), own.wait.is_none());
            let one = Choice { tick, sync_limit, wait, adaptive, silence: None, promised: None, patience: None };
            return Ok(vec![one]);
        }
        Ticks::Planned(asked) => asked,
    };
    let ticks = (SHORTEST / 2..=LONGEST / 2).rev().map(|half| Duration::from_ms(2 * half));
    let all = ticks.map(|tick| of(own, servers, &asked, tick)).collect::<Result<Vec<_>, _>>()?;
    let mut all: Vec<Choice> = all.into_iter().flatten().collect();
    let Some(soonest) = all.iter().map(Choice::missed).min() else {
        return Err(Refusal::Apart { latency: asked.latency, most: own.wait.unwrap_or(STOCK_WAIT) });
    };
    if asked.machine_loss.is_none() {
        all.retain(|choice| 10 * choice.missed() <= 11 * soonest);
    }
    Ok(all)
}

/// `None`: servers would leave further apart than votes are waited for.
fn of(own: &ZooKeeper, servers: usize, asked: &SilenceAsked, tick: Duration) -> Result<Option<Choice>, Refusal> {
    let (latency, RecoveryTimes { delay, write, .. }) = (asked.latency, own.times);
    let patience = Silence { latency, delay, write, tick }.shortest().map_err(Refusal::NoRecovery)?;
    let (mut wait, mut adaptive) = (own.wait(), own.wait.is_none());
    // All that are left have to agree in smaller ensembles.
    if servers > 4 {
        let spread = patience.spread(delay).map_err(Refusal::NoRecovery)?;
        let longer = spread.checked_add(WAIT_MARGIN).filter(|wait| *wait <= STOCK_WAIT);
        match (own.wait, longer) {
            (Some(fixed), _) if fixed > spread => {}
            (None, Some(longer)) => (wait, adaptive) = (wait.max(up(longer)), false),
            _ => return Ok(None),
        }
    }
    let Patience { sync_limit, step_down, .. } = patience;
    let silence = Some(SilencePlan { asked: *asked, step_down });
    Ok(Some(Choice {
        tick,
        sync_limit,
        wait,
        adaptive,
        silence,
        promised: asked.machine_loss,
        patience: Some(patience),
    }))
}

/// To whole microseconds, as servers read them.
fn up(time: Duration) -> Duration {
    Duration::from_us(time.ns().div_ceil(1000))
}

/// Why w is not adapted.
pub(super) fn waited(ticks: &Choice) -> String {
    let apart = ticks.patience.map_or(Duration::ZERO, |patience| patience.apart);
    format!(
        "more than j' + d (5.2), and fixed: followers of a silent leader leave it up to j' = {} apart, and more of them are left \
         than elect one",
        time(apart)
    )
}

pub(super) fn reasons(own: &ZooKeeper, ticks: &Choice, machine_loss: Duration) -> Vec<Reason> {
    let silent = ticks.silent().unwrap_or(Duration::ZERO);
    let (Some(patience), Some(SilencePlan { asked, step_down })) = (ticks.patience, ticks.silence) else {
        let why = format!("the bound, after tick x sync-limit = {} without a word", time(silent));
        return vec![reason("machine lost", time(machine_loss), why)];
    };
    let [l, d, b] = [asked.latency, own.times.delay, own.times.write].map(time);
    let chosen = match asked.machine_loss {
        Some(_) => {
            "the longest that keeps the promise about a lost machine: a leader sends two words a tick to each follower"
        }
        None => "the longest of those with which a leader is missed within a tenth more than the shortest time",
    };
    let promised = asked.machine_loss.map_or(String::new(), |promised| format!("; promised {}", time(promised)));
    vec![
        reason("tick", time(ticks.tick), chosen),
        reason(
            "sync-limit",
            ticks.sync_limit,
            format!(
                "S = {}: the fewest ticks above tick/2 + 5 L + 2 d + 3 ms and 3 L + 2 d + 2 b + 1 ms, with L = {l}, d = {d}, \
                 b = {b}",
                time(silent)
            ),
        ),
        reason("init-limit", "20 s", "to take over the data; a leader that does not answer is left after S, at least 300 ms"),
        reason(
            "step down",
            time(step_down),
            "A = S - L - 2 ms: a leader whose words no quorum has answered for so long has stepped down before others elect",
        ),
        reason(
            "suspicions",
            "none",
            format!(
                "for nothing, while L, d and b hold; one thread alone may be late by {}. Each takes a wake-up later than L, so \
                 they are as rare as those are: one in 10^6 s where L is not exceeded more often",
                time(patience.stall)
            ),
        ),
        reason("missed", time(patience.noticed), "D = d + S + 2 L: all followers have left a leader that is stopped or cut off"),
        reason(
            "machine lost",
            time(machine_loss),
            format!("D and the bound without d + j, whether it is killed, stopped or cut off{promised}"),
        ),
    ]
}

/// The promise about a machine is not kept: the largest latency, the fewest changes and the promise with which it would be.
/// `keeps` tells whether so many of its servers do with others.
pub(super) fn too_late(
    ensemble: &Coordination,
    own: &ZooKeeper,
    (epochs, lost): (Epochs, Duration),
    keeps: &dyn Fn(&ZooKeeper, usize) -> bool,
) -> Refusal {
    let Ticks::Planned(asked) = own.ticks else { return Refusal::NoRecovery(giusto_analysis::Error::Recovery) };
    let servers = ensemble.servers.len();
    let with = |epochs: Option<Epochs>, servers: usize, asked: SilenceAsked| {
        keeps(&ZooKeeper { epochs, ticks: Ticks::Planned(asked), ..own.clone() }, servers)
    };
    let mut nearest = Vec::new();
    let faster = |other: &Epochs| other.forced_writes() < epochs.forced_writes() && with(Some(*other), servers, asked);
    nearest.extend(Epochs::ALL.into_iter().find(faster).map(Faster::Epochs));
    // In whole microseconds; a smaller one is never worse.
    let (mut fits, mut not) = (0, asked.latency.ns().div_ceil(1000));
    while not - fits > 1 {
        let middle = fits + (not - fits) / 2;
        match with(own.epochs, servers, SilenceAsked { latency: Duration::from_us(middle), ..asked }) {
            true => fits = middle,
            false => not = middle,
        }
    }
    nearest.extend((fits > 0).then(|| Faster::Latency(Duration::from_us(fits))));
    let fewer = |fewer: &usize| with(own.epochs, *fewer, asked);
    nearest.extend((FEWEST..servers).rev().find(fewer).map(Faster::Servers));
    nearest.push(Faster::MachineLoss(lost));
    Refusal::Recovery(Box::new(SlowRecovery {
        servers,
        how: How::Silence { latency: asked.latency, epochs },
        promised: asked.machine_loss.unwrap_or(lost),
        bound: lost,
        nearest,
    }))
}
