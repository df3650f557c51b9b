//! etcd: heartbeat and election timeout from what is known of hosts, links and disks, and whether it recovers within what was
//! promised.

use super::latency::no_less;
use super::refusal::{Faster, How, SlowRecovery, FEWEST};
use crate::refusal::Refusal;
use crate::words::{reason, time};
use giusto_analysis::raft::{Raft, RaftBound, FEWEST_TICKS};
use giusto_model::{Coordination, Duration, Etcd, EtcdPlan, EtcdTimes};

/// The bound holds in all but so many of a million recoveries, whose elections are split once more.
const RARE_PPM: u64 = 1000;
/// etcd's own heartbeat: no reason to know less often that a leader is there.
const LONGEST: u64 = 100;
const MOST_TICKS: u64 = 500;
/// etcd takes no longer one.
const LONGEST_ELECTION: Duration = Duration::from_secs(50);

/// Heartbeat, ticks and rounds with their bound.
#[derive(Clone, Copy)]
struct Choice {
    raft: Raft,
    rounds: u32,
    more_ppm: u64,
    bound: RaftBound,
}

/// Decides every parameter of the ensemble, or says what would keep its promise. `here`: the latency that was measured of one of
/// its hosts. O(LONGEST · MOST_TICKS²), much less where the bound is short.
pub(super) fn plan(ensemble: &Coordination, own: &Etcd, here: Option<(&str, Duration)>) -> Result<EtcdPlan, Refusal> {
    no_less(own.times.latency, here)?;
    let servers = ensemble.servers.len();
    let slow = match choose(&own.times, servers, ensemble.recovery)? {
        Ok(found) => return written(ensemble, own, &found),
        Err(slow) => slow,
    };
    let mut nearest = Vec::new();
    for fewer in (FEWEST..servers).rev() {
        if choose(&own.times, fewer, ensemble.recovery)?.is_ok() {
            nearest.push(Faster::Servers(fewer));
            break;
        }
    }
    nearest.push(Faster::Recovery(slow.bound.total));
    let election = slow.raft.election().map_err(Refusal::NoRecovery)?;
    Err(Refusal::Recovery(Box::new(SlowRecovery {
        servers,
        how: How::Etcd { heartbeat: slow.raft.heartbeat, election, rounds: slow.rounds },
        promised: ensemble.recovery,
        bound: slow.bound.total,
        nearest,
    })))
}

/// The longest heartbeat with which the promise is kept, since each costs processor time and a longer silence is forgiven, and
/// of its timeouts the one with the shortest bound; `Err`: the shortest bound of all, which is still too long.
fn choose(times: &EtcdTimes, servers: usize, promised: Duration) -> Result<Result<Choice, Choice>, Refusal> {
    let too_long = || Refusal::NoRecovery(giusto_analysis::Error::Recovery);
    let left = servers.saturating_sub(1) as u64;
    // A heartbeat takes the way there and back at least, as etcd's own guide has it.
    let way = times.delay.checked_mul(2).ok_or_else(too_long)?;
    let first = way.ns().div_ceil(Duration::from_ms(1).ns()).max(1);
    let mut shortest: Option<Choice> = None;
    for heartbeat in (first..=LONGEST.max(first)).rev().map(Duration::from_ms) {
        let Some(own) = of(times, left, heartbeat)? else { continue };
        if own.bound.total <= promised {
            return Ok(Ok(own));
        }
        if shortest.is_none_or(|best| own.bound.total < best.bound.total) {
            shortest = Some(own);
        }
    }
    shortest.map(Err).ok_or_else(too_long)
}

/// A short timeout is over soon, and splits elections often: the one with the shortest bound. No server campaigns while all is as
/// late as it can be.
fn of(times: &EtcdTimes, left: u64, heartbeat: Duration) -> Result<Option<Choice>, Refusal> {
    let mut best: Option<Choice> = None;
    for ticks in FEWEST_TICKS..=MOST_TICKS {
        let raft = Raft { times: *times, heartbeat, ticks, left };
        let election = raft.election().map_err(Refusal::NoRecovery)?;
        // The timeout alone, twice, is part of every bound.
        let over = |best: Choice| election.checked_mul(2).is_none_or(|alone| alone > best.bound.total);
        if election > LONGEST_ELECTION || best.is_some_and(over) {
            break;
        }
        if !raft.steady().map_err(Refusal::NoRecovery)? {
            continue;
        }
        let Some((rounds, more_ppm)) = raft.rounds(RARE_PPM) else { continue };
        let bound = raft.bound(rounds).map_err(Refusal::NoRecovery)?;
        if best.is_none_or(|best| bound.total < best.bound.total) {
            best = Some(Choice { raft, rounds, more_ppm, bound });
        }
    }
    Ok(best)
}

fn written(ensemble: &Coordination, own: &Etcd, found: &Choice) -> Result<EtcdPlan, Refusal> {
    let Choice { raft, rounds, more_ppm, bound } = *found;
    let election = raft.election().map_err(Refusal::NoRecovery)?;
    let (e, n, split) = (raft.ticks, raft.left, raft.split_ppm());
    let [latency, delay, write] = [own.times.latency, own.times.delay, own.times.write].map(time);
    let percent = |ppm: u64| format!("{}.{:04} %", ppm / 10_000, ppm % 10_000);
    let reasons = vec![
        reason(
            "heartbeat",
            time(raft.heartbeat),
            format!(
                "H: the longest that keeps the promise, as each costs a server 0.2 to 0.4 ms; at least 2 d, with d = {delay}"
            ),
        ),
        reason(
            "election timeout",
            time(election),
            format!(
                "E = e H, e = {e}: the timeout with the shortest bound with which no server campaigns needlessly: \
                 (e - 2) H > 3 L + d + b, with L = {latency}, b = {write}"
            ),
        ),
        reason("pre-vote", "on", "a server that was cut off and comes back does not depose the leader"),
        reason(
            "elections",
            rounds,
            format!(
                "each is split with {} at most, {n} servers left; more of them are needed in {} of the recoveries",
                percent(split),
                percent(more_ppm)
            ),
        ),
        reason("campaign", time(bound.campaign), "2 (e + 1) H + 2 m + 4 s + L, with m = d + L and s = L + b"),
        reason("votes", time(bound.votes), "4 m + 2 b: asked for and given twice, forced to two disks"),
        reason("split", time(bound.again), "(2 e - 1) H + s and votes: for each election but one"),
        reason("serve", time(bound.serve), "2 m + b: an entry of the new leader is with a quorum"),
        reason(
            "bound",
            time(bound.total),
            format!("all of them, whether the leader is killed, stopped or cut; promised {}", time(ensemble.recovery)),
        ),
        reason("first write", time(bound.first_write), "and 4 m + b: sent to whatever server that is left"),
        reason(
            "share",
            latency,
            "L: what servers of a share {supply: S/P} wait for it, up to 2 (P - S), is part of L (sites/etcd.yaml)",
        ),
    ];
    Ok(EtcdPlan {
        servers: ensemble.servers.clone(),
        recovery: ensemble.recovery,
        heartbeat: raft.heartbeat,
        election,
        rounds,
        more_rounds_ppm: u32::try_from(more_ppm).unwrap_or(u32::MAX),
        times: own.times,
        places: own.places.clone(),
        bound: bound.total,
        first_write: bound.first_write,
        reasons,
    })
}
