//! Packets through a host that is made for the measurement: network namespaces for the host, its guests and a remote machine,
//! guests that send all they can, and pings between them. So a host's packet processing can be measured without touching the
//! machine's own network.

mod cost;
mod flood;
mod ping;
mod stage;

pub use cost::{flooded, Passed};
pub use flood::{Flood, Flow};
pub use ping::{ping, Ping, Pings};
pub use stage::{Place, Stage};
