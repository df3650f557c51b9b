//! A schedule as a drawing.

use crate::shown::{Copy, Shown};
use crate::system::Error;
use crate::trace::Observer;
use std::fmt::Write;

/// More than can be told apart.
const MOST: usize = 4_000;
const WIDTH: f64 = 1000.0;
const LABELS: f64 = 190.0;
const ROW: f64 = 26.0;
const BAR: f64 = 16.0;

/// Collects schedules and draws them: of each server a row a task, with a bar for each stretch of processor time, shaded by job,
/// a line up where a job came and one down at its deadline; below them what is left of the budget.
#[derive(Debug, Default)]
pub struct Gantt {
    rows: Vec<String>,
    /// The servers of this play.
    servers: Vec<Server>,
    /// (row, job number, from, to); slices of one job that touch are one.
    slices: Vec<(usize, Option<u64>, u64, u64)>,
    /// (row, when, whether it is a deadline).
    marks: Vec<(usize, u64, bool)>,
    /// Of each server with a budget, its row, and what was left when.
    budgets: Vec<(usize, Vec<(u64, i64)>)>,
}

/// Where a server is drawn.
#[derive(Debug)]
struct Server {
    /// Its first row.
    row: usize,
    copies: Vec<Copy>,
    /// Its place among the budgets, once something was told of it; its name.
    budget: Option<usize>,
    name: String,
}

impl Gantt {
    /// What is told from now on is of these servers, in another play than before.
    pub fn play(&mut self, servers: &[Shown]) {
        self.servers.clear();
        for shown in servers {
            let row = self.rows.len();
            match shown.tasks {
                [] => self.rows.push(shown.name.into()),
                tasks => self.rows.extend(tasks.iter().enumerate().map(|(nth, task)| {
                    let own = if task.name.is_empty() { format!("task {nth}") } else { task.name.clone() };
                    format!("{}: {own}", shown.name)
                })),
            }
            self.servers.push(Server { row, copies: shown.copies(), budget: None, name: shown.name.into() });
        }
    }

    fn row(&self, server: usize, task: Option<u32>) -> usize {
        let Some(shown) = self.servers.get(server) else { return server };
        let copy = task.and_then(|task| shown.copies.get(task as usize));
        shown.row + copy.map_or(0, |copy| copy.task)
    }

    /// Errors: more than can be told apart.
    fn more(&self) -> Result<(), Error> {
        let points: usize = self.budgets.iter().map(|(_, points)| points.len()).sum();
        match self.slices.len() + self.marks.len() + points < MOST {
            true => Ok(()),
            false => Err(Error::TooLongToDraw { slices: MOST }),
        }
    }
}

impl Observer for Gantt {
    fn slice(&mut self, server: usize, job: Option<(u32, u64)>, from: u64, to: u64) -> Result<(), Error> {
        let row = self.row(server, job.map(|(task, _)| task));
        let job = job.map(|(task, number)| number << 8 | u64::from(task & 0xff));
        if let Some(last) = self.slices.iter_mut().rev().take(8).find(|last| last.0 == row) {
            if last.1 == job && last.3 == from {
                last.3 = to;
                return Ok(());
            }
        }
        self.more()?;
        self.slices.push((row, job, from, to));
        Ok(())
    }

    fn release(&mut self, server: usize, task: u32, at: u64) -> Result<(), Error> {
        let copy = self.servers.get(server).and_then(|shown| shown.copies.get(task as usize));
        let Some(deadline) = copy.map(|copy| at.saturating_add(copy.deadline.ns())) else { return Ok(()) };
        self.more()?;
        let row = self.row(server, Some(task));
        self.marks.extend([(row, at, false), (row, deadline, true)]);
        Ok(())
    }

    fn shows_budgets(&self) -> bool {
        !self.servers.is_empty()
    }

    fn budget(&mut self, server: usize, at: u64, left: i64) -> Result<(), Error> {
        let Some(shown) = self.servers.get_mut(server) else { return Ok(()) };
        let place = *shown.budget.get_or_insert_with(|| {
            self.rows.push(format!("{}: budget left", shown.name));
            self.budgets.push((self.rows.len() - 1, Vec::new()));
            self.budgets.len() - 1
        });
        let (points, left) = (&mut self.budgets[place].1, left.max(0));
        // It rises at once.
        let before = points.last().map(|(_, before)| *before).filter(|before| *before < left);
        points.extend(before.map(|before| (at, before)));
        points.push((at, left));
        self.more()
    }
}

