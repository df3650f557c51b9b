//! Servers on as few cores as possible, in five ways: bin packing with a bound on the servers of a core.

/// A core that gives so much, to so many servers at most.
#[derive(Clone, Copy, Debug)]
pub struct Core {
    /// In the unit of the servers.
    pub most: u64,
    /// How many servers its manager keeps.
    pub servers: usize,
}

/// Where servers are, and what it took to find that.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Placed {
    /// For each core its servers, by their places in the list.
    pub cores: Vec<Vec<usize>>,
    /// How often a server was held against a core or another server.
    pub looks: u64,
}

/// No placement has fewer cores: the sum of all servers, divided by what a core gives, and their number. O(n).
pub fn bound(servers: &[u64], core: Core) -> usize {
    let sum: u64 = servers.iter().sum();
    (sum.div_ceil(core.most) as usize).max(servers.len().div_ceil(core.servers))
}

/// Each on the first core with room, the largest first: what the planner does. O(n · cores).
pub fn first_fit(servers: &[u64], core: Core) -> Placed {
    falling(servers, core, &|_| 0)
}

/// Each on the core with room that has least left, the largest first. O(n · cores).
pub fn best_fit(servers: &[u64], core: Core) -> Placed {
    falling(servers, core, &|left| left)
}

/// Each on the core with room of the least `rank` of what it has left, the first of these.
fn falling(servers: &[u64], core: Core, rank: &dyn Fn(u64) -> u64) -> Placed {
    let (mut left, mut placed) = (Vec::new(), Placed { cores: Vec::new(), looks: 0 });
    for at in order(servers) {
        placed.looks += left.len() as u64;
        let room = |&on: &usize| left[on] >= servers[at] && placed.cores[on].len() < core.servers;
        match (0..left.len()).filter(room).min_by_key(|&on| rank(left[on])) {
            Some(on) => {
                left[on] -= servers[at];
                placed.cores[on].push(at);
            }
            None => {
                left.push(core.most - servers[at]);
                placed.cores.push(vec![at]);
            }
        }
    }
    placed
}

/// Largest first; of equal ones the first in the list.
fn order(servers: &[u64]) -> Vec<usize> {
    let mut order: Vec<usize> = (0..servers.len()).collect();
    order.sort_by_key(|&at| std::cmp::Reverse(servers[at]));
    order
}

/// From the first fit on: a server moves to another core, or two change places, wherever that makes the fuller of the two cores
/// fuller (so that Σ load² grows), until no such step is left; a core that is empty by that is saved. O(n²) looks a round.
pub fn local_search(servers: &[u64], core: Core) -> Placed {
    let Placed { mut cores, mut looks } = first_fit(servers, core);
    let load = |on: &[usize]| on.iter().map(|&at| servers[at]).sum::<u64>();
    let mut loads: Vec<u64> = cores.iter().map(|on| load(on)).collect();
    loop {
        let mut better = false;
        for from in 0..cores.len() {
            for to in (0..cores.len()).filter(|&to| to != from) {
                // Whatever leaves `from` makes `to` fuller than either was.
                let mut nth = 0;
                while nth < cores[from].len() {
                    let out = cores[from][nth];
                    let fuller = |gain: u64| loads[to] + gain > loads[from] && loads[to] + gain <= core.most;
                    looks += 1 + cores[to].len() as u64;
                    if cores[to].len() < core.servers && fuller(servers[out]) {
                        cores[from].swap_remove(nth);
                        cores[to].push(out);
                        (loads[from], loads[to]) = (loads[from] - servers[out], loads[to] + servers[out]);
                        better = true;
                        continue;
                    }
                    let gain =
                        |&back: &usize| servers[out].checked_sub(servers[cores[to][back]]).filter(|gain| *gain > 0);
                    let swap = (0..cores[to].len()).filter(|back| gain(back).is_some_and(fuller)).max_by_key(gain);
                    if let Some(back) = swap {
                        let gain = servers[out] - servers[cores[to][back]];
                        let other = std::mem::replace(&mut cores[to][back], out);
                        cores[from][nth] = other;
                        (loads[from], loads[to]) = (loads[from] - gain, loads[to] + gain);
                        better = true;
                    }
                    nth += 1;
                }
            }
        }
        if !better {
            cores.retain(|on| !on.is_empty());
            return Placed { cores, looks };
        }
    }
}

/// The fewest cores, by trying all placements that can still be better: each server, largest first, on each core of another load,
/// or on one more. For some twenty servers; exponential in their number.
pub fn optimum(servers: &[u64], core: Core) -> Placed {
    let order = order(servers);
    let mut search = Search {
        servers,
        core,
        order: &order,
        rest: servers.iter().sum(),
        loads: Vec::new(),
        best: best_fit(servers, core),
    };
    search.best.looks = 0;
    let least = bound(servers, core);
    search.place(0, &mut Vec::new(), least);
    search.best
}

