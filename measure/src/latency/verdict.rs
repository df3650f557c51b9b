//! What follows from the latencies that were seen.

use giusto_model::{Answer, Duration, LatencyMachine, LatencyRun, LatencyVerdict, Stress};

const MS: u64 = 1_000_000;
/// A core that takes longer to wake up should not sleep so deeply.
const SLOW_TO_WAKE: Duration = Duration::from_us(20);

/// Whether a promise of 1 ms can be kept, and what could. A run that is void can still show that one cannot.
pub(super) fn judge(runs: &[LatencyRun], machine: &LatencyMachine, void: bool) -> LatencyVerdict {
    let worst = runs.iter().map(|run| run.latency.max).max().unwrap_or(Duration::ZERO);
    let stressed = runs.iter().any(|run| run.load == Stress::Stress);
    let smallest = worst.ns() / MS + 1;
    let (one_ms, words) = match (smallest, void) {
        (1, true) => {
            let words = format!(
                "cannot tell: the worst latency seen is {worst:.3}, but the measurement is void; measure again, \
                 where nothing else takes the machine"
            );
            (Answer::CannotTell, words)
        }
        (1, false) => {
            let quiet = if stressed { "" } else { ", as long as nothing else runs; measure with --stress, too" };
            (Answer::Yes, format!("yes: the worst latency seen is {worst:.3}, so 1 ms can be promised{quiet}"))
        }
        (ms, true) => {
            let words = format!(
                "no: the worst latency seen is {worst:.3}; what could be promised cannot be told, at least {ms} ms"
            );
            (Answer::No, words)
        }
        (ms, false) => {
            let least = format!("the smallest whole number of ms that could be promised is {ms}");
            (Answer::No, format!("no: the worst latency seen is {worst:.3}; {least}"))
        }
    };
    let change = change(machine, runs.iter().any(|run| run.steal.is_some_and(|steal| !steal.is_zero())));
    LatencyVerdict { one_ms, worst, smallest_ms: (!void).then_some(smallest), words, change }
}

/// What makes threads of the highest priority late, the largest holes first.
fn change(machine: &LatencyMachine, stolen: bool) -> Vec<String> {
    let mut change = Vec::new();
    let mut say = |text: &str| change.push(text.to_string());
    if stolen {
        say("a hypervisor takes the cores away: pin each virtual CPU to a core of its own, with a real-time priority, or use a machine of one's own");
    }
    match machine.preemption.as_deref() {
        Some("rt") => {}
        Some("full") => say("use a kernel with PREEMPT_RT: this one still has sections that cannot be preempted"),
        Some(_) | None if machine.dynamic => {
            say("boot with preempt=full, which this kernel can (PREEMPT_DYNAMIC); better, use a kernel with PREEMPT_RT")
        }
        Some(_) => say("use a kernel with PREEMPT_RT, or at least PREEMPT: this one preempts itself at few places"),
        None => say("find out the preemption mode (mount debugfs); PREEMPT_RT is best"),
    }
    if let Some(deepest) =
        machine.idle_states.iter().filter(|state| state.exit > SLOW_TO_WAKE).max_by_key(|state| state.exit)
    {
        say(&format!(
            "keep cores from sleeping deeply: idle state {} takes {} to leave (processor.max_cstate=1, or hold /dev/cpu_dma_latency at 0)",
            deepest.name, deepest.exit
        ));
    }
    if machine.governor.as_deref().is_some_and(|governor| governor != "performance") {
        say("set the frequency governor to performance (cpupower frequency-set -g performance)");
    }
    if machine.isolated.is_empty() {
        say("keep others and interrupts off the cores that matter (isolcpus=, irqaffinity=)");
    }
    if machine.nohz_full.is_empty() {
        say("stop the tick where one thread runs (nohz_full=)");
    }
    change
}

#[cfg(test)]
mod tests {
    use super::*;
    use giusto_model::LatencySpread;

    fn run(max: u64, load: Stress) -> LatencyRun {
        let at = Duration::from_ns(max);
        let latency = LatencySpread { min: at, p50: at, p99: at, p99_9: at, p99_99: at, max: at };
        LatencyRun {
            core: 0,
            period: Duration::from_ms(1),
            load,
            activations: 1,
            passed: 0,
            latency,
            histogram: vec![(max / 1000, 1)],
            until_ready: None,
            until_run: None,
            steal: None,
        }
    }

    #[test]
    fn one_ms_is_kept_by_what_is_below_it_and_void_runs_only_disprove() {
        let judged = |max, void| {
            judge(&[run(max, Stress::Quiet), run(max / 2, Stress::Stress)], &LatencyMachine::default(), void)
        };
        for (max, void, answer, smallest) in [
            (999_999, false, Answer::Yes, Some(1)),
            (1_000_000, false, Answer::No, Some(2)),
            (2_500_000, false, Answer::No, Some(3)),
            (999_999, true, Answer::CannotTell, None),
            (15_000_000, true, Answer::No, None),
        ] {
            let verdict = judged(max, void);
            assert_eq!((verdict.one_ms, verdict.smallest_ms, verdict.worst.ns()), (answer, smallest, max));
        }
        let quiet = judge(&[run(5, Stress::Quiet)], &LatencyMachine::default(), false);
        assert!(quiet.words.contains("--stress"), "{}", quiet.words);
    }

    #[test]
    fn what_is_already_so_is_not_advised() {
        let good = LatencyMachine {
            preemption: Some("rt".into()),
            governor: Some("performance".into()),
            isolated: "1".into(),
            nohz_full: "1".into(),
            ..LatencyMachine::default()
        };
        assert!(change(&good, false).is_empty());
        let bad = LatencyMachine { preemption: Some("none".into()), dynamic: true, ..LatencyMachine::default() };
        let told = change(&bad, true);
        assert!(told[0].contains("hypervisor") && told[1].contains("preempt=full"), "{told:?}");
    }
}
