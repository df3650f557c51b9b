//! ZooKeeper: how it keeps epochs, how long it waits for votes, and whether it recovers within what was promised.

use super::latency::no_less;
use super::refusal::{Faster, How, SlowRecovery, FEWEST};
use super::ticks::{self, Choice};
use crate::refusal::Refusal;
use crate::words::{reason, time};
use giusto_analysis::recovery::{Bound, Recovery};
use giusto_model::{
    Coordination, Duration, Engine, Epochs, RecoveryTimes, Ticks, ZooKeeper, ZooKeeperPlan, STOCK_WAIT, WAIT_MARGIN,
};

/// The loss of a machine should not go unnoticed for longer: docs/silence.md, "Where nothing is known".
const SLOW: Duration = Duration::from_secs(1);

/// What the choice of Java's compilers costs, both ways: docs/coordination.md, "Java".
const COMPILER: &str = "both compilers, the default: reads and writes cost what stock's do. With \
                        JVMFLAGS=-XX:TieredStopAtLevel=1 in java.env a recovery was 15 ms shorter (the median beside a busy \
                        core), a read took 1.2 and a write 1.15 times stock's processor time; the bound holds with either";

/// Decides every parameter of the ensemble, or says what would keep its promise. `here`: the latency that was measured of one of
/// its hosts. O(servers · ticks).
pub(super) fn plan(
    ensemble: &Coordination,
    own: &ZooKeeper,
    here: Option<(&str, Duration)>,
) -> Result<ZooKeeperPlan, Refusal> {
    if let Ticks::Planned(asked) = &own.ticks {
        no_less(asked.latency, here)?;
    }
    let servers = ensemble.servers.len();
    let Passed { epochs, total, lost, wait } = match decide(ensemble, own)? {
        Decided::Keeps(found, passed) => return Ok(written(ensemble, own, &found, passed.as_ref())),
        Decided::Slow(passed) => passed,
    };
    if total <= ensemble.recovery {
        let allowed = |own: &ZooKeeper| match &own.ticks {
            Ticks::Planned(asked) => no_less(asked.latency, here).is_ok(),
            _ => true,
        };
        let keeps = |own: &ZooKeeper, servers: usize| allowed(own) && keeps(ensemble, own, servers);
        return Err(ticks::too_late(ensemble, own, (epochs, lost), &keeps));
    }
    let nearest = nearest(ensemble, own, epochs, wait, total);
    Err(Refusal::Recovery(Box::new(SlowRecovery {
        servers,
        how: How::ZooKeeper { epochs, wait },
        promised: ensemble.recovery,
        bound: total,
        nearest,
    })))
}

/// What keeps all promises.
struct Found {
    epochs: Epochs,
    ticks: Choice,
    bound: Bound,
    lost: Duration,
}

/// What does not.
struct Passed {
    epochs: Epochs,
    total: Duration,
    lost: Duration,
    wait: Duration,
}

/// Whether an ensemble keeps its promises.
enum Decided {
    /// So, and what was passed over for it.
    Keeps(Found, Option<Passed>),
    /// Not; what comes nearest.
    Slow(Passed),
}

fn decide(ensemble: &Coordination, own: &ZooKeeper) -> Result<Decided, Refusal> {
    let servers = ensemble.servers.len();
    // The safest first that is fast enough. Neither loses anything, but `overlap` is further from stock.
    let ways = own.epochs.map_or(vec![Epochs::Reserve, Epochs::Overlap], |epochs| vec![epochs]);
    let all = ticks::choices(own, servers)?;
    let mut passed: Option<Passed> = None;
    for epochs in ways {
        let slower = passed.take();
        for &ticks in &all {
            let bound = bound(&own.times, epochs, ticks.wait, servers)?;
            let lost = ticks.machine_loss(&own.times, &bound)?;
            if bound.total <= ensemble.recovery && ticks.promised.is_none_or(|promised| lost <= promised) {
                return Ok(Decided::Keeps(Found { epochs, ticks, bound, lost }, slower));
            }
            // What comes nearest to both promises: ticks of another length may be missed sooner.
            let near = |total: Duration, lost: Duration| match total > ensemble.recovery {
                true => (true, total),
                false => (false, lost),
            };
            let next = Passed { epochs, total: bound.total, lost, wait: ticks.wait };
            let nearer = |one: &Passed| near(next.total, next.lost) < near(one.total, one.lost);
            if passed.as_ref().is_none_or(nearer) {
                passed = Some(next);
            }
        }
    }
    passed.map(Decided::Slow).ok_or(Refusal::NoRecovery(giusto_analysis::Error::NoneLeft))
}

/// Whether the first `servers` of an ensemble keep its promises.
pub(super) fn keeps(ensemble: &Coordination, own: &ZooKeeper, servers: usize) -> bool {
    let mut smaller = ensemble.clone();
    smaller.servers.truncate(servers);
    matches!(decide(&smaller, own), Ok(Decided::Keeps(..)))
}

pub(super) fn bound(times: &RecoveryTimes, epochs: Epochs, wait: Duration, servers: usize) -> Result<Bound, Refusal> {
    let left = servers.saturating_sub(1) as u64;
    Recovery { times: *times, wait, forced_writes: epochs.forced_writes(), left }.bound().map_err(Refusal::NoRecovery)
}

