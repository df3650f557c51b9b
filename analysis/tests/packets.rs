//! The bound on packets' waits against an independent play of polls, ns by ns.

use giusto_analysis::packets::{busy, delay_bound, Ahead, Flow, Poll, THROTTLE_RUNTIME};
use giusto_analysis::Error;
use giusto_model::{Bucket, Duration, Rate, Tokens};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use std::collections::VecDeque;

/// An interface: a packet takes `cost` ns, `tokens` come in `of` ns, and `depth` are kept.
#[derive(Clone, Copy, Debug)]
struct Interface {
    cost: u64,
    tokens: u64,
    of: u64,
    depth: u64,
}

impl Interface {
    fn flow(&self) -> Flow {
        let bucket = Bucket { rate: rate(self.tokens, self.of), depth: Tokens::whole(self.depth) };
        Flow { bucket, capacity: rate(1, self.cost) }
    }
}

fn rate(events: u64, ns: u64) -> Rate {
    Rate::of(events, Duration::from_ns(ns)).unwrap()
}

/// When an interface sends what its bucket lets through.
#[derive(Clone, Copy, PartialEq)]
enum Sends {
    /// As soon as it may, from this instant on.
    Greedily(u64),
    /// At each ns with this probability in a hundred, then all that it may or one.
    AtRandom(u32),
}

/// Which of several that share a priority is processed when one of them has nothing left.
#[derive(Clone, Copy, PartialEq)]
enum Next {
    /// Never this one while another has something.
    Last(usize),
    AtRandom,
}

/// Longest wait of each interface; `ranks`: their priorities, 0 the highest. Those that share one are SCHED_FIFO: the one that
/// is processed goes on while it has packets. Below them one more always has `poll` packets of `low` ns, if there is one. The
/// choice of what is processed next does not see what comes at that very instant.
fn play(
    all: &[(Interface, Sends)],
    (ranks, next): (&[usize], Next),
    poll: u64,
    low: Option<u64>,
    length: u64,
    rng: &mut StdRng,
) -> Vec<u64> {
    let mut queues: Vec<VecDeque<u64>> = vec![VecDeque::new(); all.len()];
    let mut levels: Vec<u64> = all.iter().map(|(one, _)| one.depth * one.of).collect();
    let mut longest = vec![0; all.len()];
    // Which interface is polled (`None`: the one below), packets left in the poll, until when the present packet takes.
    let mut current: Option<(Option<usize>, u64, u64)> = None;
    let mut before = None;
    let takes = |who: Option<usize>| who.map_or(low, |who| Some(all[who].0.cost));
    let next_one = |queues: &[VecDeque<u64>], before: Option<usize>, now: u64, rng: &mut StdRng| {
        let level = (0..all.len()).filter(|&who| !queues[who].is_empty()).map(|who| ranks[who]).min();
        let ready = (0..all.len()).filter(|&who| !queues[who].is_empty() && Some(ranks[who]) == level);
        let ready: Vec<usize> = ready.collect();
        let who = match (before.filter(|before| ready.contains(before)), next) {
            (Some(goes_on), _) => Some(goes_on),
            (None, Next::Last(last)) => ready.iter().copied().find(|who| *who != last).or(ready.first().copied()),
            (None, Next::AtRandom) if ready.is_empty() => None,
            (None, Next::AtRandom) => Some(ready[rng.random_range(0..ready.len())]),
        };
        takes(who).map(|takes| (who, poll, now + takes))
    };
    for now in 0..length {
        if let Some((who, left, until)) = current {
            if until == now {
                if let Some(who) = who {
                    let came = queues[who].pop_front().expect("it was processed");
                    longest[who] = longest[who].max(now - came);
                }
                let more = left > 1 && who.is_none_or(|who| !queues[who].is_empty());
                current = more.then(|| (who, left - 1, now + takes(who).unwrap_or(0)));
                before = who;
            }
        }
        if current.is_none() {
            current = next_one(&queues, before, now, rng);
        }
        for (place, (one, sends)) in all.iter().enumerate() {
            let may = levels[place] / one.of;
            let count = match sends {
                Sends::Greedily(from) if now >= *from => may,
                Sends::AtRandom(percent) if rng.random_range(0..100) < *percent => {
                    may.min(if rng.random_bool(0.5) { u64::MAX } else { 1 })
                }
                _ => 0,
            };
            (0..count).for_each(|_| queues[place].push_back(now));
            levels[place] = (levels[place] - count * one.of + one.tokens).min(one.depth * one.of);
        }
        if current.is_none() {
            current = next_one(&queues, before, now, rng); // a core that is idle begins at once
        }
    }
    longest
}

