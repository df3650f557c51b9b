//! A schedule as a drawing.

use crate::shown::Shown;
use crate::system::Error;
use crate::timeline::{Lane, Timeline};
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
#[derive(Debug)]
pub struct Gantt(Timeline);

impl Default for Gantt {
    fn default() -> Self {
        Gantt(Timeline::new(MOST))
    }
}

impl Gantt {
    /// What is told from now on is of these servers, in another play than before.
    pub fn play(&mut self, servers: &[Shown]) {
        self.0.play(servers);
    }

    /// Errors: more than can be told apart.
    fn more(&self) -> Result<(), Error> {
        match self.0.len() < MOST {
            true => Ok(()),
            false => Err(Error::TooLongToDraw { slices: MOST }),
        }
    }
}

impl Observer for Gantt {
    fn slice(&mut self, server: usize, job: Option<(u32, u64)>, from: u64, to: u64) -> Result<(), Error> {
        self.0.slice(server, job, from, to)?;
        self.more()
    }

    fn release(&mut self, server: usize, task: u32, at: u64) -> Result<(), Error> {
        self.0.release(server, task, at)?;
        self.more()
    }

    fn shows_budgets(&self) -> bool {
        self.0.shows_budgets()
    }

    fn budget(&mut self, server: usize, at: u64, left: i64) -> Result<(), Error> {
        self.0.budget(server, at, left)?;
        self.more()
    }
}

impl Gantt {
    /// The drawing, of 0 to `horizon` ns. Colours follow the reader's light or dark scheme.
    pub fn svg(&self, horizon: u64) -> String {
        let lanes: Vec<&Lane> = self.0.plays().iter().flat_map(|play| &play.lanes).collect();
        let height = ROW * lanes.len() as f64 + 40.0;
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
        for (row, lane) in lanes.into_iter().enumerate() {
            let top = ROW * row as f64;
            let name: String = lane.name.chars().filter(|c| !matches!(c, '<' | '>' | '&') && !c.is_control()).collect();
            let _ = writeln!(svg, "<text x=\"0\" y=\"{:.1}\">{name}</text>", top + 17.0);
            for &(from, length, job) in &lane.runs {
                let width = (length as f64 * scale).max(0.3);
                let class = match job {
                    None => "c",
                    Some(number) if (number >> 8) % 2 == 0 => "a",
                    Some(_) => "b",
                };
                let (x, y) = (x(from), top + 5.0);
                let _ = writeln!(
                    svg,
                    "<rect class=\"{class}\" x=\"{x:.2}\" y=\"{y:.1}\" width=\"{width:.2}\" height=\"{BAR}\"/>"
                );
            }
            let marks = [("r", 1.0, &lane.releases), ("d", 5.0, &lane.deadlines)];
            for (class, rise, times) in marks {
                for &at in times.iter().filter(|at| **at <= horizon) {
                    let (x, y) = (x(at), top + rise);
                    let _ = writeln!(
                        svg,
                        "<line class=\"{class}\" x1=\"{x:.2}\" y1=\"{y:.1}\" x2=\"{x:.2}\" y2=\"{:.1}\"/>",
                        y + 20.0
                    );
                }
            }
            if let Some(most) = lane.budget.iter().map(|(_, left)| *left).max() {
                let y = |left: u64| top + 5.0 + BAR * (1.0 - left as f64 / most.max(1) as f64);
                let line = lane.budget.iter().map(|&(at, left)| format!("{:.2},{:.1}", x(at), y(left)));
                let _ = writeln!(svg, "<polyline points=\"{}\"/>", line.collect::<Vec<_>>().join(" "));
            }
        }
        svg + "</svg>\n"
    }
}
