//! The page: one file with everything in it, which fetches nothing from elsewhere. Its modules are plain JavaScript
//! (../../web), named to the browser by an import map of data URLs.

const MODULES: [(&str, &str); 10] = [
    ("cores", include_str!("../../web/cores.js")),
    ("distribution", include_str!("../../web/distribution.js")),
    ("history", include_str!("../../web/history.js")),
    ("main", include_str!("../../web/main.js")),
    ("promises", include_str!("../../web/promises.js")),
    ("rows", include_str!("../../web/rows.js")),
    ("simulated", include_str!("../../web/simulated.js")),
    ("timeline", include_str!("../../web/timeline.js")),
    ("units", include_str!("../../web/units.js")),
    ("what-if", include_str!("../../web/what-if.js")),
];

/// What the page may do: run what is in it, and ask where it comes from.
pub(super) const POLICY: &str = "default-src 'none'; script-src 'unsafe-inline' data:; style-src 'unsafe-inline'; \
                                 img-src data:; connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

/// The page of a giusto that runs.
pub(super) fn live() -> String {
    page("{}")
}

/// The page of a plan that is not enforced, from its JSON.
pub fn plan_page(plan: &str) -> String {
    page(&format!("{{\"plan\":{plan}}}"))
}

/// The page of a simulation, from its JSON: `{plan, conditions, services, timeline}`, of which `services` are rows of
/// `giusto simulate --json` with `is_planned`, `taken` (a share of a core) and `lengths` (`[end in ns, how many]`).
pub fn simulation_page(simulation: &str) -> String {
    page(&format!("{{\"simulation\":{simulation}}}"))
}

fn page(data: &str) -> String {
    let modules = MODULES.iter().map(|(name, text)| format!("\"{name}\":\"data:text/javascript,{}\"", encoded(text)));
    let map = format!("{{\"imports\":{{{}}}}}", modules.collect::<Vec<_>>().join(","));
    include_str!("../../web/page.html")
        .replacen("/*STYLE*/", include_str!("../../web/page.css"), 1)
        .replacen("/*MODULES*/", &map, 1)
        // No text of a plan ends the element that it is in.
        .replacen("/*DATA*/", &data.replace('<', "\\u003c"), 1)
}

fn encoded(text: &str) -> String {
    text.bytes().fold(String::with_capacity(text.len() * 2), |mut url, byte| {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' => url.push(byte.into()),
            _ => url.push_str(&format!("%{byte:02X}")),
        }
        url
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_has_all_its_parts_and_no_text_of_a_plan_leaves_its_place() {
        let page = plan_page(r#"{"name":"</script><script>alert(1)"}"#);
        for part in ["/*STYLE*/", "/*MODULES*/", "/*DATA*/", "<script>alert"] {
            assert!(!page.contains(part), "{part}");
        }
        for (name, text) in MODULES {
            for line in text.lines().filter(|line| line.starts_with("import")) {
                let module = line.rsplit('\'').nth(1).unwrap();
                assert!(MODULES.iter().any(|(known, _)| *known == module), "{name}: {line}");
            }
        }
    }
}
