//! Latencies that might have been measured.

use giusto_model::{
    Answer, Duration, Latency, LatencyMachine, LatencyRun, LatencySpread, LatencyVerdict, Stress, LATENCY_VERSION,
};

/// Of core, period, load and worst.
pub(crate) fn measured(runs: &[(u32, Duration, Stress, Duration)]) -> Latency {
    let run = |&(core, period, load, max): &(u32, Duration, Stress, Duration)| LatencyRun {
        core,
        period,
        load,
        activations: 1000,
        passed: 0,
        latency: LatencySpread { min: Duration::ZERO, p50: max, p99: max, p99_9: max, p99_99: max, max },
        histogram: vec![(max.ns() / 1000, 1000)],
        until_ready: None,
        until_run: None,
        steal: None,
    };
    let worst = runs.iter().map(|run| run.3).max().unwrap();
    Latency {
        giusto_latency: LATENCY_VERSION,
        priority: 99,
        length: Duration::from_secs(10),
        runs: runs.iter().map(run).collect(),
        machine: LatencyMachine::default(),
        split: String::new(),
        void: None,
        verdict: LatencyVerdict {
            one_ms: Answer::Yes,
            worst,
            smallest_ms: Some(1),
            words: String::new(),
            change: vec![],
        },
        guest: None,
        manager: Vec::new(),
    }
}
