//! Laws of the backend `manager`, on this machine's last core.

use crate::actors::Actor;
use crate::journal::Journal;
use crate::parts::{assert_same, core, cpusets, few, soak, Record};
use crate::snapshot::Snapshot;
use giusto_compute::manager::{Beats, Handle, Managed, Manager, Order, Report, When};
use giusto_compute::{sched, Recorder, Undo};
use giusto_model::{Cap, Duration, Server, ServerKind};
use std::io::Write;
use std::path::Path;
use std::{env, fs, io, thread, time};

pub(crate) const ALL: [(&str, fn()); 14] = [
    ("managed_servers_of_every_kind_get_their_budgets_and_no_more", budgets),
    ("a_hard_cap_holds_on_an_idle_core_and_a_soft_one_lets_go_on", caps),
    ("threads_and_children_that_are_born_or_change_their_policy_stay_under_their_server", members),
    ("a_managed_process_that_becomes_another_program_in_a_later_thread_stays_counted", another_program),
    ("two_threads_of_one_process_get_a_budget_each_and_its_third_one_is_free", threads),
    ("a_server_whose_wake_up_went_untold_is_counted_anew", untold),
    ("who_cannot_be_held_is_let_go_and_may_be_tried_again", refusals),
    ("a_managed_server_changes_is_boosted_pauses_and_goes_home", changes),
    ("paused_and_resumed_again_and_again_a_server_gets_one_budget_a_period_and_leaves_nothing_behind", renewals),
    ("one_thread_goes_before_the_others_of_its_service_within_their_budget", preference),
    ("what_the_guard_had_stopped_goes_on_under_a_new_server", stopped_before),
    ("what_runs_on_while_it_is_stopped_is_repaid", tails),
    ("a_process_that_leaves_its_group_is_noticed_at_once_and_owes_what_it_has_meanwhile", strays),
    ("a_manager_that_dies_leaves_no_thread_stopped", deaths),
];

/// On a kernel that denies real-time priorities to groups without bandwidth.
pub(crate) const DENIED: [(&str, fn()); 1] = [("who_goes_first_does_so_where_real_time_priorities_are_denied", denied)];

pub(crate) fn server(kind: ServerKind, budget_ms: u64, period_ms: u64) -> Server {
    Server { kind, budget: Duration::from_ms(budget_ms), period: Duration::from_ms(period_ms) }
}

pub(crate) fn managed(name: &str, server: Server, cap: Cap) -> Managed {
    Managed { name: format!("real-{name}"), part: None, server, first: None, priority: 0, criticality: None, cap }
}

fn pause(ms: u64) {
    thread::sleep(time::Duration::from_millis(ms));
}

/// Shares of the core that the servers had within `ms`, and the report at the end.
fn shares(manager: &Manager, ms: u64) -> (Vec<f64>, Report) {
    let before = manager.report().unwrap();
    pause(ms);
    let after = manager.report().unwrap();
    let passed = (after.for_ns - before.for_ns) as f64;
    let pairs = before.servers.iter().zip(&after.servers);
    (pairs.map(|(before, after)| (after.supplied_ns - before.supplied_ns) as f64 / passed).collect(), after)
}

/// Waits for `ms` in which the servers have shares that are `right`, and returns them with the report.
///
/// A machine that is itself virtual is stopped now and then, for tens of ms: a window it was stopped in shows nothing. A wrong
/// share stays wrong in all.
fn settled(manager: &Manager, ms: u64, context: &str, right: impl Fn(&[f64]) -> bool) -> (Vec<f64>, Report) {
    pause(60);
    let mut seen = Vec::new();
    for _ in 0..6 {
        let (shares, report) = shares(manager, ms);
        if right(&shares) {
            return (shares, report);
        }
        seen.push((shares, report));
    }
    let (shares, mut reports): (Vec<_>, Vec<_>) = seen.into_iter().unzip();
    panic!("{context}: {shares:?}; {:?}", reports.pop());
}

