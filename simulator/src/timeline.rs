//! The beginning of schedules, kept to be drawn.

use crate::shown::{Copy, Shown};
use crate::system::Error;
use crate::trace::Observer;
use serde::Serialize;

/// A row of a drawing: a task, a server without tasks, or what is left of a server's budget. Times in ns.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Lane {
    /// Whose.
    pub name: String,
    /// Its stretches of processor time: begin, length, and 256 · number of the job + copy of the task; none: always ready.
    /// Stretches of one job that touch are one.
    pub runs: Vec<(u64, u64, Option<u64>)>,
    /// When its jobs came.
    pub releases: Vec<u64>,
    /// When they are to be done.
    pub deadlines: Vec<u64>,
    /// What is left of the budget, and since when; straight in between.
    pub budget: Vec<(u64, u64)>,
}

/// What was kept of one play: of a service and of what else its core does.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Play {
    /// Its rows.
    pub lanes: Vec<Lane>,
    /// Since when there was no room for more.
    #[serde(rename = "until_ns")]
    pub until: Option<u64>,
}

/// Keeps the beginning of each schedule that it is told.
#[derive(Clone, Debug)]
pub struct Timeline {
    plays: Vec<Play>,
    /// The servers of the play that is told now.
    servers: Vec<Server>,
    /// Stretches, releases, deadlines and points of budgets that are kept of a play.
    most: usize,
    count: usize,
    /// Of all plays before.
    before: usize,
}

#[derive(Clone, Debug)]
struct Server {
    /// The place of its first lane.
    lane: usize,
    copies: Vec<Copy>,
    /// The lane of its budget, once something was told of it.
    budget: Option<usize>,
    name: String,
}

impl Timeline {
    /// Keeps so many stretches, releases, deadlines and points of budgets of each play.
    pub fn new(most: usize) -> Self {
        Timeline { plays: Vec::new(), servers: Vec::new(), most, count: 0, before: 0 }
    }

    /// What is told from now on is of these servers, in another play than before.
    pub fn play(&mut self, servers: &[Shown]) {
        self.before += std::mem::take(&mut self.count);
        self.servers.clear();
        let mut play = Play::default();
        for shown in servers {
            let lane = play.lanes.len();
            let mut add = |name: String| play.lanes.push(Lane { name, ..Lane::default() });
            match shown.tasks {
                [] => add(shown.name.into()),
                tasks => tasks.iter().enumerate().for_each(|(nth, task)| {
                    let own = if task.name.is_empty() { format!("task {nth}") } else { task.name.clone() };
                    add(format!("{}: {own}", shown.name));
                }),
            }
            self.servers.push(Server { lane, copies: shown.copies(), budget: None, name: shown.name.into() });
        }
        self.plays.push(play);
    }

    /// What was kept of each play, in their order.
    pub fn plays(&self) -> &[Play] {
        &self.plays
    }

    /// How much was kept of all plays.
    pub(crate) fn len(&self) -> usize {
        self.before + self.count
    }

    /// The lane of a server's task, where there is room for one thing more, and for those that come with it.
    fn lane(&mut self, server: usize, task: Option<u32>, at: u64, with: usize) -> Option<&mut Lane> {
        let play = self.plays.last_mut()?;
        if play.until.is_some() || self.count + with > self.most {
            play.until.get_or_insert(at);
            return None;
        }
        self.count += with;
        let shown = self.servers.get(server)?;
        let copy = task.and_then(|task| shown.copies.get(task as usize));
        play.lanes.get_mut(shown.lane + copy.map_or(0, |copy| copy.task))
    }
}

impl Observer for Timeline {
    fn slice(&mut self, server: usize, job: Option<(u32, u64)>, from: u64, to: u64) -> Result<(), Error> {
        let number = job.map(|(task, number)| number << 8 | u64::from(task & 0xff));
        let Some(lane) = self.lane(server, job.map(|(task, _)| task), from, 1) else { return Ok(()) };
        // Copies of one task share a lane.
        let same = lane.runs.iter_mut().rev().take(8).find(|run| run.2 == number && run.0 + run.1 == from);
        match same {
            Some(run) => {
                run.1 = to - run.0;
                self.count -= 1;
            }
            None => lane.runs.push((from, to - from, number)),
        }
        Ok(())
    }

    fn release(&mut self, server: usize, task: u32, at: u64) -> Result<(), Error> {
        let copy = self.servers.get(server).and_then(|shown| shown.copies.get(task as usize));
        let Some(deadline) = copy.map(|copy| at.saturating_add(copy.deadline.ns())) else { return Ok(()) };
        if let Some(lane) = self.lane(server, Some(task), at, 2) {
            lane.releases.push(at);
            lane.deadlines.push(deadline);
        }
        Ok(())
    }

    fn shows_budgets(&self) -> bool {
        true
    }

    fn budget(&mut self, server: usize, at: u64, left: i64) -> Result<(), Error> {
        let (Some(shown), Some(play)) = (self.servers.get_mut(server), self.plays.last_mut()) else { return Ok(()) };
        let place = *shown.budget.get_or_insert_with(|| {
            play.lanes.push(Lane { name: format!("{}: budget left", shown.name), ..Lane::default() });
            play.lanes.len() - 1
        });
        let (points, left) = (&mut play.lanes[place].budget, left.max(0) as u64);
        // It rises at once.
        let rises = points.last().map(|(_, before)| *before).filter(|before| *before < left);
        let with = 1 + usize::from(rises.is_some());
        if play.until.is_some() || self.count + with > self.most {
            play.until.get_or_insert(at);
            return Ok(());
        }
        self.count += with;
        points.extend(rises.map(|before| (at, before)));
        points.push((at, left));
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use giusto_model::Task;

    #[test]
    fn a_play_without_room_keeps_its_beginning_and_says_until_when() {
        let tasks: [Task; 1] = ["1ms/10ms".parse().unwrap()];
        let mut timeline = Timeline::new(6);
        timeline.play(&[Shown { name: "loop", tasks: &tasks }, Shown { name: "others", tasks: &[] }]);
        for period in 0..3 {
            let at = period * 10_000_000;
            timeline.release(0, 0, at).unwrap();
            timeline.slice(0, Some((0, period)), at, at + 400_000).unwrap();
            timeline.slice(0, Some((0, period)), at + 400_000, at + 1_000_000).unwrap();
            timeline.slice(1, None, at + 1_000_000, at + 10_000_000).unwrap();
        }
        let [play] = timeline.plays() else { panic!() };
        assert_eq!(play.lanes[0].runs, [(0, 1_000_000, Some(0))], "slices that touch are one");
        assert_eq!(
            (&play.lanes[0].releases[..], &play.lanes[0].deadlines[..]),
            (&[0, 10_000_000][..], &[10_000_000, 20_000_000][..])
        );
        assert_eq!((play.until, timeline.len()), (Some(10_000_000), 6));
        timeline.play(&[Shown { name: "next", tasks: &[] }]);
        timeline.budget(0, 5, -3).unwrap();
        timeline.budget(0, 9, 7).unwrap();
        assert_eq!(
            timeline.plays()[1].lanes[1].budget,
            [(5, 0), (9, 0), (9, 7)],
            "debt is nothing left; it rises at once"
        );
        assert_eq!(timeline.plays()[1].until, None);
    }
}
