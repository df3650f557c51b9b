//! Threads of the vhost driver, which process what a virtual machine sends through a tap: kernel threads before Linux 6.4, threads of QEMU
//! since. Both are called `vhost-PID` after QEMU's process.

use crate::{Error, Link, Thread};
use std::collections::BTreeSet;
use std::fs;

/// Those of the process that holds the tap. Errors: no process holds it; it is processed by QEMU itself; the process holds
/// several taps, and nothing tells whose a thread is.
pub(crate) fn workers(link: &Link) -> Result<Vec<Thread>, Error> {
    let unfit = |kind: &str, why: &str| Error::Unfit { name: link.name.clone(), kind: kind.into(), why: why.into() };
    let holders: Vec<(u32, BTreeSet<String>)> = numbers("/proc")
        .into_iter()
        .map(|pid| (pid, taps_of(pid)))
        .filter(|(_, taps)| taps.contains(&link.name))
        .collect();
    if holders.is_empty() {
        return Err(unfit("a tap that no process holds", "start its virtual machine first"));
    }
    // Management may hold it beside QEMU.
    let found = holders.into_iter().map(|(pid, taps)| (threads_of(pid), taps)).find(|(threads, _)| !threads.is_empty());
    let Some((threads, taps)) = found else {
        return Err(unfit(
            "a tap whose packets QEMU itself processes",
            "start the machine with vhost=on (libvirt: <driver name='vhost'/>), or open the tap with IFF_NAPI",
        ));
    };
    if taps.len() > 1 {
        return Err(Error::Ambiguous {
            name: link.name.clone(),
            candidates: threads.iter().map(|thread| thread.tid).collect(),
        });
    }
    Ok(threads)
}

fn numbers(folder: &str) -> Vec<u32> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect()
}

/// Names of the taps that a process has open.
fn taps_of(pid: u32) -> BTreeSet<String> {
    let folder = format!("/proc/{pid}/fd");
    let tun = numbers(&folder)
        .into_iter()
        .filter(|fd| fs::read_link(format!("{folder}/{fd}")).is_ok_and(|to| to.as_os_str() == "/dev/net/tun"));
    tun.filter_map(|fd| tap_of(&fs::read_to_string(format!("/proc/{pid}/fdinfo/{fd}")).ok()?)).collect()
}

/// The line that drivers/net/tun.c adds to fdinfo.
fn tap_of(fdinfo: &str) -> Option<String> {
    fdinfo.lines().find_map(|line| line.strip_prefix("iff:")).map(|name| name.trim().to_string())
}

fn threads_of(pid: u32) -> Vec<Thread> {
    let called = format!("vhost-{pid}");
    let named = |comm: String| fs::read_to_string(comm).is_ok_and(|name| name.trim_end() == called);
    let own =
        numbers(&format!("/proc/{pid}/task")).into_iter().filter(|tid| named(format!("/proc/{pid}/task/{tid}/comm")));
    let kernel = numbers("/proc").into_iter().filter(|tid| *tid != pid && named(format!("/proc/{tid}/comm")));
    let all: BTreeSet<Thread> = own.chain(kernel).filter_map(Thread::of).collect();
    all.into_iter().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fdinfo_tells_the_tap() {
        assert_eq!(tap_of("pos:\t0\nflags:\t0104002\nmnt_id:\t25\niff:\tvnet3\n").as_deref(), Some("vnet3"));
        assert_eq!(tap_of("pos:\t0\nflags:\t0104002\n"), None);
    }

    #[test]
    fn a_thread_of_the_process_that_is_called_so_is_found() {
        let (told, tell) = std::sync::mpsc::channel::<()>();
        let name = format!("vhost-{}", std::process::id());
        let worker = std::thread::Builder::new().name(name).spawn(move || tell.recv()).unwrap();
        while threads_of(std::process::id()).is_empty() {
            std::thread::yield_now();
        }
        assert_eq!(threads_of(std::process::id()).len(), 1);
        drop(told);
        let _ = worker.join().unwrap();
    }
}
