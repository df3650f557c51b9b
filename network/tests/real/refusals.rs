//! What cannot be is refused with what to do, and nothing is changed.

use crate::actors::{prepare, start};
use crate::parts::{assert_undone, until_well};
use crate::stage::{difference, high, low, plan, run, Stage, Wish};
use crate::Part;
use giusto_network::Network;
use std::os::fd::AsRawFd;

pub(crate) const ALL: &[Part] = &[
    ("refusals", refusals),
    ("absent or unfit", absent),
    ("no privilege", no_privilege),
    ("another end that is nowhere", nowhere),
];

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
    for (wish, lack, says) in [
        (high(0, 80, 4095), true, "plan it on a core that is online"),
        (Wish { bucket: Some(("20k/s", "0.5")), ..high(0, 80, 1) }, false, "expected 1 to"),
    ] {
        // One that can be comes first: it is let go again.
        let text = refused(&stage, &[low(1, 0), wish], lack);
        assert!(text.contains(says), "{text}");
    }
}

/// What is there is enforced, the rest is said, at the start and later; and it comes into force once it is as it should be.
fn absent() {
    let stage = Stage::new(2);
    stage.ip("link add m0 link br0 type macvlan");
    stage.ip("link add x0 type vxlan id 7 dev br0 dstport 4789");
    let before = stage.snapshot();
    let named = |name: &str| Wish { name: name.into(), ..high(1, 70, 1) };
    stage.inside(&stage.host(), || {
        for (name, says) in [
            ("vnet99", "interface vnet99 is not there"),
            (
                "br0",
                "'br0' is bridge: what arrives there is processed by the threads of 'v0' and 'v1': name these instead",
            ),
            ("m0", "by the threads of 'v0' and 'v1': name these instead"),
            (
                "x0",
                "'x0' is vxlan: what arrives there is processed by the threads of 'v0' and 'v1': name these instead",
            ),
        ] {
            let mut record = Vec::new();
            let mut network = Network::apply(&plan(&[], &[high(0, 80, 1), named(name)]), &mut record).unwrap();
            let status = network.status();
            assert!(status[0].warning.is_none() && status[0].threads.len() == 2, "{status:?}");
            let warning = status[1].warning.clone().unwrap_or_default();
            println!("  {warning}");
            assert!(warning.contains(says) && warning.contains("its promise is not kept until then"), "{warning}");
            assert_eq!(network.check(&mut record).len(), 1);
            if name == "vnet99" {
                stage.ip("link set v1 down");
                stage.ip("link set v1 name vnet99");
                stage.ip("link set vnet99 up");
                until_well(&mut network, &mut record);
                assert_eq!(network.status()[1].threads.len(), 2);
                stage.ip("link set vnet99 down");
                stage.ip("link set vnet99 name v1");
                stage.ip("link set v1 up");
            }
            drop(network);
            assert_undone(&stage, &record, &before);
        }
    });
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
    let status = stage.inside(&stage.host(), || {
        let mut record = Vec::new();
        let network = Network::apply(&plan(&[], &[Wish { name: "v7".into(), ..low(7, 1) }]), &mut record).unwrap();
        let status = network.status();
        assert_eq!(giusto_network::undo(&record).failed, Vec::<String>::new());
        status
    });
    let text = status[0].warning.clone().unwrap_or_default();
    assert!(text.contains("the other end of 'v7'"), "{text}");
}
