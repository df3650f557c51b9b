//! What cannot be is refused with what to do, and nothing is changed.

use crate::actors::{prepare, start};
use crate::stage::{difference, high, low, plan, run, Stage, Wish};
use crate::Part;
use giusto_network::Network;
use std::os::fd::AsRawFd;

pub(crate) const ALL: &[Part] =
    &[("refusals", refusals), ("no privilege", no_privilege), ("another end that is nowhere", nowhere)];

/// The text, after which everything is as before.
fn refused(stage: &Stage, wishes: &[Wish], lack: bool) -> String {
    let before = stage.snapshot();
    let text = stage.inside(&stage.host(), || {
        let refused = Network::apply(&plan(&[], wishes), &mut Vec::new()).err().unwrap();
        assert_eq!(refused.is_lack(), lack, "{refused}");
        refused.to_string()
    });
    assert_eq!(difference(&before, &stage.snapshot()), Vec::<String>::new(), "{text}");
    println!("  {text}");
    text
}

fn refusals() {
    let stage = Stage::new(2);
    stage.ip("link add m0 link br0 type macvlan");
    let named = |name: &str| Wish { name: name.into(), ..high(0, 80, 1) };
    for (wish, lack, says) in [
        (named("vnet99"), true, "no interface 'vnet99'"),
        (named("br0"), true, "name a vif of kind veth or tap"),
        (named("m0"), true, "use veth or tap on a bridge"),
        (high(0, 80, 4095), true, "plan it on a core that is online"),
        (Wish { bucket: Some(("20k/s", "0.5")), ..high(0, 80, 1) }, false, "expected 1 to"),
    ] {
        // One that can be comes first: it is let go again.
        let text = refused(&stage, &[low(1, 0), wish], lack);
        assert!(text.contains(says), "{text}");
    }
}

fn no_privilege() {
    let stage = Stage::new(1);
    let folder = tempfile::tempdir().unwrap();
    prepare(folder.path(), &plan(&[], &[high(0, 80, 1)]));
    let said = start("nobody", &stage.host(), folder.path(), &[]).wait_with_output().unwrap();
    let text = String::from_utf8_lossy(&said.stdout).to_string();
    println!("  {}", text.trim());
    assert!(text.starts_with("true ") && text.contains("run it as root"), "{text}");
}

/// A namespace that only a file descriptor holds.
fn nowhere() {
    let stage = Stage::new(1);
    let hidden = std::thread::spawn(|| {
        // SAFETY: of this thread only.
        assert_eq!(unsafe { libc::unshare(libc::CLONE_NEWNET) }, 0);
        std::fs::File::open("/proc/thread-self/ns/net").unwrap()
    });
    let hidden = hidden.join().unwrap();
    stage.ip("link add v7 type veth peer name far");
    let path = format!("/proc/{}/fd/{}", std::process::id(), hidden.as_raw_fd());
    run(&["ip", "-n", &stage.host(), "link", "set", "far", "netns", &path]);
    stage.ip("link set v7 up");
    let text = refused(&stage, &[Wish { name: "v7".into(), ..low(7, 1) }], true);
    assert!(text.contains("the other end of 'v7'"), "{text}");
}
