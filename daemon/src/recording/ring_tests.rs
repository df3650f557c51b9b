use super::*;
use crate::recording::RecordedService;

fn change(at_ns: u64, core: u32, thread: u32, what: What) -> Change {
    let mut name = [0; 16];
    name[..2].copy_from_slice(&[b't', b'0' + thread as u8]);
    Change { at_ns, core, process: 100 + thread, thread, what, name }
}

const ON: What = What::Runs { stays: false };

fn base() -> Recording {
    let service = |name: &str| RecordedService { name: name.into(), ..RecordedService::default() };
    Recording { services: vec![service("other"), service("cache")], ..Recording::default() }
}

fn owner(process: u32) -> Option<String> {
    (process == 101).then(|| "cache".into())
}

#[test]
fn a_recording_begins_as_the_cores_stood() {
    let mut ring = Ring::new(0);
    for change in [
        change(10, 0, 1, ON),
        change(20, 0, 2, What::Wakes),
        change(30, 0, 3, What::Runs { stays: true }), // 1 and 2 wait now
        change(40, 1, 4, ON),
        change(50, 1, 0, ON), // 4 sleeps
        change(120, 0, 1, ON),
        change(260, 0, 2, ON),
    ] {
        ring.change(change);
    }
    let recording = ring.cut((100, 200), None, base(), owner);
    let expected = [[20, 0, 2, WAKES], [30, 0, 1, WAKES], [30, 0, 3, RUNS], [50, 1, 0, RUNS], [120, 0, 1, RUNS]];
    let mut changes = recording.changes.clone();
    changes.sort_unstable();
    assert_eq!(changes, expected);
    assert_eq!(recording.threads.iter().map(|one| one.thread).collect::<Vec<_>>(), [1, 2, 3]);
    let RecordedThread { process, name, service, .. } = &recording.threads[0];
    assert_eq!((*process, name.as_str(), *service), (101, "t1", Some(1)));
    assert_eq!(recording.threads[1].service, None);
}

#[test]
fn jobs_and_budgets_are_those_of_the_window_and_a_late_job_is_told() {
    let mut ring = Ring::new(0);
    let (cache, gone) = (ring.number("cache"), ring.number("gone"));
    ring.is_known(cache, Known { by: ObservedBy::Requests, within_ns: Some(50) });
    let job = |service, from_ns, to_ns| OwnJob { service, thread: 1, from_ns, to_ns };
    let late = job(cache, 110, 161);
    assert!(!ring.job(job(cache, 10, 20)) && !ring.job(job(cache, 90, 140)) && ring.job(late));
    assert!(!ring.job(job(gone, 0, 1_000)), "no promise, or none that is known");
    assert!(!ring.job(job(cache, 300, 310)));
    let point = |at_ns, left_ns| Point { at_ns, service: cache, part: None, left_ns, missed: 0 };
    [(10, 7), (100, 9), (110, 9), (120, -3)].into_iter().for_each(|(at, left)| ring.point(point(at, left)));
    let recording = ring.cut((100, 200), Some(&late), base(), owner);
    assert_eq!(recording.jobs, [[1, 1, 90, 140], [1, 1, 110, 161]]);
    let told = RecordedLate { service: "cache".into(), from_ns: 110, to_ns: 161 };
    assert_eq!(recording.late, Some(told));
    let service = &recording.services[1];
    assert_eq!((service.jobs, service.within_ns), (Some(ObservedBy::Requests), Some(50)));
    assert_eq!(service.budgets, [(None, vec![(100, 9, 0), (120, -3, 0)])], "a value that stays is told once");
    assert!(recording.services[0].budgets.is_empty() && recording.services[0].jobs.is_none());
}

#[test]
fn what_does_not_fit_is_forgotten_from_its_beginning_and_the_recording_says_so() {
    let mut ring = Ring::new(5);
    assert_eq!(ring.cut((0, 100), None, base(), owner).from_ns, 5, "nothing is known before it began");
    for nth in 0..CHANGES as u64 + 1_000 {
        ring.change(change(nth, 0, 1 + nth as u32 % 2, ON));
    }
    assert_eq!(ring.changes.len(), CHANGES);
    let recording = ring.cut((0, u64::MAX), None, base(), owner);
    assert_eq!(recording.from_ns, 999);
    let cache = ring.number("cache");
    for nth in 0..JOBS as u64 + 10 {
        ring.job(OwnJob { service: cache, thread: 1, from_ns: nth, to_ns: nth + 2_000 });
        ring.point(Point { at_ns: nth, service: cache, part: None, left_ns: nth as i64, missed: 0 });
    }
    assert_eq!((ring.jobs.len(), ring.points.len()), (JOBS, POINTS));
    assert_eq!(ring.cut((0, u64::MAX), None, base(), owner).from_ns, 2_009, "until the last job that is gone ended");
}
