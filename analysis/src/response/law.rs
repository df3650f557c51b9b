//! From the unfinished work at the start of a period to the response time of a job.

use super::chain::{Chain, Pmf};

/// A distribution of response times in slots.
#[derive(Clone, Debug)]
pub(super) struct Law {
    /// Pr{R = x} of all but the atoms: jobs that found work before them, or no budget.
    pub(super) spread: Vec<f64>,
    /// Jobs that found nothing before them and ran through: their response time is their own work.
    pub(super) atoms: Pmf,
}

/// Shares of starting points below this are left out of the walk through a period: together less than 10⁻¹² of all jobs.
const NOTHING: f64 = 1e-18;

impl Law {
    /// Deferrable server: F_DS (eq. 4.13), without the joint law of work and budget left that Algorithm 2 walks through.
    ///
    /// A job that arrives in slot n and is not done when the period ends leaves unfinished work y > 0, which by Theorem 5 (no
    /// job after it counts) is what it leaves under the periodic server with its budget last: y = l + c − min(B, P − n). From
    /// the next period on the budget comes first, so R = (P − n) + y + (⌈y/B⌉ − 1)(P − B), eq. 4.11. One that is done within
    /// the period never saw the budget run out, so that until then the server was a whole core: [`within`].
    pub(super) fn deferrable(chain: &Chain, unfinished: &[f64]) -> Law {
        let (period, budget) = (chain.period, chain.budget);
        let mut law = Law { spread: Vec::new(), atoms: Vec::new() };
        each_slot(chain, unfinished, |n, work| {
            law.add_later(chain, work, budget.min(period - n), period - n, n >= period - budget);
        });
        law.within(chain, unfinished);
        law.scale(period)
    }

    /// Periodic server. Where in its period the budget lies does not matter: Poisson arrivals look the same from everywhere.
    pub(super) fn periodic(chain: &Chain, unfinished: &[f64]) -> Law {
        let (period, budget) = (chain.period, chain.budget);
        let mut law = Law { spread: Vec::new(), atoms: Vec::new() };
        each_slot(chain, unfinished, |n, work| {
            let (wait, first) = match (period - budget).checked_sub(n) {
                Some(wait) => (wait, budget),
                None => (0, period - n),
            };
            for &(slots, p) in &chain.tagged {
                if wait == 0 && slots <= first {
                    add_atom(&mut law.atoms, slots, p * work[0]);
                }
                let found = usize::from(wait == 0); // no work before it: the atom, if it runs through
                let last = (first + 1).saturating_sub(slots).min(work.len());
                add(&mut law.spread, wait + slots + found, work.get(found..last).unwrap_or(&[]), p);
            }
            law.add_later(chain, work, first, wait + first + period - budget, wait == 0);
        });
        law.scale(period)
    }

    /// Jobs that need more than the `first` slots of budget: the rest of them begins `next` slots after their arrival. `at_once`:
    /// one that finds no work begins when it comes, so that its response time is its work and whole gaps: an atom.
    fn add_later(&mut self, chain: &Chain, work: &[f64], first: usize, next: usize, at_once: bool) {
        let (period, budget) = (chain.period, chain.budget);
        for &(slots, p) in &chain.tagged {
            // y = l + slots − first > 0, in turns of B.
            let mut l = (first + 1).saturating_sub(slots);
            if l == 0 && at_once {
                let rest = slots - first;
                add_atom(&mut self.atoms, next + rest + (rest - 1) / budget * (period - budget), p * work[0]);
                l = 1;
            }
            while l < work.len() {
                let rest = l + slots - first;
                let turn = (rest - 1) / budget;
                let end = (l + (turn + 1) * budget - rest + 1).min(work.len());
                add(&mut self.spread, next + rest + turn * (period - budget), &work[l..end], p);
                l = end;
            }
        }
    }

    /// Jobs of a deferrable server that are done within the period in which they come.
    ///
    /// Let w be the work at the start and all that came since. Until the queue is first empty, in slot τ, l = w − n; a job of
    /// c is done within the period if w + c ≤ B. From τ on the queue is that of a whole core that began empty, u slots ago;
    /// with a for the work that came since τ, a job of c is done within the period if τ + a + c ≤ B and l + c ≤ P − n.
    fn within(&mut self, chain: &Chain, unfinished: &[f64]) {
        let budget = chain.budget;
        let emptied = self.until_empty(chain, &unfinished[..unfinished.len().min(budget + 1)]);
        // Pr{τ ≤ t}
        let by: Vec<f64> = emptied
            .iter()
            .scan(0.0, |sum, p| {
                *sum += p;
                Some(*sum)
            })
            .collect();
        self.after_empty(chain, &by);
    }

    /// Before the queue is empty for the first time; returns Pr{τ = t} for t ≤ B.
    fn until_empty(&mut self, chain: &Chain, start: &[f64]) -> Vec<f64> {
        let budget = chain.budget;
        let mut emptied = vec![0.0; budget + 1];
        // By w, from n on: what has not been empty.
        let mut total = vec![0.0; budget + 1];
        total[..start.len()].copy_from_slice(start);
        for n in 0..=budget {
            emptied[n] = std::mem::take(&mut total[n]);
            if n == budget || n == chain.period {
                break;
            }
            for &(slots, p) in &chain.tagged {
                let end = (budget + 1).saturating_sub(slots);
                add(&mut self.spread, slots + 1, total.get(n + 1..end).unwrap_or(&[]), p);
            }
            // In place from above: what comes only moves up.
            for w in (n + 1..=budget).rev() {
                let came: f64 = chain
                    .work
                    .iter()
                    .take_while(|(slots, _)| w > n + slots)
                    .map(|&(slots, p)| p * total[w - slots])
                    .sum();
                total[w] = (1.0 - chain.arrival) * total[w] + chain.arrival * came;
            }
        }
        emptied
    }