/// As [`settled`], each within `off` of what is `wanted`.
pub(crate) fn near(manager: &Manager, ms: u64, wanted: &[f64], off: f64, context: &str) -> (Vec<f64>, Report) {
    let close = |(share, wanted): (&f64, &f64)| (share - wanted).abs() < off;
    settled(manager, ms, context, |shares| shares.len() == wanted.len() && shares.iter().zip(wanted).all(close))
}

fn nothing_left() {
    for root in ["/sys/fs/cgroup/freezer", "/sys/fs/cgroup", "/sys/fs/cgroup/unified"] {
        for entry in fs::read_dir(root).into_iter().flatten().flatten() {
            let name = entry.file_name().to_string_lossy().into_owned();
            assert!(!name.starts_with("giusto."), "{root}/{name} is left");
        }
    }
}

pub(crate) struct Stage {
    pub(crate) record: Record,
    pub(crate) manager: Manager,
}

impl Stage {
    pub(crate) fn new(order: Order) -> Stage {
        let mut record = Record::default();
        Manager::prepare(&mut record).unwrap();
        Stage { record, manager: Manager::start(core(), order, &Beats::new().unwrap()).unwrap() }
    }
    fn add(&mut self, managed: &Managed, actor: &Actor) -> Handle {
        self.manager.add(managed, &[actor.pid()], &mut self.record).unwrap()
    }
    pub(crate) fn undone(self) {
        drop(self.manager);
        self.record.assert_undone();
        nothing_left();
    }
}

/// Three that never rest, beside one more of no server: 60 % of the core, each its own.
fn budgets() {
    use ServerKind::*;
    let hogs: Vec<Actor> = (0..4).map(|_| Actor::new("hog")).collect();
    let all: Vec<u32> = hogs.iter().map(Actor::pid).collect();
    sched::set_affinity(all[3], &[core()]).unwrap();
    let before = Snapshot::take(cpusets().root(), &all);
    let kinds =
        [PeriodicStrict, PeriodicConserving, PeriodicReclaiming, Polling, Deferrable, Sporadic, ConstantBandwidth];
    for (turn, kind) in kinds.into_iter().enumerate().skip(if few() { 5 } else { 0 }) {
        let order = if turn % 2 == 0 { Order::Edf } else { Order::FixedPriority };
        let mut stage = Stage::new(order);
        let mut handles = Vec::new();
        for (index, budget) in [6, 2, 4].into_iter().enumerate() {
            let mut managed = managed(&index.to_string(), server(kind, budget, 20), Cap::Hard);
            managed.priority = index as u32;
            handles.push(stage.add(&managed, &hogs[index]));
        }
        // One budget more or less at the edges is 2 % of a second at most.
        let (shares, report) = near(&stage.manager, 1_000, &[0.3, 0.1, 0.2], 0.02, &format!("{kind} under {order:?}"));
        assert!(report.warnings.iter().all(|warning| stood_still(warning)), "{report:?}");
        println!(
            "  {kind}: {}, own cost {:.1} %",
            shares.iter().map(|share| format!("{:.2} %", share * 100.0)).collect::<Vec<_>>().join(" "),
            report.own_ns as f64 * 100.0 / report.for_ns as f64
        );
        stage.undone();
        assert_same(&before, &all, &kind.to_string());
    }
}

/// That the machine stood still for a moment is told too, and no fault of what is tested.
fn stood_still(warning: &str) -> bool {
    warning.contains("was not stopped in time")
}

fn caps() {
    let hog = Actor::new("hog");
    let before = Snapshot::take(cpusets().root(), &[hog.pid()]);
    for (cap, least, most) in [(Cap::Hard, 0.28, 0.32), (Cap::Soft, 0.5, 1.0)] {
        let mut stage = Stage::new(Order::Edf);
        let _handle = stage.add(&managed("cap", server(ServerKind::Deferrable, 6, 20), cap), &hog);
        settled(&stage.manager, 500, &format!("{cap:?}"), |shares| (least..most).contains(&shares[0]));
        stage.undone();
        assert_same(&before, &[hog.pid()], "after a cap");
    }
}

