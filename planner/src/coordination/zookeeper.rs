//! ZooKeeper: how it keeps epochs, how long it waits for votes, and whether it recovers within what was promised.

use super::refusal::{Faster, How, SlowRecovery, FEWEST};
use crate::refusal::Refusal;
use crate::words::{reason, time};
use giusto_analysis::recovery::{Bound, Recovery};
use giusto_model::{
    Coordination, Duration, Engine, Epochs, RecoveryTimes, ZooKeeper, ZooKeeperPlan, STOCK_WAIT, WAIT_MARGIN,
};

/// The loss of a machine should not go unnoticed for longer: docs/coordination.md, "Loss of a machine".
const SLOW: Duration = Duration::from_secs(1);

/// What the choice of Java's compilers costs, both ways: docs/coordination.md, "Java".
const COMPILER: &str = "both compilers, the default: reads and writes cost what stock's do. With \
                        JVMFLAGS=-XX:TieredStopAtLevel=1 in java.env a recovery was 15 ms shorter (the median beside a busy \
                        core), a read took 1.2 and a write 1.15 times stock's processor time; the bound holds with either";

/// Decides every parameter of the ensemble, or says what would keep its promise. O(servers).
pub(super) fn plan(ensemble: &Coordination, own: &ZooKeeper) -> Result<ZooKeeperPlan, Refusal> {
    let wait = own.wait();
    let servers = ensemble.servers.len();
    // The safest first that is fast enough. Neither loses anything, but `overlap` is further from stock.
    let ways = own.epochs.map_or(vec![Epochs::Reserve, Epochs::Overlap], |epochs| vec![epochs]);
    let mut passed = None;
    for epochs in ways {
        let bound = bound(&own.times, epochs, wait, servers)?;
        if bound.total <= ensemble.recovery {
            return written(ensemble, own, epochs, wait, &bound, passed);
        }
        passed = Some((epochs, bound.total));
    }
    let (epochs, bound) = passed.ok_or(Refusal::NoRecovery(giusto_analysis::Error::NoneLeft))?;
    let nearest = nearest(ensemble, own, epochs, bound)?;
    Err(Refusal::Recovery(Box::new(SlowRecovery {
        servers,
        how: How::ZooKeeper { epochs, wait },
        promised: ensemble.recovery,
        bound,
        nearest,
    })))
}

fn bound(times: &RecoveryTimes, epochs: Epochs, wait: Duration, servers: usize) -> Result<Bound, Refusal> {
    let left = servers.saturating_sub(1) as u64;
    Recovery { times: *times, wait, forced_writes: epochs.forced_writes(), left }.bound().map_err(Refusal::NoRecovery)
}

/// Each of them alone is enough.
fn nearest(
    ensemble: &Coordination,
    own: &ZooKeeper,
    epochs: Epochs,
    longest: Duration,
) -> Result<Vec<Faster>, Refusal> {
    let (times, servers, promised) = (&own.times, ensemble.servers.len(), ensemble.recovery);
    let mut found = Vec::new();
    for other in Epochs::ALL {
        if other.forced_writes() < epochs.forced_writes() && bound(times, other, own.wait(), servers)?.total <= promised
        {
            found.push(Faster::Epochs(other));
            break;
        }
    }
    let over = longest.checked_sub(promised).unwrap_or(Duration::ZERO);
    let wait = own.wait().checked_sub(over).map(|wait| Duration::from_ns(wait.ns() / 1000 * 1000));
    found.extend(
        wait.filter(|wait| times.jitter.checked_add(times.delay).is_some_and(|spread| *wait > spread))
            .map(Faster::Wait),
    );
    for fewer in (FEWEST..servers).rev() {
        if bound(times, epochs, own.wait(), fewer)?.total <= promised {
            found.push(Faster::Servers(fewer));
            break;
        }
    }
    found.push(Faster::Recovery(longest));
    Ok(found)
}

fn written(
    ensemble: &Coordination,
    own: &ZooKeeper,
    epochs: Epochs,
    wait: Duration,
    bound: &Bound,
    passed: Option<(Epochs, Duration)>,
) -> Result<ZooKeeperPlan, Refusal> {
    let too_long = || Refusal::NoRecovery(giusto_analysis::Error::Recovery);
    let silence = own.silence().ok_or_else(too_long)?;
    let machine_loss = bound.total.checked_add(silence).ok_or_else(too_long)?;
    let RecoveryTimes { leave, jitter, delay, message, recover, learner, write } = own.times;
    let (left, k) = (ensemble.servers.len() - 1, epochs.forced_writes());
    let chosen = match (own.epochs, passed) {
        (Some(_), _) => "from the site".to_string(),
        (None, Some((slower, total))) => format!("{slower} would take up to {}, more than promised", time(total)),
        (None, None) => "the one that writes early and enters epochs as stock does, and it is fast enough".into(),
    };
    let measured = match own.wait {
        Some(_) => "from the site; more than j + d (5.2)".to_string(),
        None => format!(
            "j + d + {WAIT_MARGIN} (5.2), at most {STOCK_WAIT}; servers replace j and d by what they measure, and export the bound anew"
        ),
    };
    let [j, d, h, s_r, h_r, b] = [jitter, delay, message, recover, learner, write].map(time);
    let reasons = vec![
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
        reason(
            "machine lost",
            time(machine_loss),
            format!("the bound, after tick x sync-limit = {} without a word", time(silence)),
        ),
    ];
    Ok(ZooKeeperPlan {
        servers: ensemble.servers.clone(),
        recovery: ensemble.recovery,
        epochs,
        wait,
        adaptive: own.wait.is_none(),
        times: own.times,
        tick: own.tick,
        sync_limit: own.sync_limit,
        places: own.places.clone(),
        bound: bound.total,
        first_write: bound.first_write,
        machine_loss,
        reasons,
    })
}

/// Where the loss of a machine, unlike the death of a process, goes unnoticed for long: what to know and to write.
pub fn slow_to_see(ensemble: &Coordination) -> Option<String> {
    let ZooKeeper { tick, sync_limit, .. } = match &ensemble.engine {
        Engine::ZooKeeper(own) => own,
        // Its bound is about every loss.
        Engine::Etcd(_) => return None,
    };
    let recovery = &ensemble.recovery;
    let silence = tick.checked_mul(u64::from(*sync_limit)).filter(|silence| *silence > SLOW)?;
    Some(format!(
        "coordination: the promise of {} is about a leader's process that dies; a machine that dies, or a cut wire, is noticed only \
         after tick x sync-limit = {} x {sync_limit} = {}. Where that matters write tick: 200ms and sync-limit: 5 (1 s), at the price \
         of false alarms when a server pauses for a second",
        time(*recovery),
        time(*tick),
        time(silence)
    ))
}
