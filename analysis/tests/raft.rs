//! The bounds of etcd's elections: elections are played by etcd's rules (raft.go of 3.4), with messages, ticks and forced
//! writes as late as they can be or as they happen to be. None lasts longer than its bound, splits are no more frequent than is
//! said, and no server campaigns needlessly where `steady` says so.

use giusto_analysis::raft::{Raft, FEWEST_TICKS};
use giusto_analysis::Error;
use giusto_model::{Duration, EtcdTimes};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use std::collections::BTreeMap;

fn ms(ms: u64) -> Duration {
    Duration::from_ms(ms)
}

fn raft(latency: u64, delay: u64, write: u64, heartbeat: u64, ticks: u64, left: u64) -> Raft {
    let times = EtcdTimes { latency: ms(latency), delay: ms(delay), write: ms(write) };
    Raft { times, heartbeat: ms(heartbeat), ticks, left }
}

#[test]
fn what_one_adds_up_by_hand() {
    let found = raft(5, 3, 2, 10, 8, 2);
    // m = 8, s = 7: 2 * 9 * 10 + 16 + 28 + 5; 32 + 4; 150 + 7 + 36; 16 + 2
    let bound = found.bound(3).unwrap();
    assert_eq!((bound.campaign, bound.votes, bound.again, bound.serve), (ms(229), ms(36), ms(193), ms(18)));
    assert_eq!((bound.total, bound.first_write), (ms(229 + 36 + 2 * 193 + 18), ms(669 + 32 + 2)));
    // w = 6: two differences of 8 draws; 3 ticks more are silence enough where 20 ms are not.
    assert_eq!(found.split_ppm(), 250_000);
    assert_eq!((found.rounds(250_000), found.rounds(200_000)), (Some((1, 250_000)), Some((2, 62_500))));
    assert!(raft(5, 3, 2, 10, 5, 2).steady().unwrap() && !raft(5, 3, 2, 10, 4, 2).steady().unwrap());
    // All draws of four servers, one by one: those whose smallest two are near are no more than is said.
    for (write, near) in [(0, 1u64), (15, 2)] {
        let e = 7u64;
        let draws = (0..e.pow(4)).map(|all| (0..4).map(|place| all / e.pow(place) % e).collect::<Vec<_>>());
        let split = draws.filter(|draw| {
            let mut sorted = draw.clone();
            sorted.sort_unstable();
            sorted[1] - sorted[0] < near
        });
        let share = 1_000_000 * split.count() as u64 / e.pow(4);
        assert!(raft(0, 0, write, 10, e, 4).split_ppm() >= share, "{share}");
    }
}

