//! When a silent leader is missed: ensembles are played word by word, each thread, message and clock as late as it can be or as
//! it happens to be. None is suspected for nothing, all have left a lost leader by D, no further apart than j', and a leader
//! knows that it is alone before others can elect one, whatever messages take.

use giusto_analysis::recovery::Recovery;
use giusto_analysis::silence::{Patience, Silence};
use giusto_analysis::Error;
use giusto_model::{Duration, RecoveryTimes};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

fn ms(ms: u64) -> Duration {
    Duration::from_ms(ms)
}

fn silence(latency: u64, delay: u64, write: u64, tick: u64) -> Silence {
    Silence { latency: ms(latency), delay: ms(delay), write: ms(write), tick: ms(tick) }
}

#[test]
fn what_one_adds_up_by_hand() {
    // More than 10 + 3 + 100 + 2 = 115 ms.
    let found = silence(20, 1, 5, 20).shortest().unwrap();
    assert_eq!((found.sync_limit, found.silence, found.step_down), (6, ms(120), ms(98)));
    // 120 + 1 + 40; 10 + 1 + 80 + 1; 98 - 11
    assert_eq!((found.noticed, found.apart, found.stall), (ms(161), ms(92), ms(87)));
    // A slow disk: more than 1 + 60 + 2 + 200.
    assert_eq!(silence(20, 1, 100, 20).shortest().unwrap().silence, ms(280));
    // One tick more where it would be just as long.
    assert_eq!(silence(1, 1, 0, 30).shortest().unwrap().silence, ms(30));
    assert_eq!(silence(2, 1, 0, 30).shortest().unwrap().silence, ms(60));
    let times = RecoveryTimes::default();
    let bound = Recovery { times, wait: ms(20), forced_writes: 1, left: 2 }.bound().unwrap();
    // 205 without d + j, and D.
    assert_eq!(found.machine_loss(&times, &bound), Ok(ms(205 - 16 + 161)));
    assert_eq!(found.spread(ms(1)), Ok(ms(93)));
}

#[test]
fn what_cannot_be_is_refused() {
    assert_eq!(silence(1, 1, 1, 0).shortest(), Err(Error::Recovery));
    assert_eq!(
        Silence { latency: Duration::from_ns(u64::MAX / 2), ..silence(1, 1, 1, 10) }.shortest(),
        Err(Error::Recovery)
    );
    assert_eq!(Silence { tick: Duration::from_ns(1), ..silence(5000, 1, 1, 10) }.shortest(), Err(Error::Recovery));
}

/// How the leader is lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Lost {
    Not,
    Stopped,
    Cut,
    /// Nothing that it sends arrives.
    Mute,
    /// Nothing arrives that is sent to it.
    Deaf,
}

/// A follower: when each word was sent for it, arrived and was read, and when its answer arrived and was read.
#[derive(Default)]
struct Follower {
    words: Vec<Word>,
}

#[derive(Clone, Copy)]
struct Word {
    sent: u64,
    arrived: u64,
    read: u64,
    back: u64,
    known: u64,
}

struct Play<'a> {
    rng: &'a mut StdRng,
    silence: Silence,
    /// Everything as late as it can be, or not at all.
    hard: bool,
    /// Messages take so many times longer than they may.
    beyond: u64,
}

impl Play<'_> {
    fn up_to(&mut self, most: u64) -> u64 {
        match self.hard {
            true => most * u64::from(self.rng.random_bool(0.5)),
            false => self.rng.random_range(0..=most),
        }
    }
    fn late(&mut self) -> u64 {
        self.up_to(self.silence.latency.ns())
    }
    fn way(&mut self) -> u64 {
        self.up_to(self.silence.delay.ns() * self.beyond)
    }
    /// When the leader's thread sends words.
    fn sent(&mut self, words: usize) -> Vec<u64> {
        let half = self.silence.tick.ns() / 2;
        let mut at = 0;
        let mut next = || {
            at += half + self.up_to(1_000_000) + self.late();
            at
        };
        (0..words).map(|_| next()).collect()
    }
    /// `lost_at`: from then on as `lost` says.
    fn follower(&mut self, sent: &[u64], lost: Lost, lost_at: u64) -> Follower {
        let mut found = Follower::default();
        let mut queue = (0, 0, 0, 0, 0);
        for &sent in sent {
            // Each thread and each connection keeps the order.
            queue.0 = (sent + self.late()).max(queue.0);
            queue.1 = (queue.0 + self.way()).max(queue.1);
            queue.2 = (queue.1 + self.late()).max(queue.2);
            queue.3 = (queue.2 + self.way()).max(queue.3);
            queue.4 = (queue.3 + self.late()).max(queue.4);
            let mut word = Word { sent, arrived: queue.1, read: queue.2, back: queue.3, known: queue.4 };
            let never = |time: &mut u64, unless: bool, lost: &[Lost], of: Lost| {
                if lost.contains(&of) && !unless {
                    *time = u64::MAX;
                }
            };
            never(&mut word.arrived, queue.0 <= lost_at, &[Lost::Stopped], lost);
            never(&mut word.arrived, queue.1 <= lost_at, &[Lost::Cut, Lost::Mute], lost);
            if word.arrived == u64::MAX {
                (word.read, word.back) = (u64::MAX, u64::MAX);
            }
            never(&mut word.back, queue.3 <= lost_at, &[Lost::Cut, Lost::Deaf], lost);
            never(&mut word.known, word.back != u64::MAX, &[Lost::Cut, Lost::Mute, Lost::Deaf], lost);
            found.words.push(word);
        }
        found
    }
}