fn members() {
    let (mut parent, mut forker, mut renegade) = (Actor::new("parent"), Actor::new("forker"), Actor::new("renegade"));
    let all = [parent.pid(), forker.pid(), renegade.pid()];
    let before = Snapshot::take(cpusets().root(), &all[1..]);
    let mut stage = Stage::new(Order::Edf);
    let kind = ServerKind::ConstantBandwidth;
    let _family = stage.add(&managed("family", server(kind, 4, 20), Cap::Hard), &parent);
    let _forks = stage.add(&managed("forks", server(kind, 8, 20), Cap::Hard), &forker);
    let _free = stage.add(&managed("free", server(kind, 2, 20), Cap::Hard), &renegade);
    forker.work();
    // In an emulator a second one is ready after a minute, beside the first on a fifth of a core.
    let children = if few() { 1 } else { 2 };
    (0..children).for_each(|_| parent.work());
    let (_, report) = settled(&stage.manager, 500, "children that never rest share the budget", |shares| {
        (0.17..0.23).contains(&shares[0])
    });
    assert!(report.servers[0].threads.len() == 1 + children && report.servers[1].threads.len() == 1, "{report:?}");
    renegade.work();
    let put_back = || {
        let attr = sched::get(renegade.pid()).unwrap();
        attr.policy == sched::RR && sched::affinity(renegade.pid()).unwrap() == [core()]
    };
    assert!((0..100).any(|_| put_back() || (pause(20), false).1), "a thread may not leave its server");
    // Told, unless its server was just about to give it its place anyway, as on a slow machine.
    let warned = stage.manager.report().unwrap().warnings;
    let expected = |text: &String| text.contains("changed its scheduling policy") || stood_still(text);
    assert!(warned.iter().all(expected), "{warned:?}");
    // Its children are born under the server, so they are not in the snapshot; they go with it.
    drop(parent);
    pause(50);
    assert_eq!(stage.manager.report().unwrap().servers[0].threads.len(), 0);
    stage.undone();
    assert_same(&before, &all[1..], "after births");
}

/// The thread that executes takes the number of its process's first one, which ends.
fn another_program() {
    let mut changeling = Actor::new("successor-program");
    let mut stage = Stage::new(Order::Edf);
    let _handle = stage.add(&managed("another", server(ServerKind::Deferrable, 10, 20), Cap::Hard), &changeling);
    changeling.ask();
    assert_eq!(changeling.line().as_deref(), Some("ready"));
    let server = |stage: &Stage| stage.manager.report().unwrap().servers.remove(0);
    pause(300);
    let before = server(&stage);
    assert!(!before.is_ready && before.threads.len() == 1, "it waits to be asked: {before:?}");
    changeling.work();
    pause(100);
    let after = server(&stage);
    let burst = (after.supplied_ns - before.supplied_ns) / 1_000_000;
    // And what it takes to begin and to say so, which an emulator makes long.
    assert!((60..90).contains(&burst) && !after.is_ready, "its work of 60 ms: {before:?}, {after:?}");
    stage.undone();
}

