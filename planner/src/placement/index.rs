//! Which hosts may have room for a server, without a look at each: a tree of maxima over the hosts in their order.

use giusto_model::Bandwidth;
use std::cmp::Reverse;

/// A server by the order in which servers are placed: largest first, then by the place of its service in the site.
pub(super) type Turn = (Reverse<Bandwidth>, usize);

/// What is known of a host, or of all in a part of the tree.
#[derive(Clone, Copy)]
pub(super) enum Bound {
    /// It takes none.
    Closed,
    /// One server more, whose turn is after `last`, surely has no place if it is larger than `largest`, or if its manager needs
    /// more than `upkeep` for it. Before `last` all are placed anew, so it may have one.
    Up { largest: Bandwidth, upkeep: Bandwidth, last: Turn },
    /// It may take any.
    Open,
}

impl Bound {
    fn may(self, turn: Turn, needs: Bandwidth) -> bool {
        match self {
            Bound::Closed => false,
            Bound::Up { largest, upkeep, last } => turn.0 .0 <= largest && needs <= upkeep || turn < last,
            Bound::Open => true,
        }
    }

    /// Of both: it may take what one of them may.
    fn either(self, other: Bound) -> Bound {
        match (self, other) {
            (Bound::Open, _) | (_, Bound::Open) => Bound::Open,
            (Bound::Closed, known) | (known, Bound::Closed) => known,
            (Bound::Up { largest: a, upkeep: b, last: c }, Bound::Up { largest: d, upkeep: e, last: f }) => {
                Bound::Up { largest: a.max(d), upkeep: b.max(e), last: c.max(f) }
            }
        }
    }
}

/// The hosts' bounds. Memory O(hosts).
pub(super) struct Index {
    /// A complete binary tree; node 1 is the root, host `h` is the leaf `leaves + h`.
    nodes: Vec<Bound>,
    leaves: usize,
}

impl Index {
    /// Of as many hosts, all open.
    pub(super) fn of(hosts: usize) -> Self {
        let leaves = hosts.next_power_of_two();
        let mut index = Index { nodes: vec![Bound::Closed; 2 * leaves], leaves };
        (0..hosts).for_each(|host| index.set(host, Bound::Open));
        index
    }

    /// O(log hosts).
    pub(super) fn set(&mut self, host: usize, bound: Bound) {
        let mut node = self.leaves + host;
        self.nodes[node] = bound;
        while node > 1 {
            node /= 2;
            self.nodes[node] = self.nodes[2 * node].either(self.nodes[2 * node + 1]);
        }
    }

    /// The first host from `start` on that may take a server whose turn this is, for which its manager `needs` so much. O(log
    /// hosts) where servers come in their turns; O(hosts) at worst.
    pub(super) fn next(&self, start: usize, turn: Turn, needs: Bandwidth) -> Option<usize> {
        self.below(1, self.leaves, start, (turn, needs))
    }

    /// Among the `width` leaves below `node`, `start` of which are passed over.
    fn below(&self, node: usize, width: usize, start: usize, own: (Turn, Bandwidth)) -> Option<usize> {
        if start >= width || !self.nodes[node].may(own.0, own.1) {
            return None;
        }
        if width == 1 {
            return Some(node - self.leaves);
        }
        let half = width / 2;
        let left = self.below(2 * node, half, start, own);
        left.or_else(|| self.below(2 * node + 1, half, start.saturating_sub(half), own))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_finds_the_host_that_a_look_at_each_finds() {
        let mut seed = 7_u64;
        let mut draw = |below: u64| {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (seed >> 33) % below
        };
        let (mut found, mut none) = (0, 0);
        for hosts in [1, 2, 3, 7, 64, 100] {
            let mut index = Index::of(hosts);
            let mut all = vec![Bound::Open; hosts];
            for _ in 0..2_000 {
                let host = usize::try_from(draw(hosts as u64)).unwrap();
                let share = |top| Bandwidth::new(top, 20).unwrap();
                let turn = |draw: &mut dyn FnMut(u64) -> u64| {
                    (Reverse(share(draw(20) + 1)), usize::try_from(draw(5)).unwrap())
                };
                let bound = match draw(40) {
                    0 => Bound::Open,
                    1..4 => Bound::Closed,
                    _ => Bound::Up { largest: share(draw(10)), upkeep: share(draw(10)), last: turn(&mut draw) },
                };
                index.set(host, bound);
                all[host] = bound;
                let (start, next) = (usize::try_from(draw(hosts as u64 + 1)).unwrap(), turn(&mut draw));
                let needs = share(draw(8));
                let expected = (start..hosts).find(|&host| all[host].may(next, needs));
                assert_eq!(index.next(start, next, needs), expected);
                *if expected.is_some() { &mut found } else { &mut none } += 1;
            }
        }
        assert!(found > 1_000 && none > 1_000, "{found} found, {none} not");
    }
}
