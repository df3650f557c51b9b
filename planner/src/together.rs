//! Whether servers go together on one core under EDF: the one rule by which cores are filled and changes of mode are admitted.

use giusto_analysis::admission::{admit, Grids, Order, Refused, Window};
use giusto_analysis::Error;
use giusto_model::{Bandwidth, Server};

/// Why they do not.
pub(crate) enum TooMuch {
    /// Σ B/P.
    Room(Bandwidth),
    /// There is room, but in this window they can ask for more than there is.
    Window(Window),
    /// It cannot be computed.
    Unknown(Error),
}

/// Σ B/P of `servers` if they fit on a core of which `most` may be reserved. O(servers) where none keeps its budget while idle.
pub(crate) fn together(servers: &[Server], most: Bandwidth) -> Result<Bandwidth, TooMuch> {
    let used = servers.iter().try_fold(Bandwidth::ZERO, |sum, server| sum.add_up(server.bandwidth()));
    let used = used.ok_or(TooMuch::Unknown(Error::Range))?;
    // A whole core is never given: those without a reservation would wait for ever.
    if used > most || used >= Bandwidth::ONE {
        return Err(TooMuch::Room(used));
    }
    // Without a deferrable server the sum is the whole test.
    if servers.len() == 1 || servers.iter().all(|server| !server.kind.renewal().keeps_budget()) {
        return Ok(used);
    }
    match admit(servers, Order::Edf, Grids::Apart, Bandwidth::ONE) {
        Ok(Ok(_)) => Ok(used),
        Ok(Err(Refused::Window(window))) => Err(TooMuch::Window(window)),
        Ok(Err(_)) => Err(TooMuch::Room(used)),
        Err(why) => Err(TooMuch::Unknown(why)),
    }
}
