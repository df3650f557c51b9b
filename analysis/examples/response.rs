//! How long answers take: the shortest of 200 ms, so that what else the machine does is left out.
use giusto_analysis::response::{response, Precision, Question, Server};
use giusto_model::Duration;
use std::time::Instant;

/// Of the line that the bench compares, with shares up to the times that it tells (in ms).
const COMPARED: [(&str, &str); 3] = [("base N=20", "N=20"), ("base default", "default"), ("base N=1000", "N=1000")];

fn main() {
    let as_json = std::env::args().any(|word| word == "--json");
    let d = |ms: f64| Duration::from_ns((ms * 1e6) as u64);
    let q = |b: f64, p: f64, s: f64, rate: &str| Question {
        server: Server::Deferrable,
        budget: d(b),
        period: d(p),
        rate: rate.parse().unwrap(),
        service: vec![(d(s), 1.0)],
        batch: vec![(1, 1.0)],
    };
    let base = q(1.2, 2.0, 1.0, "0.4/ms");
    let cases = [
        ("base N=20", base.clone(), Precision::Slots(20)),
        ("base N=40", base.clone(), Precision::Slots(40)),
        ("base default", base.clone(), Precision::default()),
        ("base N=1000", base.clone(), Precision::Slots(1000)),
        ("redis", q(6.0, 10.0, 8.55, "0.004/ms"), Precision::default()),
        ("U/W=.99", q(1.0, 2.0, 1.0, "0.495/ms"), Precision::default()),
        ("P=20d", q(12.0, 20.0, 1.0, "0.4/ms"), Precision::default()),
        ("P=100d", q(60.0, 100.0, 1.0, "0.4/ms"), Precision::default()),
        ("P=d/100", q(0.006, 0.01, 1.0, "0.4/ms"), Precision::default()),
        ("anew", Question { server: Server::ConstantBandwidth, ..base.clone() }, Precision::default()),
        (
            "anew P=d/10",
            Question { server: Server::ConstantBandwidth, ..q(0.06, 0.1, 1.0, "0.4/ms") },
            Precision::default(),
        ),
        ("odd budget", q(1.2000001, 2.0, 1.0, "0.4/ms"), Precision::default()),
        ("whole", q(2.0, 2.0, 1.0, "0.4/ms"), Precision::default()),
    ];
    for (name, question, precision) in cases {
        let start = Instant::now();
        let mut each = f64::INFINITY;
        let mut answer = None;
        while start.elapsed().as_millis() < 200 || answer.is_none() {
            let one = Instant::now();
            answer = Some(response(&question, &[question.service[0].0], &[50.0, 90.0, 99.0, 99.9], precision));
            each = each.min(one.elapsed().as_secs_f64() * 1e3);
        }
        if as_json {
            let Some((_, case)) = COMPARED.iter().find(|(of, _)| *of == name) else { continue };
            let at: Vec<Duration> = [1.0, 1.5, 2.0, 3.0, 5.0, 8.0, 12.0].map(d).to_vec();
            let cdf = response(&question, &at, &[], precision).expect("as above").cdf;
            let cdf: Vec<(f64, f64)> = cdf.iter().map(|at| (at.at.ns() as f64 / 1e6, at.p)).collect();
            println!("{}", serde_json::json!({"case": case, "seconds": each / 1e3, "cdf": cdf}));
            continue;
        }
        match answer {
            Some(Ok(a)) => println!(
                "{name:14} {each:9.3} ms  N={:<6.0} error {:?} lost {:.1e} mean {:.4} ms p {:?}",
                a.slots,
                a.error,
                a.lost,
                a.mean.ns() as f64 / 1e6,
                a.percentiles.iter().map(|p| (p.at.ns() as f64 / 1e4).round() / 100.0).collect::<Vec<_>>()
            ),
            Some(Err(e)) => println!("{name:14} {each:9.3} ms  {e}"),
            None => {}
        }
    }
}
