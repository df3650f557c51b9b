//! What the owner of an interface may do to bypass its bucket, and that it costs only its own service.

use crate::parts::{assert_undone, status, until_well};
use crate::stage::{high, linked, low, plan, threads, Stage, Wish};
use crate::Part;
use giusto_network::{Limit, Network};
use std::io;
use std::net::UdpSocket;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

pub(crate) const ALL: &[Part] = &[
    ("raw sockets do not bypass the bucket", raw),
    ("a bucket that is taken off lets nothing pass", taken_off),
    ("what keeps to its bucket loses nothing", faithful),
];

const RATE: f64 = 2000.0;
const BURST: f64 = 50.0;

fn limited() -> [Wish; 2] {
    [Wish { bucket: Some(("2000/s", "50")), ..high(0, 80, 1) }, low(1, 0)]
}

/// A UDP packet of guest 0 for port 7000 of guest 1, as it is on the wire.
fn frame() -> Vec<u8> {
    let mut ip = [0x45u8, 0, 0, 29, 0, 0, 0, 0, 64, 17, 0, 0, 10, 77, 0, 10, 10, 77, 0, 11];
    let sum: u32 = ip.chunks(2).map(|pair| u32::from(u16::from_be_bytes([pair[0], pair[1]]))).sum();
    let sum = !((sum & 0xffff) + (sum >> 16)) as u16;
    ip[10..12].copy_from_slice(&sum.to_be_bytes());
    let ethernet = [[2, 0, 0, 0, 0x77, 11], [2, 0, 0, 0, 0x77, 10]].concat();
    let udp = [7000u16.to_be_bytes(), 7000u16.to_be_bytes(), 9u16.to_be_bytes(), [0; 2]].concat();
    [&ethernet[..], &[8, 0], &ip, &udp, &[7]].concat()
}

/// Sends it, bypassing the queues of guest 0's end, as often as it can until it is `enough`; how often.
fn send_raw(stage: &Stage, enough: impl Fn() -> bool + Send + Sync) -> u64 {
    stage.inside(&stage.guest(0), || {
        const PACKET_QDISC_BYPASS: i32 = 20;
        let frame = frame();
        // SAFETY: plain system calls; what they read is whole.
        let socket = unsafe {
            let socket = libc::socket(libc::AF_PACKET, libc::SOCK_RAW | libc::SOCK_CLOEXEC, 0);
            assert!(socket >= 0, "{}", io::Error::last_os_error());
            let socket = OwnedFd::from_raw_fd(socket);
            let one = 1i32;
            let done =
                libc::setsockopt(socket.as_raw_fd(), libc::SOL_PACKET, PACKET_QDISC_BYPASS, (&raw const one).cast(), 4);
            assert_eq!(done, 0, "{}", io::Error::last_os_error());
            socket
        };
        let mut sent = 0;
        while !enough() {
            // SAFETY: the address is whole; the frame lives.
            let done = unsafe {
                let mut to: libc::sockaddr_ll = std::mem::zeroed();
                to.sll_family = libc::AF_PACKET as u16;
                to.sll_ifindex = libc::if_nametoindex(c"eth0".as_ptr()) as i32;
                let length = size_of::<libc::sockaddr_ll>() as u32;
                libc::sendto(socket.as_raw_fd(), frame.as_ptr().cast(), frame.len(), 0, (&raw const to).cast(), length)
            };
            sent += u64::from(done > 0);
        }
        sent
    })
}

