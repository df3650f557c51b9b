//! The page around a report: one HTML file with everything in it, without scripts and without anything to fetch.

/// A page of `body`, which is markup; `title` is text.
pub(crate) fn page(title: &str, body: &str) -> String {
    let (title, css) = (escape(title), include_str!("report.css"));
    format!(
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\"/>\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\"/>\n<title>{title}</title>\n\
         <style>\n{css}</style>\n</head>\n<body>\n<main>\n<h1>{title}</h1>\n{body}</main>\n</body>\n</html>\n"
    )
}

/// Text that may stand in an element or an attribute.
pub(crate) fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\'' => escaped.push_str("&#39;"),
            c if c.is_control() && c != '\n' && c != '\t' => escaped.push('\u{fffd}'),
            c => escaped.push(c),
        }
    }
    escaped
}

/// A table of cells that are markup; the first row is its head, the first cell of each row names it. Wide ones scroll.
pub(crate) fn table(rows: &[Vec<String>]) -> String {
    let Some((head, body)) = rows.split_first() else { return String::new() };
    let head: String = head.iter().map(|cell| format!("<th scope=\"col\">{cell}</th>")).collect();
    let row = |row: &Vec<String>| {
        let (name, cells) = row.split_first().map_or(("", &[][..]), |(name, cells)| (name.as_str(), cells));
        let cells: String = cells.iter().map(|cell| format!("<td>{cell}</td>")).collect();
        format!("<tr><th scope=\"row\">{name}</th>{cells}</tr>\n")
    };
    let body: String = body.iter().map(row).collect();
    // A region that scrolls must be reachable from the keyboard.
    format!(
        "<div class=\"scroll\" tabindex=\"0\"><table><thead><tr>{head}</tr></thead>\n<tbody>{body}</tbody></table></div>\n"
    )
}

/// What can be unfolded below `summary`, which is text.
pub(crate) fn details(summary: &str, body: &str) -> String {
    format!("<details><summary>{}</summary>\n{body}</details>\n", escape(summary))
}

/// Names and values, as text.
pub(crate) fn list(lines: &[(String, String)]) -> String {
    let line = |(name, value): &(String, String)| format!("<dt>{}</dt><dd>{}</dd>\n", escape(name), escape(value));
    format!("<dl>\n{}</dl>\n", lines.iter().map(line).collect::<String>())
}
