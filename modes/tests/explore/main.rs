//! The shipped manager and agents in random worlds with faults, against the invariants of mode changes (README.md).
//! `GIUSTO_SOAK=1`: 100,000 runs instead of 6,000; `GIUSTO_SEED=n` plays one run and says everything.

mod doings;
mod faults;
mod happens;
mod play;
mod scene;
mod world;

use play::{play, Counts, Fault, Seen, FAULTS, SEEN};

#[test]
fn no_fault_breaks_an_invariant_and_every_change_ends() {
    if let Some(seed) = std::env::var("GIUSTO_SEED").ok().and_then(|seed| seed.parse().ok()) {
        return play(seed, (seed % 5) as u32, &mut Counts::default()).unwrap_or_else(|why| panic!("{why}"));
    }
    let runs = if std::env::var_os("GIUSTO_SOAK").is_some() { 100_000 } else { 6_000 };
    let mut counts = Counts::default();
    for seed in 0..runs {
        // A fifth of them without any fault.
        play(seed, (seed % 5) as u32, &mut counts).unwrap_or_else(|why| panic!("{why}"));
    }
    println!("explored: {runs} runs, {} events, {:?}, {:?}", counts.events, counts.outcomes, counts.kinds);
    println!("explored: {:>10} {}", "", FAULTS.map(|fault| format!("{:>13}", format!("{fault:?}"))).join(""));
    for seen in SEEN {
        let cell = |fault| counts.cells.get(&(seen, fault)).copied().unwrap_or(0);
        println!(
            "explored: {:>10} {}",
            format!("{seen:?}"),
            FAULTS.map(|fault| format!("{:>13}", cell(fault))).join("")
        );
        for fault in FAULTS.into_iter().filter(|&fault| possible(seen, fault)) {
            assert!(cell(fault) > 0, "{fault:?} never came while a member was {seen:?}");
        }
    }
    for kind in ["urgent changes that took over", "boosts of two changes in one spacing"] {
        assert!(counts.kinds.get(kind).is_some_and(|&count| count > 0), "no {kind}");
    }
    for outcome in [
        "Done",
        "Degraded",
        "RolledBack",
        "Preempted",
        "Busy",
        "TooSoon",
        "DoesNotFit",
        "NoOrder",
        "Unchanged",
        "Stuck",
    ] {
        assert!(counts.outcomes.get(outcome).is_some_and(|&count| count > 0), "no change ended {outcome}");
    }
}

/// A reservation fails where it is being changed, a switch where one was asked for (or an agent is started); and who
/// is between command and command hardly ever says or hears anything that could be repeated.
fn possible(seen: Seen, fault: Fault) -> bool {
    match fault {
        Fault::SetFails => matches!(seen, Seen::Raising | Seen::Lowering),
        Fault::SwitchFails => matches!(seen, Seen::Commanded),
        Fault::Repeated => !matches!(seen, Seen::Raising | Seen::Lowering),
        _ => true,
    }
}
