//! `copies:` of a service that is promised as-if-alone, and `threads:`, by which its workers are told apart.

use crate::error::Fault;
use crate::fields::Fields;
use crate::suggest::shown;
use crate::value::{count, text};
use crate::vcpus::VCPUS;
use giusto_model::{Copies, Measured, Origin};

const COUNT: &str = "a number of workers";
const THREADS: &str =
    "expected the name of its workers' threads, as 'ps -L -o comm' shows it (15 bytes at most), with a * at the end \
                       for any end, such as threads: 'worker-*'";

/// Reads how many workers a service from `origin` has; one is as if it was not written.
pub(crate) fn read(fields: &Fields<'_>, origin: &Origin, measured: &Measured) -> Result<Option<Copies>, Fault> {
    let Some(written) = fields.get("copies") else {
        let found = "'threads' says which of several workers is which, and there is one";
        return fields.forbid("threads", found, "expected copies as well, such as copies: 4").map(|()| None);
    };
    let count = count(written, COUNT, 1..=VCPUS as u32)?;
    if origin.has_vcpus() {
        let found = "the copies of a virtual machine are its virtual CPUs, which need no names";
        fields.forbid("threads", found, "leave it out")?;
    }
    let threads = match fields.get("threads") {
        Some(node) => Some(pattern(text(node, THREADS)?).ok_or_else(|| {
            node.fault(
                format!("'{}' cannot be the name of a thread", shown(text(node, THREADS).unwrap_or(""))),
                THREADS,
            )
        })?),
        None if origin.has_vcpus() || count == 1 => None,
        None => {
            return Err(written.fault("nothing says which of its threads are the workers", THREADS));
        }
    };
    if count == 1 {
        return Ok(None);
    }
    for (key, why) in [
        ("load", "requests of one load cannot be told apart by worker, and a trial drives one core"),
        ("adapt", "what each worker asks for would have to be planned anew for all of them"),
    ] {
        fields.forbid(key, &format!("'{key}' with several copies is not built yet: {why}"), "leave it out")?;
    }
    if *measured != Measured::Declared {
        let at = fields.place("tasks");
        let found = "'wcet: measured' with several copies is not built yet: what one worker takes is not told apart";
        return Err(Fault::new(at, found, "expected a wcet such as 50us"));
    }
    Ok(Some(Copies { count, threads }))
}

/// What may be a name, or how one begins.
fn pattern(text: &str) -> Option<String> {
    let name = text.strip_suffix('*').unwrap_or(text);
    let fits = !text.is_empty() && name.len() <= Copies::NAME && !name.contains(|c: char| c.is_control() || c == '*');
    fits.then(|| text.to_string())
}
