//! The (α, Δ) plane as a drawing.

use crate::plot::{short, Axis};
use giusto_analysis::interface::plane::{Piece, Plane};
use giusto_model::{Bandwidth, Interface};
use std::fmt::Write;

const WIDTH: f64 = 640.0;
const HEIGHT: f64 = 420.0;
const LEFT: f64 = 74.0;
const RIGHT: f64 = 26.0;
const TOP: f64 = 16.0;
const BOTTOM: f64 = 52.0;
/// Points of each piece of the curve.
const STEPS: u32 = 24;

/// As the report's, in the reader's light or dark scheme; without variables, which not all programs that draw know.
const STYLE: &str = "\
.plane .paper{fill:#fff}.plane text{fill:#5b5b62}.plane .grid{stroke:#dcdce0;fill:none}\
.plane .name{fill:#1c1c1e;font-weight:600;paint-order:stroke;stroke:#fff;stroke-width:4px;stroke-linejoin:round}\
.plane .enough{fill:#1466b8;fill-opacity:.16}.plane .curve{stroke:#1466b8;stroke-width:2;fill:none;stroke-linejoin:round}\
.plane .joint{fill:#1466b8}.plane .servers{stroke:#c2410c;stroke-width:1.5;stroke-dasharray:6 4;fill:none}\
.plane .server{fill:#c2410c;stroke:#fff;stroke-width:1.5}\
@media(prefers-color-scheme:dark){.plane .paper{fill:#161618}.plane text{fill:#a8a8b2}.plane .grid{stroke:#38383e}\
.plane .name{fill:#ececf0;stroke:#161618}.plane .enough{fill:#6cb4ff}.plane .curve{stroke:#6cb4ff}.plane .joint{fill:#6cb4ff}\
.plane .servers{stroke:#ff9563}.plane .server{fill:#ff9563;stroke:#161618}}";

/// `plane` as a self-contained SVG: bandwidths to the right, delays upward, what is enough shaded. With `server` also the line
/// of all servers of its period, Δ = 2Π(1 − α), and the server on it.
pub fn plane_svg(plane: &Plane, server: Option<Interface>) -> String {
    let (right, floor) = (WIDTH - RIGHT, HEIGHT - BOTTOM);
    let highest = plane.pieces.last().map_or(0.0, |last| delay(last, 1.0)).max(1.0) * 1.12;
    let times = Axis { low: 0.0, high: highest, logarithmic: false };
    let x = |share: f64| LEFT + share * (right - LEFT);
    let y = |ns: f64| floor - (ns / highest).clamp(0.0, 1.0) * (floor - TOP);
    let mut svg = format!(
        "<svg class=\"plane\" xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {HEIGHT}\" role=\"img\" \
         font-family=\"system-ui,sans-serif\" font-size=\"12\">\n<title>Which bandwidth with which delay is enough</title>\n\
         <style>{STYLE}</style>\n<rect class=\"paper\" width=\"{WIDTH}\" height=\"{HEIGHT}\"/>\n"
    );
    let mut line = |from: [f64; 2], to: [f64; 2], at: [f64; 2], anchor: &str, words: &str| {
        let _ = writeln!(
            svg,
            "<path class=\"grid\" d=\"M{:.1} {:.1}L{:.1} {:.1}\"/><text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"{anchor}\">{words}</text>",
            from[0], from[1], to[0], to[1], at[0], at[1]
        );
    };
    for tenth in (0..=10).step_by(2) {
        let at = x(f64::from(tenth) / 10.0);
        line([at, floor], [at, TOP], [at, floor + 17.0], "middle", &format!("{} %", 10 * tenth));
    }
    for ns in times.ticks() {
        line([LEFT, y(ns)], [right, y(ns)], [LEFT - 7.0, y(ns) + 4.0], "end", &short(ns));
    }
    let _ = writeln!(
        svg,
        "<text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"middle\">bandwidth α</text>\n\
         <text transform=\"translate(14 {:.1})rotate(-90)\" text-anchor=\"middle\">delay Δ</text>",
        (LEFT + right) / 2.0,
        HEIGHT - 12.0,
        (TOP + floor) / 2.0
    );
    let mut curve = String::new();
    for piece in &plane.pieces {
        for step in 0..=STEPS {
            let share =
                piece.from.as_f64() + (piece.to.as_f64() - piece.from.as_f64()) * f64::from(step) / f64::from(STEPS);
            let _ = write!(
                curve,
                "{}{:.1} {:.1}",
                if curve.is_empty() { "M" } else { "L" },
                x(share),
                y(delay(piece, share))
            );
        }
    }
    let from = plane.pieces.first().map_or(Bandwidth::ONE, |first| first.from).as_f64();
    let _ = writeln!(
        svg,
        "<path class=\"enough\" d=\"{curve}V{floor:.1}H{:.1}Z\"/>\n<path class=\"curve\" d=\"{curve}\"/>",
        x(from)
    );
    for piece in plane.pieces.iter().skip(1) {
        let share = piece.from.as_f64();
        let _ = writeln!(
            svg,
            "<circle class=\"joint\" cx=\"{:.1}\" cy=\"{:.1}\" r=\"2.5\"/>",
            x(share),
            y(delay(piece, share))
        );
    }
    name(&mut svg, [x((1.0 + from) / 2.0), floor - 10.0], "middle", "enough");
    if plane.pieces.first().is_some_and(|first| delay(first, from) > 0.0) {
        name(&mut svg, [x(from) - 8.0, floor - 10.0], "end", "not computed");
    }
    if let Some(server) = server {
        mark(&mut svg, server, highest, &x, &y);
    }
    svg + "</svg>\n"
}

/// t − W/α, to be drawn.
fn delay(piece: &Piece, share: f64) -> f64 {
    (piece.at.ns() as f64 - piece.demand.ns() as f64 / share).max(0.0)
}

/// All servers of a period, as far as they can be seen, and one of them.
fn mark(svg: &mut String, server: Interface, highest: f64, x: &dyn Fn(f64) -> f64, y: &dyn Fn(f64) -> f64) {
    let gap = |share: f64| 2.0 * server.period.ns() as f64 * (1.0 - share);
    let seen = (1.0 - highest / gap(0.0)).max(0.0);
    let share = server.bandwidth().as_f64();
    let at = [x(share), y(gap(share))];
    let _ = writeln!(
        svg,
        "<path class=\"servers\" d=\"M{:.1} {:.1}L{:.1} {:.1}\"/>\n<circle class=\"server\" cx=\"{:.1}\" cy=\"{:.1}\" r=\"5\"/>",
        x(seen),
        y(gap(seen)),
        x(1.0),
        y(0.0),
        at[0],
        at[1]
    );
    let words = format!("{:.3} every {:.3}", server.budget, server.period);
    // To the right the line is below; to the left it is where there is no room.
    let (dx, anchor) = if share > 0.68 { (-10.0, "end") } else { (10.0, "start") };
    name(svg, [at[0] + dx, at[1] - 6.0], anchor, &words);
}

fn name(svg: &mut String, at: [f64; 2], anchor: &str, words: &str) {
    let _ = writeln!(
        svg,
        "<text class=\"name\" x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"{anchor}\">{words}</text>",
        at[0], at[1]
    );
}
