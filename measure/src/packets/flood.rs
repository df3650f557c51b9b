//! Guests, or a remote machine, that send small packets.

use super::{Place, Stage};
use crate::{Error, Generator};
use std::net::UdpSocket;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// What one sends to another.
#[derive(Clone, Copy, Debug)]
pub struct Flow {
    /// Who sends, a guest or the remote machine.
    pub from: Place,
    /// To whom.
    pub to: Place,
    /// Packets a second, evenly; `None`: as many as it can.
    pub rate: Option<u64>,
    /// The core that sends.
    pub core: u32,
}

/// UDP packets of one byte, each a buffer of the kernel of its own, until it is dropped. No process reads what arrives.
#[derive(Debug)]
pub struct Flood {
    stop: Arc<AtomicBool>,
    sent: Vec<Arc<AtomicU64>>,
    threads: Vec<JoinHandle<Result<(), Error>>>,
    _sinks: Vec<UdpSocket>,
}

const PORT: u16 = 9;

impl Flood {
    /// Starts it. Errors: a socket cannot be made there.
    pub fn start(stage: &Stage, flows: &[Flow]) -> Result<Flood, Error> {
        let failed = |why| Error::System { what: "make a socket in a network namespace".into(), why };
        let mut flood = Flood { stop: Arc::default(), sent: vec![], threads: vec![], _sinks: vec![] };
        for (nth, flow) in flows.iter().enumerate() {
            if flows[..nth].iter().all(|before| before.to != flow.to) {
                let bind = || UdpSocket::bind((Stage::address(flow.to), PORT));
                flood._sinks.push(stage.inside(flow.to, bind)?.map_err(failed)?);
            }
        }
        for &flow in flows {
            let connect = || {
                let socket = UdpSocket::bind((Stage::address(flow.from), 0))?;
                socket.connect((Stage::address(flow.to), PORT)).map(|()| socket)
            };
            let socket = stage.inside(flow.from, connect)?.map_err(failed)?;
            let (stop, sent) = (flood.stop.clone(), Arc::new(AtomicU64::new(0)));
            flood.sent.push(sent.clone());
            flood.threads.push(std::thread::spawn(move || send(&socket, flow, &stop, &sent)));
        }
        Ok(flood)
    }

    /// Packets that each flow has sent so far.
    pub fn sent(&self) -> Vec<u64> {
        self.sent.iter().map(|sent| sent.load(Ordering::Relaxed)).collect()
    }

    /// Ends it. Errors: a sender could not be bound to its core.
    pub fn end(mut self) -> Result<(), Error> {
        self.stop.store(true, Ordering::Relaxed);
        let ended = |thread: JoinHandle<_>| thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        self.threads.drain(..).try_for_each(ended)
    }
}

impl Drop for Flood {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        self.threads.drain(..).for_each(|thread| drop(thread.join()));
    }
}

fn send(socket: &UdpSocket, flow: Flow, stop: &AtomicBool, sent: &AtomicU64) -> Result<(), Error> {
    let _applied = Generator { cpu: Some(flow.core), fifo_priority: None }.apply()?;
    let started = Instant::now();
    let mut count = 0;
    while !stop.load(Ordering::Relaxed) {
        if let Some(rate) = flow.rate {
            let due = Duration::from_nanos((u128::from(count) * 1_000_000_000 / u128::from(rate.max(1))) as u64);
            if let Some(early) = due.checked_sub(started.elapsed()).filter(|early| !early.is_zero()) {
                std::thread::sleep(early.min(Duration::from_millis(50)));
                continue;
            }
        }
        // A full queue drops the packet, which is what a guest would see too.
        let _ = socket.send(&[0]);
        count += 1;
        sent.store(count, Ordering::Relaxed);
    }
    Ok(())
}
