//! Programs of others at the same interface: theirs stay, ours come first, and neither takes the other off.

use crate::attacks::{arrived, flood};
use crate::parts::{assert_undone, status};
use crate::stage::{high, inside, linked, low, plan, Stage, Wish};
use crate::Part;
use aya::programs::tc::TcAttachOptions;
use aya::programs::{LinkOrder, SchedClassifier, TcAttachType};
use aya::util::KernelVersion;
use aya::Ebpf;
use giusto_network::Network;
use std::time::{Duration, Instant};

pub(crate) const ALL: &[Part] = &[("programs of others", others)];

/// Another owner's program: it does nothing with packets of interfaces that it does not know. Attached until it is dropped.
fn other(namespace: &str, device: &str, kind: TcAttachType, order: LinkOrder) -> Ebpf {
    let mut ebpf = Ebpf::load(aya::include_bytes_aligned!(concat!(env!("OUT_DIR"), "/bucket.bpf.o"))).unwrap();
    let program: &mut SchedClassifier = ebpf.program_mut("giusto_from").unwrap().try_into().unwrap();
    program.load().unwrap();
    inside(namespace, || program.attach_with_options(device, kind, TcAttachOptions::TcxOrder(order)).unwrap());
    ebpf
}

fn others() {
    let stage = Stage::new(2);
    let (host, guest) = (stage.host(), stage.guest(0));
    if KernelVersion::current().unwrap() < KernelVersion::new(6, 6, 0) {
        println!("  SKIPPED: this kernel has no such links (Linux 6.6)");
        return;
    }
    let (ingress, egress) = (TcAttachType::Ingress, TcAttachType::Egress);
    let first = other(&host, "v0", ingress, LinkOrder::first());
    let _inside = other(&guest, "eth0", egress, LinkOrder::last());
    // A filter of another owner, in front of which links come anyway.
    stage.within(&host, "tc qdisc add dev v0 clsact");
    stage.within(&host, "tc filter add dev v0 ingress prio 1 u32 match u32 0 0 flowid 1:1");
    stage.within(&guest, "tc qdisc add dev eth0 clsact");
    let before = stage.snapshot();
    let limited = [Wish { bucket: Some(("400/s", "50")), ..high(0, 80, 1) }, low(1, 0)];
    inside(&host, || {
        let mut record = Vec::new();
        let mut network = Network::apply(&plan(&[], &limited), &mut record).unwrap();
        assert_eq!(linked(&host, "v0"), [vec!["giusto_arrived", "giusto_from"], vec!["giusto_to"]]);
        assert_eq!(linked(&guest, "eth0")[1], ["giusto_sent", "giusto_from"]);
        assert_eq!(network.check(&mut record), Vec::<String>::new());
        // The owner of a clsact deletes it: nothing of ours is on it.
        stage.within(&guest, "tc qdisc del dev eth0 clsact");
        stage.within(&host, "tc qdisc del dev v0 clsact");
        let begin = Instant::now();
        let (passed, ()) = arrived(&stage, || stage.inside(&guest, || flood(Duration::from_millis(500))));
        let most = 50.0 + 400.0 * (begin.elapsed().as_secs_f64() + 0.025);
        let now = status(&network, "v0");
        println!("  without any clsact {passed} passed, at most {most:.0} may; {:?} bypassed it", now.bypassed);
        assert!(passed as f64 <= most && passed >= 50 && now.bypassed == Some(0), "{passed} {most} {now:?}");
        // What comes in front of ours later is told, as long as it is there.
        let later = other(&host, "v0", egress, LinkOrder::first());
        let told = |network: &mut Network, record: &mut Vec<giusto_network::Undo>| {
            stage.ip("link set v0 alias x"); // an event: it is looked at
            let end = Instant::now() + Duration::from_secs(3);
            loop {
                let wrong = network.check(record).join("; ");
                if !network.is_behind() || Instant::now() > end {
                    return wrong;
                }
                std::thread::sleep(Duration::from_millis(20));
            }
        };
        let wrong = told(&mut network, &mut record);
        assert!(wrong.contains("program giusto_from of another owner comes before the bucket of v0"), "{wrong}");
        drop(later);
        assert_eq!(told(&mut network, &mut record), "");
        // The first one goes while ours stay, and ours go while the other stays.
        drop(first);
        assert_eq!(linked(&host, "v0"), [vec!["giusto_arrived"], vec!["giusto_to"]]);
        drop(network);
        stage.within(&host, "tc qdisc add dev v0 clsact");
        stage.within(&host, "tc filter add dev v0 ingress prio 1 u32 match u32 0 0 flowid 1:1");
        stage.within(&guest, "tc qdisc add dev eth0 clsact");
        let before: Vec<String> = before.into_iter().filter(|fact| !fact.ends_with("v0 link giusto_from")).collect();
        assert_undone(&stage, &record, &before);
    });
}