    /// A whole core that began empty at τ; `by[t]` = Pr{τ ≤ t}.
    fn after_empty(&mut self, chain: &Chain, by: &[f64]) {
        let (period, budget) = (chain.period, chain.budget);
        let stay = 1.0 - chain.arrival;
        let mut came: Vec<Came> = reachable(&chain.work, budget);
        came[0].by_work[0] = 1.0;
        for u in 0..period {
            for row in came.iter().filter(|row| row.total > NOTHING) {
                for &(slots, p) in &chain.tagged {
                    let Some(latest) = budget.checked_sub(row.work + slots) else { break };
                    for (l, share) in row.by_work.iter().enumerate() {
                        let Some(room) = period.checked_sub(l + slots + u) else { break };
                        let weight = p * share * by[latest.min(room)];
                        if l == 0 {
                            add_atom(&mut self.atoms, slots, weight);
                        } else {
                            put(&mut self.spread, l + slots, weight);
                        }
                    }
                }
            }
            // From the largest a down, each takes what comes to it from smaller ones as they were.
            for at in (0..came.len()).rev() {
                let (below, from) = came.split_at_mut(at);
                let row = &mut from[0];
                row.serve(stay);
                for (index, p) in &row.sources {
                    row_from(&mut row.by_work, &below[*index], row.work, p * chain.arrival);
                }
                row.total = row.by_work.iter().sum();
            }
        }
    }

    fn scale(mut self, period: usize) -> Law {
        let each = 1.0 / period as f64;
        self.spread.iter_mut().for_each(|p| *p *= each);
        self.atoms.iter_mut().for_each(|(_, p)| *p *= each);
        self.atoms.sort_by_key(|(slots, _)| *slots);
        self
    }
}

/// What a whole core that began empty has, given that work `work` came.
struct Came {
    work: usize,
    /// Pr{so much came, l of it is left}, l ≤ work.
    by_work: Vec<f64>,
    total: f64,
    /// From which rows an arrival leads here, and how probable its size is.
    sources: Vec<(usize, f64)>,
}

impl Came {
    /// A slot without an arrival.
    fn serve(&mut self, stay: f64) {
        if self.total <= NOTHING {
            return;
        }
        let idle = self.by_work[0];
        self.by_work.copy_within(1.., 0);
        if let Some(last) = self.by_work.last_mut() {
            *last = 0.0;
        }
        self.by_work[0] += idle;
        self.by_work.iter_mut().for_each(|p| *p *= stay);
    }
}

/// An arrival that makes `work` of what `from` had: a slot of it is served at once.
fn row_from(to: &mut [f64], from: &Came, work: usize, weight: f64) {
    if from.total > NOTHING {
        let up = work - from.work - 1;
        to[up..].iter_mut().zip(&from.by_work).for_each(|(to, share)| *to += weight * share);
    }
}

/// One row for each sum of arrivals up to `most`.
fn reachable(work: &Pmf, most: usize) -> Vec<Came> {
    let mut rows: Vec<Came> = Vec::new();
    let mut place = vec![None; most + 1];
    for sum in 0..=most {
        let source = |&(slots, p): &(usize, f64)| Some((place[sum.checked_sub(slots)?]?, p));
        let sources: Vec<(usize, f64)> = work.iter().filter_map(source).collect();
        if sum == 0 || !sources.is_empty() {
            place[sum] = Some(rows.len());
            rows.push(Came { work: sum, by_work: vec![0.0; sum + 1], total: f64::from(sum == 0), sources });
        }
    }
    rows
}

/// Walks the period of the periodic server with its budget last, and shows the work at the start of each slot.
fn each_slot(chain: &Chain, unfinished: &[f64], mut see: impl FnMut(usize, &[f64])) {
    let (mut now, mut next) = (unfinished.to_vec(), vec![0.0; unfinished.len()]);
    for n in 0..chain.period {
        see(n, &now);
        chain.slot(&now, &mut next, n >= chain.period - chain.budget);
        std::mem::swap(&mut now, &mut next);
    }
}

/// `to[at + i] += p · from[i]`
fn add(to: &mut Vec<f64>, at: usize, from: &[f64], p: f64) {
    if from.is_empty() {
        return;
    }
    if to.len() < at + from.len() {
        to.resize(at + from.len(), 0.0);
    }
    to[at..].iter_mut().zip(from).for_each(|(to, share)| *to += p * share);
}

fn put(to: &mut Vec<f64>, at: usize, p: f64) {
    add(to, at, &[p], 1.0);
}

fn add_atom(atoms: &mut Pmf, slots: usize, p: f64) {
    match atoms.iter_mut().find(|(at, _)| *at == slots) {
        Some((_, share)) => *share += p,
        None => atoms.push((slots, p)),
    }
}
