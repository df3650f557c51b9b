//! What mode changes cost in virtual time, against what can be computed by hand.

use giusto_model::{Duration, Release, Server, ServerKind, Task};
use giusto_modes::{OnTimeout, Policy, Requests, Settings, Transition};
use giusto_simulator::modes::{play_modes, Costs, Scene, Seen, VmMode};

const US: u64 = 1000;

/// Machines of one virtual CPU each that never idle, on a core each; constant costs.
fn scene(policy: Policy, budgets: &[[u64; 2]]) -> Scene {
    let period = Duration::from_ms(10);
    let task = Task {
        name: String::new(),
        wcet: Duration::from_ms(900),
        period: Duration::from_ms(900),
        deadline: Duration::from_ms(900),
        offset: Duration::ZERO,
        release: Release::Sporadic,
        copies: 1,
    };
    let mode = |budget: u64| VmMode {
        server: Server { kind: ServerKind::Deferrable, budget: Duration::from_ms(budget), period },
        tasks: vec![vec![task.clone()]],
    };
    let settings = Settings {
        policy,
        requests: Requests::Reject,
        on_timeout: OnTimeout::RollBack,
        transition: Transition::Fast,
        timeout: Duration::from_ms(50),
        spacing: Duration::from_ms(20),
        boost: Duration::from_us(500),
    };
    let [post_ns, send_ns, receive_ns, set_ns, switch_ns] = [10, 15, 10, 20, 40].map(|us| vec![us * US]);
    Scene {
        cores: budgets.len() as u32,
        vms: budgets.iter().map(|budgets| budgets.map(mode).to_vec()).collect(),
        settings,
        reservations: true,
        costs: Costs { post_ns, send_ns, receive_ns, set_ns, switch_ns },
        between: (Duration::from_ms(25), Duration::from_ms(45)),
        urgent: None,
        changes: 400,
        ends: true,
    }
}

fn play(scene: &Scene) -> Seen {
    let seen = play_modes(scene, Duration::from_secs(100), 1).unwrap();
    assert_eq!((seen.latencies.len(), seen.failed), (400, 0));
    seen
}

#[test]
fn a_whole_core_never_waits_and_a_share_waits_for_its_replenishment() {
    // Table 2.1 of LiH21: 10 ms of 10 and 4 of 10. Every other change begins on the whole core: send, switch,
    // receive, set.
    let seen = play(&scene(Policy::Sequential, &[[10, 4]]));
    let (to_less, to_more): (Vec<_>, Vec<_>) = seen.latencies.iter().enumerate().partition(|(nth, _)| nth % 2 == 0);
    assert!(to_less.iter().all(|(_, ns)| **ns == 95 * US), "{to_less:?}");
    // On the way back a share of 4 ms in 10 is set to the whole first, and a budget that grows by 6 ms runs at once.
    assert!(to_more.iter().all(|(_, ns)| **ns == 95 * US), "{to_more:?}");
    // Between 4 and 2 ms it waits: for P - B at most (Fig. 2.6), here with the budget of before or after.
    let seen = play(&scene(Policy::Sequential, &[[4, 2]]));
    let (least, most) = (seen.latencies.iter().min().unwrap(), seen.latencies.iter().max().unwrap());
    assert_eq!(*least, 95 * US);
    assert!(*most > 5_500 * US && *most <= (6_000 + 95) * US, "{most}");
    let waited = seen.latencies.iter().filter(|ns| **ns > 95 * US).count();
    assert!((100..300).contains(&waited), "{waited} of 400");
}

#[test]
fn a_boost_does_not_wait() {
    // Post, send, switch, receive, set.
    let seen = play(&scene(Policy::Boost, &[[4, 2]]));
    assert!(seen.latencies.iter().all(|ns| *ns == 95 * US), "{:?}", seen.latencies);
}

#[test]
fn an_urgent_mode_waits_for_no_spacing_and_the_other_does() {
    let between = (Duration::from_ms(1), Duration::from_ms(4));
    let plain = scene(Policy::Boost, &[[4, 2], [2, 4]]);
    let alone = *play(&plain).latencies.iter().max().unwrap();
    let settings = Settings { requests: Requests::Queue, ..plain.settings };
    let hasty = Scene { between, settings, urgent: Some(1), ..plain };
    let seen = play(&hasty);
    let (urgent, held): (Vec<_>, Vec<_>) = seen.latencies.iter().enumerate().partition(|(nth, _)| nth % 2 == 0);
    assert!(urgent.iter().all(|(_, ns)| **ns <= alone), "{urgent:?}, {alone}");
    assert!(held.iter().all(|(_, ns)| **ns >= 16_000 * US), "{held:?}");
    let none = play(&Scene { urgent: None, ..hasty });
    assert!(none.latencies.iter().skip(1).all(|ns| *ns >= 16_000 * US), "without it all are held back");
}

#[test]
fn the_four_policies_wait_for_one_two_or_all() {
    let budgets = [[4, 2], [4, 2], [4, 2], [2, 4], [2, 4], [2, 4]];
    let mean = |policy| play(&scene(policy, &budgets)).latencies.iter().sum::<u64>() / 400;
    let [sequential, batch, greedy, boost] =
        [Policy::Sequential, Policy::Batch, Policy::Greedy, Policy::Boost].map(mean);
    assert!(boost < greedy && greedy < batch && batch < sequential, "{boost} {greedy} {batch} {sequential}");
}

#[test]
fn a_guaranteed_change_takes_periods_and_misses_nothing() {
    let budgets = [[6, 3], [6, 3], [3, 6], [3, 6]];
    let mut fast = scene(Policy::Greedy, &budgets);
    // Two cores that either mode fills to 90 %; tasks need half of the smaller share.
    fast.cores = 2;
    for task in fast.vms.iter_mut().flatten().flat_map(|mode| mode.tasks.iter_mut().flatten()) {
        (task.period, task.deadline) = (Duration::from_ms(100), Duration::from_ms(100));
        task.wcet = Duration::from_ms(15);
    }
    let guaranteed =
        Scene { settings: Settings { transition: Transition::Guaranteed, ..fast.settings }, ..fast.clone() };
    let [fast, guaranteed] = [&fast, &guaranteed].map(|scene| {
        let seen = play(scene);
        assert!(seen.jobs > 500 && seen.misses == 0, "{} of {}", seen.misses, seen.jobs);
        seen.latencies
    });
    let mean = |times: &[u64]| times.iter().sum::<u64>() / times.len() as u64;
    let period = 10_000 * US;
    assert!(mean(&guaranteed) > mean(&fast) + period / 2);
    // The agents that shrink wait for their budgets, what they give for its zero-lag time, those that grow for a
    // replenishment of theirs.
    assert!(*guaranteed.iter().max().unwrap() < 3 * period + 1_000 * US);
}

#[test]
fn costs_that_are_none_are_refused() {
    let mut scene = scene(Policy::Boost, &[[4, 2]]);
    scene.costs.set_ns = vec![20, 0];
    assert!(play_modes(&scene, Duration::from_secs(1), 1).is_err());
    scene.costs.set_ns = Vec::new();
    assert!(play_modes(&scene, Duration::from_secs(1), 1).is_err());
}
