//! A stretch of a run, job by job, around its slowest one.

use super::findings::Drawing;
use super::page::escape;
use crate::plot::Axis;
use crate::words::time;
use giusto_model::JobRecord;
use std::fmt::Write;

const WIDTH: f64 = 420.0;
const LEFT: f64 = 44.0;
const RIGHT: f64 = 16.0;
const ROW: f64 = 18.0;
const TOP: f64 = 20.0;
const BOTTOM: f64 = 42.0;
/// Jobs before the slowest one, and after it: as many as can be told apart.
const AROUND: usize = 12;

/// The slowest of `jobs` among its neighbours: a bar from each release to its finish, a lane a task, several where jobs of a task
/// overlap. `run` says which run that is. `None` without a job that finished. O(n log n).
pub fn slowest(jobs: &[JobRecord], run: &str) -> Option<Drawing> {
    let mut jobs: Vec<&JobRecord> = jobs.iter().collect();
    jobs.sort_unstable_by_key(|job| (job.release, job.task, job.job));
    // The first of those that are equally slow.
    let slow = (0..jobs.len())
        .rev()
        .filter(|&at| jobs[at].response_ns().is_some())
        .max_by_key(|&at| jobs[at].response_ns())?;
    let shown = &jobs[slow.saturating_sub(AROUND)..(slow + AROUND + 1).min(jobs.len())];
    let slowest = jobs[slow];
    let from = shown.iter().map(|job| job.due.ns().min(job.release.ns())).min()?;
    let until = shown.iter().filter_map(|job| job.finish).max()?.ns().max(shown.last()?.release.ns());
    let lanes = lanes(shown);
    let axis = Axis { low: 0.0, high: (until - from).max(1) as f64, logarithmic: false };
    let x = |ns: u64| LEFT + axis.share(ns.saturating_sub(from) as f64) * (WIDTH - LEFT - RIGHT);
    let floor = TOP + ROW * lanes.iter().map(|lane| lane + 1).max()? as f64;
    let response = time(slowest.response_ns()? as f64);
    let mut svg = format!(
        "<svg class=\"jobs\" viewBox=\"0 0 {WIDTH} {}\" role=\"img\">\n<title>The slowest job of {} and its neighbours</title>\n\
         <desc>{} jobs from release to finish; the slowest took {response}. The table below the drawing has them all.</desc>\n",
        floor + BOTTOM,
        escape(run),
        shown.len()
    );
    for ns in axis.ticks() {
        let at = x(from + ns as u64);
        let _ = writeln!(
            svg,
            "<path class=\"grid\" d=\"M{at:.1} {TOP}V{floor}\"/><text x=\"{at:.1}\" y=\"{}\" text-anchor=\"middle\">{}</text>",
            floor + 17.0,
            crate::plot::short(ns)
        );
    }
    let mut named = Vec::new();
    for (job, &lane) in shown.iter().zip(&lanes) {
        let y = TOP + ROW * lane as f64;
        if !named.contains(&job.task) {
            named.push(job.task);
            let _ = writeln!(svg, "<text x=\"0\" y=\"{:.1}\">task {}</text>", y + 13.0, job.task);
        }
        let (due, start) = (x(job.due.ns()), x(job.release.ns()));
        let (end, class) = match job.finish {
            Some(finish) if std::ptr::eq(*job, slowest) => (x(finish.ns()), "slowest"),
            Some(finish) => (x(finish.ns()), "job"),
            None => (WIDTH - RIGHT, "never"),
        };
        let _ = writeln!(
            svg,
            "<path class=\"due\" d=\"M{due:.1} {:.1}v14M{due:.1} {:.1}H{start:.1}\"/>\
             <rect class=\"{class}\" x=\"{start:.1}\" y=\"{:.1}\" width=\"{:.1}\" height=\"10\"/>",
            y + 2.0,
            y + 9.0,
            y + 4.0,
            (end - start).max(1.0)
        );
    }
    let at = x(slowest.release.ns());
    let (at, anchor) = if at > WIDTH / 2.0 { (x(slowest.finish?.ns()), "end") } else { (at, "start") };
    let _ = writeln!(
        svg,
        "<text class=\"name\" x=\"{at:.1}\" y=\"14\" text-anchor=\"{anchor}\">slowest: {response}</text>\n\
         <text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"middle\">time since the first of these jobs was due</text>\n</svg>",
        (LEFT + WIDTH - RIGHT) / 2.0,
        floor + 35.0
    );
    let caption = format!(
        "The slowest job of {run} among its neighbours: a bar from release to finish, a tick when the workload said that it should come"
    );
    Some(Drawing { svg, caption, table: rows(shown, from) })
}