/// So many, whose tokens come within such times.
fn random(count: usize, of: std::ops::Range<u64>, rng: &mut StdRng) -> Vec<Interface> {
    let mut one = || Interface {
        cost: rng.random_range(2..15),
        tokens: rng.random_range(1..4),
        of: rng.random_range(of.clone()),
        depth: rng.random_range(1..12),
    };
    (0..count).map(|_| one()).collect()
}

#[test]
fn no_packet_waits_longer_than_the_bound_and_some_wait_as_long() {
    let mut rng = StdRng::seed_from_u64(41);
    let [mut played, mut unbounded, mut attained, mut near, mut beside] = [0u32; 5];
    while played < 400 {
        let count = rng.random_range(1..=4);
        let interfaces = random(count, 20..400, &mut rng);
        let (poll, low) = (rng.random_range(1..10), rng.random_range(2..20));
        let flows: Vec<Flow> = interfaces.iter().map(Interface::flow).collect();
        let longest_poll = |own: usize| {
            let cost = interfaces[own + 1..].iter().map(|below| below.cost).max().unwrap_or(0).max(low);
            Poll { packets: poll as u32, capacity: rate(1, cost), late: Duration::ZERO }
        };
        let bound = |own: usize| delay_bound(&flows[..own], flows[own], longest_poll(own)).unwrap();
        let bounds: Vec<Option<Duration>> = (0..count).map(bound).collect();
        let load: f64 = interfaces.iter().map(|i| (i.tokens * i.cost) as f64 / i.of as f64).sum();
        assert_eq!(bounds.iter().any(Option::is_none), load >= 0.95, "{load}");
        let Some(bounds) = bounds.into_iter().collect::<Option<Vec<_>>>() else {
            unbounded += 1;
            continue;
        };
        let last = bounds.iter().map(|bound| bound.ns()).max().unwrap_or(0);
        // All at once at the start of a poll of the lowest; then in other ways.
        for worst in [true, false, false, false] {
            let sends = |rng: &mut StdRng| match worst || rng.random_bool(0.5) {
                true => Sends::Greedily(if worst { 0 } else { rng.random_range(0..100) }),
                false => Sends::AtRandom(rng.random_range(1..100)),
            };
            let all: Vec<(Interface, Sends)> = interfaces.iter().map(|one| (*one, sends(&mut rng))).collect();
            let levels: Vec<usize> = (0..count).collect();
            let found = play(&all, (&levels, Next::AtRandom), poll, Some(low), (3 * last).min(30_000), &mut rng);
            for (own, (found, bound)) in found.iter().zip(&bounds).enumerate() {
                assert!(*found <= bound.ns(), "{found} > {bound}: {interfaces:?}, {poll} of {low}");
                attained += u32::from(*found == bound.ns());
                // A part of a packet of each above is counted whole, and multiplied by what comes meanwhile.
                let parts: u64 = interfaces[..own].iter().map(|above| above.cost).sum();
                near += u32::from(own > 0 && worst && bound.ns() - found <= 2 * parts);
                beside += u32::from(own > 0 && !worst && *found > bound.ns() / 2);
            }
        }
        played += 1;
    }
    println!(
        "played {played}, unbounded {unbounded}; attained {attained}, near with others above {near}, half way {beside}"
    );
    assert!(unbounded > 20 && attained > 300 && near > 200 && beside > 200);
}