#[test]
fn what_cannot_be_is_refused() {
    assert_eq!(raft(5, 3, 2, 10, u64::MAX, 2).bound(1), Err(Error::Recovery));
    assert_eq!(raft(5, 3, 2, 10, u64::MAX, 2).steady(), Err(Error::Recovery));
    assert_eq!(raft(0, 0, 0, 1, 500, 60).split_ppm(), 1_000_000);
    assert_eq!(raft(0, 90, 0, 1, 5, 2).rounds(1000), None);
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Role {
    Follower,
    PreCandidate,
    Candidate,
    Leader,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Word {
    PreVote,
    Vote,
    /// Whether it was for a campaign before the election, and given.
    Answer(bool, bool),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    Tick(usize),
    /// To, from, term.
    Arrive(usize, usize, u64, Word),
}

struct Server {
    role: Role,
    term: u64,
    vote: Option<usize>,
    led: bool,
    elapsed: u64,
    drawn: u64,
    log: u64,
    yes: u64,
    no: u64,
    /// Until when its loop forces a write, and whether a tick waits for that.
    busy: u64,
    waiting: bool,
    next_tick: u64,
}

struct Election<'a> {
    rng: &'a mut StdRng,
    raft: Raft,
    /// Everything as late as it can be, half of the time.
    slow: bool,
    servers: Vec<Server>,
    queue: BTreeMap<(u64, u64), Event>,
    arrived: BTreeMap<(usize, usize), u64>,
    events: u64,
    ignored: u64,
    rejected: u64,
}

impl Election<'_> {
    fn new(rng: &mut StdRng, raft: Raft, slow: bool, logs: u64) -> Election<'_> {
        let mut election = Election {
            rng,
            raft,
            slow,
            servers: Vec::new(),
            queue: BTreeMap::new(),
            arrived: BTreeMap::new(),
            events: 0,
            ignored: 0,
            rejected: 0,
        };
        for of in 0..raft.left as usize {
            let drawn = election.draw();
            let log = election.rng.random_range(0..logs);
            election.servers.push(Server {
                role: Role::Follower,
                term: 1,
                vote: None,
                led: true,
                elapsed: 0,
                drawn,
                log,
                yes: 0,
                no: 0,
                busy: 0,
                waiting: false,
                next_tick: 0,
            });
            // Ticks at the same time split the most.
            let first = if logs > 1 { election.rng.random_range(0..raft.heartbeat.ns()) } else { 0 };
            election.servers[of].next_tick = first;
        }
        election
    }
    fn draw(&mut self) -> u64 {
        self.raft.ticks + self.rng.random_range(0..self.raft.ticks)
    }
    fn up_to(&mut self, most: u64) -> u64 {
        match self.slow && self.rng.random_bool(0.5) {
            true => most * u64::from(self.rng.random_bool(0.7)),
            false => self.rng.random_range(0..=most),
        }
    }
    fn at(&mut self, time: u64, event: Event) {
        self.events += 1;
        self.queue.insert((time, self.events), event);
    }
    fn word(&self) -> u64 {
        self.raft.times.delay.ns() + self.raft.times.latency.ns()
    }
    fn send(&mut self, now: u64, from: usize, to: usize, term: u64, word: Word) {
        let most = self.word();
        let arrives = (now + self.up_to(most)).max(self.arrived.get(&(from, to)).copied().unwrap_or(0));
        self.arrived.insert((from, to), arrives);
        self.at(arrives, Event::Arrive(to, from, term, word));
    }
    fn send_all(&mut self, now: u64, from: usize, term: u64, word: Word) {
        (0..self.servers.len()).filter(|to| *to != from).for_each(|to| self.send(now, from, to, term, word));
    }
    /// Its loop is busy until what is returned.
    fn force(&mut self, now: u64, of: usize) -> u64 {
        let most = self.raft.times.write.ns();
        let busy = now.max(self.servers[of].busy) + self.up_to(most);
        self.servers[of].busy = busy;
        busy
    }
    fn reset(&mut self, of: usize, term: u64, role: Role) {
        let drawn = self.draw();
        let own = &mut self.servers[of];
        if own.term != term {
            (own.term, own.vote) = (term, None);
        }
        (own.role, own.led, own.elapsed, own.drawn) = (role, false, 0, drawn);
    }
    fn next_tick(&mut self, of: usize) {
        let latency = self.raft.times.latency.ns();
        let late = self.up_to(latency);
        let at = self.servers[of].next_tick + late;
        self.servers[of].next_tick += self.raft.heartbeat.ns();
        self.at(at, Event::Tick(of));
    }
    /// Of all servers, with the one that is lost, more than half.
    fn quorum(&self) -> u64 {
        self.raft.left.div_ceil(2) + u64::from(self.raft.left.is_multiple_of(2))
    }
    fn tick(&mut self, now: u64, of: usize) {
        self.servers[of].elapsed += 1;
        if self.servers[of].elapsed < self.servers[of].drawn {
            return;
        }
        let own = &mut self.servers[of];
        (own.elapsed, own.role, own.led, own.yes, own.no) = (0, Role::PreCandidate, false, 1, 0);
        let term = own.term + 1;
        self.send_all(now, of, term, Word::PreVote);
    }
    fn arrive(&mut self, now: u64, to: usize, from: usize, term: u64, word: Word) {
        let (e, logs) = (self.raft.ticks, (self.servers[from].log, self.servers[to].log));
        match word {
            Word::PreVote | Word::Vote => {
                let own = &self.servers[to];
                if term > own.term && own.led && own.elapsed < e {
                    self.ignored += 1;
                    return;
                }
                if term < own.term {
                    if word == Word::PreVote {
                        let term = own.term;
                        self.send(now, to, from, term, Word::Answer(true, false));
                    }
                    return;
                }
                if word == Word::Vote && term > own.term {
                    self.reset(to, term, Role::Follower);
                }
                let own = &mut self.servers[to];
                let free = own.vote == Some(from)
                    || own.vote.is_none() && !own.led
                    || word == Word::PreVote && term > own.term;
                let given = free && logs.0 >= logs.1;
                self.rejected += u64::from(!given);
                let mut sent = now;
                if word == Word::Vote {
                    if given {
                        (own.elapsed, own.vote) = (0, Some(from));
                    }
                    sent = self.force(now, to);
                }
                let term = if given { term } else { self.servers[to].term };
                self.send(sent, to, from, term, Word::Answer(word == Word::PreVote, given));
            }
            Word::Answer(before, given) => {
                let expected = if before { Role::PreCandidate } else { Role::Candidate };
                let own = &self.servers[to];
                if term > own.term && !(before && given) {
                    return self.reset(to, term, Role::Follower);
                }
                if own.role != expected || term < own.term {
                    return;
                }
                let quorum = self.quorum();
                let own = &mut self.servers[to];
                *(if given { &mut own.yes } else { &mut own.no }) += 1;
                if own.yes >= quorum {
                    let next = own.term + 1;
                    if !before {
                        own.role = Role::Leader;
                        return;
                    }
                    self.reset(to, next, Role::Candidate);
                    let own = &mut self.servers[to];
                    (own.vote, own.yes, own.no) = (Some(to), 1, 0);
                    let sent = self.force(now, to);
                    self.send_all(sent, to, next, Word::Vote);
                } else if own.no >= quorum {
                    let term = own.term;
                    self.reset(to, term, Role::Follower);
                }
            }
        }
    }
    /// Plays it: how long it lasted after the loss of the leader, and how many elections were split.
    fn run(&mut self) -> (u64, u64) {
        // The loss is at `lost`; a beat before it, the last or, where the leader is lost in the middle of a round, the one
        // before.
        let (beat, stall) = (self.raft.heartbeat.ns(), self.raft.times.latency.ns() + self.raft.times.write.ns());
        let lost = 10 * (beat + stall + self.word());
        let (whole, since) = (self.rng.random_bool(0.5), self.rng.random_range(0..=beat + stall));
        let mut last = Vec::new();
        for _ in 0..self.servers.len() {
            let before = if whole { since } else { (beat + stall) * u64::from(self.rng.random_bool(0.5)) };
            let most = self.word();
            last.push(lost - before + self.up_to(most));
        }
        for (of, last) in last.iter().enumerate() {
            // Ticks before the last word count for nothing.
            while self.servers[of].next_tick + self.raft.times.latency.ns() < *last {
                self.servers[of].next_tick += beat;
            }
            self.next_tick(of);
        }
        while let Some(((now, _), event)) = self.queue.pop_first() {
            match event {
                Event::Tick(of) => {
                    let busy = self.servers[of].busy;
                    if busy > now {
                        // A ticker keeps one.
                        if !std::mem::replace(&mut self.servers[of].waiting, true) {
                            self.at(busy, Event::Tick(of));
                        } else {
                            self.next_tick(of);
                        }
                        continue;
                    }
                    self.servers[of].waiting = false;
                    if now >= last[of] {
                        self.tick(now, of);
                    }
                    self.next_tick(of);
                }
                Event::Arrive(to, from, term, word) => self.arrive(now, to, from, term, word),
            }
            if let Some(leader) = self.servers.iter().find(|one| one.role == Role::Leader) {
                return (now - lost.min(now), leader.term - 2);
            }
        }
        unreachable!("there is always another tick")
    }
}

