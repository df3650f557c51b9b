//! Mode changes: the host's manager and the agents in its virtual machines, as pure state machines.
//!
//! Called by the daemon, the agent and the simulator, which own clock, sockets, task engines and reservations; calls `model` alone. Flows
//! in: events with the time at which they came. Flows out: actions, to be done in their order. It decides when which
//! reservation changes and which task set runs; it does not decide what a mode holds (`planner`), and does not judge whether
//! servers fit together: [`Admission`] is handed in.

mod admission;
mod agent;
mod event;
mod manager;
mod message;
mod settings;
mod table;
pub mod wire;

pub use admission::{covers, Admission};
pub use agent::{Agent, AgentAction, AgentEvent, Intention};
pub use event::{Action, Event, Kept, Outcome, Parts, Refusal, Requester, Step, Target, When};
pub use manager::{Manager, RecoverError};
pub use message::{Answered, FromAgent, ToAgent};
pub use settings::{OnTimeout, Policy, Requests, Settings, SettingsError, Transition};
pub use table::{Local, Member, Mode, Place, Table, TableError};
