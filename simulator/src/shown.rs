//! What a drawing or a trace shows of a server.

use giusto_model::{Duration, Task};

/// A server, and its tasks, whose copies count one by one as in job records; none: it is always ready, or has requests.
#[derive(Clone, Copy, Debug)]
pub struct Shown<'a> {
    /// Its name.
    pub name: &'a str,
    /// What it runs.
    pub tasks: &'a [Task],
}

/// A copy of a task.
#[derive(Clone, Debug)]
pub(crate) struct Copy {
    /// The place of its task.
    pub(crate) task: usize,
    /// With its number, where there are several.
    pub(crate) name: String,
    pub(crate) deadline: Duration,
}

impl Shown<'_> {
    pub(crate) fn copies(&self) -> Vec<Copy> {
        let of = |(place, task): (usize, &Task)| {
            let name = match task.name.as_str() {
                "" => format!("task {place}"),
                name => name.to_string(),
            };
            let (copies, deadline) = (task.copies, task.deadline);
            let copy = move |nth| Copy {
                task: place,
                name: if copies > 1 { format!("{name} {nth}") } else { name.clone() },
                deadline,
            };
            (1..=copies).map(copy).collect::<Vec<_>>()
        };
        self.tasks.iter().enumerate().flat_map(of).collect()
    }
}