/// As a virtual machine's: its monitor answers, whatever its virtual CPUs have used.
fn threads() {
    let mut machine = Actor::new("machine");
    let all = [machine.pid()];
    let before = Snapshot::take(cpusets().root(), &all);
    let mut stage = Stage::new(Order::Edf);
    let monitor = machine.pid();
    let vcpus: Vec<u32> = sched::threads(monitor).into_iter().filter(|&tid| tid != monitor).collect();
    let budgets = [4, 10];
    let mut handles = Vec::new();
    for (part, (&vcpu, budget)) in (0..).zip(vcpus.iter().zip(budgets)) {
        let server = server(ServerKind::ConstantBandwidth, budget, 20);
        let managed = Managed { part: Some(part), ..managed("machine", server, Cap::Hard) };
        handles.push(stage.manager.add(&managed, &[vcpu], &mut stage.record).unwrap());
    }
    assert_eq!(handles.len(), 2);
    let (shares, report) =
        near(&stage.manager, 1_000, &budgets.map(|budget| budget as f64 / 20.0), 0.02, "two of three");
    assert!(report.servers.iter().all(|server| server.threads.len() == 1) && report.warnings.is_empty(), "{report:?}");
    println!("  {:.2} % and {:.2} %", shares[0] * 100.0, shares[1] * 100.0);
    (0..20).for_each(|_| machine.work());
    let policy = |tid: u32| sched::get(tid).unwrap().policy;
    let cores = sched::affinity(monitor).unwrap().len();
    assert_eq!((policy(monitor), cores), (sched::OTHER, giusto_compute::probe().cores.len()), "no manager has it");
    // The other one keeps what it has.
    stage.manager.let_go(handles.remove(0)).unwrap();
    near(&stage.manager, 500, &[0.5], 0.04, "alone");
    stage.undone();
    assert_same(&before, &all, "after threads");
}

/// The books of a hog say that it sleeps, while it runs.
fn untold() {
    let hog = Actor::new("hog");
    let before = Snapshot::take(cpusets().root(), &[hog.pid()]);
    let last = watches().max();
    let mut stage = Stage::new(Order::Edf);
    let own = watches().filter(|id| Some(*id) > last).min().unwrap();
    let _handle = stage.add(&managed("untold", server(ServerKind::ConstantBandwidth, 4, 20), Cap::Hard), &hog);
    near(&stage.manager, 500, &[0.2], 0.04, "before");
    falsify(own);
    pause(500); // some beats of the manager
    let warnings = stage.manager.report().unwrap().warnings;
    let told = |text: &String| text.contains("real-untold ran though it was taken to be asleep");
    assert!(warnings.iter().any(told), "{warnings:?}");
    near(&stage.manager, 500, &[0.2], 0.04, "counted anew");
    stage.undone();
    assert_same(&before, &[hog.pid()], "after books that were wrong");
}

/// The maps in which managers of this machine, also others' ones, count.
fn watches() -> impl Iterator<Item = u32> {
    aya::maps::loaded_maps().flatten().filter(|map| map.name_as_str() == Some("accounts")).map(|map| map.id())
}

/// The only thread of the first server is counted as asleep from now on.
fn falsify(watch: u32) {
    const AWAKE: usize = 16; // in struct account of watch.h, 40 bytes
    let map = aya::maps::MapData::from_id(watch).unwrap();
    let mut accounts = aya::maps::Array::<_, [u8; 40]>::try_from(aya::maps::Map::Array(map)).unwrap();
    let mut account = loop {
        let account = accounts.get(&0, 0).unwrap();
        if account[AWAKE] == 1 {
            break account;
        }
    };
    account[AWAKE] = 0;
    accounts.set(0, account, 0).unwrap();
}

/// A thread under SCHED_DEADLINE, on a core that is not its only one.
fn refusals() {
    let (hog, taken) = (Actor::new("hog"), Actor::new("hog"));
    let all = [hog.pid(), taken.pid()];
    let before = Snapshot::take(cpusets().root(), &all);
    let mut stage = Stage::new(Order::Edf);
    Manager::prepare(&mut stage.record).unwrap(); // again
    let wanted = managed("refused", server(ServerKind::Deferrable, 4, 20), Cap::Hard);
    sched::set(taken.pid(), &sched::Attr::deadline(1_000_000, 100_000_000)).unwrap();
    assert!(stage.manager.add(&wanted, &all, &mut stage.record).is_err());
    sched::leave(taken.pid(), &sched::Attr::default()).unwrap();
    assert_eq!(sched::affinity(hog.pid()).unwrap().len(), giusto_compute::probe().cores.len(), "let go at once");
    stage.manager.add(&wanted, &all, &mut stage.record).unwrap();
    stage.undone();
    assert_same(&before, &all, "after a refusal");
}

