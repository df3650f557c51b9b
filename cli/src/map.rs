//! `giusto analyze map`.

use crate::args::MapArgs;
use crate::failure::{create, Failure};
use crate::response::requests;
use crate::table::{json, print, say, table};
use giusto_analysis::response::{Cell, Map};
use giusto_answers::map::{Axes, Question};
use giusto_model::Duration;
use giusto_planner::share as percent;
use giusto_verify::{curves_svg, Line, Panel};
use indicatif::{ProgressBar, ProgressStyle};
use std::io::Write;
use std::path::Path;
use std::process::ExitCode;

/// Lines of a drawing, and rows and columns of the table.
const SHOWN: usize = 6;
/// The drawing ends at so many times what a whole core has.
const HIGHEST: f64 = 6.0;

/// `giusto analyze map`
pub(crate) fn map(args: &MapArgs) -> Result<ExitCode, Failure> {
    let question = Question {
        requests: requests(&args.requests)?,
        percentiles: args.percentile.clone(),
        bandwidth: args.bandwidth,
        period: args.period,
        steps: args.steps,
    };
    let axes = question.axes();
    let Axes { bandwidths, periods } = &axes;
    let style = ProgressStyle::with_template("{wide_bar} {pos} of {len} shares, {eta} left");
    let bar = ProgressBar::new((bandwidths.len() * periods.len()) as u64)
        .with_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
    let found = question.answer(&axes, &|| bar.inc(1))?;
    bar.finish_and_clear();
    let widths = bandwidths.len();
    if let Some(path) = &args.csv {
        write(path, &csv(&found))?;
    }
    if let Some(path) = &args.plot {
        write(path, &curves_svg(&panels(&found, widths)))?;
    }
    if args.json {
        return json(&found);
    }
    let (columns, rows) = (spread(widths), spread(periods.len()));
    let mut lines = vec![vec!["period".to_string()]];
    lines[0].extend(columns.iter().map(|&column| percent(bandwidths[column])));
    for row in rows {
        let cells = columns.iter().map(|&column| &found.cells[row * widths + column]);
        let cells = cells.map(|cell| cell.at.first().map_or("-".into(), |at| format!("{at:.3}")));
        lines.push([format!("{:.3}", periods[row])].into_iter().chain(cells).collect());
    }
    print(&table(&lines, 0))?;
    let answered = found.cells.iter().filter(|cell| cell.refused.is_none()).count();
    say!(
        "p{} over bandwidths and periods, {answered} of {} shares; {:.3} on a whole core (M/G/1)",
        args.percentile[0],
        found.cells.len(),
        found.whole[0]
    );
    Ok(ExitCode::SUCCESS)
}

fn write(path: &Path, text: &str) -> Result<(), Failure> {
    let mut file = create(path)?;
    let cannot = |error| Failure::running(format!("cannot write {}: {error}", path.display()));
    file.write_all(text.as_bytes()).and_then(|()| file.flush()).map_err(cannot)
}

/// Some of so many, evenly, the first and the last among them.
fn spread(count: usize) -> Vec<usize> {
    let shown = SHOWN.min(count);
    (0..shown).map(|k| k * (count - 1) / (shown - 1).max(1)).collect()
}

fn csv(map: &Map) -> String {
    let mut text = String::from("period_ns,budget_ns,bandwidth");
    map.percentiles.iter().for_each(|p| text += &format!(",p{p}_ns"));
    text += ",refused\n";
    for cell in &map.cells {
        text += &format!("{},{},{:.6}", cell.period.ns(), cell.budget.ns(), cell.bandwidth.as_f64());
        for place in 0..map.percentiles.len() {
            text += &cell.at.get(place).map_or(",".into(), |at| format!(",{}", at.ns()));
        }
        text += &cell.refused.as_ref().map_or(",\n".into(), |why| format!(",\"{}\"\n", why.replace('"', "'")));
    }
    text
}

