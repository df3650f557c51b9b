//! What holds for every recording: the jobs of a schedule that is known come out, nothing is counted twice or forgotten where lines are
//! missing, and nothing makes the readers panic.

use giusto_traces::{read_config, read_log, read_sched, Imported, Select};
use proptest::prelude::*;

/// A schedule made from small numbers: what really happened, and the lines that a tool prints of it.
#[derive(Debug)]
struct Played {
    lines: Vec<String>,
    /// Jobs of thread 100: release, finish and time on a processor, in us, with their wakeups.
    jobs: Vec<(u64, u64, u64, u64)>,
}

/// Thread 100 is woken again and again; it waits, runs, is preempted, moves to another processor, is woken while it is awake, and
/// sleeps. Others come in between. All of it as `steps` say: what to do next, and how much later.
fn play(steps: &[(u8, u8)], form: usize) -> Played {
    let (mut now, mut cpu, mut lines, mut jobs) = (1_000_000u64, 0u32, Vec::new(), Vec::new());
    let mut job: Option<(u64, u64, u64)> = None; // release, time on a processor, wakeups
    let mut running = None;
    let line = |now: u64, cpu: u32, event: &str, full: String, short: String| {
        let at = format!("{}.{:06}", now / 1_000_000, now % 1_000_000);
        match form {
            0 => format!("  who    12 [{cpu:03}] {at}: sched:{event}: {full}"),
            1 => format!("  who-12      [{cpu:03}] dNh2. {at}: {event}: {full}"),
            _ => format!("  who-12    [{cpu:03}] {at}: {event}:         {short}"),
        }
    };
    let switch = |now, cpu, prev: (&str, u32), state: &str, next: (&str, u32)| {
        let full = format!(
            "prev_comm={} prev_pid={} prev_prio=120 prev_state={state} ==> next_comm={} next_pid={} next_prio=120",
            prev.0, prev.1, next.0, next.1
        );
        line(
            now,
            cpu,
            "sched_switch",
            full,
            format!("{}:{} [120] {state} ==> {}:{} [120]", prev.0, prev.1, next.0, next.1),
        )
    };
    let wake = |now, cpu: u32, who: (&str, u32)| {
        let full = format!("comm={} pid={} prio=120 target_cpu={cpu:03}", who.0, who.1);
        line(now, cpu, "sched_wakeup", full, format!("{}:{} [120] success=1 CPU:{cpu:03}", who.0, who.1))
    };
    const IT: (&str, u32) = ("the task", 100);
    for &(what, later) in steps {
        now += u64::from(later);
        match (what % 6, job, running) {
            (0 | 1, None, _) => {
                lines.push(wake(now, cpu, IT));
                job = Some((now, 0, 1));
            }
            (0, Some((release, ran, wakeups)), _) => {
                lines.push(wake(now, 1 - cpu, IT));
                job = Some((release, ran, wakeups + 1));
            }
            (1 | 2, Some(_), None) => {
                cpu = u32::from(what % 2);
                lines.push(switch(now, cpu, ("swapper/0", 0), "R", IT));
                running = Some(now);
            }
            (3, Some((release, ran, wakeups)), Some(since)) => {
                let state = if later % 2 == 0 { "R" } else { "R+" };
                lines.push(switch(now, cpu, IT, state, ("other", 7)));
                job = Some((release, ran + now - since, wakeups));
                running = None;
            }
            (4, Some((release, ran, wakeups)), Some(since)) => {
                lines.push(switch(now, cpu, IT, ["S", "D", "I"][usize::from(later) % 3], ("swapper/0", 0)));
                jobs.push((release, now, ran + now - since, wakeups));
                (job, running) = (None, None);
            }
            _ => lines.push(switch(now, 1 - cpu, ("other", 7), "S", ("the other", 101))),
        }
    }
    lines.push(switch(now, 5, ("other", 7), "S", ("the other", 101)));
    Played { lines, jobs }
}

fn import(text: &str) -> Option<Imported> {
    read_sched(text.as_bytes(), &Select::Tid(100)).ok()
}

/// In us, as `Played` has them.
fn jobs(imported: &Imported) -> Vec<(u64, u64, u64, u64)> {
    let us = |ns: u64| ns / 1000;
    imported
        .jobs
        .iter()
        .map(|job| (us(job.release.ns()), us(job.finish.ns()), us(job.execution.ns()), job.wakeups))
        .collect()
}

