use super::*;
use giusto_model::ServerKind;
use proptest::prelude::*;
use proptest::strategy::ValueTree;

/// Admission in these tests, in percent.
const CAPACITY: u64 = 90;

fn capacity(_: Backend) -> Bandwidth {
    Bandwidth::new(CAPACITY, 100).unwrap()
}

fn server(percent: u64, period_ms: u64) -> Server {
    let budget = Duration::from_us(percent * period_ms * 10);
    Server { kind: ServerKind::ConstantBandwidth, budget, period: Duration::from_ms(period_ms) }
}

fn held(word: &str, core: u32, percent: u64) -> Held {
    let place = Place::Reserved {
        core,
        backend: Backend::Deadline,
        server: server(percent, 10),
        criticality: None,
        cap: Cap::Hard,
    };
    Held { origin: Origin::Start(vec![word.into()]), process: Process::default(), copies: None, place }
}

fn layout(all: &[(&str, Held)]) -> Layout {
    Layout(all.iter().map(|(name, held)| ((name.to_string(), None), held.clone())).collect(), vec![], BTreeSet::new())
}

fn steps(old: &[(&str, Held)], new: &[(&str, Held)]) -> Vec<String> {
    difference(&layout(old), &layout(new), &capacity).iter().map(Step::to_string).collect()
}

#[test]
fn what_stays_is_left_alone_and_what_starts_otherwise_is_restarted() {
    let same = [("a", held("x", 0, 30)), ("b", held("y", 0, 30))];
    assert!(steps(&same, &same).is_empty());
    assert_eq!(steps(&same, &[same[0].clone(), ("b", held("z", 0, 30))]), ["remove b", "add b"]);
}

#[test]
fn decreases_come_before_moves_and_those_before_increases() {
    let old = [("a", held("x", 0, 60)), ("b", held("x", 1, 50)), ("c", held("x", 1, 30)), ("d", held("x", 0, 20))];
    let new = [("a", held("x", 0, 40)), ("b", held("x", 0, 50)), ("c", held("x", 1, 80)), ("e", held("x", 1, 5))];
    assert_eq!(
        steps(&old, &new),
        [
            "remove d",
            "decrease a to 4 ms every 10 ms",
            "move b from core 1 to core 0, with 5 ms every 10 ms",
            "increase c to 8 ms every 10 ms",
            "add e"
        ]
    );
}

#[test]
fn two_that_change_places_without_room_release_the_smaller() {
    let old = [("a", held("x", 0, 60)), ("b", held("x", 1, 50))];
    let new = [("a", held("x", 1, 60)), ("b", held("x", 0, 50))];
    assert_eq!(
        steps(&old, &new),
        [
            "release the server of b",
            "move a from core 0 to core 1, with 6 ms every 10 ms",
            "reserve 5 ms every 10 ms for b on core 0"
        ]
    );
    let (small_old, small_new) =
        ([("a", held("x", 0, 40)), ("b", held("x", 1, 50))], [("a", held("x", 1, 40)), ("b", held("x", 0, 50))]);
    assert_eq!(steps(&small_old, &small_new).len(), 2, "where there is room, no service is without a guarantee");
}

#[test]
fn a_service_that_gets_leftovers_now_gives_its_server_back_and_the_other_way_round() {
    let spread =
        |cores: &[u32]| Held { place: Place::Spread { cores: cores.to_vec(), at_most: None }, ..held("x", 0, 1) };
    let (old, new) = ([("a", held("x", 0, 60)), ("b", spread(&[0]))], [("a", spread(&[0])), ("b", held("x", 0, 70))]);
    assert_eq!(
        steps(&old, &new),
        ["release the server of a", "spread a over cores [0]", "reserve 7 ms every 10 ms for b on core 0"]
    );
}

#[test]
fn a_vcpu_that_comes_or_goes_is_reserved_or_released_and_its_vm_goes_on() {
    let vm = |vcpus: &[u32]| {
        Layout(
            vcpus.iter().map(|&vcpu| (("vm".into(), Some(vcpu)), held("q", vcpu, 30))).collect(),
            vec![],
            BTreeSet::new(),
        )
    };
    let words = |old: &[u32], new: &[u32]| {
        let steps = difference(&vm(old), &vm(new), &capacity);
        steps.iter().map(Step::to_string).collect::<Vec<_>>()
    };
    assert_eq!(words(&[0], &[0, 1]), ["reserve 3 ms every 10 ms for vm/1 on core 1"]);
    assert_eq!(words(&[0, 1], &[0]), ["release the server of vm/1"]);
    assert_eq!(words(&[0], &[1]), ["release the server of vm/0", "reserve 3 ms every 10 ms for vm/1 on core 1"]);
    let place = Place::Spread { cores: vec![0], at_most: None };
    let leftovers = layout(&[("vm", Held { place, ..held("q", 0, 1) })]);
    let steps = difference(&vm(&[0]), &leftovers, &capacity);
    assert!(matches!(&steps[..], [Step::Release { .. }, Step::Spread { .. }]), "{steps:?}");
    assert_eq!(words(&[], &[0, 1]), ["add vm"]);
    assert_eq!(words(&[0, 1], &[]), ["remove vm"]);
}