fn drawn(rng: &mut StdRng) -> Raft {
    let left = [2, 2, 2, 3, 4, 6][rng.random_range(0..6)];
    let mut us = |from: u64, to: u64| Duration::from_us(rng.random_range(from..to));
    let times = EtcdTimes { latency: us(0, 20_000), delay: us(50, 5_000), write: us(100, 20_000) };
    let heartbeat = ms(rng.random_range(1..60));
    let mut raft = Raft { times, heartbeat, ticks: FEWEST_TICKS, left };
    while !raft.steady().unwrap() {
        raft.ticks += 1;
    }
    raft.ticks += rng.random_range(0..10);
    raft
}

#[test]
fn no_election_that_is_played_lasts_longer_than_its_bound() {
    let mut rng = StdRng::seed_from_u64(31);
    let (mut split, mut ignored, mut rejected, mut nearest) = (0, 0, 0, 0.0f64);
    for number in 0..30_000 {
        let raft = drawn(&mut rng);
        let mut election = Election::new(&mut rng, raft, number % 2 == 0, 2);
        let (lasted, splits) = election.run();
        (ignored, rejected) = (ignored + election.ignored, rejected + election.rejected);
        let bound = raft.bound(1 + splits as u32).unwrap();
        let most = bound.total.ns() - bound.serve.ns();
        assert!(lasted <= most, "{number}: {lasted} ns, bound {most} with {splits} splits: {raft:?}");
        split += u64::from(splits > 0);
        nearest = nearest.max(lasted as f64 / most as f64);
    }
    println!(
        "raft: 30000 elections, {split} split; {ignored} campaigns ignored, {rejected} rejected; the longest has \
         {nearest:.2} of its bound"
    );
    assert!(split > 1000 && ignored > 1000 && rejected > 1000 && nearest > 0.7);
}

