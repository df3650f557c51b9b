//! What the simulator foretells is what happens on this machine, for every kind of server, job by job: the same policy core,
//! once in virtual time and once under each backend that enforces it. Needs root and two cores.
//!
//! One program in several roles (see `actors`), its parts in order, as they share the last core. `GIUSTO_SEED` chooses the
//! traces.

mod actors;
mod late;
mod stage;
mod traces;

use giusto_daemon::Journal;
use giusto_model::Backend;
use stage::Spoilt;
use std::panic::{self, AssertUnwindSafe};
use std::{env, fs, process};

type Part = fn(u32, &mut Journal) -> Result<(), Spoilt>;

const PARTS: [(&str, Part); 4] = [
    ("a late arrival under manager", late::manager),
    ("a late arrival under deadline", late::deadline),
    ("seven kinds under manager", traces::manager),
    ("constant_bandwidth under deadline", traces::deadline),
];

fn main() {
    let words: Vec<String> = env::args().skip(1).collect();
    if let Some((role, rest)) = words.split_first().filter(|(role, _)| ["hog", "server"].contains(&role.as_str())) {
        return actors::play(role, rest);
    }
    let machine = giusto_compute::probe();
    let lack = [Backend::Manager, Backend::Deadline].into_iter().find_map(|backend| machine.lacks(backend).first());
    let few = (machine.cores.len() < 2).then(|| "needs two cores".to_string());
    if let Some(why) = lack.map(|lack| format!("{} is missing: {}", lack.what, lack.how)).or(few) {
        println!("kinds: 0 passed, 0 failed, {} SKIPPED: {why}", PARTS.len());
        return;
    }
    // One of the tests that take a core at a time: those of compute have the same lock.
    let lock = fs::File::create(env::temp_dir().join("giusto-real-tests.lock")).unwrap();
    rustix::fs::flock(&lock, rustix::fs::FlockOperation::LockExclusive).unwrap();
    // Survives a death of this program: the next run undoes what it had done.
    let (mut journal, _) = Journal::open_in(&env::temp_dir().join("giusto-kinds")).unwrap();
    let core = machine.cores[machine.cores.len() - 1];
    let (mut passed, mut failed, mut skipped) = (0, 0, 0);
    // Only those that are named.
    let words: Vec<&String> = words.iter().filter(|word| !word.starts_with('-')).collect();
    for (name, part) in PARTS.into_iter().filter(|(name, _)| words.is_empty() || words.iter().any(|word| word == name))
    {
        println!("kinds: {name}");
        let outcome = panic::catch_unwind(AssertUnwindSafe(|| part(core, &mut journal)));
        let left = journal.restore().unwrap().failed;
        let (count, word) = match outcome {
            Ok(Ok(())) if left.is_empty() => (&mut passed, "ok"),
            Ok(Err(Spoilt)) if left.is_empty() => {
                (&mut skipped, "SKIPPED: the core was lost in every play; run it on a quieter machine")
            }
            _ => (&mut failed, "FAILED"),
        };
        *count += 1;
        println!("kinds: {name} ... {word} {}", left.join("; "));
    }
    println!("kinds: {passed} passed, {failed} failed, {skipped} skipped");
    process::exit(i32::from(failed > 0));
}