struct Search<'a> {
    servers: &'a [u64],
    core: Core,
    order: &'a [usize],
    /// Of those that are not placed yet.
    rest: u64,
    loads: Vec<u64>,
    best: Placed,
}

impl Search<'_> {
    /// Places the servers from the `nth` of the order on.
    fn place(&mut self, nth: usize, cores: &mut Vec<Vec<usize>>, least: usize) {
        let Some(&at) = self.order.get(nth) else {
            if cores.len() < self.best.cores.len() {
                self.best.cores.clone_from(cores);
            }
            return;
        };
        let own = self.servers[at];
        let room: u64 = self.loads.iter().map(|load| self.core.most - load).sum();
        let more = self.rest.saturating_sub(room).div_ceil(self.core.most) as usize;
        if self.best.cores.len() <= least || cores.len() + more >= self.best.cores.len() {
            return;
        }
        self.rest -= own;
        let mut tried: Vec<(u64, usize)> = Vec::new();
        for on in 0..cores.len() {
            self.best.looks += 1;
            let like = (self.loads[on], cores[on].len());
            if self.loads[on] + own <= self.core.most && like.1 < self.core.servers && !tried.contains(&like) {
                tried.push(like);
                self.loads[on] += own;
                cores[on].push(at);
                self.place(nth + 1, cores, least);
                cores[on].pop();
                self.loads[on] -= own;
            }
        }
        self.loads.push(own);
        cores.push(vec![at]);
        self.place(nth + 1, cores, least);
        cores.pop();
        self.loads.pop();
        self.rest += own;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CORE: Core = Core { most: 100, servers: 4 };

    /// Every server on some core, once, and no core with more than it gives.
    fn valid(servers: &[u64], core: Core, placed: &Placed) {
        let mut all: Vec<usize> = placed.cores.concat();
        all.sort_unstable();
        assert_eq!(all, (0..servers.len()).collect::<Vec<_>>());
        for on in &placed.cores {
            assert!(!on.is_empty() && on.len() <= core.servers);
            assert!(on.iter().map(|&at| servers[at]).sum::<u64>() <= core.most);
        }
    }

    /// The fewest cores by trying every assignment of a core to each server.
    fn all_assignments(servers: &[u64], core: Core) -> usize {
        let fits = |mut number: usize, cores: usize| {
            let mut on = vec![(0, 0); cores];
            for own in servers {
                let at = number % cores;
                number /= cores;
                on[at] = (on[at].0 + own, on[at].1 + 1);
            }
            on.iter().all(|(load, count)| *load <= core.most && *count <= core.servers)
        };
        (1..).find(|&cores: &usize| (0..cores.pow(servers.len() as u32)).any(|number| fits(number, cores))).unwrap()
    }

    #[test]
    fn the_optimum_is_that_of_all_assignments_and_no_other_has_fewer_cores() {
        let mut seed = 3_u64;
        let mut draw = |from: u64, to: u64| {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            from + (seed >> 33) % (to - from + 1)
        };
        let (mut above, mut searched, mut full) = (0, 0, 0);
        for _ in 0..400 {
            let least = draw(1, 40);
            let servers: Vec<u64> = (0..draw(1, 7)).map(|_| draw(least, 60)).collect();
            let found = [first_fit, best_fit, local_search, optimum].map(|way| way(&servers, CORE));
            found.iter().for_each(|placed| valid(&servers, CORE, placed));
            let [first, _, local, best] = found.map(|placed| placed.cores.len());
            assert_eq!(best, all_assignments(&servers, CORE));
            assert!(bound(&servers, CORE) <= best && best <= local && local <= first);
            above += u32::from(first > best);
            searched += u32::from(local < first);
            full += u32::from(servers.len() > CORE.servers);
        }
        assert!(
            above > 5 && full > 50,
            "{above} above the optimum, {searched} found by search, {full} of many servers"
        );
    }

    /// What the first fit does worst, 11 cores for 9: each of six with 51 and 27, two with 26 three times, three with 23 four
    /// times. On 9: 51, 26 and 23 six times, and 27, 27, 23 and 23 three times.
    #[test]
    fn a_local_search_saves_cores_that_the_first_fit_takes() {
        let servers: Vec<u64> = [vec![51; 6], vec![27; 6], vec![26; 6], vec![23; 12]].concat();
        let [first, local] = [first_fit, local_search].map(|way| way(&servers, CORE));
        valid(&servers, CORE, &local);
        assert_eq!((first.cores.len(), bound(&servers, CORE)), (11, 9));
        assert!(local.cores.len() < 11, "{local:?}");
    }
}