/// Some share a priority, also all of them. Each is the one that its fellows are preferred to in a play of its own.
#[test]
fn no_packet_waits_longer_where_interfaces_share_a_priority_and_some_wait_nearly_as_long() {
    let mut rng = StdRng::seed_from_u64(43);
    let [mut played, mut near, mut too_short] = [0u32; 3];
    while played < 300 {
        let count = rng.random_range(2..=5);
        let interfaces = random(count, 60..500, &mut rng);
        let mut levels: Vec<usize> = (0..count).map(|_| rng.random_range(0..3)).collect();
        levels.sort_unstable();
        let (poll, low) = (rng.random_range(1..10), rng.random_range(2..20));
        let bound = |own: usize, counts: &dyn Fn(usize) -> bool| {
            let ahead: Vec<Flow> = (0..count)
                .filter(|&other| other != own && counts(other))
                .map(|other| interfaces[other].flow())
                .collect();
            let below = (0..count).filter(|&other| levels[other] > levels[own]).map(|other| interfaces[other].cost);
            let cost = below.max().unwrap_or(0).max(low);
            let poll = Poll { packets: poll as u32, capacity: rate(1, cost), late: Duration::ZERO };
            Ahead::of(&ahead).unwrap().delay_bound(interfaces[own].flow(), poll).unwrap()
        };
        let bounds: Option<Vec<Duration>> =
            (0..count).map(|own| bound(own, &|other| levels[other] <= levels[own])).collect();
        let Some(bounds) = bounds else { continue };
        let last = bounds.iter().map(|bound| bound.ns()).max().unwrap_or(0);
        for own in 0..count {
            for worst in [true, false] {
                let sends = |rng: &mut StdRng| match worst || rng.random_bool(0.5) {
                    true => Sends::Greedily(if worst { 0 } else { rng.random_range(0..100) }),
                    false => Sends::AtRandom(rng.random_range(1..100)),
                };
                let all: Vec<(Interface, Sends)> = interfaces.iter().map(|one| (*one, sends(&mut rng))).collect();
                let next = if worst { Next::Last(own) } else { Next::AtRandom };
                let found = play(&all, (&levels, next), poll, Some(low), (3 * last).min(20_000), &mut rng);
                for (one, (found, bound)) in found.iter().zip(&bounds).enumerate() {
                    assert!(
                        *found <= bound.ns(),
                        "{one}: {found} > {bound}: {interfaces:?} {levels:?}, {poll} of {low}"
                    );
                }
                let parts: u64 = (0..count)
                    .filter(|&other| other != own && levels[other] <= levels[own])
                    .map(|other| interfaces[other].cost)
                    .sum();
                near += u32::from(worst && bounds[own].ns() - found[own] <= 2 * parts.max(1));
                // Without those that share its priority the bound would be wrong.
                let without = bound(own, &|other| levels[other] < levels[own]);
                too_short += u32::from(without.is_none_or(|without| without.ns() < found[own]));
            }
        }
        played += 1;
    }
    println!("played {played}; near {near}, too short without those of the same priority {too_short}");
    assert!(near > 300 && too_short > 100);
}

