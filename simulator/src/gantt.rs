//! A schedule as a drawing.

use crate::system::Error;
use crate::trace::Observer;
use std::fmt::Write;

/// More slices than can be told apart.
const MOST: usize = 4_000;
const WIDTH: f64 = 1000.0;
const LABELS: f64 = 130.0;
const ROW: f64 = 26.0;

/// Collects a schedule and draws it: a row a server, a bar for each stretch of processor time, shaded by job.
#[derive(Debug, Default)]
pub struct Gantt {
    /// (server, job number, from, to); slices of one job that touch are one.
    slices: Vec<(usize, Option<u64>, u64, u64)>,
}

impl Observer for Gantt {
    fn slice(&mut self, server: usize, job: Option<(u32, u64)>, from: u64, to: u64) -> Result<(), Error> {
        let job = job.map(|(task, number)| number << 8 | u64::from(task & 0xff));
        if let Some(last) = self.slices.iter_mut().rev().take(8).find(|last| last.0 == server) {
            if last.1 == job && last.3 == from {
                last.3 = to;
                return Ok(());
            }
        }
        if self.slices.len() == MOST {
            return Err(Error::TooLongToDraw { slices: MOST });
        }
        self.slices.push((server, job, from, to));
        Ok(())
    }
}

impl Gantt {
    /// The drawing, of 0 to `horizon` ns; `names` are the servers'. Colours follow the reader's light or dark scheme.
    pub fn svg(&self, names: &[&str], horizon: u64) -> String {
        let height = ROW * names.len() as f64 + 40.0;
        let scale = (WIDTH - LABELS) / horizon.max(1) as f64;
        let mut svg = format!(
            "<svg class=\"gantt\" xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height}\" role=\"img\" font-family=\"sans-serif\" font-size=\"12\">\n\
             <title>Schedule of {} ms</title>\n<style>.gantt{{color-scheme:light dark}}\
             .gantt text{{fill:light-dark(#222,#ddd)}}.gantt line{{stroke:light-dark(#ccc,#555)}}\
             .gantt .a{{fill:#3b74b8}}.gantt .b{{fill:#7fb0e6}}.gantt .c{{fill:#b9b9b9}}</style>\n",
            horizon as f64 / 1e6
        );
        for tick in 0..=10 {
            let (x, at) =
                (LABELS + (WIDTH - LABELS) * f64::from(tick) / 10.0, horizon as f64 / 1e6 * f64::from(tick) / 10.0);
            let anchor = if tick == 10 { "end" } else { "middle" };
            let _ = writeln!(
                svg,
                "<line x1=\"{x:.1}\" y1=\"0\" x2=\"{x:.1}\" y2=\"{:.1}\"/><text x=\"{x:.1}\" y=\"{:.1}\" text-anchor=\"{anchor}\">{at:.3}</text>",
                height - 28.0,
                height - 14.0
            );
        }
        let _ = writeln!(svg, "<text x=\"0\" y=\"{:.1}\">time in ms</text>", height - 14.0);
        for (row, name) in names.iter().enumerate() {
            let y = ROW * row as f64 + 17.0;
            let name: String = name.chars().filter(|c| !matches!(c, '<' | '>' | '&') && !c.is_control()).collect();
            let _ = writeln!(svg, "<text x=\"0\" y=\"{y:.1}\">{name}</text>");
        }
        for &(server, job, from, to) in &self.slices {
            let (x, width) = (LABELS + from as f64 * scale, ((to - from) as f64 * scale).max(0.3));
            let class = match job {
                None => "c",
                Some(number) if (number >> 8) % 2 == 0 => "a",
                Some(_) => "b",
            };
            let y = ROW * server as f64 + 5.0;
            let _ =
                writeln!(svg, "<rect class=\"{class}\" x=\"{x:.2}\" y=\"{y:.1}\" width=\"{width:.2}\" height=\"16\"/>");
        }
        svg + "</svg>\n"
    }
}
