//! Demands under fixed priority: for each task one of its points must be met; few tasks decide.

use super::demands::{Demands, Round, Verdict};
use super::lines::{request, Line};
use super::need::{Grid, Need};
use super::server::{Delay, Server};
use crate::Error;
use giusto_model::Task;

/// Most points of one task, some seconds.
const MOST_POINTS: u64 = 20_000_000;
/// Steps of one test of all tasks, some seconds.
const MOST_STEPS: u64 = 5_000_000;

/// See [`Demands`].
pub(super) struct Ranks {
    /// From the highest priority to the lowest.
    lines: Vec<Line>,
    latency: u64,
    /// For each task the point that was met last.
    met: Vec<Option<Need>>,
    /// The points of tasks that once missed; those that ruled out a period last come first.
    deciding: Vec<Deciding>,
}

/// A task by its points.
struct Deciding {
    needs: Vec<Need>,
    /// One that was met or allowed last, to be asked first.
    likely: usize,
}

impl Deciding {
    /// See [`Demands::next`]: the least of all points.
    fn next(&mut self, grid: &Grid, p: u64, held: u64) -> Option<u64> {
        let allows = |need: &Need| need.next(grid, p, held);
        if self.needs.get(self.likely).and_then(allows) == Some(p) {
            return Some(p);
        }
        let mut least: Option<u64> = None;
        for (i, need) in self.needs.iter().enumerate() {
            let next = allows(need);
            if next == Some(p) {
                self.likely = i;
                return next;
            }
            least = [least, next].into_iter().flatten().min();
        }
        least
    }

    /// `server` with at least the budget that the task needs; `None`: more than there may be.
    fn raised(&mut self, round: &Round, server: Server) -> Option<Server> {
        if self.needs.get(self.likely).is_some_and(|need| need.met_by(&server)) {
            return Some(server);
        }
        if let Some(i) = self.needs.iter().position(|need| need.met_by(&server)) {
            self.likely = i;
            return Some(server);
        }
        let mut least: Option<Server> = None;
        for need in &self.needs {
            if least.is_none_or(|server| need.met_by(&server)) {
                least = round.up(need.least(round.period, round.delay)).or(least);
            }
        }
        least
    }
}

impl Ranks {
    /// For checked tasks, `order` from the highest priority to the lowest.
    pub(super) fn new(tasks: &[Task], order: &[usize], latency: u64) -> Result<Self, Error> {
        let lines = order.iter().map(|&k| Line::new(&tasks[k])).collect::<Result<Vec<_>, _>>()?;
        let met = vec![None; lines.len()];
        Ok(Ranks { lines, latency, met, deciding: Vec::new() })
    }

    /// The points of a task: of t in {k·T_j ≤ D_i, j of its priority or above} ∪ {D_i}, where the steps of rbf end, those that
    /// may decide.
    ///
    /// A point with no more slack s = t − w than an earlier one is met only if that one is: sbf rises by 1 at most, so
    /// sbf(t₀) ≥ sbf(t) − (t − t₀) ≥ w − (t − t₀) ≥ w₀. So the records of slack are enough.
    fn needs(&self, rank: usize) -> Result<Vec<Need>, Error> {
        let (lines, deadline) = (&self.lines[..=rank], self.lines[rank].deadline);
        let count: u128 = lines.iter().map(|line| u128::from(deadline / line.period)).sum();
        if count > u128::from(MOST_POINTS) {
            return Err(Error::TooManyPoints { points: count, limit: MOST_POINTS });
        }
        let mut rises: Vec<(u64, u64)> = Vec::with_capacity(count as usize + 1);
        for line in lines {
            rises.extend((1..).map(|k| (k * line.period, line.work)).take_while(|rise| rise.0 < deadline));
        }
        rises.push((deadline, 0));
        rises.sort_unstable();
        let mut work: u128 = lines.iter().map(|line| u128::from(line.work)).sum();
        let (mut needs, mut slack) = (Vec::new(), None);
        for (t, rise) in rises {
            let own = t.checked_sub(self.latency).and_then(|at| Some((at, u64::try_from(work).ok()?)));
            if let Some((at, work)) = own.filter(|(at, work)| work <= at && slack < Some(at - work)) {
                needs.push(Need { at, work });
                slack = Some(at - work);
            }
            work += u128::from(rise);
        }
        Ok(needs)
    }

