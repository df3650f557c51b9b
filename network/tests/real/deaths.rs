//! Killed before or after any step, and while it undoes: the links are as they were.

use crate::actors::{prepare, records, start};
use crate::stage::{difference, high, plan, Stage};
use crate::Part;
use giusto_network::undo;
use std::os::unix::process::ExitStatusExt;
use std::time::{Duration, Instant};

pub(crate) const ALL: &[Part] = &[("killed at every step", every_step)];

fn every_step() {
    let stage = Stage::new(1);
    let before = stage.snapshot();
    let folder = tempfile::tempdir().unwrap();
    let (mut deaths, mut interrupted, mut changed) = (0, 0, 0);
    let mut undoing_takes = Duration::from_secs(10);
    for when in ["recorded", "changed"] {
        for step in 1.. {
            prepare(folder.path(), &plan(&[], &[high(0, 80, 1)]));
            let mut actor = start("apply", &stage.host(), folder.path(), &[&step.to_string(), when]);
            let ended = actor.wait().unwrap();
            let records = records(folder.path());
            if ended.success() {
                assert!(step > 5 && records.len() <= step, "{step} {records:?}");
            } else {
                assert_eq!((ended.signal(), records.len()), (Some(libc::SIGKILL), step), "{when}");
                deaths += 1;
            }
            changed += u32::from(!difference(&before, &stage.snapshot()).is_empty());
            // Who undoes it is killed too, at a part of what it took last; every fifth comes to its end.
            let (mut undoing, begun) = (start("undo", &stage.host(), folder.path(), &[]), Instant::now());
            while step % 5 == 0 || begun.elapsed() < undoing_takes * (step % 5) as u32 / 5 {
                if undoing.try_wait().unwrap().is_some() {
                    undoing_takes = begun.elapsed();
                    break;
                }
                std::thread::sleep(Duration::from_micros(50));
            }
            let _ = undoing.kill();
            interrupted += u32::from(undoing.wait().unwrap().signal().is_some());
            assert_eq!(undo(&records).failed, Vec::<String>::new(), "{when} {step}");
            assert_eq!(difference(&before, &stage.snapshot()), Vec::<String>::new(), "{when} {step}");
            if ended.success() {
                break;
            }
        }
    }
    println!("  {deaths} deaths, {changed} left something changed, {interrupted} undoings were killed");
    assert!(deaths >= 10 && changed >= 8 && interrupted >= 4);
}
