//! A study as one page: claims with their intervals, figures, tables, and how it was obtained.

use super::{failures, Drawn, Finding, Judgement, Study, Table, FEW};
use crate::report::page::{details, escape, list, page, table};
use crate::words::count;
use crate::Verdict;
use std::collections::BTreeMap;
use std::fmt::Write;

/// Most rows of a table on the page; the file has them all.
const MOST_ROWS: usize = 100;

/// The page. The drawings of `figures` are inserted as they are, `lines` say how it was obtained. All other text is
/// escaped; the same findings give the same bytes. O(rows).
pub fn study_html(
    study: &Study,
    judgements: &[Judgement],
    verdict: Verdict,
    tables: &BTreeMap<String, Table>,
    figures: &[Drawn],
    lines: &[(String, String)],
) -> String {
    let body = [
        summary(study, judgements, verdict),
        drawn(figures),
        claims(study, judgements),
        shown(tables),
        format!("<h2>How it was obtained</h2>\n{}", list(lines)),
    ];
    page(&study.title, &body.concat())
}

fn summary(study: &Study, judgements: &[Judgement], verdict: Verdict) -> String {
    let of = |finding| judgements.iter().filter(|judgement| judgement.finding == finding).count();
    let failed = failures(study, judgements).len();
    let differ = of(Finding::Fails) - failed;
    let (tone, words) = match verdict {
        Verdict::Kept if differ > 0 => ("kept", "all claims hold but those that are known to differ"),
        Verdict::Kept => ("kept", "all claims hold"),
        Verdict::Missed => ("missed", "a claim fails"),
        Verdict::CannotTell => ("cannot-tell", "not all can be told"),
    };
    format!(
        "<div class=\"verdict {tone}\"><strong><span aria-hidden=\"true\">{}</span> {words}</strong><p>Of {}, {} hold, {} cannot \
         be told from so many sets, {} are known to differ from the paper and do, {failed} fail.</p></div>\n\
         <p class=\"note\">Reproduces: {}. A claim is judged once for each of its cases. It holds if its whole interval is where \
         the paper has it, fails if all of it is elsewhere, and cannot be told in between. The interval is the middle 99 % of \
         resampled sets; of fewer than {FEW} sets it is their range, and of one there is none.</p>\n",
        verdict.mark(),
        count(judgements.len(), "comparison"),
        of(Finding::Holds),
        of(Finding::CannotTell),
        differ,
        escape(&study.reproduces)
    )
}

fn drawn(figures: &[Drawn]) -> String {
    if figures.is_empty() {
        return String::new();
    }
    let figure = |Drawn { name, title, panels, .. }: &Drawn| {
        let (name, title) = (escape(name), escape(title));
        let caption = format!("<figcaption><b>{title}</b> ({name}.svg)</figcaption>");
        format!("<figure>\n{caption}\n<div class=\"plots\">\n{}</div></figure>\n", panels.concat())
    };
    format!("<h2>Figures</h2>\n{}", figures.iter().map(figure).collect::<String>())
}

fn claims(study: &Study, judgements: &[Judgement]) -> String {
    let mut html = String::from("<h2>Claims</h2>\n");
    for (index, claim) in study.claim.iter().enumerate() {
        let _ = writeln!(html, "<h3>{} <small>{}</small></h3>", escape(&claim.says), escape(&claim.source));
        if let Some(why) = &claim.differs {
            let _ = writeln!(html, "<p class=\"note\">Known to differ: {}.</p>", escape(why.trim_end_matches('.')));
        }
        let head = ["case", "what", "value", "interval", "which is", ""].map(String::from).to_vec();
        let of_claim = judgements.iter().filter(|judgement| judgement.claim == index);
        let row = |judgement| cells(judgement, claim.differs.is_some());
        let rows: Vec<Vec<String>> = std::iter::once(head).chain(of_claim.map(row)).collect();
        html += &table(&rows);
    }
    html
}

fn cells(judgement: &Judgement, known_to_differ: bool) -> Vec<String> {
    let (mark, words) = match judgement.finding {
        Finding::Holds => ('✓', "holds"),
        Finding::Fails if known_to_differ => ('≠', "differs, as is known"),
        Finding::Fails => ('✗', "fails"),
        Finding::CannotTell => ('?', "cannot tell"),
    };
    let Judgement { case, of, estimate, .. } = judgement;
    vec![
        escape(if case.is_empty() { "all" } else { case }),
        escape(of),
        format!("{:.4}", estimate.value),
        judgement.ends().map_or("–".into(), |(low, high)| format!("{low:.4} to {high:.4}")),
        judgement.words(),
        format!("<span aria-hidden=\"true\">{mark}</span> {words}"),
    ]
}

fn shown(tables: &BTreeMap<String, Table>) -> String {
    let one = |(name, of): (&String, &Table)| {
        let row = |cells: &[String]| cells.iter().map(|cell| escape(cell)).collect::<Vec<_>>();
        let rows: Vec<Vec<String>> =
            std::iter::once(of.columns()).chain(of.rows().iter().take(MOST_ROWS).map(Vec::as_slice)).map(row).collect();
        let left = of.rows().len().saturating_sub(MOST_ROWS);
        let more = if left > 0 {
            format!("<p class=\"note\">{} more in {}.csv.</p>", count(left, "row"), escape(name))
        } else {
            String::new()
        };
        details(&format!("{name}, {}", count(of.rows().len(), "row")), &(table(&rows) + &more))
    };
    format!("<h2>Tables</h2>\n{}", tables.iter().map(one).collect::<String>())
}