/// What arrives at guest 1 while `work` is done.
pub(crate) fn arrived<T>(stage: &Stage, work: impl FnOnce() -> T) -> (u64, T) {
    let receiver = stage.inside(&stage.guest(1), || UdpSocket::bind("10.77.0.11:7000").unwrap());
    receiver.set_nonblocking(true).unwrap();
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let counter = scope.spawn(|| {
            let (mut count, mut byte) = (0, [0; 1]);
            loop {
                let last = done.load(Ordering::SeqCst);
                while receiver.recv(&mut byte).is_ok() {
                    count += 1;
                }
                if last {
                    return count;
                }
                std::thread::sleep(Duration::from_millis(1));
            }
        });
        let out = work();
        std::thread::sleep(Duration::from_millis(100));
        done.store(true, Ordering::SeqCst);
        (counter.join().unwrap(), out)
    })
}

/// As the daemon does: ten times a second while `work` is done, which is told when an interface is demoted.
fn guarded<T: Send>(network: &mut Network, work: impl FnOnce(&AtomicBool) -> T + Send) -> T {
    let (mut record, demoted) = (Vec::new(), AtomicBool::new(false));
    std::thread::scope(|scope| {
        let work = scope.spawn(|| work(&demoted));
        while !work.is_finished() {
            if network.bound(&mut record).unwrap() {
                demoted.store(true, Ordering::SeqCst);
            }
            std::thread::sleep(Duration::from_millis(100));
        }
        work.join().unwrap()
    })
}

fn raw() {
    let stage = Stage::new(2);
    let before = stage.snapshot();
    stage.inside(&stage.host(), || {
        let mut record = Vec::new();
        let mut network = Network::apply(&plan(&[], &limited()), &mut record).unwrap();
        let end = Instant::now() + Duration::from_secs(20);
        let (passed, sent) = arrived(&stage, || {
            guarded(&mut network, |demoted| send_raw(&stage, || demoted.load(Ordering::SeqCst) || Instant::now() > end))
        });
        let after = status(&network, "v0");
        println!(
            "  {sent} bypassed the bucket: {passed} passed the host's end, {:?} were dropped there",
            after.bypassed
        );
        assert!(passed as f64 <= 2.0 * BURST, "{passed}");
        assert!(after.bypassed.unwrap() > sent / 2 && after.demoted, "{after:?}");
        let policies = threads();
        assert!(policies.contains(&"napi/v0 IDL 0 on 1".into()), "{policies:?}");
        let wrong = network.check(&mut record);
        assert!(
            wrong
                .iter()
                .any(|text| text.contains("v0 overloads the host") && text.contains("packets bypass its bucket")),
            "{wrong:?}"
        );
        // A moment after that has ended it has its priority back.
        let end = Instant::now() + Duration::from_secs(10);
        while status(&network, "v0").demoted {
            assert!(Instant::now() < end, "its threads stay demoted");
            network.bound(&mut record).unwrap();
            std::thread::sleep(Duration::from_millis(100));
        }
        until_well(&mut network, &mut record);
        assert!(threads().contains(&"napi/v0 FF 80 on 1".into()), "{:?}", threads());
        // And both together have no more than the bucket.
        let begin = Instant::now();
        let (passed, _) = arrived(&stage, || {
            guarded(&mut network, |_| {
                std::thread::scope(|scope| {
                    scope.spawn(|| send_raw(&stage, || begin.elapsed() > Duration::from_millis(500)));
                    stage.inside(&stage.guest(0), || flood(Duration::from_millis(500)));
                });
            })
        });
        // What waits for its token is released for a second more, what has gone may come 25 ms later.
        let most = BURST + RATE * (begin.elapsed().as_secs_f64() + 0.025);
        println!("  raw and others: {passed} passed, at most {most:.0} may");
        assert!(passed as f64 <= most, "{passed} {most}");
        drop(network);
        assert_undone(&stage, &record, &before);
    });
}

/// Packets the usual way, as many as it can.
pub(crate) fn flood(length: Duration) {
    let socket = UdpSocket::bind("10.77.0.10:7001").unwrap();
    let begin = Instant::now();
    while begin.elapsed() < length {
        let _ = socket.send_to(&[7], "10.77.0.11:7000");
    }
}