#[test]
fn splits_are_no_more_frequent_than_is_said() {
    let mut rng = StdRng::seed_from_u64(32);
    for (delay, write, heartbeat, ticks, left) in
        [(3, 5, 9, 10, 2), (1, 1, 20, 8, 2), (5, 10, 4, 40, 2), (2, 3, 10, 20, 4)]
    {
        // What runs late is no part of it, and with one log no server is rejected.
        let raft = raft(0, delay, write, heartbeat, ticks, left);
        let (runs, mut split) = (4000u64, 0u64);
        for _ in 0..runs {
            split += u64::from(Election::new(&mut rng, raft, true, 1).run().1 > 0);
        }
        let (share, said) = (split as f64 / runs as f64, raft.split_ppm() as f64 / 1e6);
        println!("raft: {share:.3} of {runs} elections split, {said:.3} said: {raft:?}");
        // Three deviations.
        assert!(share <= said + 3.0 * (said / runs as f64).sqrt(), "{share} {said} {raft:?}");
        assert!(share > said / 10.0, "said far too much: {share} {said}");
    }
}

#[test]
fn nobody_campaigns_for_nothing_where_it_is_steady_and_somebody_does_where_it_is_not() {
    let mut rng = StdRng::seed_from_u64(33);
    let (mut kept, mut campaigned) = (0, 0);
    for _ in 0..20_000 {
        let mut raft = drawn(&mut rng);
        let EtcdTimes { latency, delay, write } = raft.times;
        let [late, way, force, beat] = [latency, delay, write, raft.heartbeat].map(|time| time.ns());
        raft.ticks = rng.random_range(2..12);
        // The longest silence: one word as soon as can be after a tick that was late, the next one beat later and as late as
        // can be.
        let silence = beat + late + force + way + late;
        let first = rng.random_range(0..beat);
        let quiet = (0..).take_while(|tick| first + tick * beat <= silence + late).count() as u64;
        if raft.steady().unwrap() {
            assert!(quiet < raft.ticks, "{raft:?}");
            kept += 1;
        } else {
            campaigned += u64::from(quiet >= raft.ticks);
        }
    }
    println!("raft: {kept} steady, {campaigned} not and seen to campaign");
    assert!(kept > 3000 && campaigned > 1000);
}
