//! The bounds of a recovery: numbers of LiH21 by hand, the numbers that the server's own bound is tested with, monotone in
//! every part, and elections that are played vote by vote, none of which lasts longer than E.

use giusto_analysis::recovery::Recovery;
use giusto_analysis::Error;
use giusto_model::{Duration, Epochs, RecoveryTimes};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use serde_json::Value;
use std::collections::{BTreeSet, VecDeque};

fn ms(ms: u64) -> Duration {
    Duration::from_ms(ms)
}

/// Table 5.3 with w = 20 ms.
fn paper(left: u64) -> Recovery {
    Recovery { times: RecoveryTimes::default(), wait: ms(20), forced_writes: 1, left }
}

#[test]
fn the_paper_s_form_with_table_5_3_is_what_one_adds_up_by_hand() {
    // N of 3, 5 and 7 servers: T_e = 35 + 13 + 2 (3 N(N+1)/2 + 20), T_r = 55 + 25 N.
    for (left, flood, election, recovery) in [(2, 29, 106, 105), (4, 50, 148, 155), (6, 83, 214, 205)] {
        let found = paper(left).paper().unwrap();
        let parts = (found.flood, found.election, found.recovery, found.total);
        assert_eq!(parts, (ms(flood), ms(election), ms(recovery), ms(election + recovery)), "{left} left");
    }
}

#[test]
fn ours_with_table_5_3_is_what_one_adds_up_by_hand() {
    // d + s_e + (j + 2 d + w + h n(n+1)) + (s_r + n h_r + k b)
    for (left, votes) in [(2, 6), (4, 20), (6, 42)] {
        for epochs in Epochs::ALL {
            let found = Recovery { forced_writes: epochs.forced_writes(), ..paper(left) }.bound().unwrap();
            let (election, recovery) = (13 + 6 + 20 + 3 * votes, 55 + 25 * left + 5 * epochs.forced_writes());
            assert_eq!((found.election, found.recovery), (ms(election), ms(recovery)));
            assert_eq!(found.total, ms(3 + 35 + election + recovery));
            assert_eq!(found.first_write, ms(3 + 35 + election + recovery + 2 * (6 + 25 + 5)));
        }
    }
}

#[test]
fn the_numbers_that_the_server_is_tested_with() {
    let golden: Vec<Value> = serde_json::from_str(include_str!("../../formats/goldens/recovery.json")).unwrap();
    assert!(golden.len() >= 20);
    for one in golden {
        let ns = |value: &Value| Duration::from_ns(value.as_u64().unwrap());
        let times: RecoveryTimes = serde_json::from_value(one["times"].clone()).unwrap();
        let epochs: Epochs = serde_json::from_value(one["epochs"].clone()).unwrap();
        let forced_writes = epochs.forced_writes();
        assert_eq!(one["forced_writes"].as_u64(), Some(forced_writes));
        let left = one["servers"].as_u64().unwrap() - 1;
        let asked = Recovery { times, wait: ns(&one["wait_ns"]), forced_writes, left };
        assert_eq!(serde_json::to_value(asked.bound().unwrap()).unwrap(), one["bound"]);
        assert_eq!(serde_json::to_value(asked.paper().unwrap()).unwrap(), one["paper"]);
    }
}

fn drawn(rng: &mut StdRng) -> Recovery {
    let mut time = |most: u64| Duration::from_ns(rng.random_range(0..most));
    let times = RecoveryTimes {
        leave: time(80_000_000),
        jitter: time(40_000_000),
        delay: time(20_000_000),
        message: time(3_000_000),
        recover: time(200_000_000),
        learner: time(30_000_000),
        write: time(300_000_000),
    };
    let spread = times.jitter.ns() + times.delay.ns();
    let wait = Duration::from_ns(spread + rng.random_range(1..50_000_000u64));
    Recovery { times, wait, forced_writes: rng.random_range(0..4), left: rng.random_range(1..9) }
}

