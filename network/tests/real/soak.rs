//! Whatever happens to links and to who looks after them, in any order: what is up has its threads soon, and in the end all is as it was.

use crate::actors::{prepare, records, start};
use crate::stage::{difference, high, low, plan, run, threads, Stage};
use crate::Part;
use giusto_network::undo;
use rand::seq::SliceRandom;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use std::collections::BTreeMap;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::Child;
use std::time::{Duration, Instant};

pub(crate) const ALL: &[Part] = &[("random events", random)];

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    Down,
    Up,
    GroOff,
    TsoOn,
    Remove,
    Plug,
    Unthread,
    Clsact,
    Move,
    Kill,
}

const EVENTS: [Event; 10] = [
    Event::Down,
    Event::Up,
    Event::GroOff,
    Event::TsoOn,
    Event::Remove,
    Event::Plug,
    Event::Unthread,
    Event::Clsact,
    Event::Move,
    Event::Kill,
];

/// The parent's own idea of each pair: whether it is there, and which of its ends are up.
#[derive(Clone, Copy)]
struct Pair {
    there: bool,
    up: [bool; 2],
}

struct Play {
    stage: Stage,
    folder: tempfile::TempDir,
    pairs: Vec<Pair>,
    keeper: Child,
    counts: BTreeMap<Event, u32>,
    random: ChaCha8Rng,
    before: Vec<String>,
    refused_while_down: u32,
    renamed: usize,
    killed_while_away: u32,
}