/// Below them is nothing: a poll of one of them is no longer than what it may have waiting.
#[test]
fn no_packet_waits_longer_on_a_quiet_core_and_some_wait_nearly_as_long() {
    let mut rng = StdRng::seed_from_u64(44);
    let [mut played, mut attained, mut near, mut shorter] = [0u32; 4];
    while played < 300 {
        let count: usize = rng.random_range(1..=4);
        let interfaces: Vec<Interface> = (0..count)
            .map(|_| Interface {
                cost: rng.random_range(2..15),
                tokens: rng.random_range(1..4),
                of: rng.random_range(60..500),
                depth: rng.random_range(1..6),
            })
            .collect();
        let poll: u64 = rng.random_range(1..10);
        let flows: Vec<Flow> = interfaces.iter().map(Interface::flow).collect();
        // From the last one on, as those below say how long a poll of them is.
        let (mut bounds, mut in_a_row) = (vec![Duration::ZERO; count], 0);
        let bounded = (0..count).rev().all(|own| {
            let one = interfaces[own];
            let first = Poll { packets: in_a_row as u32, capacity: rate(1, 1), late: Duration::ZERO };
            let Some(bound) = delay_bound(&flows[..own], flows[own], first).unwrap() else { return false };
            bounds[own] = bound;
            let window = bound.ns() + poll * one.cost;
            let waiting = (one.depth + (window * one.tokens).div_ceil(one.of)).min(poll) * one.cost;
            in_a_row = in_a_row.max(waiting);
            shorter += u32::from(waiting < poll * one.cost);
            true
        });
        if !bounded {
            continue;
        }
        let last = bounds.iter().map(|bound| bound.ns()).max().unwrap_or(0);
        let ranks: Vec<usize> = (0..count).collect();
        for turn in 0..20 {
            let sends = |rng: &mut StdRng| match turn == 0 || rng.random_bool(0.5) {
                true => Sends::Greedily(if turn == 0 { 0 } else { rng.random_range(0..100) }),
                false => Sends::AtRandom(rng.random_range(1..100)),
            };
            let all: Vec<(Interface, Sends)> = interfaces.iter().map(|one| (*one, sends(&mut rng))).collect();
            let found = play(&all, (&ranks, Next::AtRandom), poll, None, (5 * last).min(5_000), &mut rng);
            for (own, (found, bound)) in found.iter().zip(&bounds).enumerate() {
                assert!(*found <= bound.ns(), "{own}: {found} > {bound}: {interfaces:?}, polls of {poll}");
                attained += u32::from(*found == bound.ns());
                near += u32::from(own + 1 < count && *found * 4 > bound.ns() * 3);
            }
        }
        played += 1;
    }
    println!(
        "played {played}; attained {attained}, near above others {near}, polls shorter than the longest {shorter}"
    );
    assert!(attained > 300 && near > 100 && shorter > 100);
}

#[test]
fn no_interface_runs_for_longer_in_a_second_than_what_is_said() {
    // Seconds are long: the same sum for a short window, as the second is a constant.
    let one = Interface { cost: 100_000, tokens: 1, of: 1_000_000, depth: 40 };
    let two = Interface { cost: 50_000, tokens: 3, of: 1_000_000, depth: 7 };
    let poll = Poll { packets: 64, capacity: rate(1, 15_000), late: Duration::ZERO };
    // 64 x 15 us, 40 x 100 us, a thousand of 100 us, 7 x 50 us, three thousand of 50 us.
    let expected = Duration::from_us(960 + 4_000 + 100_000 + 350 + 150_000);
    assert_eq!(busy(&[one.flow(), two.flow()], poll), Ok(expected));
    assert!(expected < THROTTLE_RUNTIME);
}

#[test]
fn a_poll_a_burst_and_what_is_above_by_hand() {
    let bucket = |per_second: u64, depth| Bucket { rate: rate(per_second, 1_000_000_000), depth: Tokens::whole(depth) };
    let capacity = rate(50_000, 1_000_000_000); // 20 us
    let poll = Poll { packets: 64, capacity, late: Duration::ZERO };
    let flow = |per_second, depth| Flow { bucket: bucket(per_second, depth), capacity };
    // 64 x 20 us + 10 x 20 us.
    let alone = delay_bound(&[], flow(1000, 10), poll).unwrap();
    assert_eq!(alone, Some(Duration::from_us(1480)));
    // And 20 x 20 us, and a fifth of the time that it takes: (1480 + 400) / (1 - 1/5).
    let below = delay_bound(&[flow(10_000, 20)], flow(1000, 10), poll).unwrap();
    assert_eq!(below, Some(Duration::from_us(2350)));
    // Lateness is waited for, and for what those above send meanwhile: (1480 + 400 + 100) / (1 - 1/5).
    let late = Poll { late: Duration::from_us(100), ..poll };
    assert_eq!(delay_bound(&[], flow(1000, 10), late).unwrap(), Some(Duration::from_us(1580)));
    assert_eq!(delay_bound(&[flow(10_000, 20)], flow(1000, 10), late).unwrap(), Some(Duration::from_us(2475)));
    assert_eq!(delay_bound(&[flow(40_000, 1)], flow(7_500, 1), poll), Ok(None));
    let nothing = Rate::of(0, Duration::from_ms(1)).unwrap();
    let idle = Flow { capacity: nothing, ..flow(1, 1) };
    assert_eq!(delay_bound(&[], idle, poll), Err(Error::NoCapacity));
    let full = flow(1, u64::MAX);
    assert_eq!(delay_bound(&[full], full, poll), Err(Error::Wait));
}
