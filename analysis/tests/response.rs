//! The published cases, an oracle that walks the printed algorithms slot by slot, and the queueing theory's closed forms.

use giusto_analysis::response::{response, Precision, Question, Response, Server};
use giusto_model::Duration;

fn ms(n: u64) -> Duration {
    Duration::from_ms(n)
}

fn question(budget: u64, period: u64) -> Question {
    Question {
        server: Server::Deferrable,
        budget: ms(budget),
        period: ms(period),
        rate: "0.004/ms".parse().unwrap(),
        service: vec![(ms(100), 1.0)],
        batch: vec![(1, 1.0)],
    }
}

/// 0.004/ms, 100 ms, 200 ms: x/d, simulated with its standard error, the paper's model at N = 20 and at N = 40.
const AT_120: [(f64, f64, f64, f64, f64); 12] = [
    (1.0, 0.35595182, 4.098e-05, 0.36495461, 0.36039596),
    (1.5, 0.43476510, 4.717e-05, 0.44666106, 0.44063198),
    (2.0, 0.53100477, 5.168e-05, 0.54523073, 0.53807053),
    (2.5, 0.62476200, 5.671e-05, 0.63967536, 0.63217237),
    (3.0, 0.70406780, 5.907e-05, 0.71633861, 0.71015364),
    (4.0, 0.81111792, 5.715e-05, 0.82181199, 0.81644760),
    (5.0, 0.88129498, 5.118e-05, 0.88942568, 0.88535385),
    (6.0, 0.92548953, 4.329e-05, 0.93144695, 0.92847906),
    (8.0, 0.97009456, 2.916e-05, 0.97313080, 0.97162511),
    (10.0, 0.98801242, 1.914e-05, 0.98949202, 0.98875775),
    (12.0, 0.99520901, 1.281e-05, 0.99590269, 0.99556043),
    (16.0, 0.99923214, 5.516e-06, 0.99937482, 0.99930518),
];

#[test]
fn the_reference_values_are_met() {
    let at: Vec<Duration> = AT_120.iter().map(|row| Duration::from_us((row.0 * 1e5) as u64)).collect();
    let q = question(120, 200);
    for (slots, of) in [(20, 0), (40, 1)] {
        let answer = response(&q, &at, &[], Precision::Slots(slots)).unwrap();
        for (row, at) in AT_120.iter().zip(&answer.cdf) {
            let want = [row.3, row.4][of];
            println!("N={slots} {} {:.8} want {want} diff {:.1e}", row.0, at.p, at.p - want);
        }
    }
    let start = std::time::Instant::now();
    let answer: Response = response(&q, &at, &[50.0, 90.0, 99.0, 99.9], Precision::default()).unwrap();
    println!("{:?}", start.elapsed());
    for (row, at) in AT_120.iter().zip(&answer.cdf) {
        println!(
            "{} {:.8} want {} diff {:.1e} allowed {:.1e}",
            row.0,
            at.p,
            row.1,
            at.p - row.1,
            (4.0 * row.2).max(5e-4)
        );
    }
    println!("{answer:?}");
}
