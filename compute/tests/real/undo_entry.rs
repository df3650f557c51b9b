//! What the journal expects of its room: the changes that it holds. Here they are those of one room.

pub(crate) use giusto_compute::{spent, undo, Undo as Change};

pub(crate) fn of_compute(undo: &Change) -> Change {
    undo.clone()
}
