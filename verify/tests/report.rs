//! The report is one well-formed page that stands alone.

mod common;

use common::{bursty, rng, sample};
use giusto_model::{Duration, Instant, JobRecord, Prediction, Within};
use giusto_verify::{
    compare, compare_two, kept, report_html, slowest, Arms, Findings, Predicted, ReportMeta, Round, Sample,
};

fn page(predicted: Option<Predicted>, giusto: Vec<Sample>) -> String {
    let mut rng = rng(4);
    let mut run = |mean| Some(bursty(1500, mean, 3.0, &mut rng));
    let round =
        |giusto| Round { whole_a: run(50.0), whole_b: run(50.0), unprotected: run(5000.0), giusto: Some(giusto) };
    let rounds = giusto.into_iter().map(round).collect();
    let voided = vec!["round 3: steal > 1 % & more".into()];
    let arms = Arms { rounds, predicted, voided, ..Arms::default() };
    let lines =
        [("command <1>", "giusto run \"site\" & more"), ("kernel", "6.1 'PREEMPT' </dl><script>alert(1)</script>")];
    let meta = ReportMeta {
        title: "cache </title><b>on</b> a share".into(),
        outcome: "60 % of <the core> left".into(),
        lines: lines.map(|(name, value)| (name.to_string(), value.to_string())).to_vec(),
        ..ReportMeta::default()
    };
    report_html(&meta, Findings::AsIfAlone(&compare(&arms, 1).unwrap(), &arms))
}

fn pages() -> Vec<String> {
    let summary = Prediction {
        jobs: 5,
        p50: Duration::from_us(130),
        p99: Duration::from_us(330),
        p99_9: Duration::from_us(400),
        max: Duration::from_us(410),
    };
    let giusto = bursty(1500, 50.0, 3.0, &mut rng(5));
    vec![
        page(Some(Predicted::Percentiles(summary)), vec![giusto.clone()]),
        page(Some(Predicted::Sample(giusto.clone())), vec![giusto]),
        page(None, vec![Sample::from_responses(vec![None; 5]).unwrap(), sample([])]),
        report_html(
            &ReportMeta::default(),
            Findings::AsIfAlone(&compare(&Arms::default(), 1).unwrap(), &Arms::default()),
        ),
        two(),
        percentiles(),
    ]
}

fn two() -> String {
    let [a, b] = [6, 7].map(|seed| bursty(1500, 50.0, 3.0, &mut rng(seed)));
    let job = |job: u64| {
        let [release, finish] = [job * 100, job * 100 + 10 + job % 90].map(Instant::from_ns);
        JobRecord { task: 0, job, due: release, release, finish: Some(finish) }
    };
    let jobs: Vec<JobRecord> = (0..200).map(job).collect();
    let schedule = slowest(&jobs, "a <run>").into_iter().collect();
    let meta = ReportMeta { schedule, ..ReportMeta::default() };
    report_html(&meta, Findings::Two(&compare_two(&a, &b, None, 1).unwrap(), &Arms::of_files(&[a], &b)))
}

fn percentiles() -> String {
    let runs = [bursty(1500, 50.0, 3.0, &mut rng(8))];
    let promised = [Within { percentile: "p90".parse().unwrap(), within: Duration::from_us(300) }];
    let kept = kept(&promised, &runs).unwrap();
    let findings = Findings::Percentiles { kept: &kept, runs: &runs, no_plan: &[], foreseen: &[] };
    report_html(&ReportMeta::default(), findings)
}

/// Tags are closed in order, attributes quoted, and no bare & or > stands in text.
fn check_well_formed(page: &str) {
    let mut open = Vec::new();
    let mut rest = page.strip_prefix("<!DOCTYPE html>").expect("a doctype");
    while let Some(start) = rest.find('<') {
        let text = &rest[..start];
        assert!(open.last() == Some(&"style") || !text.contains('>'), "bare > in '{text}'");
        for entity in text.split('&').skip(1) {
            let name = entity.split(';').next().unwrap();
            assert!(["amp", "lt", "gt", "quot", "#39"].contains(&name), "bare & in '{text}'");
        }
        let end = start + rest[start..].find('>').expect("a tag's end");
        let tag = &rest[start + 1..end];
        assert_eq!(tag.matches('"').count() % 2, 0, "<{tag}>");
        assert!(!tag.contains('<'), "<{tag}>");
        if let Some(name) = tag.strip_prefix('/') {
            assert_eq!(open.pop(), Some(name), "closing {name}");
        } else if !tag.ends_with('/') {
            open.push(tag.split_whitespace().next().unwrap());
        }
        rest = &rest[end + 1..];
    }
    assert!(open.is_empty(), "left open: {open:?}");
}

#[test]
fn the_page_is_well_formed_and_fetches_nothing() {
    for page in pages() {
        check_well_formed(&page);
        for outside in ["http", "src=", "href=", "url(", "@import", "<script", "NaN", "inf\""] {
            assert!(!page.contains(outside), "{outside} in the page");
        }
        assert!(
            page.contains("name=\"viewport\"")
                && page.contains("prefers-color-scheme")
                && page.contains("@media print")
        );
    }
}

#[test]
fn inserted_text_is_escaped() {
    let page = &pages()[0];
    for escaped in [
        "cache &lt;/title&gt;&lt;b&gt;on",
        "of &lt;the core&gt;",
        "command &lt;1&gt;",
        "&quot;site&quot; &amp; more",
        "&#39;PREEMPT&#39;",
        "steal &gt; 1 % &amp; more",
    ] {
        assert!(page.contains(escaped), "{escaped}");
    }
}

#[test]
fn curves_are_told_apart_without_colour_and_named_beside() {
    let pages = pages();
    for (page, predicted) in
        pages[..2].iter().zip(["<circle class=\"curve predicted\"", "<path class=\"curve predicted\""])
    {
        assert!(page.contains(predicted));
        for arm in ["predicted", "whole", "unprotected", "giusto"] {
            assert_eq!(page.matches(&format!("text class=\"name {arm}\"")).count(), 2, "{arm} is named in both views");
        }
        // Two views of the distributions, and the boxes.
        assert_eq!(page.matches("role=\"img\"").count(), 3);
        assert_eq!(page.matches("<desc>").count(), 3);
    }
    let css = &pages[0][..pages[0].find("</style>").unwrap()];
    for dashes in ["predicted", "unprotected", "giusto"] {
        assert!(css.contains(&format!(".{dashes} {{ stroke: var(--{dashes}); stroke-dasharray:")), "{dashes}");
    }
    assert!(pages[0].len() < 100_000, "{} bytes", pages[0].len());
}
