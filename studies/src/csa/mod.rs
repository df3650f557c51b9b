//! CSA: compositional interfaces (Lee11).

pub(crate) mod arinc;
pub(crate) mod etf;
pub(crate) mod period;
