//! Modes of sites and of services: what is read means what was written.

use giusto_model::{
    Adopt, ChangePolicy, Duration, Listen, LocalNeed, OnTimeout, Origin, Promise, Requests, Service, Site, SiteModes,
    Transition,
};
use giusto_site::{parse, read};
use std::path::Path;

fn of(text: &str) -> Site {
    let text = format!("giusto: 1\nhosts: {{edge-1: {{cores: 1}}}}\n{text}");
    parse("/etc/giusto/site.yaml", &text).unwrap_or_else(|error| panic!("{error}"))
}

/// The local modes of a mode: `flight: land, batch: stopped`.
fn locals(modes: &SiteModes, mode: usize) -> String {
    let each = modes.modes[mode].locals.iter().map(|one| format!("{}: {}", one.service, one.local));
    each.collect::<Vec<_>>().join(", ")
}

fn tasks(service: &Service, mode: usize) -> Vec<String> {
    let LocalNeed::Tasks { tasks, .. } = &service.modes[mode].need else { panic!("{service:?}") };
    tasks.iter().map(|task| task.name.clone()).collect()
}

#[test]
fn the_example_has_two_services_with_modes_and_one_that_is_stopped() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../sites/modes.yaml");
    let Site { services, modes, .. } = read(&path).unwrap_or_else(|error| panic!("{error}"));
    let modes = modes.unwrap();
    let names: Vec<_> = modes.modes.iter().map(|mode| (mode.name.as_str(), mode.within)).collect();
    assert_eq!(names, [("normal", None), ("emergency", Some(Duration::from_ms(10)))]);
    assert_eq!((modes.modes[0].urgent, modes.modes[1].urgent), (false, true));
    assert_eq!(locals(&modes, 0), "flight: cruise, survey: full, batch: running");
    assert_eq!(locals(&modes, 1), "flight: land, survey: low, batch: stopped");
    let [flight, survey, batch] = services.as_slice() else { panic!("{services:?}") };
    assert_eq!((tasks(flight, 0), tasks(flight, 1)), (vec!["control".into()], vec!["control".into(), "vision".into()]));
    assert_eq!((flight.tasks.len(), survey.modes.len(), batch.modes.len()), (1, 2, 0));
    assert!(flight.agent.as_ref().is_some_and(|agent| agent.cost == Duration::from_us(100)) && batch.agent.is_none());
    let changes = &modes.changes;
    assert_eq!((changes.policy, changes.transition, changes.requests), (None, Transition::Fast, Requests::Reject));
    assert_eq!((changes.timeout, changes.spacing), (Duration::from_ms(50), Duration::from_secs(1)));
    assert_eq!((changes.on_timeout, &changes.listen), (OnTimeout::RollBack, &vec![Listen::usual()]));
}

#[test]
fn a_service_begins_in_the_local_mode_of_the_first_mode_and_stays_in_it_where_it_is_not_named() {
    let site = of("services:
  a:
    start: a
    agent: {key: keys/a, cost: 250us}
    promise: every-deadline
    scheduler: edf
    modes: {x: [{wcet: 1ms, period: 10ms}], y: [{name: other, wcet: 2ms, period: 20ms}]}
  b: {start: b, agent: {key: /k}, promise: every-deadline, tasks: [{wcet: 1ms, period: 10ms}]}
  c: {start: c, promise: leftovers}
  d: {start: d, promise: leftovers}
modes:
  one: {a: y}
  two: {d: stopped, within: 1s}
  three:
  four: {a: stopped, b: stopped}
mode-changes: {policy: batch, transition: guaranteed, requests: preempt, on-timeout: degrade, timeout: 1ms, spacing: 5ms,
  listen: ['vsock:7400', 'tcp:[::1]:1']}
");
    let modes = site.modes.unwrap();
    // c is named nowhere: it always does the same, and d runs until it is stopped.
    assert_eq!(locals(&modes, 0), "a: y, b: running, d: running");
    assert_eq!(locals(&modes, 1), "a: y, b: running, d: stopped");
    assert_eq!(locals(&modes, 2), locals(&modes, 0));
    assert_eq!(locals(&modes, 3), "a: stopped, b: stopped, d: running");
    let a = &site.services[0];
    assert_eq!((a.tasks.len(), a.tasks[0].name.as_str()), (1, "other"));
    let agent = a.agent.as_ref().unwrap();
    assert_eq!((agent.key.as_path(), agent.cost), (Path::new("/etc/giusto/keys/a"), Duration::from_us(250)));
    assert_eq!(site.services[1].agent.as_ref().unwrap().key.as_path(), Path::new("/k"));
    assert_eq!((site.services[1].modes.len(), site.services[1].modes[0].name.as_str()), (1, "running"));
    let changes = &modes.changes;
    assert_eq!((changes.policy, changes.transition), (Some(ChangePolicy::Batch), Transition::Guaranteed));
    assert_eq!((changes.requests, changes.on_timeout), (Requests::Preempt, OnTimeout::Degrade));
    assert_eq!((changes.timeout, changes.spacing), (Duration::from_ms(1), Duration::from_ms(5)));
    assert_eq!(changes.listen, [Listen::Vsock(7400), Listen::Tcp("[::1]:1".parse().unwrap())]);
}

#[test]
fn modes_of_a_vm_have_tasks_on_its_virtual_cpus_or_a_supply_for_each() {
    let site = of("services:
  a:
    adopt: {libvirt: a}
    vcpus: 2
    agent: {key: k}
    promise: every-deadline
    modes:
      x: [{wcet: 1ms, period: 10ms, vcpu: 1}, {wcet: 1ms, period: 10ms, vcpu: 0}]
      y: [{wcet: 1ms, period: 10ms, copies: 3}]
  b:
    adopt: {libvirt: b}
    agent: {key: k}
    promise: supply
    modes: {lo: {supply: [1ms/10ms, 1ms/20ms]}, hi: {supply: [5ms/10ms, 2ms/20ms]}}
modes: {m: {a: x, b: hi}}
");
    let [a, b] = site.services.as_slice() else { panic!() };
    let placed = |mode: usize| match &a.modes[mode].need {
        LocalNeed::Tasks { placed, .. } => placed.clone(),
        other => panic!("{other:?}"),
    };
    assert_eq!((placed(0), placed(1)), (vec![1, 0], vec![]));
    assert!(matches!(&a.promise, Promise::EveryDeadline { vcpus: 2, placed, .. } if *placed == [1, 0]));
    let Promise::Supply(first) = &b.promise else { panic!("{b:?}") };
    assert_eq!(first.iter().map(ToString::to_string).collect::<Vec<_>>(), ["5 ms every 10 ms", "2 ms every 20 ms"]);
    assert_eq!(b.origin, Origin::Adopt(Adopt::Libvirt("b".into())));
}
