//! The drawing of the (α, Δ) plane: complete by itself, readable, and true to the curve.

use giusto_analysis::interface::plane::{plane, Plane};
use giusto_analysis::interface::Scheduler;
use giusto_model::{Bandwidth, Duration, Interface, Task};
use giusto_verify::plane_svg;
use roxmltree::{Document, Node};

fn curve(scheduler: Scheduler, tasks: &[&str], least: Option<&str>) -> Plane {
    let tasks: Vec<Task> = tasks.iter().map(|task| task.parse().unwrap()).collect();
    plane(&tasks, scheduler, least.map(|least| least.parse().unwrap())).unwrap().unwrap()
}

/// Curves of one piece and of many, of a single point, cut off, of nanoseconds and of hours.
fn curves() -> Vec<Plane> {
    vec![
        curve(Scheduler::Rm, &["2ms/7ms", "1ms/8ms", "1ms/10ms"], None),
        curve(Scheduler::Edf, &["2ms/7ms", "1ms/8ms", "1ms/10ms"], None),
        curve(Scheduler::Dm, &["2ms/10ms@6ms", "7ms/40ms@30ms", "9ms/60ms"], Some("60%")),
        curve(Scheduler::Edf, &["1ns/2ns", "1ns/2ns"], None),
        curve(Scheduler::Rm, &["1ns/1000s"], None),
        curve(Scheduler::Edf, &["3000s/36000s"], Some("99.9%")),
    ]
}

/// The classes of an element.
fn is(node: &Node<'_, '_>, class: &str) -> bool {
    node.attribute("class") == Some(class)
}

/// All points of a path of M, L, V, H and Z.
fn points(path: &str) -> Vec<[f64; 2]> {
    let spaced = path.replace(['M', 'L'], " P ").replace('V', " V ").replace('H', " H ").replace('Z', "");
    let mut words = spaced.split_whitespace();
    let mut points: Vec<[f64; 2]> = Vec::new();
    while let Some(letter) = words.next() {
        let mut number = || words.next().unwrap().parse::<f64>().unwrap();
        let last = points.last().copied().unwrap_or_default();
        points.push(match letter {
            "V" => [last[0], number()],
            "H" => [number(), last[1]],
            _ => [number(), number()],
        });
    }
    points
}

#[test]
fn it_is_one_file_with_both_schemes_labels_on_both_axes_and_nothing_outside() {
    for plane in curves() {
        for server in [None, Some("3ms/10ms"), Some("1ns/1ns"), Some("9000s/36000s")] {
            let svg = plane_svg(&plane, server.map(|server| server.parse::<Interface>().unwrap()));
            assert!(!svg.contains("NaN") && !svg.contains("inf"), "{svg}");
            assert!(svg.contains("prefers-color-scheme:dark"));
            assert!(!svg.contains("href") && !svg.contains("url(") && !svg.contains("<script"));
            let document = Document::parse(&svg).unwrap();
            let texts: Vec<_> = document.descendants().filter(|node| node.has_tag_name("text")).collect();
            for label in ["bandwidth α", "delay Δ", "100 %", "enough"] {
                assert!(texts.iter().any(|text| text.text() == Some(label)), "{label}: {svg}");
            }
            let path = |node: Node<'_, '_>| points(node.attribute("d").unwrap());
            let all = document.descendants().filter(|node| node.has_tag_name("path")).flat_map(path);
            for [x, y] in all {
                assert!((74.0..=614.1).contains(&x) && (15.9..=368.1).contains(&y), "{x} {y}: {svg}");
            }
            for text in texts.iter().filter(|text| text.attribute("x").is_some()) {
                let x: f64 = text.attribute("x").unwrap().parse().unwrap();
                // 0.62 em a character is wider than the letters of common fonts.
                let width = text.text().unwrap().chars().count() as f64 * 0.62 * 12.0;
                let (from, to) = match text.attribute("text-anchor") {
                    Some("end") => (x - width, x),
                    Some("middle") => (x - width / 2.0, x + width / 2.0),
                    _ => (x, x + width),
                };
                assert!(from >= 0.0 && to <= 640.0, "{:?} from {from} to {to}", text.text());
            }
        }
    }
}

#[test]
fn the_curve_and_the_server_are_drawn_where_they_are() {
    let plane = curve(Scheduler::Rm, &["2ms/7ms", "1ms/8ms", "1ms/10ms"], None);
    let server = Interface {
        period: Duration::from_ms(3),
        budget: plane.least_budget(Duration::from_ms(3), Duration::from_ns(1)).unwrap().unwrap(),
    };
    let svg = plane_svg(&plane, Some(server));
    let document = Document::parse(&svg).unwrap();
    let one = |class: &str| document.descendants().find(|node| is(node, class)).unwrap();
    // Linear scales: α from 74 to 614, Δ from 368 (nothing) to 16 (1.12 times the most).
    let x = |share: f64| 74.0 + 540.0 * share;
    let y = |ms: f64| 368.0 - 352.0 * ms / (3.0 * 1.12);
    let drawn = points(one("curve").attribute("d").unwrap());
    assert!(drawn.len() > 20);
    let mut between = 0;
    for [at, height] in drawn {
        let share = Bandwidth::new(((at - 74.0) / 540.0 * 1e6) as u64, 1_000_000).unwrap();
        let Some(delay) = plane.delay(share.min(Bandwidth::ONE)) else { continue };
        between += 1;
        assert!((height - y(delay.to_integer() as f64 / 1e6)).abs() < 0.7, "{share}: {height}");
    }
    assert!(between > 20);
    let share = server.bandwidth().as_f64();
    let gap = 2.0 * (3.0 - server.budget.ns() as f64 / 1e6);
    let number = |key: &str| one("server").attribute(key).unwrap().parse::<f64>().unwrap();
    assert!((number("cx") - x(share)).abs() < 0.1 && (number("cy") - y(gap)).abs() < 0.1, "{svg}");
    // It is where the line of its period meets the curve.
    let line = points(one("servers").attribute("d").unwrap());
    let slope = (line[1][1] - line[0][1]) / (line[1][0] - line[0][0]);
    assert!((line[0][1] + slope * (number("cx") - line[0][0]) - number("cy")).abs() < 0.3, "{line:?}");
    assert!(plane_svg(&plane, None).matches("class=\"server").count() == 0);
}
