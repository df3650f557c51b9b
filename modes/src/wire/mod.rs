//! The bytes between manager and agent (`formats/modes.md`): frames with a length, a handshake that proves both ends hold the member's
//! key, and messages that count only once, in their order, from the other end of this session.
//!
//! Pure: bytes in, bytes and messages out; nonces are handed in. Who owns the sockets reads, writes and closes them.

mod body;
mod frame;
mod session;

pub use frame::{Frames, MOST};
pub use session::{Broken, Key, Nonce, Session, Taken, REFUSED_MOST};