fn changes() {
    let (hog, other) = (Actor::new("hog"), Actor::new("hog"));
    let all = [hog.pid(), other.pid()];
    let before = Snapshot::take(cpusets().root(), &all);
    let mut stage = Stage::new(Order::Edf);
    let kind = ServerKind::Deferrable;
    let mut handle = stage.add(&managed("changes", server(kind, 4, 20), Cap::Hard), &hog);
    let _other = stage.add(&managed("stays", server(kind, 4, 20), Cap::Hard), &other);
    let near = |manager: &Manager, wanted: [f64; 2], context: &str| {
        self::near(manager, 500, &wanted, 0.04, context);
    };
    near(&stage.manager, [0.2, 0.2], "as added");
    stage.manager.set(&mut handle, (server(kind, 10, 20), None), When::Now).unwrap();
    near(&stage.manager, [0.5, 0.2], "grown");
    let asked = monotonic();
    let lever = stage.manager.lever(&handle).unwrap();
    let in_force = lever.set(server(kind, 2, 20), When::NextPeriod).unwrap();
    let next = lever.replenishes().unwrap();
    assert!(next == in_force || next == in_force + 20_000_000, "{next} {in_force}");
    assert!(in_force > asked && in_force <= monotonic() + 20_000_000, "{asked} {in_force}: its next replenishment");
    near(&stage.manager, [0.1, 0.2], "shrunk");
    assert!(stage.manager.set(&mut handle, (server(kind, 30, 20), None), When::Now).is_err(), "B > P");
    lever.boost(monotonic() + 60_000_000_000).unwrap();
    // All but what the manager itself needs, which is a tenth in an emulator.
    settled(&stage.manager, 500, "boosted: above all, whatever its budget", |shares| {
        shares[0] > 0.8 && shares[1] < 0.04
    });
    lever.boost(0).unwrap();
    near(&stage.manager, [0.1, 0.2], "boosted no more");
    stage.manager.pause(&mut handle).unwrap();
    assert_eq!(sched::get(hog.pid()).unwrap().policy, sched::OTHER);
    let paused = stage.manager.report().unwrap();
    assert_eq!(paused.servers.len(), 1);
    stage.manager.resume(&mut handle, (server(kind, 6, 20), None), Cap::Hard, &mut stage.record).unwrap();
    near(&stage.manager, [0.3, 0.2], "resumed");
    stage.manager.let_go(handle).unwrap();
    assert_eq!(sched::affinity(hog.pid()).unwrap().len(), giusto_compute::probe().cores.len());
    stage.undone();
    assert_same(&before, &all, "after changes");
}

/// Its group in the freezer's hierarchy (v1), or in the only one.
fn group_of(pid: u32) -> (std::path::PathBuf, &'static str) {
    let text = fs::read_to_string(format!("/proc/{pid}/cgroup")).unwrap();
    let path = |mark: &str| text.lines().find_map(|line| line.split_once(mark)).map(|(_, path)| path.to_string());
    match path(":freezer:/") {
        Some(path) => (Path::new("/sys/fs/cgroup/freezer").join(path), "freezer.state"),
        None => (Path::new("/sys/fs/cgroup").join(path("0::/").unwrap()), "cgroup.freeze"),
    }
}

/// The guard stops groups of a late manager, which may just have removed one of its servers.
fn stopped_before() {
    let hog = Actor::new("hog");
    let before = Snapshot::take(cpusets().root(), &[hog.pid()]);
    let mut stage = Stage::new(Order::Edf);
    let kind = ServerKind::Deferrable;
    let mut handle = stage.add(&managed("stopped", server(kind, 4, 20), Cap::Hard), &hog);
    stage.manager.pause(&mut handle).unwrap();
    let (group, switch) = group_of(hog.pid());
    fs::write(group.join(switch), if switch == "freezer.state" { "FROZEN" } else { "1" }).unwrap();
    stage.manager.resume(&mut handle, (server(kind, 4, 20), None), Cap::Hard, &mut stage.record).unwrap();
    near(&stage.manager, 500, &[0.2], 0.04, "resumed");
    stage.undone();
    assert_same(&before, &[hog.pid()], "after a stop");
}

