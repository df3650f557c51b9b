//! Mixed criticality: what the high and the low get in systems that pass the test, whatever the others do.

mod calls;
mod guarantee;
mod oracle;
mod play;
mod schedules;
mod system;