/// Every wakeup is in one job or cut off, and no job is without.
fn conserved(imported: &Imported) -> bool {
    if imported.jobs.iter().any(|job| job.wakeups == 0) {
        return false;
    }
    let of_jobs: u64 = imported.jobs.iter().map(|job| job.wakeups).sum();
    of_jobs + imported.cuts.iter().map(|cut| cut.wakeups).sum::<u64>() == imported.wakeups
}

/// Whether it is one of those that were played; of a job in whose middle the recording begins, a second wakeup may look like the first.
fn real(played: &Played, job: (u64, u64, u64, u64)) -> bool {
    played.jobs.iter().any(|known| known.1 == job.1 && (*known == job || known.0 < job.0 && known.3 > job.3))
}

fn steps() -> impl Strategy<Value = Vec<(u8, u8)>> {
    proptest::collection::vec((any::<u8>(), any::<u8>()), 1..200)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn the_jobs_of_a_known_schedule_come_out_of_every_form(steps in steps(), form in 0usize..3) {
        let played = play(&steps, form);
        let text = played.lines.join("\n") + "\n";
        match import(&text) {
            None => prop_assert!(played.jobs.is_empty(), "{text}"),
            Some(imported) => {
                prop_assert_eq!(jobs(&imported), played.jobs, "{}", text);
                prop_assert!(conserved(&imported));
                prop_assert_eq!(imported.wakeups, text.matches("wakeup: comm=the task ").count() as u64 + text.matches("the task:100 [120] success").count() as u64);
            }
        }
    }

    #[test]
    fn from_the_middle_of_a_recording_come_only_jobs_that_were_there(steps in steps(), from in 0usize..200, until in 0usize..200) {
        let played = play(&steps, 0);
        let from = from.min(played.lines.len() - 1);
        let lines = &played.lines[from..=until.clamp(from, played.lines.len() - 1)];
        if let Some(imported) = import(&(lines.join("\n") + "\n")) {
            prop_assert!(conserved(&imported));
            for job in jobs(&imported) {
                prop_assert!(real(&played, job), "{job:?} of {:?}", played.jobs);
            }
        }
    }

    #[test]
    fn where_lines_are_missing_no_wakeup_is_counted_twice_or_forgotten(steps in steps(), keep in proptest::collection::vec(0u8..10, 200)) {
        let played = play(&steps, 1);
        let kept: Vec<String> = played.lines.iter().zip(keep.iter().cycle())
            .filter_map(|(line, keep)| match keep {
                0 => None,
                1 => Some("CPU:0 [LOST 5 EVENTS]".to_string()),
                _ => Some(line.clone()),
            })
            .collect();
        let text = kept.join("\n") + "\n";
        if let Some(imported) = import(&text) {
            prop_assert!(conserved(&imported), "{text}");
            prop_assert_eq!(imported.wakeups, text.matches("comm=the task pid=100 prio").count() as u64);
            for pair in imported.jobs.windows(2) {
                prop_assert!(pair[0].finish <= pair[1].release);
            }
            for job in &imported.jobs {
                prop_assert!(job.execution.ns() <= job.finish.since(job.release).unwrap().ns());
            }
        }
    }

    #[test]
    fn where_a_recorder_loses_events_of_one_processor_and_says_so_every_job_is_one(steps in steps(), cpu in 0u32..2, from in 0usize..200, many in 1usize..60) {
        // A tool prints the loss before the first event of that processor after it; the other's events of that time come first.
        let played = play(&steps, 1);
        let of_cpu = |line: &String| line.contains(&format!("[{cpu:03}]"));
        let mut lines = Vec::new();
        let mut losing = false;
        for (at, line) in played.lines.iter().enumerate() {
            if (from..from + many).contains(&at) && of_cpu(line) {
                losing = true;
                continue;
            }
            if losing && of_cpu(line) {
                lines.push(format!("CPU:{cpu} [LOST 1 EVENTS]"));
                losing = false;
            }
            lines.push(line.clone());
        }
        prop_assume!(!losing);
        let text = lines.join("\n") + "\n";
        if let Some(imported) = import(&text) {
            prop_assert!(conserved(&imported));
            for job in jobs(&imported) {
                prop_assert!(real(&played, job), "{job:?} of {:?}\n{text}", played.jobs);
            }
        }
    }

    #[test]
    fn where_the_oldest_events_of_one_processor_are_written_over_every_job_is_one(steps in steps(), cpu in 0u32..2, many in 1usize..100) {
        let played = play(&steps, 1);
        let of_cpu = |line: &String| line.contains(&format!("[{cpu:03}]"));
        let kept = played.lines.iter().enumerate().filter(|(at, line)| *at >= many || !of_cpu(line)).map(|(_, line)| line.clone());
        let kept: Vec<String> = kept.collect();
        prop_assume!(kept.iter().any(of_cpu));
        let text = format!("# entries-in-buffer/entries-written: 5/9   #P:2\n{}\n", kept.join("\n"));
        if let Some(imported) = import(&text) {
            prop_assert!(conserved(&imported));
            for job in jobs(&imported) {
                prop_assert!(real(&played, job), "{job:?} of {:?}\n{text}", played.jobs);
            }
        }
    }

    #[test]
    fn no_reader_panics_on_any_bytes(bytes in proptest::collection::vec(any::<u8>(), 0..2000)) {
        let _ = read_sched(&bytes[..], &Select::Name("x".into()));
        let _ = read_log(&bytes[..]);
        let _ = read_config(&String::from_utf8_lossy(&bytes));
    }

    #[test]
    fn no_reader_panics_on_damaged_lines(steps in steps(), form in 0usize..3, damage in proptest::collection::vec((any::<u32>(), any::<u8>(), 0u8..4), 1..20)) {
        let mut text = (play(&steps, form).lines.join("\n") + "\n").into_bytes();
        let mut log = b"#idx perf run period start end rel_st slack c_duration c_period wu_lat\n0 9 20 105 1000 1105 0 80 20 100 5\n".to_vec();
        let mut config = br#"{"tasks": {"a": {"run": 1, "timer": {"ref": "x", "period": 9}}} /* */ }"#.to_vec();
        for text in [&mut text, &mut log, &mut config] {
            for &(at, byte, how) in &damage {
                let at = at as usize % text.len().max(1);
                match how {
                    0 if at < text.len() => text[at] = byte,
                    1 => text.insert(at.min(text.len()), byte),
                    2 if at < text.len() => drop(text.remove(at)),
                    _ => text.insert(at.min(text.len()), b'9'),
                }
            }
        }
        if let Ok(imported) = read_sched(&text[..], &Select::Tid(100)) {
            prop_assert!(conserved(&imported));
        }
        let _ = read_log(&log[..]);
        let _ = read_config(&String::from_utf8_lossy(&config));
    }
}