fn keeper(stage: &Stage, folder: &Path) -> Child {
    prepare(folder, &plan(&[], &[high(0, 80, 1), low(1, 0), high(2, 70, 1)]));
    let mut child = start("keep", &stage.host(), folder, &[]);
    let mut line = String::new();
    BufReader::new(child.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
    assert_eq!(line, "ready\n");
    child
}

/// The seeds that are always played, beside a random one.
const SAMPLE: [u64; 3] = [1, 2, 3];

/// `GIUSTO_PLAYS=N`: so many plays, each of the next seed, with each kind of event once.
fn random() {
    let number = |name: &str| std::env::var(name).ok().and_then(|text| text.parse::<u64>().ok());
    let chosen = number("GIUSTO_SEED");
    let seed = chosen.unwrap_or_else(rand::random);
    let plays = number("GIUSTO_PLAYS");
    let is_soak = std::env::var_os("GIUSTO_SOAK").is_some() && plays.is_none();
    if chosen.is_none() && plays.is_none() && !is_soak {
        SAMPLE.iter().for_each(|&seed| one(seed, EVENTS.len()));
        println!("real: {} plays of {} events, seeds {SAMPLE:?}", SAMPLE.len(), EVENTS.len());
    }
    for play in 0..plays.unwrap_or(1) {
        let seed = seed.wrapping_add(play);
        println!("  GIUSTO_SEED={seed}");
        one(seed, if is_soak { 200 } else { EVENTS.len() });
    }
    plays.iter().for_each(|plays| println!("real: {plays} plays of {} events from seed {seed}", EVENTS.len()));
}

fn one(seed: u64, events: usize) {
    let stage = Stage::new(3);
    stage.away();
    let folder = tempfile::tempdir().unwrap();
    let before = stage.snapshot();
    let keeper = keeper(&stage, folder.path());
    let pairs = vec![Pair { there: true, up: [true; 2] }; 3];
    let random = ChaCha8Rng::seed_from_u64(seed);
    let mut play = Play {
        stage,
        folder,
        pairs,
        keeper,
        counts: BTreeMap::new(),
        random,
        before,
        refused_while_down: 0,
        renamed: 0,
        killed_while_away: 0,
    };
    let mut next = Vec::new();
    play.settled("at the beginning");
    for _ in 0..events {
        if next.is_empty() {
            next = EVENTS.to_vec();
            next.shuffle(&mut play.random);
        }
        let event = next.pop().unwrap();
        *play.counts.entry(event).or_default() += 1;
        let told = play.happen(event);
        play.settled(&told);
    }
    play.kill();
    println!(
        "  {:?}; {} times undoing had to wait for a link to be up; {} interfaces renamed before it, {} in another namespace",
        play.counts, play.refused_while_down, play.renamed, play.killed_while_away
    );
    assert_eq!(play.counts.len(), EVENTS.len(), "every kind of event has happened");
}

impl Play {
    fn end(&self, pair: usize, end: usize) -> (String, String) {
        match end {
            0 => (self.stage.host(), format!("v{pair}")),
            _ => (self.stage.guest(pair), "eth0".into()),
        }
    }

    fn set_up(&mut self, pair: usize, end: usize, up: bool) {
        let (namespace, name) = self.end(pair, end);
        self.stage.within(&namespace, &format!("ip link set {name} {}", if up { "up" } else { "down" }));
        self.pairs[pair].up[end] = up;
    }

    /// The host's end; down for as long as that takes.
    fn rename(&self, pair: usize, from: &str, to: &str) {
        self.stage.ip(&format!("link set {from} down"));
        self.stage.ip(&format!("link set {from} name {to}"));
        if self.pairs[pair].up[0] {
            self.stage.ip(&format!("link set {to} up"));
        }
    }

    fn plug(&mut self, pair: usize) {
        if !self.pairs[pair].there {
            self.stage.plug(pair);
            self.pairs[pair] = Pair { there: true, up: [true; 2] };
        }
    }

    /// Does it to an end of a pair that is there; what was done, for people.
    fn happen(&mut self, event: Event) -> String {
        let there: Vec<usize> = (0..3).filter(|&pair| self.pairs[pair].there).collect();
        let pair = if there.is_empty() { 0 } else { there[self.random.random_range(0..there.len())] };
        let end = self.random.random_range(0..2);
        if there.is_empty() {
            self.plug(pair);
        }
        let (namespace, name) = self.end(pair, end);
        match event {
            Event::Down => self.set_up(pair, end, false),
            Event::Up => {
                // One that was down comes up; else it goes down and up at once.
                let down =
                    (0..3).flat_map(|p| [(p, 0), (p, 1)]).find(|&(p, e)| self.pairs[p].there && !self.pairs[p].up[e]);
                let (pair, end) = down.unwrap_or((pair, end));
                self.set_up(pair, end, false);
                self.set_up(pair, end, true);
            }
            Event::GroOff => _ = self.stage.within(&namespace, &format!("ethtool -K {name} gro off")),
            Event::TsoOn => _ = self.stage.within(&namespace, &format!("ethtool -K {name} tso on")),
            Event::Remove => {
                self.stage.ip(&format!("link del v{pair}"));
                self.pairs[pair].there = false;
            }
            Event::Plug => {
                let gone = (0..3).find(|&pair| !self.pairs[pair].there);
                match gone {
                    Some(pair) => self.plug(pair),
                    None => {
                        self.stage.ip(&format!("link del v{pair}"));
                        self.pairs[pair].there = false;
                        self.plug(pair);
                    }
                }
            }
            Event::Unthread if self.pairs[pair].up[end] => {
                // Refused if GRO has just gone.
                let file = format!("sh -c echo${{IFS}}0>/sys/class/net/{name}/threaded||true");
                self.stage.within(&namespace, &file);
            }
            Event::Unthread => {}
            Event::Clsact => {
                _ = self.stage.within(
                    &namespace,
                    &format!("sh -c tc${{IFS}}qdisc${{IFS}}del${{IFS}}dev${{IFS}}{name}${{IFS}}clsact||true"),
                )
            }
            Event::Move => self.move_away(pair, end),
            Event::Kill => {
                self.kill();
                // All of them are there again.
                (0..3).for_each(|pair| self.plug(pair));
                self.keeper = keeper(&self.stage, self.folder.path());
            }
        }
        format!("{event:?} {name} of pair {pair}")
    }

    /// To another namespace, and back: the host's end is none of the plan's there, the guest's is.
    fn move_away(&mut self, pair: usize, end: usize) {
        let ((namespace, name), away) = (self.end(pair, end), self.stage.away());
        let up = self.pairs[pair].up;
        run(&["ip", "-n", &namespace, "link", "set", &name, "netns", &away]);
        run(&["ip", "-n", &away, "link", "set", &name, "up"]);
        self.pairs[pair].there = end == 1;
        self.pairs[pair].up[end] = true;
        self.settled(&format!("{name} of pair {pair} is in another namespace"));
        let is_killed = self.random.random_bool(0.3);
        if is_killed {
            self.killed_while_away += 1;
            self.keeper.kill().unwrap();
            self.keeper.wait().unwrap();
            let failed = undo(&records(self.folder.path())).failed;
            assert!(failed.is_empty() || self.pairs.iter().any(|pair| pair.up != [true; 2]), "{failed:?}");
        }
        run(&["ip", "-n", &away, "link", "set", &name, "netns", &namespace]);
        let master: &[&str] = if end == 0 { &["master", "br0"] } else { &[] };
        run(&[&["ip", "-n", &namespace, "link", "set", &name, "up"], master].concat());
        self.pairs[pair] = Pair { there: true, up: [up[0] || end == 0, up[1] || end == 1] };
        if is_killed {
            if self.pairs.iter().all(|pair| pair.there && pair.up == [true; 2]) {
                assert_eq!(self.differs(), Vec::<String>::new(), "undone while away");
            }
            self.kill();
            self.keeper = keeper(&self.stage, self.folder.path());
        }
    }

    /// Waits until exactly those ends that are up have their threads, as planned.
    fn settled(&mut self, after: &str) {
        let mut expected = Vec::new();
        for (pair, what) in ["FF 80 on 1", "TS - on 0", "FF 70 on 1"].into_iter().enumerate() {
            let Pair { there, up } = self.pairs[pair];
            expected.extend((there && up[0]).then(|| format!("napi/v{pair} {what}")));
            expected.extend((there && up[1]).then(|| format!("napi/eth0 {what}")));
        }
        expected.sort();
        let end = Instant::now() + Duration::from_secs(20);
        while threads() != expected {
            assert!(Instant::now() < end, "{after}: {:?}, expected {expected:?}", threads());
            assert!(self.keeper.try_wait().unwrap().is_none(), "{after}: the keeper has ended");
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// What is not as before. Threads are those of the whole machine, on which another program may measure packets meanwhile: so
    /// again for five seconds, as what giusto leaves behind does not go by itself.
    fn differs(&self) -> Vec<String> {
        let end = Instant::now() + Duration::from_secs(5);
        loop {
            let found = difference(&self.before, &self.stage.snapshot());
            if found.is_empty() || Instant::now() > end {
                return found;
            }
            std::thread::sleep(Duration::from_millis(200));
        }
    }

    /// Kills who looks after it, and undoes: after that all is as it was.
    fn kill(&mut self) {
        self.keeper.kill().unwrap();
        self.keeper.wait().unwrap();
        let records = records(self.folder.path());
        let renamed: Vec<usize> =
            (0..3).filter(|&pair| self.pairs[pair].there && self.random.random_bool(0.5)).collect();
        renamed.iter().for_each(|pair| self.rename(*pair, &format!("v{pair}"), &format!("v7{pair}")));
        let failed = undo(&records).failed;
        renamed.iter().for_each(|pair| self.rename(*pair, &format!("v7{pair}"), &format!("v{pair}")));
        self.renamed += renamed.len();
        if failed.is_empty() && self.pairs.iter().all(|pair| pair.there && pair.up == [true; 2]) {
            assert_eq!(self.differs(), Vec::<String>::new(), "renamed: {renamed:?}");
        }
        let down = self.pairs.iter().any(|pair| pair.there && pair.up != [true; 2]);
        assert!(failed.is_empty() || down, "{failed:?}");
        assert!(failed.iter().all(|text| text.contains("while")), "{failed:?}");
        self.refused_while_down += u32::from(!failed.is_empty());
        for pair in 0..3 {
            for end in 0..2 {
                if self.pairs[pair].there && !self.pairs[pair].up[end] {
                    self.set_up(pair, end, true);
                }
            }
            self.plug(pair);
        }
        assert_eq!(undo(&records).failed, Vec::<String>::new());
        assert_eq!(self.differs(), Vec::<String>::new());
    }
}

impl Drop for Play {
    fn drop(&mut self) {
        let _ = self.keeper.kill();
        let _ = self.keeper.wait();
    }
}