#[test]
fn a_parked_core_is_online_before_a_service_goes_there_and_parked_after_all_have_left() {
    let parked = |all: &[(&str, Held)], cores: &[u32]| Layout(layout(all).0, vec![], cores.iter().copied().collect());
    let (one, two) = (parked(&[("a", held("x", 0, 40))], &[1, 2]), parked(&[("a", held("x", 1, 40))], &[2, 3]));
    let words = |old, new| difference(old, new, &capacity).iter().map(Step::to_string).collect::<Vec<_>>();
    assert_eq!(
        words(&one, &two),
        ["bring cores [1] online", "move a from core 0 to core 1, with 4 ms every 10 ms", "park cores [3]"]
    );
    assert_eq!(
        words(&two, &one),
        ["bring cores [3] online", "move a from core 1 to core 0, with 4 ms every 10 ms", "park cores [1]"]
    );
    assert!(words(&one, &one).is_empty());
    let mut now = one.clone();
    difference(&one, &two, &capacity).iter().for_each(|step| now.apply(step, &two));
    assert_eq!(now, two);
}

#[test]
fn the_golden_is_read_and_written_back_as_it_stands() {
    let golden = include_str!("../../formats/goldens/reload.json");
    let change: Change = serde_json::from_str(golden).unwrap();
    assert_eq!(serde_json::to_string_pretty(&change).unwrap(), golden.trim_end());
}

/// Some services on two cores, within admission: those that do not fit on their core get leftovers.
fn plans() -> impl Strategy<Value = Layout> {
    let one = (
        0..2u32,
        prop::sample::select(vec![1, 5, 20, 40, 45, 60, 85u64]),
        prop::sample::select(vec![5u64, 7, 10, 40]),
        0..20u8,
    );
    prop::collection::vec(one, 5).prop_map(|all| {
        let mut taken = [0; 2];
        let there = all.into_iter().enumerate().filter(|(_, (_, _, _, fate))| *fate != 1);
        let place = |(name, (core, percent, period, fate)): (usize, (u32, u64, u64, u8))| {
            let room = taken[core as usize] + percent <= CAPACITY && fate != 2;
            taken[core as usize] += if room { percent } else { 0 };
            let place = match room {
                true => Place::Reserved {
                    core,
                    backend: Backend::Deadline,
                    server: server(percent, period),
                    criticality: None,
                    cap: Cap::Hard,
                },
                false => Place::Spread { cores: vec![core], at_most: None },
            };
            let program = if fate == 0 { "y" } else { "x" };
            if name >= 3 && !room {
                return None; // a VM gets leftovers as a whole
            }
            // Services 3 and 4 are two vCPUs of a VM, alike in where they come from.
            let key = if name < 3 { (format!("service-{name}"), None) } else { ("vm".into(), Some(name as u32)) };
            let program = if name < 3 { program } else { "qemu" };
            Some((
                key,
                Held { origin: Origin::Start(vec![program.into()]), process: Process::default(), copies: None, place },
            ))
        };
        Layout(there.filter_map(place).collect(), vec![], BTreeSet::new())
    })
}

/// Whole percent on `core`, exactly: budgets of these tests are whole percents.
fn percent(layout: &Layout, core: u32) -> u64 {
    let here = layout.0.values().filter(|held| held.core() == Some(core));
    here.map(|held| match held.place {
        Place::Reserved { server, .. } => server.budget.ns() * 100 / server.period.ns(),
        _ => 0,
    })
    .sum()
}

/// Where [`Step`] stands in the order.
fn rank(step: &Step) -> u8 {
    match step {
        Step::Online { .. } | Step::Remove { .. } => 0,
        Step::Release { .. } | Step::Decrease { .. } => 1,
        Step::Move { .. } => 2,
        Step::Reserve { .. } | Step::Increase { .. } | Step::Spread { .. } => 3,
        Step::Add { .. } => 4,
        Step::Packets { .. } => 5,
        Step::Park { .. } => 6,
    }
}

#[test]
fn from_any_plan_to_any_other_no_core_is_ever_over_admission() {
    let mut runner = proptest::test_runner::TestRunner::deterministic();
    let (mut moved, mut released, mut changed, mut longest) = (0, 0, 0, 0);
    for _ in 0..20_000 {
        let mut draw = || plans().new_tree(&mut runner).unwrap().current();
        let (old, new) = (draw(), draw());
        let steps = difference(&old, &new, &capacity);
        let (mut now, mut highest) = (old.clone(), 0);
        for step in &steps {
            // While it moves it is on both cores; any other step is there before it is gone.
            if let Step::Move { core, server, .. } = step {
                assert!(percent(&now, *core) + server.budget.ns() * 100 / server.period.ns() <= CAPACITY);
                moved += 1;
            }
            if rank(step) != 1 {
                assert!(rank(step) >= highest, "{steps:?}");
                highest = rank(step);
            }
            released += u32::from(
                matches!(step, Step::Release { .. })
                    && new.0.get(&step.key()).is_some_and(|goal| goal.core().is_some()),
            );
            changed += u32::from(matches!(step, Step::Decrease { .. } | Step::Increase { .. }));
            now.apply(step, &new);
            assert!((0..2).all(|core| percent(&now, core) <= CAPACITY), "{steps:?}");
        }
        assert_eq!(now, new);
        longest = longest.max(steps.len());
    }
    assert!(moved > 1_000 && released > 200 && changed > 1_000, "{moved} {released} {changed}");
    println!("{moved} moves, {released} releases on the way, {changed} changes in place, at most {longest} steps");
}
