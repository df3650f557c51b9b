//! What holds on a real machine: everything is as it was, whatever happens. Needs root, two cores and cpusets.
//!
//! One program in several roles (see `actors`), its parts in order, as they share the machine. Prints each part's outcome and
//! a line with what passed, failed and was skipped. `GIUSTO_SOAK=1` makes the random part longer, `GIUSTO_SEED` chooses it;
//! `GIUSTO_FEW=1` plays a sample, `GIUSTO_HALF=0` or `1` every second part.

mod actors;
mod groups;
mod in_place;
mod undo_entry;
// The journal of the room above: dying must be tried with the one that is used.
#[allow(dead_code, unused_imports, unreachable_pub)]
#[path = "../../../daemon/src/journal.rs"]
mod journal;
mod managed;
mod neighbours;
mod parts;
mod snapshot;

use parts::Part;
use std::panic::{self, AssertUnwindSafe};
use std::time::Instant;
use std::{env, fs, process};

/// What the journal expects of its room: the name of a watchdog's process; there is none here.
mod watchdog {
    pub(crate) const NAME: &std::ffi::CStr = c"no-watchdog";
}

/// What else.
#[allow(dead_code)]
#[derive(Debug)]
enum Error {
    Busy { pid: Option<u32> },
    NotRestored(String),
    Io { doing: String, source: std::io::Error },
}

fn main() {
    let words: Vec<String> = env::args().skip(1).collect();
    if let Some((role, rest)) =
        words.split_first().filter(|(role, _)| !role.starts_with('-') && parts::named(role).is_none())
    {
        return actors::play(role, rest);
    }
    let wanted: Vec<_> = words.iter().filter_map(|word| parts::named(word)).collect();
    let mut wanted = if wanted.is_empty() { parts::all().collect() } else { wanted };
    if let Some(half) = env::var("GIUSTO_HALF").ok().and_then(|text| text.parse().ok()) {
        wanted = wanted.into_iter().skip(half).step_by(2).collect();
    }
    if let Some(why) = parts::cannot() {
        println!("real: 0 passed, 0 failed, {} SKIPPED: {why}", wanted.len());
        return;
    }
    let _alone = alone();
    let (mut passed, mut failed, mut skipped) = (0, 0, 0);
    for Part { name, run, lack } in wanted {
        if let Some(lack) = lack() {
            println!("real: {name} ... SKIPPED: {} is missing: {}", lack.what, lack.how);
            skipped += 1;
            continue;
        }
        let start = Instant::now();
        let outcome = panic::catch_unwind(AssertUnwindSafe(run));
        let word = if outcome.is_ok() { "ok" } else { "FAILED" };
        println!("real: {name} ... {word} ({} ms)", start.elapsed().as_millis());
        *if outcome.is_ok() { &mut passed } else { &mut failed } += 1;
    }
    println!("real: {passed} passed, {failed} failed, {skipped} skipped");
    process::exit(i32::from(failed > 0));
}

/// One of these tests a machine.
fn alone() -> fs::File {
    let path = env::temp_dir().join("giusto-real-tests.lock");
    let lock = fs::File::create(path).unwrap();
    rustix::fs::flock(&lock, rustix::fs::FlockOperation::LockExclusive).unwrap();
    lock
}
