//! What manager and agents say to each other. `wire` has the bytes.

/// From the manager to an agent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ToAgent {
    /// Run the tasks of this local mode.
    Command {
        /// Larger than in all earlier commands to this agent. The same one again is the same command.
        change: u64,
        /// Index of the local mode in the table.
        local: u16,
    },
    /// To [`FromAgent::Ask`].
    Answer {
        /// As it was asked.
        request: u32,
        /// What became of it.
        answered: Answered,
    },
}

/// From an agent to the manager.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FromAgent {
    /// The first message of a connection; no switch is under way.
    Hello {
        /// The local mode whose tasks run; `None`: unknown, as the last switch failed.
        local: Option<u16>,
        /// The last change that was carried out; 0: none.
        change: u64,
        /// Of its local modes' names, [`crate::Member::digest`]: both must speak of the same ones.
        digest: u64,
    },
    /// The command was carried out.
    Done {
        /// Of the command.
        change: u64,
        /// Its local mode.
        local: u16,
        /// When the command came, in ns of the agent's clock.
        received_ns: u64,
        /// When the tasks were switched, in ns of the agent's clock.
        switched_ns: u64,
    },
    /// The command could not be carried out; what runs is unknown.
    Failed {
        /// Of the command.
        change: u64,
    },
    /// Please change to this global mode.
    Ask {
        /// To tell answers apart.
        request: u32,
        /// Its name, at most 255 bytes.
        mode: String,
    },
}

/// What became of a request, in a word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answered {
    /// The mode is in force.
    Done,
    /// It is, but not for every member.
    Degraded,
    /// Nothing was changed.
    Refused,
    /// It is as before.
    RolledBack,
    /// Another change took its place.
    Preempted,
    /// Neither the new mode nor the old one could be reached.
    Stuck,
}