#[test]
fn no_part_can_grow_and_shorten_the_recovery() {
    let mut rng = StdRng::seed_from_u64(11);
    let more = Duration::from_ns(1);
    let add = |time: &mut Duration| *time = time.checked_add(more).unwrap();
    let (mut grew, mut stayed) = (0, 0);
    for _ in 0..2000 {
        let least = drawn(&mut rng);
        let (ours, theirs) = (least.bound().unwrap(), least.paper().unwrap());
        for part in 0..10 {
            let mut longer = least;
            match part {
                0 => add(&mut longer.times.leave),
                1 => add(&mut longer.times.jitter),
                2 => add(&mut longer.times.delay),
                3 => add(&mut longer.times.message),
                4 => add(&mut longer.times.recover),
                5 => add(&mut longer.times.learner),
                6 => add(&mut longer.times.write),
                7 => add(&mut longer.wait),
                8 => longer.forced_writes += 1,
                _ => longer.left += 1,
            }
            let (more, their_more) = (longer.bound().unwrap(), longer.paper().unwrap());
            // Every part counts in ours, but b where nothing is forced (which the first write still is).
            let nothing = (part == 6 && least.forced_writes == 0) || (part == 8 && least.times.write.is_zero());
            assert!(
                if nothing { more.total == ours.total } else { more.total > ours.total },
                "part {part} of {least:?}"
            );
            assert!(more.first_write > ours.first_write || part == 8 && nothing);
            assert!(their_more.total >= theirs.total, "part {part} of {least:?}");
            if their_more.total > theirs.total {
                grew += 1
            } else {
                stayed += 1
            }
        }
    }
    // The paper's form knows neither d, b nor k.
    assert!(grew > 13_000 && stayed > 5_900, "{grew} {stayed}");
}

#[test]
fn what_cannot_be_is_refused() {
    assert_eq!(Recovery { left: 0, ..paper(1) }.bound(), Err(Error::NoneLeft));
    assert_eq!(Recovery { left: 0, ..paper(1) }.paper(), Err(Error::NoneLeft));
    for left in [u64::MAX, u64::MAX - 1, 1 << 33] {
        assert_eq!(Recovery { left, ..paper(1) }.bound(), Err(Error::Recovery));
        assert_eq!(Recovery { left, ..paper(1) }.paper(), Err(Error::Recovery));
    }
    let times = RecoveryTimes { recover: Duration::from_ns(u64::MAX), ..RecoveryTimes::default() };
    assert_eq!(Recovery { times, ..paper(2) }.bound(), Err(Error::Recovery));
}

/// A server of a played election. The vote is the place in the order of votes, the larger the better.
#[derive(Clone, Default)]
struct Voter {
    started: Option<u64>,
    vote: usize,
    changed: u64,
    /// When its thread is done with what it handles.
    busy: u64,
    inbox: VecDeque<(usize, usize)>,
    /// What each voter last told it.
    told: Vec<usize>,
    answered: BTreeSet<(usize, usize)>,
    decided: Option<u64>,
}

/// What can happen next.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    Start(usize),
    /// To, from, vote.
    Arrive(usize, usize, usize),
    /// One vote is handled.
    Handle(usize),
    /// The wait is over, if the vote has not changed since.
    Waited(usize),
}

struct Election<'a> {
    rng: &'a mut StdRng,
    asked: Recovery,
    /// Every message as late as it can be.
    slow: bool,
    voters: Vec<Voter>,
    /// When the last message of a voter reaches another.
    arrived: Vec<u64>,
    queue: BTreeSet<(u64, u64, Event)>,
    events: u64,
    lost: u64,
    answers: u64,
}