impl Follower {
    /// When it has been silent for too long, if it ever is.
    fn leaves(&self, silence: u64) -> Option<u64> {
        let mut since = self.words[0].read;
        for word in &self.words[1..] {
            if word.arrived > since.saturating_add(silence) {
                return Some(since + silence);
            }
            since = word.read;
        }
        None
    }
    /// The same; it answers nothing any more.
    fn leave(&mut self, silence: u64) -> Option<u64> {
        let at = self.leaves(silence)?;
        for word in self.words.iter_mut().filter(|word| word.read >= at) {
            (word.back, word.known) = (u64::MAX, u64::MAX);
        }
        Some(at)
    }
    /// When the leader's thread for it has waited for too long.
    fn dropped(&self, silence: u64) -> bool {
        self.words.windows(2).any(|two| two[1].back > two[0].known.saturating_add(silence))
    }
    /// Until when the leader counts it, as it is known at `now`; `None`: it has answered nothing yet.
    fn counted(&self, step_down: u64, now: u64) -> Option<u64> {
        self.words.iter().filter(|word| word.known <= now).map(|word| word.sent + step_down).max()
    }
}

/// When the leader sees that no quorum has answered for `step_down`: at the end that is the (q-1)-th latest, unless it learns of
/// another answer before. Not before a quorum has ever answered; whether that was already too late.
fn steps_down(followers: &[Follower], step_down: u64, quorum: usize) -> Option<(u64, bool)> {
    let mut looks: Vec<u64> = followers.iter().flat_map(|one| one.words.iter().map(|word| word.known)).collect();
    looks.retain(|at| *at != u64::MAX);
    looks.sort_unstable();
    let mut held = false;
    for (place, &at) in looks.iter().enumerate() {
        let mut ends: Vec<u64> = followers.iter().filter_map(|one| one.counted(step_down, at)).collect();
        ends.sort_unstable_by(|a, b| b.cmp(a));
        let Some(&end) = ends.get(quorum - 2) else { continue };
        if looks.get(place + 1).is_none_or(|next| *next > end) {
            return Some((end.max(at), !held && end <= at));
        }
        held = true;
    }
    None
}

fn drawn(rng: &mut StdRng) -> Silence {
    let mut us = |from: u64, to: u64| Duration::from_us(rng.random_range(from..to));
    let (latency, delay, write) = (us(10, 30_000), us(1, 5_000), us(1, 20_000));
    Silence { latency, delay, write, tick: ms(2 * rng.random_range(5..100)) }
}

#[test]
fn nothing_is_suspected_for_nothing_and_with_a_tick_less_it_would_be() {
    let mut rng = StdRng::seed_from_u64(31);
    let (mut played, mut near, mut red) = (0, 0f64, 0);
    for run in 0..4000 {
        let asked = drawn(&mut rng);
        let Patience { silence, step_down, .. } = asked.shortest().unwrap();
        let mut play = Play { rng: &mut rng, silence: asked, hard: run % 2 == 0, beyond: 1 };
        let sent = play.sent(200);
        let one = play.follower(&sent, Lost::Not, 0);
        assert_eq!(one.leaves(silence.ns()), None, "{asked:?}");
        assert!(!one.dropped(silence.ns()), "{asked:?}");
        for two in one.words.windows(2) {
            // Its end is put off before it is there.
            assert!(two[1].known < two[0].sent + step_down.ns(), "{asked:?}");
            near = near.max((two[1].known - two[0].sent) as f64 / step_down.ns() as f64);
        }
        let less = step_down.checked_sub(asked.tick).map_or(0, Duration::ns);
        red += u32::from(one.words.windows(2).any(|two| two[1].known >= two[0].sent + less));
        played += 1;
    }
    println!("{played} leaders that no one lost: answers came within {near:.3} of A; with a tick less {red} had stepped down");
    assert!(near > 0.97 && red > 500, "{near} {red}");
}

