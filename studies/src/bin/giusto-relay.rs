//! `giusto-relay NAME LISTEN TIME NEXT[,NEXT...] [COPIES]`: a synthetic stage of a path. It takes TIME of its processor for
//! each line that comes to LISTEN, and passes the line on to each NEXT, with when it came and when it left, as `giusto measure
//! path` reads it. Where branches of a path meet, it waits for so many copies of a line, and passes on what all of them say.
//! A NEXT may be `STAGE=ADDRESS`: it gets lines that have come through that stage, so that several paths can share one.
//!
//! Lines are served one after the other, first come, first served, whichever connection they come over; NEXT is connected to when
//! the first line comes, and again after it was lost.

use giusto_model::Duration;
use rustix::time::{clock_gettime, ClockId};
use std::collections::HashMap;
use std::io::{BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::process::ExitCode;
use std::sync::mpsc::{channel, Receiver, Sender};

const USAGE: &str = "expected a name, an address to listen at, a time and an address to send to, such as \
                     giusto-relay camera 127.0.0.1:7101 1ms 127.0.0.1:7102; several addresses with commas between, of a shared \
                     stage each with the stage before it, such as camera=127.0.0.1:7102, and, where branches meet, how many \
                     copies of each line come";

/// Where lines are passed on to: all, or those that have come through a stage.
struct Next {
    through: Option<String>,
    address: SocketAddr,
}

impl Next {
    fn parse(text: &str) -> Option<Next> {
        let (through, address) = text.split_once('=').map_or((None, text), |(stage, address)| (Some(stage), address));
        Some(Next { through: through.map(|stage| format!(" {stage}:")), address: address.parse().ok()? })
    }

    fn takes(&self, line: &str) -> bool {
        self.through.as_ref().is_none_or(|stage| line.contains(stage))
    }
}

fn ns(clock: ClockId) -> u64 {
    let time = clock_gettime(clock);
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// Lines of one connection, each with when it came.
fn read(stream: TcpStream, lines: Sender<(String, u64)>) {
    for line in BufReader::new(stream).lines().map_while(Result::ok) {
        if lines.send((line, ns(ClockId::Monotonic))).is_err() {
            return;
        }
    }
}

fn serve(name: &str, time: u64, next: &[Next], copies: usize, lines: &Receiver<(String, u64)>) {
    let mut to: Vec<Option<TcpStream>> = next.iter().map(|_| None).collect();
    let mut open: HashMap<String, (usize, Vec<String>)> = HashMap::new();
    for (line, came) in lines {
        let Some(line) = whole(line, copies, &mut open) else { continue };
        let done = ns(ClockId::ThreadCPUTime) + time;
        while ns(ClockId::ThreadCPUTime) < done {}
        let text = format!("{line} {name}:{came}-{}\n", ns(ClockId::Monotonic));
        for (to, next) in to.iter_mut().zip(next).filter(|(_, next)| next.takes(&text)) {
            if to.is_none() {
                *to = TcpStream::connect(next.address).ok();
                if let Some(stream) = to {
                    // Without it is only slower.
                    let _ = stream.set_nodelay(true);
                }
            }
            if to.as_mut().is_none_or(|to| to.write_all(text.as_bytes()).is_err()) {
                *to = None; // this line is lost
            }
        }
    }
}

/// The line with what all its copies say, if this is the last of them. A line begins with its number and its time.
fn whole(line: String, copies: usize, open: &mut HashMap<String, (usize, Vec<String>)>) -> Option<String> {
    if copies <= 1 {
        return Some(line);
    }
    let number = line.split(' ').next()?.to_string();
    let (come, said) = open.entry(number.clone()).or_default();
    *come += 1;
    for word in line.split(' ').map(String::from) {
        if !said.contains(&word) {
            said.push(word);
        }
    }
    (*come == copies).then(|| open.remove(&number).unwrap_or_default().1.join(" "))
}

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let parsed = match &words[..] {
        [name, listen, time, next, copies @ ..] if copies.len() <= 1 => {
            let time: Option<Duration> = time.parse().ok();
            let next: Option<Vec<Next>> = next.split(',').map(Next::parse).collect();
            let copies: Option<usize> = copies.first().map_or(Some(1), |copies| copies.parse().ok());
            time.and_then(|time| Some((name, listen.parse::<SocketAddr>().ok()?, time.ns(), next?, copies?)))
        }
        _ => None,
    };
    let Some((name, listen, time, next, copies)) = parsed else {
        eprintln!("giusto-relay: {USAGE}");
        return ExitCode::from(2);
    };
    let listener = match TcpListener::bind(listen) {
        Ok(listener) => listener,
        Err(why) => {
            eprintln!("giusto-relay: cannot listen at {listen}: {why}");
            return ExitCode::from(3);
        }
    };
    let (send, lines) = channel();
    std::thread::spawn(move || {
        for stream in listener.incoming().map_while(Result::ok) {
            let lines = send.clone();
            std::thread::spawn(move || read(stream, lines));
        }
    });
    serve(name, time, &next, copies, &lines);
    ExitCode::SUCCESS
}