/// The first percentile over bandwidths, for some periods, and over periods, for some bandwidths; ms.
fn panels(map: &Map, widths: usize) -> [Panel; 2] {
    let ms = |time: Duration| time.ns() as f64 / 1e6;
    let (p, whole) = (map.percentiles[0], ms(map.whole[0]));
    let up = |cell: &Cell| cell.at.first().map_or(f64::NAN, |at| ms(*at));
    let limit =
        |from: f64, to: f64| Line { name: "whole core".into(), points: vec![[from, whole], [to, whole]], limit: true };
    let rows: Vec<&[Cell]> = map.cells.chunks(widths).collect();
    let across = |cell: &Cell| 100.0 * cell.bandwidth.as_f64();
    let (first, last) = (&map.cells[0], &map.cells[map.cells.len() - 1]);
    let of_period = spread(rows.len()).into_iter().map(|row| Line {
        name: format!("P = {:.3}", rows[row][0].period),
        points: rows[row].iter().map(|cell| [across(cell), up(cell)]).collect(),
        limit: false,
    });
    let of_share = spread(widths).into_iter().map(|column| Line {
        name: format!("W = {:.1} %", across(&rows[0][column])),
        points: rows.iter().map(|row| [ms(row[column].period), up(&row[column])]).collect(),
        limit: false,
    });
    let panel = |title: &str, across: &str, logarithmic, lines: Vec<Line>| Panel {
        title: title.into(),
        across: across.into(),
        up: format!("p{p} of the response time, ms"),
        logarithmic,
        top: Some(HIGHEST * whole),
        lines,
    };
    [
        panel(
            "Response time over the bandwidth",
            "bandwidth W, %",
            false,
            of_period.chain([limit(across(first), across(last))]).collect(),
        ),
        panel(
            "Response time over the period",
            "period P, ms",
            true,
            of_share.chain([limit(ms(first.period), ms(last.period))]).collect(),
        ),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two periods with three bandwidths each, of which the first is refused.
    fn two_by_three() -> Map {
        let ms = Duration::from_ms;
        let cell = |(period, percent): (u64, u64)| {
            let bandwidth = giusto_model::Bandwidth::new(percent, 100).unwrap();
            let answered = percent > 40;
            Cell {
                period: ms(period),
                budget: bandwidth.times_ceil(ms(period)).unwrap(),
                bandwidth,
                at: if answered { vec![ms(period + percent), ms(2 * percent)] } else { Vec::new() },
                refused: (!answered).then(|| "says \"no\"".to_string()),
            }
        };
        let cells = [10, 20].into_iter().flat_map(|period| [40, 60, 100].map(|percent| (period, percent)));
        Map { percentiles: vec![90.0, 99.0], whole: vec![ms(5), ms(9)], cells: cells.map(cell).collect() }
    }

    #[test]
    fn what_is_shown_begins_with_the_first_and_ends_with_the_last_and_each_is_shown_once() {
        for count in 1..100 {
            let shown = spread(count);
            assert_eq!(shown.len(), count.min(SHOWN));
            assert_eq!((shown[0], shown[shown.len() - 1]), (0, count - 1));
            let gaps: Vec<usize> = shown.windows(2).map(|two| two[1] - two[0]).collect();
            let (least, most) = (gaps.iter().min(), gaps.iter().max());
            assert!(gaps.is_empty() || least >= Some(&1) && most.unwrap() - least.unwrap() <= 1, "{count}: {shown:?}");
        }
    }

    #[test]
    fn a_row_a_share_with_all_percentiles_or_the_reason() {
        let text = csv(&two_by_three());
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines.len(), 7);
        assert_eq!(lines[0], "period_ns,budget_ns,bandwidth,p90_ns,p99_ns,refused");
        assert_eq!(lines[1], "10000000,4000000,0.400000,,,\"says 'no'\"");
        assert_eq!(lines[6], "20000000,20000000,1.000000,120000000,200000000,");
        assert!(lines.iter().all(|line| line.split(',').count() == 6), "{text}");
    }

    #[test]
    fn a_line_a_period_over_bandwidths_and_a_line_a_bandwidth_over_periods_and_the_whole_core_beside() {
        let [over_shares, over_periods] = panels(&two_by_three(), 3);
        assert_eq!((over_shares.lines.len(), over_periods.lines.len()), (3, 4));
        let second = &over_shares.lines[1];
        assert!(second.points[0][1].is_nan(), "a refused share is a gap");
        assert_eq!(second.points[1..], [[60.0, 80.0], [100.0, 120.0]]);
        assert_eq!(over_periods.lines[2].points, [[10.0, 110.0], [20.0, 120.0]]);
        for panel in [over_shares, over_periods] {
            let limits: Vec<&Line> = panel.lines.iter().filter(|line| line.limit).collect();
            assert!(limits.len() == 1 && limits[0].points.iter().all(|point| point[1] == 5.0));
            assert_eq!(panel.top, Some(30.0));
        }
    }
}