#[test]
fn all_leave_a_lost_leader_by_then_and_it_has_stepped_down_before_others_can_elect() {
    let mut rng = StdRng::seed_from_u64(32);
    let (mut latest, mut widest, mut margin) = (0f64, 0f64, u64::MAX);
    for run in 0..8000 {
        let asked = drawn(&mut rng);
        let Patience { silence, step_down, noticed, apart, .. } = asked.shortest().unwrap();
        let lost = [Lost::Stopped, Lost::Cut, Lost::Mute, Lost::Deaf][run % 4];
        let servers = [3, 4, 5, 7][run / 4 % 4];
        let quorum = servers / 2 + 1;
        let mut play = Play { rng: &mut rng, silence: asked, hard: run % 3 != 0, beyond: 1 };
        let sent = play.sent(80);
        let lost_at = play.rng.random_range(sent[20]..sent[30]);
        let followers: Vec<Follower> = (1..servers).map(|_| play.follower(&sent, lost, lost_at)).collect();
        let seen = steps_down(&followers, step_down.ns(), quorum).filter(|_| lost != Lost::Stopped);
        let seen = seen.map(|(at, _)| at + play.late());
        let mut leaves: Vec<u64> = if lost == Lost::Deaf {
            // They hear it until it closes their connections.
            let seen = seen.expect("a deaf leader steps down");
            (1..servers).map(|_| seen + play.way() + play.late()).collect()
        } else {
            followers.iter().map(|one| one.leaves(silence.ns()).unwrap()).map(|at| at + play.late()).collect()
        };
        leaves.sort_unstable();
        let (first, last) = (leaves[0], leaves[leaves.len() - 1]);
        assert!(last <= lost_at + noticed.ns(), "{lost:?} {asked:?}");
        assert!(last - first <= apart.ns(), "{lost:?} {asked:?}");
        latest = latest.max((last - lost_at) as f64 / noticed.ns() as f64);
        widest = widest.max((last - first) as f64 / apart.ns() as f64);
        // Followers of a deaf leader leave as it closes their connections.
        if !matches!(lost, Lost::Stopped | Lost::Deaf) {
            let elect = leaves[quorum - 1];
            let seen = seen.expect("a leader that is alone steps down");
            assert!(seen < elect, "{lost:?} {asked:?}");
            margin = margin.min(elect - seen);
        }
    }
    println!("8000 lost leaders: all had left within {latest:.3} of D, {widest:.3} of j' apart; the leader knew {margin} ns before");
    assert!(latest > 0.9 && widest > 0.7 && margin < 50_000_000, "{latest} {widest} {margin}");
}

#[test]
fn whatever_messages_take_the_leader_knows_first() {
    let mut rng = StdRng::seed_from_u64(33);
    let (mut elected, mut known) = (0, 0);
    for run in 0..6000 {
        let asked = drawn(&mut rng);
        let Patience { silence, step_down, .. } = asked.shortest().unwrap();
        let servers = [3, 5][run % 2];
        let quorum = servers / 2 + 1;
        let mut play = Play { rng: &mut rng, silence: asked, hard: run % 3 != 0, beyond: 200 };
        let sent = play.sent(60);
        let mut followers: Vec<Follower> = (1..servers).map(|_| play.follower(&sent, Lost::Not, 0)).collect();
        let mut leaves: Vec<u64> = followers.iter_mut().filter_map(|one| one.leave(silence.ns())).collect();
        leaves.sort_unstable();
        let Some(elect) = leaves.get(quorum - 1) else { continue };
        elected += 1;
        // A leader of which a quorum heard nothing in time has nothing to count from.
        match steps_down(&followers, step_down.ns(), quorum) {
            None | Some((_, true)) => continue,
            Some((at, false)) => assert!(at + play.late() < *elect, "{asked:?}"),
        }
        known += 1;
    }
    println!("{elected} ensembles lost their leader to slow messages; {known} leaders had known it before");
    assert!(known > 300, "{elected} {known}");
}
