//! When a silent ZooKeeper leader is missed: word by word, in another way than the planner has it (`giusto_analysis::silence`
//! derives it). A word goes from the thread that sends every half tick over the learner's own thread, the wire, the follower
//! and the wire to the learner's thread again.

use super::broken::Broken;
use giusto_model::{Duration, RecoveryTimes, SilencePlan, ZooKeeperPlan};

/// When all have left a leader that is lost at 0, in ns; an error where one may be left that is not lost, or where a leader
/// may still lead when the first leaves. `silence`: S.
pub(super) fn check(plan: &ZooKeeperPlan, own: &SilencePlan, silence: u128) -> Result<u128, Broken> {
    let ns = |time: Duration| u128::from(time.ns());
    let RecoveryTimes { delay, write, .. } = plan.times;
    let [late, way, force, tick, down] = [own.asked.latency, delay, write, plan.tick, own.step_down].map(ns);
    let ms = ns(Duration::from_ms(1));
    if tick == 0 || tick % (2 * ms) != 0 {
        return Err(Broken::new("a tick with two words", "an even number of milliseconds", plan.tick));
    }
    // The next word is due, its clock ends late, its thread runs late.
    let next = tick / 2 + ms + late;
    let there = late + way + late;
    let back = way + late;
    let answered = next + there + back;
    if down <= answered {
        return Err(Broken::new(
            "a leader that all answer leads on",
            format!("more than {answered} ns"),
            own.step_down,
        ));
    }
    // The leader's thread sees it late, and two clocks count a millisecond more and less.
    let seen = down + late + ms + ms;
    if seen != silence {
        return Err(Broken::new("a leader has stepped down when the first follower leaves", silence, seen));
    }
    // A write waits for the one before, in a thread of its own; its answer is read by the learner's.
    let acknowledged = way + late + late + force + force + way + late + ms;
    if silence <= acknowledged {
        return Err(Broken::new("a follower that writes is kept", format!("more than {acknowledged} ns"), silence));
    }
    if silence - tick > answered + late + ms + ms && silence - tick > acknowledged {
        return Err(Broken::new("the fewest ticks", format!("at most {} ns", silence - tick), silence));
    }
    let noticed = way + late + silence + late;
    if plan.servers.len() > 4 {
        // The first may have counted from a word that took no time, when the thread with the next one was late.
        let first = silence - next - late;
        let spread = noticed - first + way;
        if ns(plan.wait) <= spread || plan.adaptive {
            return Err(Broken::new(
                "a wait for the last that leaves (5.2)",
                format!("more than {spread} ns, fixed"),
                plan.wait,
            ));
        }
    }
    Ok(noticed)
}
