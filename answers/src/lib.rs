//! Questions and answers: what `giusto analyze` and `giusto simulate` print as JSON, for the command line and for Python alike.
//!
//! Called by the command line, which reads questions from flags and shows answers as tables, and by `import giusto`. A module a
//! calculator: its `Question` goes in, its `Answer` comes out, whose serialization is the JSON of `formats/`. The mathematics is
//! in `analysis`, virtual time in `simulator`; this room only puts together what one question needs of both. It prints
//! nothing, reads no flag, and knows no machine.

pub mod admission;
pub mod bucket;
pub mod criticality;
mod error;
pub mod failed_path;
pub mod interface;
pub mod map;
pub mod notation;
pub mod packets;
pub mod path;
pub mod place;
pub mod plan;
pub mod plane;
pub mod recovery;
pub mod response;
pub mod share;
pub mod simulated;
pub mod simulated_path;
pub mod slo;
mod tasks;
pub mod vcpus;

pub use error::Error;
pub use tasks::{falls_short, named};
