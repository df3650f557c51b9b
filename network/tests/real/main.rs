//! What holds on a real kernel, in network namespaces that this program makes and removes: processing moves, stays moved, is limited, and
//! leaves nothing behind. Needs root, two cores, iproute2 and ethtool.
//!
//! One program in several roles (see `actors`), its parts in order. Prints each part's outcome and a line with what passed, failed and
//! was skipped. `GIUSTO_SOAK=1` makes the random part longer, `GIUSTO_SEED` chooses it.

mod actors;
mod attacks;
mod bucket;
mod deaths;
mod fair;
mod kinds;
mod owners;
mod parts;
mod queues;
mod quiet;
mod refusals;
mod scale;
mod soak;
mod stage;
mod uplinks;

use std::panic::{self, AssertUnwindSafe};
use std::time::Instant;
use std::{env, fs, process};

/// A part, by name.
type Part = (&'static str, fn());

fn all() -> Vec<Part> {
    [
        parts::ALL,
        bucket::ALL,
        fair::ALL,
        attacks::ALL,
        owners::ALL,
        uplinks::ALL,
        kinds::ALL,
        queues::ALL,
        quiet::ALL,
        scale::ALL,
        refusals::ALL,
        deaths::ALL,
        soak::ALL,
    ]
    .concat()
}

fn main() {
    // In a guest of tests busybox has programs of the same names, which can less.
    env::set_var("PATH", format!("/usr/sbin:/usr/bin:/sbin:/bin:{}", env::var("PATH").unwrap_or_default()));
    let words: Vec<String> = env::args().skip(1).filter(|word| !word.starts_with('-')).collect();
    if let Some((role, rest)) = words.split_first().filter(|(role, _)| actors::ROLES.contains(&role.as_str())) {
        return actors::play(role, rest);
    }
    let wanted: Vec<Part> =
        all().into_iter().filter(|(name, _)| words.is_empty() || words.iter().any(|word| word == name)).collect();
    if let Some(why) = stage::cannot() {
        println!("real: 0 passed, 0 failed, {} SKIPPED: {why}", wanted.len());
        return;
    }
    let _alone = alone();
    stage::sweep();
    let (mut passed, mut failed) = (0, 0);
    for (name, run) in wanted {
        let start = Instant::now();
        let outcome = panic::catch_unwind(AssertUnwindSafe(run));
        let word = if outcome.is_ok() { "ok" } else { "FAILED" };
        println!("real: {name} ... {word} ({} ms)", start.elapsed().as_millis());
        *if outcome.is_ok() { &mut passed } else { &mut failed } += 1;
    }
    println!("real: {passed} passed, {failed} failed, 0 skipped");
    process::exit(i32::from(failed > 0));
}

/// One of the tests that take a core at a time: those of compute have the same lock.
fn alone() -> fs::File {
    let lock = fs::File::create(env::temp_dir().join("giusto-real-tests.lock")).unwrap();
    rustix::fs::flock(&lock, rustix::fs::FlockOperation::LockExclusive).unwrap();
    lock
}