impl Election<'_> {
    fn at(&mut self, time: u64, event: Event) {
        self.events += 1;
        self.queue.insert((time, self.events, event));
    }
    fn tell(&mut self, now: u64, from: usize, to: usize) {
        let most = self.asked.times.delay.ns();
        let delay = if self.slow { most } else { self.rng.random_range(0..=most) };
        let vote = self.voters[from].vote;
        // A connection keeps the order.
        let last = &mut self.arrived[from * self.voters.len() + to];
        *last = (*last).max(now + delay);
        let arrives = *last;
        self.at(arrives, Event::Arrive(to, from, vote));
    }
    fn tell_all(&mut self, now: u64, from: usize) {
        (0..self.voters.len()).filter(|to| *to != from).for_each(|to| self.tell(now, from, to));
        // The paper counts the one to itself too; it takes no way.
        let vote = self.voters[from].vote;
        self.at(now, Event::Arrive(from, from, vote));
    }
    /// All of the ensemble that are left are a quorum or more; just a quorum has to agree.
    fn quorum(&self, of: usize) -> bool {
        let voter = &self.voters[of];
        let agree = voter.told.iter().filter(|told| **told == voter.vote).count();
        agree > self.voters.len().div_ceil(2)
    }
    fn step(&mut self, now: u64, event: Event) {
        let wait = self.asked.wait.ns();
        match event {
            Event::Start(who) => {
                let n = self.voters.len();
                let voter = &mut self.voters[who];
                (voter.started, voter.changed, voter.busy) = (Some(now), now, now);
                voter.told = vec![usize::MAX; n];
                self.tell_all(now, who);
                self.at(now + wait, Event::Waited(who));
            }
            Event::Arrive(to, from, vote) => {
                let receiver = &mut self.voters[to];
                // Who still follows has no use for it.
                if receiver.started.is_none() {
                    self.lost += 1;
                    return;
                }
                receiver.inbox.push_back((from, vote));
                let (done, own) = (receiver.busy.max(now) + self.asked.times.message.ns(), receiver.vote);
                receiver.busy = done;
                let again = vote < own && receiver.answered.insert((from, own));
                self.at(done, Event::Handle(to));
                if again {
                    self.answers += 1;
                    self.tell(now, to, from);
                }
            }
            Event::Handle(who) => {
                let voter = &mut self.voters[who];
                let (from, vote) = voter.inbox.pop_front().unwrap();
                voter.told[from] = vote;
                if vote > voter.vote {
                    (voter.vote, voter.changed, voter.decided) = (vote, now, None);
                    self.tell_all(now, who);
                    self.at(now + wait, Event::Waited(who));
                }
                self.decide(now, who);
            }
            Event::Waited(who) => self.decide(now, who),
        }
    }
    fn decide(&mut self, now: u64, who: usize) {
        let wait = self.asked.wait.ns();
        if self.voters[who].decided.is_none() && now >= self.voters[who].changed + wait && self.quorum(who) {
            self.voters[who].decided = Some(now);
        }
    }
    /// From the first vote until all have decided.
    fn play(mut self) -> (u64, u64, u64, bool) {
        let n = self.voters.len();
        for who in 0..n {
            self.voters[who].vote = who;
            let most = self.asked.times.jitter.ns();
            let late = self.rng.random_bool(0.3);
            let start = if who == n - 1 && self.slow {
                0
            } else if late {
                most
            } else {
                self.rng.random_range(0..=most)
            };
            self.at(start, Event::Start(who));
        }
        while let Some((now, _, event)) = self.queue.pop_first() {
            self.step(now, event);
        }
        let first = self.voters.iter().filter_map(|voter| voter.started).min().unwrap();
        let last = self.voters.iter().map(|voter| voter.decided.expect("every election ends")).max().unwrap();
        (last - first, self.lost, self.answers, self.voters.iter().all(|voter| voter.vote == n - 1))
    }
}

#[test]
fn no_election_that_is_played_lasts_longer_than_the_bound() {
    let mut rng = StdRng::seed_from_u64(58);
    let (mut lost, mut answered, mut near, mut beyond_one_way) = (0, 0, 0, 0);
    for round in 0..4000 {
        let asked = Recovery { left: rng.random_range(2..7), ..drawn(&mut rng) };
        let slow = round % 2 == 0;
        let voters = vec![Voter::default(); asked.left as usize];
        let arrived = vec![0; voters.len() * voters.len()];
        let election = Election {
            rng: &mut rng,
            asked,
            slow,
            voters,
            arrived,
            queue: BTreeSet::new(),
            events: 0,
            lost: 0,
            answers: 0,
        };
        let (took, missed, answers, agreed) = election.play();
        let bound = asked.bound().unwrap().election.ns();
        assert!(agreed, "two leaders in round {round}");
        assert!(took <= bound, "round {round}: {took} > {bound}, {asked:?}");
        let RecoveryTimes { jitter, delay, message, .. } = asked.times;
        let n = asked.left;
        let one_way = jitter.ns() + delay.ns() + asked.wait.ns() + message.ns() * (n * (n + 1) / 2);
        lost += missed;
        answered += answers;
        near += u64::from(took * 10 > bound * 9);
        beyond_one_way += u64::from(took > one_way);
    }
    println!("elections: 4000 played, {lost} votes came too early, {answered} were told again, {near} took 90 % of the bound, {beyond_one_way} more than votes told once can take");
    assert!(lost > 1000 && answered > 1000 && near > 100 && beyond_one_way > 20);
}
