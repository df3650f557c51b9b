//! `giusto place`: answers on standard output what other programs ask on standard input, a line each.

use crate::failure::Failure;
use crate::table::print;
use giusto_answers::place::Places;
use std::io::BufRead;
use std::process::ExitCode;

/// `giusto place`
pub(crate) fn place() -> Result<ExitCode, Failure> {
    let mut places = Places::new(&giusto_daemon::facts);
    for line in std::io::stdin().lock().lines() {
        let line = line.map_err(|why| Failure::input(format!("cannot read a line of standard input: {why}")))?;
        print(&(places.answer(&line) + "\n"))?;
    }
    Ok(ExitCode::SUCCESS)
}