impl Gantt {
    /// The drawing, of 0 to `horizon` ns. Colours follow the reader's light or dark scheme.
    pub fn svg(&self, horizon: u64) -> String {
        let height = ROW * self.rows.len() as f64 + 40.0;
        let scale = (WIDTH - LABELS) / horizon.max(1) as f64;
        let x = |at: u64| LABELS + at as f64 * scale;
        let mut svg = format!(
            "<svg class=\"gantt\" xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height}\" role=\"img\" font-family=\"sans-serif\" font-size=\"12\">\n\
             <title>Schedule of {} ms</title>\n<style>.gantt{{color-scheme:light dark}}\
             .gantt text{{fill:light-dark(#222,#ddd)}}.gantt line{{stroke:light-dark(#ccc,#555)}}\
             .gantt .a{{fill:#3b74b8}}.gantt .b{{fill:#7fb0e6}}.gantt .c{{fill:#b9b9b9}}\
             .gantt .r{{stroke:light-dark(#222,#ddd);stroke-width:1.5}}.gantt .d{{stroke:#c0392b;stroke-width:1.5}}\
             .gantt polyline{{fill:none;stroke:#2e8b57;stroke-width:1.2}}</style>\n",
            horizon as f64 / 1e6
        );
        for tick in 0..=10 {
            let at = horizon as f64 / 1e6 * f64::from(tick) / 10.0;
            let x = LABELS + (WIDTH - LABELS) * f64::from(tick) / 10.0;
            let anchor = if tick == 10 { "end" } else { "middle" };
            let _ = writeln!(
                svg,
                "<line x1=\"{x:.1}\" y1=\"0\" x2=\"{x:.1}\" y2=\"{:.1}\"/><text x=\"{x:.1}\" y=\"{:.1}\" text-anchor=\"{anchor}\">{at:.3}</text>",
                height - 28.0,
                height - 14.0
            );
        }
        let _ = writeln!(svg, "<text x=\"0\" y=\"{:.1}\">time in ms</text>", height - 14.0);
        for (row, name) in self.rows.iter().enumerate() {
            let y = ROW * row as f64 + 17.0;
            let name: String = name.chars().filter(|c| !matches!(c, '<' | '>' | '&') && !c.is_control()).collect();
            let _ = writeln!(svg, "<text x=\"0\" y=\"{y:.1}\">{name}</text>");
        }
        for &(row, job, from, to) in &self.slices {
            let width = ((to - from) as f64 * scale).max(0.3);
            let class = match job {
                None => "c",
                Some(number) if (number >> 8) % 2 == 0 => "a",
                Some(_) => "b",
            };
            let (x, y) = (x(from), ROW * row as f64 + 5.0);
            let _ = writeln!(
                svg,
                "<rect class=\"{class}\" x=\"{x:.2}\" y=\"{y:.1}\" width=\"{width:.2}\" height=\"{BAR}\"/>"
            );
        }
        for &(row, at, is_deadline) in self.marks.iter().filter(|(_, at, _)| *at <= horizon) {
            let (class, rise) = if is_deadline { ("d", 5.0) } else { ("r", 1.0) };
            let (x, top) = (x(at), ROW * row as f64 + rise);
            let _ = writeln!(
                svg,
                "<line class=\"{class}\" x1=\"{x:.2}\" y1=\"{top:.1}\" x2=\"{x:.2}\" y2=\"{:.1}\"/>",
                top + 20.0
            );
        }
        for (row, points) in &self.budgets {
            let most = points.iter().map(|(_, left)| *left).max().unwrap_or(0).max(1) as f64;
            let y = |left: i64| ROW * *row as f64 + 5.0 + BAR * (1.0 - left as f64 / most);
            let line = points.iter().map(|&(at, left)| format!("{:.2},{:.1}", x(at), y(left)));
            let _ = writeln!(svg, "<polyline points=\"{}\"/>", line.collect::<Vec<_>>().join(" "));
        }
        svg + "</svg>\n"
    }
}
