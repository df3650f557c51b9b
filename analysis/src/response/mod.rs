//! Response times of a service whose requests come at random and that has a share of a core: M/D(DS)/1, M/G(DS)/1 and their
//! relatives [LiH21, chapter 4].
//!
//! Requests, alone or in batches, arrive as a Poisson process and are served first come, first served, by a server (B, P) that
//! has the highest priority. Time is divided into slots ([`grid`]); the slotted queue is solved exactly ([`chain`], [`roots`])
//! and turned into the law of the response time ([`law`], eqs. 4.11 and 4.13); two grids, one twice as fine, extrapolate to
//! slots of no length ([`curve`]). Where that takes too long, [`line`](fn@line) gives two ends at once. Probabilities are
//! floating point; times come in and go out as integers.

mod answer;
mod chain;
mod curve;
mod grid;
mod law;
mod line;
mod map;
mod question;
mod reanchored;
mod roots;
mod slo;
mod tail;

pub use answer::{response, At, Percentile, Response};
pub use line::{line, Line};
pub use map::{map, Cell, Map};
pub use question::{Precision, Question, Server};
pub use slo::{pareto, slo, Choice, Objective, Verdict};
pub use tail::{Class, Share, Tail};