/// Programs that fork all the time run on until each child has left the kernel: what that takes comes out of the next budgets.
fn tails() {
    let mut forker = Actor::new("bomb");
    let mut stage = Stage::new(Order::Edf);
    let _handle = stage.add(&managed("tails", server(ServerKind::Deferrable, 2, 10), Cap::Hard), &forker);
    forker.work();
    pause(500);
    // Of all that it had since, as its books and the kernel's agree: not a window that is chosen to be right.
    let begin = stage.manager.report().unwrap();
    pause(if soak() { 5_000 } else { 2_000 });
    let end = stage.manager.report().unwrap();
    let had = end.servers[0].supplied_ns - begin.servers[0].supplied_ns;
    let passed = end.for_ns - begin.for_ns;
    println!(
        "  {:.2} % of {} %; {} us beyond a budget at most",
        had as f64 * 100.0 / passed as f64,
        20,
        end.servers[0].overrun_max_ns / 1_000
    );
    // A budget more at the edges, and one period.
    assert!(had <= passed / 5 + 12_000_000, "{had} of {passed}: {end:?}");
    stage.undone();
}

/// A process that is put elsewhere by root, as it may do itself.
fn strays() {
    let hog = Actor::new("hog");
    let before = Snapshot::take(cpusets().root(), &[hog.pid()]);
    let mut stage = Stage::new(Order::Edf);
    let mut handle = stage.add(&managed("strays", server(ServerKind::Deferrable, 2, 10), Cap::Hard), &hog);
    near(&stage.manager, 500, &[0.2], 0.04, "inside");
    let (group, _) = group_of(hog.pid());
    // A slow guest tells moves late: half a second without any.
    let calm = |stage: &Stage| (0..20).any(|_| (pause(500), !stage.manager.astray()).1);
    for _ in 0..if soak() { 5 } else { 2 } {
        assert!(calm(&stage), "nothing moves, and it is told all the time");
        let start = stage.manager.report().unwrap();
        assert!(start.tells_moves);
        fs::write(group.parent().unwrap().join("cgroup.procs"), hog.pid().to_string()).unwrap();
        let ran = sched::cpu_time_ns(hog.pid());
        assert!((0..500).any(|_| stage.manager.astray() || (pause(1), false).1), "it is told");
        pause(150);
        let end = stage.manager.report().unwrap();
        // On what others leave of its core: nothing, if they are busy.
        let budgets = (end.for_ns - start.for_ns) / 5 + 2_000_000;
        let beyond = (sched::cpu_time_ns(hog.pid()) - ran).saturating_sub(budgets);
        assert_eq!(end.servers[0].moved.iter().map(|thread| thread.tid).collect::<Vec<_>>(), [hog.pid()]);
        // What is not Giusto's own is not stopped by a signal, but repays; it is on its core and has its budget meanwhile.
        stage.manager.take_in(&mut handle, &[hog.pid()], &mut stage.record).unwrap();
        assert_eq!(group_of(hog.pid()).0, group);
        let after = stage.manager.report().unwrap();
        let (owed, repaid) = (-after.servers[0].left_ns, (after.for_ns - end.for_ns) / 5 + 2_000_000);
        println!("  it had {} ms beyond its budgets and owes {} ms", beyond / 1_000_000, owed / 1_000_000);
        assert!(
            owed + 5_000_000 > beyond as i64 - repaid as i64,
            "it owes what it had, {beyond}: {owed}; {start:?} {end:?}"
        );
        // 150 ms of it at most: within a second it is repaid.
        pause(1_000);
        assert!(calm(&stage), "it is told once, and no more");
        near(&stage.manager, 500, &[0.2], 0.04, "repaid");
    }
    stage.undone();
    assert_same(&before, &[hog.pid()], "after strays");
}

