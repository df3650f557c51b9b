//! What every report tells of how it came about.

use crate::failure::{create, Failure};
use std::io::Write;
use std::path::Path;

/// A line: what it is about, and what is said.
pub(crate) fn line(name: &str, value: impl ToString) -> (String, String) {
    (name.into(), value.to_string())
}

/// The command that made the report, and where it ran.
pub(crate) fn origin() -> Vec<(String, String)> {
    let said = |file: &str| std::fs::read_to_string(file).map_or("unknown".into(), |text| text.trim().to_string());
    vec![
        line(
            "command",
            std::env::args_os().map(|word| word.to_string_lossy().into_owned()).collect::<Vec<_>>().join(" "),
        ),
        line("host", said("/proc/sys/kernel/hostname")),
        line("kernel", said("/proc/sys/kernel/osrelease") + " " + &said("/proc/sys/kernel/version")),
        line("giusto", env!("CARGO_PKG_VERSION")),
    ]
}

/// Writes the page.
pub(crate) fn write(path: &Path, html: &str) -> Result<(), Failure> {
    let mut file = create(path)?;
    file.write_all(html.as_bytes())
        .and_then(|()| file.flush())
        .map_err(|error| Failure::running(format!("cannot write {}: {error}", path.display())))
}