/// Each of them alone is enough.
fn nearest(ensemble: &Coordination, own: &ZooKeeper, epochs: Epochs, wait: Duration, longest: Duration) -> Vec<Faster> {
    let (times, servers, promised) = (&own.times, ensemble.servers.len(), ensemble.recovery);
    // What fits has to keep the other promise, too.
    let fits = |changed: ZooKeeper, servers: usize, recovery: Duration| {
        keeps(&Coordination { recovery, ..ensemble.clone() }, &changed, servers)
    };
    let kept = |epochs: Epochs| ZooKeeper { epochs: Some(epochs), ..own.clone() };
    let mut found = Vec::new();
    let faster =
        |other: &Epochs| other.forced_writes() < epochs.forced_writes() && fits(kept(*other), servers, promised);
    found.extend(Epochs::ALL.into_iter().find(faster).map(Faster::Epochs));
    let over = longest.checked_sub(promised).unwrap_or(Duration::ZERO);
    let wait = wait.checked_sub(over).map(|wait| Duration::from_ns(wait.ns() / 1000 * 1000));
    found.extend(
        wait.filter(|wait| times.jitter.checked_add(times.delay).is_some_and(|spread| *wait > spread))
            .filter(|wait| fits(ZooKeeper { wait: Some(*wait), ..kept(epochs) }, servers, promised))
            .map(Faster::Wait),
    );
    found.extend((FEWEST..servers).rev().find(|fewer| fits(kept(epochs), *fewer, promised)).map(Faster::Servers));
    found.extend(fits(kept(epochs), servers, longest).then_some(Faster::Recovery(longest)));
    found
}

fn written(ensemble: &Coordination, own: &ZooKeeper, found: &Found, passed: Option<&Passed>) -> ZooKeeperPlan {
    let Found { epochs, ticks, bound, lost: machine_loss } = found;
    let (epochs, machine_loss, wait) = (*epochs, *machine_loss, ticks.wait);
    let RecoveryTimes { leave, jitter, delay, message, recover, learner, write } = own.times;
    let (left, k) = (ensemble.servers.len() - 1, epochs.forced_writes());
    let chosen = match (own.epochs, passed) {
        (Some(_), _) => "from the site".to_string(),
        (None, Some(Passed { epochs, total, .. })) if *total > ensemble.recovery => {
            format!("{epochs} would take up to {}, more than promised", time(*total))
        }
        (None, Some(Passed { epochs, lost, .. })) => {
            format!("{epochs} would take up to {} where a machine is lost, more than promised", time(*lost))
        }
        (None, None) => "the one that writes early and enters epochs as stock does, and it is fast enough".into(),
    };
    let measured = match own.wait {
        Some(_) => "from the site; more than j + d (5.2)".to_string(),
        None if !ticks.adaptive => ticks::waited(ticks),
        None => format!(
            "j + d + {WAIT_MARGIN} (5.2), at most {STOCK_WAIT}; servers replace j and d by what they measure, and export the bound anew"
        ),
    };
    let [j, d, h, s_r, h_r, b] = [jitter, delay, message, recover, learner, write].map(time);
    let mut reasons = vec![
        reason("epochs", epochs.to_string(), chosen),
        reason("wait", time(wait), measured),
        reason("notice", time(bound.notice), "d: the first survivor sees the closed connection"),
        reason("leave", time(leave), "s_e: until it votes [LiH21, Table 5.1]"),
        reason(
            "election",
            time(bound.election),
            format!("j + 2 d + w + h n(n+1), with j = {j}, d = {d}, h = {h} and n = {left} servers left (5.4)"),
        ),
        reason(
            "recovery",
            time(bound.recovery),
            format!("s_r + n h_r + k b, with s_r = {s_r}, h_r = {h_r}, b = {b} and k = {k} forced writes (5.6), (5.7)"),
        ),
        reason("bound", time(bound.total), format!("all of them; promised {}", time(ensemble.recovery))),
        reason("first write", time(bound.first_write), "and 2 (2 d + h_r + b): a new session and its write"),
        reason("java", "C2", COMPILER),
    ];
    reasons.extend(ticks::reasons(own, ticks, machine_loss));
    ZooKeeperPlan {
        servers: ensemble.servers.clone(),
        recovery: ensemble.recovery,
        epochs,
        wait,
        adaptive: ticks.adaptive,
        times: own.times,
        tick: ticks.tick,
        sync_limit: ticks.sync_limit,
        silence: ticks.silence,
        places: own.places.clone(),
        bound: bound.total,
        first_write: bound.first_write,
        machine_loss,
        reasons,
    }
}

/// Where the loss of a machine, unlike the death of a process, goes unnoticed for long: what to know and to write.
pub fn slow_to_see(ensemble: &Coordination) -> Option<String> {
    let (tick, sync_limit) = match &ensemble.engine {
        Engine::ZooKeeper(ZooKeeper { ticks: Ticks::Written { tick, sync_limit }, .. }) => (tick, sync_limit),
        // Planned, or its bound is about every loss.
        Engine::ZooKeeper(_) | Engine::Etcd(_) => return None,
    };
    let recovery = &ensemble.recovery;
    let silence = tick.checked_mul(u64::from(*sync_limit)).filter(|silence| *silence > SLOW)?;
    Some(format!(
        "coordination: the promise of {} is about a leader's process that dies; a machine that dies, or a cut wire, is noticed only \
         after tick x sync-limit = {} x {sync_limit} = {}. Where that matters write measured: {{latency: ...}}, from which both \
         are planned, or tick: 200ms and sync-limit: 5 (1 s), at the price of false alarms when a server pauses for a second",
        time(*recovery),
        time(*tick),
        time(silence)
    ))
}
