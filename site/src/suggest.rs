//! What was written, as a message shows it, and what was meant: "did you mean …?"

/// The candidate that differs from `written` by the fewest edits, if they are few enough to be a slip of the hand: one in
/// three characters.
pub(crate) fn nearest<'a>(written: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let written: Vec<char> = written.chars().flat_map(char::to_lowercase).collect();
    if written.len() > 40 {
        return None;
    }
    candidates
        .into_iter()
        .map(|candidate| (distance(&written, &candidate.chars().collect::<Vec<_>>()), candidate))
        .filter(|&(edits, candidate)| edits <= (candidate.len() / 3).max(1))
        .min_by_key(|&(edits, _)| edits)
        .map(|(_, candidate)| candidate)
}

/// `; did you mean 'x'?`, or nothing.
pub(crate) fn did_you_mean<'a>(written: &str, candidates: impl IntoIterator<Item = &'a str>) -> String {
    nearest(written, candidates).map(|near| format!("; did you mean '{near}'?")).unwrap_or_default()
}

/// Insertions, deletions, substitutions and swaps of neighbours (optimal string alignment). O(|a|·|b|).
fn distance(a: &[char], b: &[char]) -> usize {
    let mut rows = vec![(0..=b.len()).collect::<Vec<_>>()];
    for i in 1..=a.len() {
        let mut row = vec![i];
        for j in 1..=b.len() {
            let changed = usize::from(a[i - 1] != b[j - 1]);
            let mut best = (rows[i - 1][j] + 1).min(row[j - 1] + 1).min(rows[i - 1][j - 1] + changed);
            if i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] {
                best = best.min(rows[i - 2][j - 2] + 1);
            }
            row.push(best);
        }
        rows.push(row);
    }
    rows[a.len()][b.len()]
}

/// Longest name, number, duration or share, in characters.
pub(crate) const LONGEST: usize = 64;

/// A written text, short enough for a message, every character visible.
pub(crate) fn shown(text: &str) -> String {
    let mut shown = String::new();
    for c in text.chars().take(LONGEST) {
        // Escapes in double quotes can bring any character into a text.
        if c.is_control() {
            shown.extend(c.escape_default());
        } else {
            shown.push(c);
        }
    }
    if text.chars().nth(LONGEST).is_some() {
        shown.push('…');
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slips_are_recognised_and_other_words_are_not() {
        let keys = ["name", "wcet", "period", "deadline"];
        for (written, near) in [
            ("perod", Some("period")),
            ("pierod", Some("period")),
            ("Wcet", Some("wcet")),
            ("dead-line", Some("deadline")),
            ("budget", None),
            ("", None),
        ] {
            assert_eq!(nearest(written, keys), near, "{written}");
        }
    }
}
