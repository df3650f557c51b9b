//! `giusto doctor`.

use crate::args::DoctorArgs;
use crate::failure::Failure;
use crate::table::{json, print, say, table, wrapped};
use giusto_daemon::{Check, Doctor, Standing};
use std::process::ExitCode;

/// Width of the last two columns, so that a line fits into 120.
const WIDTHS: [usize; 2] = [44, 46];

/// Says what this machine can enforce, what is missing, and how to get it.
pub(crate) fn doctor(args: &DoctorArgs) -> Result<ExitCode, Failure> {
    let found = giusto_daemon::doctor();
    if args.json {
        json(&found)?;
    } else {
        print(&described(&found))?;
        say!("\n{}", verdict(&found));
    }
    match found.can_enforce {
        true => Ok(ExitCode::SUCCESS),
        false => Ok(ExitCode::from(Failure::LACKS)),
    }
}

/// A row a check, in as many lines as its cells need.
fn described(found: &Doctor) -> String {
    let mut rows = vec![["check", "state", "what to do"].map(String::from).to_vec()];
    let mut last = "";
    for check in &found.checks {
        let name = if check.check == last { "" } else { &check.check };
        rows.extend(lines(name, check));
        last = &check.check;
    }
    table(&rows, 3)
}

fn lines(name: &str, check: &Check) -> Vec<Vec<String>> {
    let word = match check.state {
        Standing::Ok => "ok",
        Standing::Note => "note",
        Standing::Missing => "MISSING",
    };
    let state = wrapped(&format!("{word}: {}", check.found), WIDTHS[0]);
    let remedy = wrapped(check.remedy.as_deref().unwrap_or_default(), WIDTHS[1]);
    let line = |nth: usize| {
        let cell = |cells: &[String]| cells.get(nth).cloned().unwrap_or_default();
        vec![if nth == 0 { name.to_string() } else { String::new() }, cell(&state), cell(&remedy)]
    };
    (0..state.len().max(remedy.len())).map(line).collect()
}

fn verdict(found: &Doctor) -> String {
    let names: Vec<String> = found.backends.iter().map(ToString::to_string).collect();
    match found.can_enforce {
        true => format!("'giusto run' can enforce here, by {}", names.join(" or ")),
        false => "'giusto run' cannot enforce here until what is MISSING is there; 'giusto demo', 'giusto plan' and \
                  'giusto simulate' work all the same"
            .into(),
    }
}