/// Root in the container takes its end's program and queue off, again and again.
fn taken_off() {
    let stage = Stage::new(2);
    let before = stage.snapshot();
    stage.inside(&stage.host(), || {
        let mut record = Vec::new();
        let mut network = Network::apply(&plan(&[], &limited()), &mut record).unwrap();
        let begin = Instant::now();
        let (passed, ()) = arrived(&stage, || {
            let take_off = || {
                while begin.elapsed() < Duration::from_secs(1) {
                    for what in ["clsact", "root"] {
                        let words = format!("qdisc del dev eth0 {what}");
                        let guest = stage.guest(0);
                        let mut tc = std::process::Command::new("ip");
                        tc.args(["netns", "exec", &guest, "tc"]).args(words.split(' '));
                        let _ = tc.output();
                    }
                    std::thread::sleep(Duration::from_millis(20));
                }
            };
            std::thread::scope(|scope| {
                scope.spawn(take_off);
                scope.spawn(|| stage.inside(&stage.guest(0), || flood(Duration::from_secs(1))));
                while begin.elapsed() < Duration::from_secs(1) {
                    network.bound(&mut record).unwrap();
                    network.check(&mut record);
                    std::thread::sleep(Duration::from_millis(20));
                }
            });
        });
        let most = BURST + RATE * (begin.elapsed().as_secs_f64() + 0.025);
        let bypassed = status(&network, "v0").bypassed.unwrap();
        println!("  {passed} passed, at most {most:.0} may; {bypassed} bypassed it");
        assert!(passed as f64 <= most, "{passed} {most}");
        // A link is not taken off, so what keeps to the bucket passes meanwhile; only the queue goes.
        let is_link = !linked(&stage.guest(0), "eth0").concat().is_empty();
        assert!(if is_link { passed as f64 >= BURST } else { bypassed > 0 }, "{passed} {bypassed}");
        until_well_again(&mut network, &mut record);
        drop(network);
        assert_undone(&stage, &record, &before);
    });
}

fn until_well_again(network: &mut Network, record: &mut Vec<giusto_network::Undo>) {
    let end = Instant::now() + Duration::from_secs(10);
    while Instant::now() < end && status(network, "v0").demoted {
        network.bound(record).unwrap();
        std::thread::sleep(Duration::from_millis(100));
    }
    until_well(network, record);
}

/// However late the threads run and whatever is joined or cut on the way, what the bucket let through is let through.
fn faithful() {
    for queue in [true, false] {
        let stage = Stage::new(2);
        if !queue {
            stage.within(&stage.guest(0), "tc qdisc add dev eth0 root handle 1: pfifo limit 1000");
        }
        stage.inside(&stage.host(), || {
            let mut record = Vec::new();
            let network = Network::apply(&plan(&[], &limited()), &mut record).unwrap();
            let expected = if status(&network, "v0").limit == Limit::Delay { "waits" } else { "is dropped" };
            let sent = stage.send(0, 1, 4000, Duration::from_secs(1));
            // Large buffers, cut into ten packets each.
            let socket = stage.inside(&stage.guest(0), || UdpSocket::bind("10.77.0.10:7000").unwrap());
            let size = 8i32;
            const UDP_SEGMENT: i32 = 103;
            // SAFETY: an int of four bytes, as told.
            let done = unsafe {
                libc::setsockopt(socket.as_raw_fd(), libc::SOL_UDP, UDP_SEGMENT, (&raw const size).cast(), 4)
            };
            assert_eq!(done, 0, "{}", io::Error::last_os_error());
            for _ in 0..200 {
                let _ = socket.send_to(&[7; 80], "10.77.0.11:7000");
                std::thread::sleep(Duration::from_millis(1));
            }
            let status = status(&network, "v0");
            println!("  what is beyond {expected}: {sent} arrived; {status:?}");
            assert_eq!((status.bypassed, status.demoted), (Some(0), false), "{status:?}");
        });
    }
}