/// More often than a pool has slots; with a kind whose first budget comes at once.
fn renewals() {
    let hog = Actor::new("hog");
    let before = Snapshot::take(cpusets().root(), &[hog.pid()]);
    let mut stage = Stage::new(Order::Edf);
    let reservation = server(ServerKind::ConstantBandwidth, 2, 10);
    let mut handle = stage.add(&managed("renewed", reservation, Cap::Hard), &hog);
    let open = || fs::read_dir("/proc/self/fd").unwrap().count();
    // What is allocated, not what is resident: that changes with what earlier parts left to the allocator.
    let memory = || {
        // SAFETY: no arguments; it only reads.
        let allocated = unsafe { libc::mallinfo2() };
        (allocated.uordblks + allocated.hblkhd, fs::read_to_string("/proc/self/maps").unwrap().lines().count())
    };
    let rounds = if soak() { 100_000 } else { 1_000 };
    let (mut supplied, descriptors, mut half, start) = (0, open(), memory(), monotonic());
    for round in 0..rounds {
        let report = stage.manager.report().unwrap();
        supplied += report.servers.iter().map(|server| server.supplied_ns).sum::<u64>();
        assert_eq!(report.servers.len(), 1, "round {round}");
        stage.manager.pause(&mut handle).unwrap();
        stage.manager.resume(&mut handle, (reservation, None), Cap::Hard, &mut stage.record).unwrap();
        assert_eq!(handle.server(), Some(0), "the slot that was freed");
        if round == rounds / 2 {
            half = memory();
        }
    }
    let passed = monotonic() - start;
    // A budget may be under way at either end, and the manager may be late, as on any other way.
    let most = passed / 5 + 2 * 2_000_000 + passed / 50;
    println!("  {rounds} times in {} ms: {} ms of {} ms", passed / 1_000_000, supplied / 1_000_000, most / 1_000_000);
    assert!(supplied <= most, "budgets from nothing: {supplied} ns in {passed} ns");
    assert_eq!(open(), descriptors, "descriptors");
    let end = memory();
    println!("  bytes and mappings after half: {half:?}, at the end: {end:?}");
    // An allocation takes 24 bytes at least: one that is forgotten in every turn makes three times as much.
    assert!(end.0 <= half.0 + 4 * rounds && end.1 <= half.1 + 2, "memory");
    stage.undone();
    assert_same(&before, &[hog.pid()], "after being renewed");
}

/// An agent does not wait for the other threads of its service, and gets nothing beyond their budget.
fn preference() {
    let pair = Actor::new("pair");
    let before = Snapshot::take(cpusets().root(), &[pair.pid()]);
    let mut stage = Stage::new(Order::Edf);
    // Each stop and start costs each thread some of it, in an emulated processor 0.2 ms: ten a second.
    let handle = stage.add(&managed("prefers", server(ServerKind::Deferrable, 20, 100), Cap::Hard), &pair);
    let other = sched::threads(pair.pid()).into_iter().find(|&tid| tid != pair.pid()).unwrap();
    let used = || [pair.pid(), other].map(sched::cpu_time_ns);
    let apart = |what: &str| {
        let (from, _) = (used(), near(&stage.manager, 1000, &[0.2], 0.04, what));
        [0, 1].map(|index| used()[index] - from[index])
    };
    // What a machine takes of the core is charged to one of them.
    let all: Vec<_> = (0..3).map(|_| apart("in turn")).collect();
    let fair = all.iter().any(|[first, second]| first.abs_diff(*second) * 4 < first + second);
    assert!(fair, "in turn the two threads had, in ns: {all:?}");
    stage.manager.prefer(&handle, pair.pid()).unwrap();
    pause(100);
    let [first, second] = apart("preferred");
    assert!(second * 20 < first, "the preferred thread had {first} ns, the other one {second} ns");
    stage.undone();
    assert_same(&before, &[pair.pid()], "after a preference");
}

