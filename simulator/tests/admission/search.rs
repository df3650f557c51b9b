//! Every behaviour of the workloads of a small system: whether any makes a server miss.

use crate::model::{begin, on_grid, step, Spec, State, Work};
use giusto_analysis::admission::{Grids, Order};
use giusto_model::ServerKind;
use std::collections::hash_map::Entry;
use std::collections::HashMap;

/// What the workloads did until `victim` was short.
#[derive(Debug)]
pub(crate) struct Miss {
    pub(crate) phases: Vec<i16>,
    pub(crate) works: Vec<Vec<Work>>,
    pub(crate) victim: usize,
}

/// All phases that the grids of `specs` can have.
pub(crate) fn phases_of(specs: &[Spec], grids: Grids) -> Vec<Vec<i16>> {
    let mut all = vec![Vec::new()];
    for spec in specs {
        let one = grids == Grids::Aligned || !on_grid(spec.kind);
        let phases = 0..if one { 1 } else { spec.period };
        all = all
            .iter()
            .flat_map(|some| phases.clone().map(move |p| some.iter().copied().chain([p]).collect()))
            .collect();
    }
    all
}

/// All that workloads can do at an instant.
fn choices(specs: &[Spec]) -> Vec<Vec<Work>> {
    let mut all = vec![Vec::new()];
    for spec in specs {
        let own =
            if on_grid(spec.kind) { &[Work::Idle, Work::Ready][..] } else { &[Work::Idle, Work::Ready, Work::Anew] };
        all = all
            .iter()
            .flat_map(|some: &Vec<Work>| own.iter().map(move |w| some.iter().copied().chain([*w]).collect()))
            .collect();
    }
    all
}

/// The shortest behaviour with which a server misses that `must` not, if there is one: breadth first over all states.
pub(crate) fn miss(order: Order, specs: &[Spec], phases: &[Vec<i16>], must: &dyn Fn(usize) -> bool) -> Option<Miss> {
    let choices = choices(specs);
    let mut seen: HashMap<State, ()> = HashMap::new();
    // With where it came from, and by which choice; or its phases.
    let mut states: Vec<(State, usize, usize)> = Vec::new();
    for (start, phases) in phases.iter().enumerate() {
        let state = begin(specs, phases);
        if seen.insert(state, ()).is_none() {
            states.push((state, usize::MAX, start));
        }
    }
    let mut at = 0;
    while at < states.len() {
        let state = states[at].0;
        for (choice, works) in choices.iter().enumerate() {
            if works.iter().zip(&state).any(|(work, server)| *work == Work::Anew && !server.ready) {
                continue;
            }
            let (next, ran) = step(order, specs, &state, works);
            match ran.short {
                Some(victim) if must(victim) => {
                    let (mut path, mut back) = (vec![works.clone()], at);
                    while states[back].1 != usize::MAX {
                        path.push(choices[states[back].2].clone());
                        back = states[back].1;
                    }
                    path.reverse();
                    return Some(Miss { phases: phases[states[back].2].clone(), works: path, victim });
                }
                _ => {}
            }
            if let Entry::Vacant(entry) = seen.entry(next) {
                entry.insert(());
                states.push((next, at, choice));
            }
        }
        at += 1;
        assert!(states.len() < 5_000_000, "too large: {specs:?}");
    }
    None
}

/// Whether some window throughout which `victim` has work holds less for it than the periodic resource supplies; a window of
/// up to three periods, of a polling server one that begins with a period.
pub(crate) fn starved(order: Order, specs: &[Spec], phases: &[Vec<i16>], victim: usize) -> bool {
    let Spec { kind, budget, period } = specs[victim];
    let blackout = match kind {
        ServerKind::Polling => period - budget,
        ServerKind::Sporadic if order == Order::Edf => 2 * period - budget,
        _ => 2 * (period - budget),
    };
    let least = |t: i16| {
        let rest = (t - blackout).max(0);
        rest / period * budget + budget.min(rest % period)
    };
    let choices = choices(specs);
    // With the length of the window and what it had, once one has begun.
    let mut seen: HashMap<(State, Option<(i16, i16)>), ()> = HashMap::new();
    let mut states: Vec<(State, Option<(i16, i16)>)> =
        phases.iter().map(|phases| (begin(specs, phases), None)).collect();
    seen.extend(states.iter().map(|state| (*state, ())));
    while let Some((state, window)) = states.pop() {
        for works in &choices {
            if works.iter().zip(&state).any(|(work, server)| *work == Work::Anew && !server.ready) {
                continue;
            }
            let begins = works[victim] != Work::Idle
                && (state[victim].begun || state[victim].due == 0)
                && (kind != ServerKind::Polling || state[victim].due == 0);
            let windows = match window {
                Some((t, got)) if works[victim] == Work::Ready => [Some((t, got)), None],
                Some(_) => continue,
                None if begins => [None, Some((0, 0))],
                None => [None, None],
            };
            let (next, ran) = step(order, specs, &state, works);
            for (nth, mut window) in windows.into_iter().enumerate() {
                if nth == 1 && window.is_none() {
                    continue;
                }
                if let Some((t, got)) = &mut window {
                    (*t, *got) = (*t + 1, *got + i16::from(ran.who == Some(victim)));
                    if *got < least(*t) {
                        return true;
                    }
                    if *t >= 3 * period {
                        continue;
                    }
                }
                if let Entry::Vacant(entry) = seen.entry((next, window)) {
                    entry.insert(());
                    states.push((next, window));
                }
            }
        }
    }
    false
}
