//! Keeps the processors out of deep idle states, whose exit would be measured as latency.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};

/// While it lives, the kernel uses only idle states that wake at once (PM QoS, latency 0 us).
#[derive(Debug)]
pub struct Awake {
    /// The request holds as long as the file is open.
    _request: File,
}

/// Asks the kernel to stay awake until the result is dropped.
///
/// # Errors
/// Those of opening and writing `/dev/cpu_dma_latency`: it needs root, and is missing where processors do not idle
/// (some virtual machines). A measurement may go on without.
pub fn stay_awake() -> io::Result<Awake> {
    let mut request = OpenOptions::new().write(true).open("/dev/cpu_dma_latency")?;
    request.write_all(&0i32.to_ne_bytes())?;
    Ok(Awake { _request: request })
}