/// An agent in a container whose cgroup (v1) has no real-time bandwidth, beside two threads that never rest: they are fair
/// threads, stopped after 2 ms each time, and a time slice of the kernel's is longer than what is left of that.
fn denied() {
    let group = Path::new("/sys/fs/cgroup/cpu/real-tests-denied");
    let _ = fs::remove_dir(group); // of a run that failed
    fs::create_dir(group).unwrap();
    let mut machine = Actor::new("machine");
    fs::write(group.join("cgroup.procs"), machine.pid().to_string()).unwrap();
    let before = Snapshot::take(cpusets().root(), &[machine.pid()]);
    let mut stage = Stage::new(Order::Edf);
    let handle = stage.add(&managed("denied", server(ServerKind::ConstantBandwidth, 2, 10), Cap::Hard), &machine);
    stage.manager.prefer(&handle, machine.pid()).unwrap();
    pause(100);
    let mut took: Vec<_> = (0..50)
        .map(|_| {
            let begun = monotonic();
            machine.work();
            pause(3);
            (monotonic() - begun) / 1_000_000
        })
        .collect();
    took.sort_unstable();
    println!("  50 answers within {} ms at the median, {} ms at most", took[25], took[49]);
    // A period and what the machine loses; in turn with the others it is seconds.
    assert!(took[25] < 50, "ms: {took:?}");
    stage.undone();
    assert_same(&before, &[machine.pid()], "after a denied preference");
    drop(machine);
    fs::remove_dir(group).unwrap();
}

fn monotonic() -> u64 {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}

/// Is killed again and again, at random instants of its work.
fn deaths() {
    let (hog, pair) = (Actor::new("hog"), Actor::new("pair"));
    let all = [hog.pid(), pair.pid()];
    let before = Snapshot::take(cpusets().root(), &all);
    let rounds = if soak() { 100 } else { 4 };
    let seed = env::var("GIUSTO_SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or(7u64);
    let mut random = seed;
    let mut stopped = 0;
    for round in 0..rounds {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let folder = env::temp_dir().join(format!("giusto-real-manager-{}", std::process::id()));
        let path = folder.to_string_lossy().into_owned();
        let words = ["manager", &path, &hog.pid().to_string(), &pair.pid().to_string()].map(String::from);
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        let mut victim = Actor::started(&words);
        // From the first change to long after the last.
        assert_eq!(victim.line().as_deref(), Some("ready"));
        thread::sleep(time::Duration::from_micros((random >> 33) % 60_000));
        victim.kill();
        victim.wait();
        let state = |pid: u32| fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        stopped += usize::from(all.iter().any(|&pid| state(pid).contains(") D ")));
        drop(Journal::open_in(Path::new(&path)).unwrap());
        pause(5);
        for pid in all {
            assert!(state(pid).contains(") R "), "round {round}, seed {seed}: {}", state(pid));
        }
        nothing_left();
        assert_same(&before, &all, &format!("round {round}, seed {seed}"));
        let _ = fs::remove_dir_all(&folder);
    }
    println!("  {rounds} deaths, seed {seed}; {stopped} of them left a service stopped");
}

/// A manager with its journal, that is killed: `FOLDER HOG PAIR`.
pub(crate) fn victim(words: &[String]) {
    let [folder, hog, pair] = words else { panic!("{words:?}") };
    let (mut journal, _) = Journal::open_in(Path::new(folder)).unwrap();
    println!("ready");
    io::stdout().flush().unwrap();
    let record: &mut dyn Recorder<Undo> = &mut journal;
    Manager::prepare(record).unwrap();
    let manager = Manager::start(core(), Order::Edf, &Beats::new().unwrap()).unwrap();
    let kind = ServerKind::Deferrable;
    let add = |name: &str, budget: u64, pid: &String, record: &mut dyn Recorder<Undo>| {
        manager.add(&managed(name, server(kind, budget, 10), Cap::Hard), &[pid.parse().unwrap()], record).unwrap()
    };
    let _hog = add("hog", 2, hog, record);
    let _pair = add("pair", 3, pair, record);
    thread::sleep(time::Duration::from_secs(60));
}
