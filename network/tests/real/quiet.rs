//! A core on which nothing of the low class is processed: round trips of the high class beside a flood, with such a core and
//! without.

use crate::parts::{assert_undone, until_well};
use crate::stage::{high, inside, low, plan, Stage};
use crate::Part;
use giusto_network::Network;
use rustix::thread::{sched_setaffinity, CpuSet};
use std::net::UdpSocket;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

pub(crate) const ALL: &[Part] = &[("a core without the low class", own_core)];

const TRIPS: usize = 250;

/// Binds the calling thread.
fn on(core: usize) {
    let mut set = CpuSet::new();
    set.set(core);
    sched_setaffinity(None, &set).unwrap();
}

/// As what answers at once: above the low class, below the threads of packets.
fn real_time() {
    // SAFETY: plain system call of this thread; the kernel reads the parameters.
    unsafe {
        let mut parameters: libc::sched_param = std::mem::zeroed();
        parameters.sched_priority = 20;
        assert_eq!(libc::sched_setscheduler(0, libc::SCHED_FIFO, &parameters), 0);
    }
}

/// What each packet of a host costs beyond its bare bridge: rules that match nothing; without nftables it is less.
fn rules(stage: &Stage) {
    let rules = "ip saddr 192.0.2.1 drop\n".repeat(100);
    let table = format!("table bridge cost {{\nchain seen {{\ntype filter hook forward priority 0\n{rules}}}\n}}\n");
    let file = std::env::temp_dir().join(format!("{}.nft", stage.host()));
    std::fs::write(&file, table).unwrap();
    let loaded = std::process::Command::new("ip")
        .args(["netns", "exec", &stage.host(), "nft", "-f"])
        .arg(&file)
        .output()
        .is_ok_and(|output| output.status.success());
    std::fs::remove_file(&file).unwrap();
    println!("  {} rules of nftables see each packet", if loaded { 100 } else { 0 });
}

/// Round trips from guest 0 to guest 1, each on `core`, in us, ascending; a lost one takes 100 ms.
fn trips(stage: &Stage, core: usize) -> Vec<u64> {
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            inside(&stage.guest(1), || {
                on(core);
                real_time();
                let socket = UdpSocket::bind("10.77.0.11:7100").unwrap();
                socket.set_read_timeout(Some(Duration::from_millis(100))).unwrap();
                let mut byte = [0; 1];
                while !done.load(Ordering::SeqCst) {
                    if let Ok((_, from)) = socket.recv_from(&mut byte) {
                        let _ = socket.send_to(&byte, from);
                    }
                }
            });
        });
        let mut found = inside(&stage.guest(0), || {
            on(core);
            real_time();
            let socket = UdpSocket::bind("10.77.0.10:7100").unwrap();
            socket.set_read_timeout(Some(Duration::from_millis(100))).unwrap();
            std::thread::sleep(Duration::from_millis(100));
            let trip = |turn: u64| {
                // Not in step with polls.
                std::thread::sleep(Duration::from_micros(2_000 + turn * 379 % 1_000));
                let (begin, mut byte) = (Instant::now(), [turn as u8; 1]);
                let _ = socket.send_to(&byte, "10.77.0.11:7100");
                while socket.recv(&mut byte).is_ok() && byte[0] != turn as u8 {}
                begin.elapsed().as_micros() as u64
            };
            (0..TRIPS as u64).map(trip).collect::<Vec<u64>>()
        });
        done.store(true, Ordering::SeqCst);
        found.sort_unstable();
        found
    })
}

/// Guests 0 and 1 of the high class on core 0, and a flood from guest 2 to guest 3 of the low one, sent on core 1.
fn own_core() {
    let stage = Stage::new(4);
    rules(&stage);
    let before = stage.snapshot();
    let mut of_95 = Vec::new();
    for (what, of_low, of_trips) in [("beside the low class", 0, 1), ("on a core without it", 1, 0)] {
        inside(&stage.host(), || {
            let goal = plan(&[], &[high(0, 49, 0), high(1, 48, 0), low(2, of_low), low(3, of_low)]);
            let mut record = Vec::new();
            let mut network = Network::apply(&goal, &mut record).unwrap();
            until_well(&mut network, &mut record);
            let done = AtomicBool::new(false);
            let (found, sent) = std::thread::scope(|scope| {
                let flood = scope.spawn(|| {
                    inside(&stage.guest(2), || {
                        on(1);
                        let socket = UdpSocket::bind("10.77.0.12:0").unwrap();
                        let mut sent = 0u64;
                        while !done.load(Ordering::SeqCst) {
                            sent += u64::from(socket.send_to(&[7], "10.77.0.13:7001").is_ok());
                        }
                        sent
                    })
                });
                let found = trips(&stage, of_trips);
                done.store(true, Ordering::SeqCst);
                (found, flood.join().unwrap())
            });
            let p95 = found[TRIPS * 95 / 100];
            println!(
                "  {what}: p50 {} us, p95 {p95} us, longest {} us; the flood sent {sent}",
                found[TRIPS / 2],
                found[TRIPS - 1]
            );
            of_95.push(p95);
            drop(network);
            assert_undone(&stage, &record, &before);
        });
    }
    assert!(of_95[1] < of_95[0], "{of_95:?}");
}