    /// The first task for which `server` meets no point, or none. Each point that is met is kept.
    ///
    /// The first instant at which a task is done at the latest is found as in `fixed::test`.
    fn missing(&mut self, server: &Server) -> Result<Option<usize>, Error> {
        let (mut at, mut left) = (1, MOST_STEPS);
        for rank in 0..self.lines.len() {
            if self.met[rank].is_some_and(|need| need.met_by(server)) {
                continue;
            }
            loop {
                let work = request(&self.lines[..=rank], at);
                let done = server.inverse(work).and_then(|t| t.checked_add(self.latency));
                let Some(done) = done.filter(|t| *t <= self.lines[rank].deadline) else { return Ok(Some(rank)) };
                if done <= at {
                    let need = Need { at: at - self.latency, work: work as u64 }; // at most `at`
                    self.met[rank] = Some(need);
                    break;
                }
                at = done;
                left = left.checked_sub(1).ok_or(Error::TooClose)?;
            }
        }
        Ok(None)
    }

    /// Takes the task in, as the first.
    fn decides(&mut self, rank: usize) -> Result<(), Error> {
        let needs = self.needs(rank)?;
        self.deciding.insert(0, Deciding { needs, likely: 0 });
        Ok(())
    }
}

impl Demands for Ranks {
    fn next(&mut self, grid: &Grid, p: u64, held: u64) -> Option<u64> {
        for i in 0..self.deciding.len() {
            let next = self.deciding[i].next(grid, p, held);
            if next != Some(p) {
                self.deciding[..=i].rotate_right(1);
                return next;
            }
        }
        Some(p)
    }

    fn least(&mut self, round: &Round) -> Option<Server> {
        self.deciding.iter_mut().try_fold(round.smallest()?, |server, task| task.raised(round, server))
    }

    fn check(&mut self, server: &Server) -> Result<Verdict, Error> {
        match self.missing(server)? {
            Some(rank) => self.decides(rank).map(|()| Verdict::Missed),
            None => Ok(Verdict::Enough),
        }
    }

    fn sharpen(&mut self, round: &Round) -> Result<Option<Server>, Error> {
        Ok(self.budget(round)?.least)
    }

    /// Nothing is ever undecided.
    fn keep_clear(&mut self) -> bool {
        false
    }

    fn slope(&self, period: u64, delay: Delay) -> (u64, u64) {
        let longest = self.lines.iter().map(|line| line.deadline).fold(period, u64::max);
        let digits = Need::digits(longest);
        let one = 1 << digits;
        let most = self.deciding.iter().fold(0, |most, task| {
            let short = |share| move |need: &Need| need.short(share, digits, period, delay);
            // Only a task of which all points need more raises it; only a point that needs less than others lowers the task's.
            if task.needs.get(task.likely).is_some_and(|need| !short(most)(need)) || !task.needs.iter().all(short(most))
            {
                return most;
            }
            task.needs.iter().fold(one, |least, need| match short(least)(need) {
                true => least,
                false => need.slope(digits, period, delay),
            })
        });
        (most, one)
    }
}

impl Ranks {
    /// The longest Δ, for a budget that is enough with Δ = Θ, with which it still is.
    pub(super) fn longest_delay(&mut self, server: &Server) -> Result<u64, Error> {
        let mut longest = server.period;
        while let Some(rank) = self.missing(&Server { delay: Delay::Until(longest), ..*server })? {
            // The last to wait: Δ − Θ is what is left of a point's time after all other waiting.
            let others = Server { delay: Delay::None, ..*server };
            let left = |need: &Need| need.at.checked_sub(others.inverse(need.work.into())?);
            let most = self.needs(rank)?.iter().filter_map(left).max().unwrap_or(0);
            longest = longest.min((server.top / server.bottom) as u64 + most); // Θ ≤ Π: fits
        }
        Ok(longest)
    }
}
