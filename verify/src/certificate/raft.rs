//! An ensemble of etcd servers: that no server campaigns needlessly, how rarely elections are split, and the longest recovery,
//! each added up in another way than the planner has it (`giusto_analysis::raft` derives them).

use super::broken::{long_enough, Broken};
use giusto_model::{Duration, EtcdPlan, EtcdTimes};

pub(super) fn check(plan: &EtcdPlan) -> Result<(), Broken> {
    let EtcdTimes { latency, delay, write } = plan.times;
    let ns = |time: Duration| u128::from(time.ns());
    let [late, way, force, beat, timeout] = [latency, delay, write, plan.heartbeat, plan.election].map(ns);
    let ms = ns(Duration::from_ms(1));
    if beat == 0 || beat % ms != 0 || timeout % beat != 0 || timeout < 5 * beat || timeout > 50_000 * ms {
        let needed = "whole milliseconds; a multiple of it, 5 or more, at most 50 s";
        return Err(Broken::new("heartbeat and election timeout as etcd takes them", needed, plan.election));
    }
    // The leader is a beat, a late loop and a message apart; a tick before may have been late, too.
    let quiet = (beat + (late + force) + (way + late) + late) / beat + 1;
    let ticks = timeout / beat;
    if quiet >= ticks {
        return Err(Broken::new(
            "ticks after which no server campaigns needlessly",
            format!("more than {quiet}"),
            ticks,
        ));
    }
    // Who campaigns meanwhile is not stopped: until the first is a candidate, whose vote is needed where three or fewer are
    // left, else until its request for votes is there.
    let near = if plan.servers.len() <= 4 { way + way } else { way + way + force + way };
    let more = splits(plan, ticks, 2 * near);
    if more.is_none_or(|more| more > u128::from(plan.more_rounds_ppm)) {
        let needed = more.map_or("a number".to_string(), |more| format!("{more} ppm"));
        return Err(Broken::new("recoveries with more elections", needed, format!("{} ppm", plan.more_rounds_ppm)));
    }
    // Words: the last of the leader; asked for and given, twice; the entry and its acknowledgement.
    let word = way + late;
    let leases = word + timeout + late + force;
    let campaign = 2 * leases + 2 * beat + 2 * (late + force) + late;
    let votes = (word + word) + force + word + force + word;
    let again = timeout + (timeout - beat) + late + force + votes;
    let rounds = u128::from(plan.rounds);
    if rounds == 0 {
        return Err(Broken::new("elections", "one or more", rounds));
    }
    let bound = campaign + votes + (1..rounds).map(|_| again).sum::<u128>() + word + force + word;
    let first_write = bound + (word + force + word) + (word + word);
    long_enough([
        ("longest recovery of the ensemble", plan.bound, bound),
        ("longest time to its first write", plan.first_write, first_write),
    ])
}

/// Of a million recoveries those that need more elections: pair by pair of those that are left. `near`: how close two campaigns
/// are that split an election, to both sides. `None`: too many to count.
fn splits(plan: &EtcdPlan, ticks: u128, near: u128) -> Option<u128> {
    let left = u32::try_from(plan.servers.len()).ok()?.checked_sub(1)?;
    let differences = near / u128::from(plan.heartbeat.ns()) + 1;
    let all = ticks.checked_pow(left)?;
    let mut ways = 0u128;
    for (_one, _other) in (0..left).flat_map(|one| (0..one).map(move |other| (one, other))) {
        for first in 0..ticks {
            // The pair draws this and what is near; all others draw no less.
            ways = ways.checked_add(differences.checked_mul((ticks - first).checked_pow(left - 2)?)?)?;
        }
    }
    let split = ways.checked_mul(1_000_000)?.div_ceil(all).min(1_000_000);
    Some((1..plan.rounds.min(64)).fold(split, |more, _| (more * split).div_ceil(1_000_000)))
}
