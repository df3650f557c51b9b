//! The XML of CARTS, the field's exchange format for trees of components (`formats/carts.md`): `giusto analyze interface
//! --carts` reads and writes it.
//!
//! A [`Component`] comes out or the first error with its place, as for a site. Whether a component fits is asked elsewhere.

mod component;
mod read;
mod unit;
mod write;

pub use component::{Component, Period, Scheduler, SYSTEM};
pub use read::{parse, read};
pub use unit::Unit;
pub use write::write;