#[test]
fn a_recording_that_ends_in_the_middle_of_a_line_says_so() {
    let steps: Vec<(u8, u8)> = [(0, 1), (1, 2), (4, 9)].into_iter().cycle().take(30).collect();
    let played = play(&steps, 0);
    let whole = played.lines.join("\n");
    let cut = &whole[..whole.rfind("next_pid").unwrap()];
    let imported = import(cut).unwrap();
    assert!(imported.truncated && jobs(&imported) == played.jobs, "{imported:?}");
    // In the middle of the file it is an error with its line.
    let error = read_sched(format!("{cut}\n{whole}\n").as_bytes(), &Select::Tid(100)).unwrap_err().to_string();
    assert!(error.starts_with(&format!("{}: ", played.lines.len())) && error.contains("sched_switch"), "{error}");
}

#[test]
fn a_thread_that_is_missing_or_ambiguous_is_named_with_the_candidates() {
    let played = play(&[(0, 1), (1, 2), (4, 9), (5, 1), (0, 1), (1, 2), (4, 9)], 0);
    let text = played.lines.join("\n") + "\n";
    let of = |name: &str| read_sched(text.as_bytes(), &Select::Name(name.into()));
    assert_eq!(of("the task").unwrap().tid, 100);
    let error = of("nobody").unwrap_err().to_string();
    assert!(error.contains("'nobody'") && error.contains("the task (100)") && error.contains("other (7)"), "{error}");
    let twice = text.replace("the other", "the task");
    let error = read_sched(twice.as_bytes(), &Select::Name("the task".into())).unwrap_err().to_string();
    assert!(error.contains("100 (2 jobs)") && error.contains("101"), "{error}");
    let backwards = text.replace("sched_switch", "sched_migrate");
    assert!(read_sched(backwards.as_bytes(), &Select::Tid(100)).unwrap_err().to_string().contains("sched_switch"));
    let mut lines = played.lines.clone();
    lines.swap(0, 2);
    let error = read_sched((lines.join("\n") + "\n").as_bytes(), &Select::Tid(100)).unwrap_err().to_string();
    assert!(error.starts_with("2: ") && error.contains("earlier"), "{error}");
}