/// The lane of each job: those of a task below each other, the first that is free.
fn lanes(jobs: &[&JobRecord]) -> Vec<usize> {
    let mut tasks: Vec<u32> = jobs.iter().map(|job| job.task).collect();
    tasks.sort_unstable();
    tasks.dedup();
    let mut lanes = vec![0; jobs.len()];
    let mut before = 0;
    for task in tasks {
        let mut free: Vec<u64> = Vec::new();
        for (place, job) in jobs.iter().enumerate().filter(|(_, job)| job.task == task) {
            let begin = job.due.min(job.release).ns();
            let end = job.finish.map_or(u64::MAX, |finish| finish.ns());
            let lane = free.iter().position(|&until| until <= begin).unwrap_or(free.len());
            match free.get_mut(lane) {
                Some(until) => *until = end,
                None => free.push(end),
            }
            lanes[place] = before + lane;
        }
        before += free.len();
    }
    lanes
}

fn rows(jobs: &[&JobRecord], from: u64) -> Vec<Vec<String>> {
    let head = ["job", "task", "due", "sent late by", "response time"].map(String::from).to_vec();
    let row = |job: &&JobRecord| {
        let late = job.release.since(job.due).map_or(0, |late| late.ns());
        vec![
            job.job.to_string(),
            job.task.to_string(),
            time(job.due.ns().saturating_sub(from) as f64),
            time(late as f64),
            job.response_ns().map_or("never".into(), |ns| time(ns as f64)),
        ]
    };
    std::iter::once(head).chain(jobs.iter().map(row)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use giusto_model::Instant;

    fn job(task: u32, job: u64, release: u64, finish: Option<u64>) -> JobRecord {
        let [due, release] = [release.saturating_sub(3), release].map(Instant::from_ns);
        JobRecord { task, job, due, release, finish: finish.map(Instant::from_ns) }
    }

    #[test]
    fn the_slowest_is_drawn_once_among_its_neighbours_and_all_are_in_the_table() {
        let jobs: Vec<JobRecord> = (0..1000)
            .map(|n| job(n as u32 % 3, n, 100 * n, Some(100 * n + 10 + if n == 500 { 700 } else { n % 7 })))
            .collect();
        let drawing = slowest(&jobs, "a <run>").unwrap();
        let document = roxmltree::Document::parse(&drawing.svg).unwrap();
        let of = |class: &str| document.descendants().filter(|node| node.attribute("class") == Some(class)).count();
        assert_eq!((of("slowest"), of("job"), drawing.table.len()), (1, 2 * AROUND, 2 * AROUND + 2));
        assert!(drawing.table.iter().any(|row| row[0] == "500" && row[4] == "710 ns"), "{:?}", drawing.table);
    }

    #[test]
    fn bars_of_one_lane_never_overlap_and_lanes_belong_to_one_task() {
        // Every job of task 0 waits for the one before it; one never finishes.
        let mut jobs: Vec<JobRecord> = (0..20).map(|n| job(0, n, 10 * n, Some(10 * n + 35))).collect();
        jobs.extend((0..5).map(|n| job(7, n, 40 * n, if n == 2 { None } else { Some(40 * n + 5) })));
        let all: Vec<&JobRecord> = jobs.iter().collect();
        let lanes = lanes(&all);
        for (a, b) in (0..all.len()).flat_map(|b| (0..b).map(move |a| (a, b))).filter(|&(a, b)| lanes[a] == lanes[b]) {
            assert_eq!(all[a].task, all[b].task);
            let [first, second] = if all[a].release <= all[b].release { [a, b] } else { [b, a] };
            assert!(all[first].finish.unwrap() <= all[second].release, "{first} {second}");
        }
        assert!(lanes.iter().max() < Some(&8), "{lanes:?}");
        assert_eq!(slowest(&jobs[22..23], "").map(|drawing| drawing.svg), None);
        assert_eq!(slowest(&[], "").map(|drawing| drawing.svg), None);
    }
}
