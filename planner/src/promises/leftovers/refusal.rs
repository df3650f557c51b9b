//! Why floors are not held.

use crate::words::{excess, share};
use giusto_model::Bandwidth;
use std::fmt;

/// The reservations leave too little for the floors.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Floors {
    /// Sum of all `at-least`.
    pub demand: Bandwidth,
    /// What is left on all cores together.
    pub supply: Bandwidth,
}

impl fmt::Display for Floors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Floors { demand, supply } = self;
        write!(
            f,
            "all floors together ask for {} of a core, and the reservations leave {}: {} too much",
            share(*demand),
            share(*supply),
            excess(Some(*demand), *supply)
        )
    }
}
