//! CSA: compositional interfaces (paper 002).

pub(crate) mod arinc;
pub(crate) mod etf;
pub(crate) mod period;
