//! Waiting for a service that was just started.

use crate::client::reach;
use crate::Error;
use giusto_model::Duration;
use std::net::SocketAddr;
use std::thread::sleep;
use std::time::{self, Instant};

/// Tries to connect every 10 ms until `address` accepts, `timeout` is over or `still_alive` says no.
///
/// # Errors
/// [`Error::Died`] as soon as the service is no longer alive, [`Error::NotListening`] after `timeout`.
pub fn wait_listening(
    address: SocketAddr,
    timeout: Duration,
    still_alive: &mut dyn FnMut() -> bool,
) -> Result<(), Error> {
    let started = Instant::now();
    loop {
        if reach(address, time::Duration::from_millis(200)).is_ok() {
            return Ok(());
        }
        if !still_alive() {
            return Err(Error::Died { address });
        }
        if started.elapsed() >= timeout.to_std() {
            return Err(Error::NotListening { address, seconds: timeout.to_std().as_secs_f64() });
        }
        sleep(time::Duration::from_millis(10));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::TcpListener;

    #[test]
    fn it_ends_when_the_port_opens_or_the_service_dies_or_time_is_over() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        assert!(wait_listening(address, Duration::ZERO, &mut || false).is_ok());
        drop(listener);
        let mut asked = 0;
        let mut dies = || {
            asked += 1;
            asked < 3
        };
        assert!(matches!(wait_listening(address, Duration::from_secs(60), &mut dies), Err(Error::Died { .. })));
        assert_eq!(asked, 3);
        let silent = wait_listening(address, Duration::from_ms(20), &mut || true);
        assert!(matches!(silent, Err(Error::NotListening { .. })));
    }
}
