//! Sets of servers of which each must fit: one of the choices of each part.

use crate::admission::covers;
use giusto_model::Server;

/// So many parts of one place may be in doubt at once: each doubles the sets to test.
const IN_DOUBT: usize = 6;

/// Memory of a test.
#[derive(Default)]
pub(super) struct Scratch {
    sure: Vec<Server>,
    doubt: Vec<Choices>,
}

/// The servers of a part of which one counts, and it is not known which; none covers another.
#[derive(Clone, Copy, Default)]
struct Choices {
    of: [Option<Server>; 8],
    count: usize,
    /// There are more.
    full: bool,
}

impl Choices {
    fn add(&mut self, server: Option<&Server>) {
        let kept = &self.of[..self.count];
        if kept.iter().any(|other| covers(other.as_ref(), server)) {
            return;
        }
        if self.count == self.of.len() {
            self.full = true;
            return;
        }
        let mut left = Choices { full: self.full, ..Choices::default() };
        for other in kept.iter().filter(|other| !covers(server, other.as_ref())) {
            left.of[left.count] = *other;
            left.count += 1;
        }
        left.of[left.count] = server.copied();
        left.count += 1;
        *self = left;
    }
}

impl Scratch {
    pub(super) fn clear(&mut self) {
        self.sure.clear();
        self.doubt.clear();
    }

    /// A part: one of these servers counts.
    pub(super) fn add<'a>(&mut self, first: Option<&'a Server>, others: impl Iterator<Item = Option<&'a Server>>) {
        let mut most = first;
        let mut doubt: Option<Choices> = None;
        for other in others {
            match &mut doubt {
                Some(doubt) => doubt.add(other),
                None if covers(most, other) => {}
                None if covers(other, most) => most = other,
                None => {
                    let mut both = Choices::default();
                    both.add(most);
                    both.add(other);
                    doubt = Some(both);
                }
            }
        }
        match doubt {
            Some(doubt) if doubt.count > 1 || doubt.full => self.doubt.push(doubt),
            Some(doubt) => self.sure.extend(doubt.of[0]),
            None => self.sure.extend(most.copied()),
        }
    }

    /// Whether every set passes that takes one of each part's choices.
    pub(super) fn every(&mut self, fits: impl Fn(&[Server]) -> bool) -> bool {
        if self.doubt.is_empty() {
            return fits(&self.sure);
        }
        if self.doubt.len() > IN_DOUBT || self.doubt.iter().any(|doubt| doubt.full) {
            return false;
        }
        let (sure, sets) = (self.sure.len(), self.doubt.iter().map(|choices| choices.count).product::<usize>());
        (0..sets).all(|mut set| {
            self.sure.truncate(sure);
            for choices in &self.doubt {
                self.sure.extend(choices.of[set % choices.count]);
                set /= choices.count;
            }
            fits(&self.sure)
        })
    }
}
