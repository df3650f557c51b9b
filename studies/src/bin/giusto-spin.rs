//! `giusto-spin PORT NS`: a synthetic service. To each `HSET` of one field it answers after so many ns of processor time, one request
//! after the other; one client at a time.

use rustix::time::{clock_gettime, ClockId};
use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpListener};
use std::process::ExitCode;

/// Lines of a request in Redis' protocol: how many words, and two for each of HSET, key, field, value.
const LINES: usize = 9;

fn main() -> ExitCode {
    let numbers: Vec<u64> = std::env::args().skip(1).filter_map(|word| word.parse().ok()).collect();
    let [port, ns] = numbers[..] else {
        eprintln!("giusto-spin: expected a port and a processor time in ns");
        return ExitCode::from(2);
    };
    match TcpListener::bind((Ipv4Addr::LOCALHOST, port as u16)).and_then(|listener| serve(&listener, ns)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            eprintln!("giusto-spin: port {port}: {why}");
            ExitCode::from(4)
        }
    }
}

fn serve(listener: &TcpListener, ns: u64) -> std::io::Result<()> {
    for stream in listener.incoming() {
        let mut stream = stream?;
        stream.set_nodelay(true)?;
        let (mut buffer, mut lines) = ([0; 4096], 0);
        // A client that hangs up makes room for the next.
        while let Ok(bytes @ 1..) = stream.read(&mut buffer) {
            for _ in buffer[..bytes].iter().filter(|byte| **byte == b'\n') {
                lines += 1;
                if lines % LINES == 0 {
                    spin(ns);
                    if stream.write_all(b":1\r\n").is_err() {
                        break;
                    }
                }
            }
        }
    }
    Ok(())
}

fn spin(ns: u64) {
    let used = || {
        let time = clock_gettime(ClockId::ThreadCPUTime);
        time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
    };
    let end = used() + ns;
    while used() < end {
        std::hint::spin_loop();
    }
}
