//! The request: `HSET k0042 f00 … f01 …` under a random key with random digits as values.

use crate::Error;
use giusto_model::Load;
use rand::RngCore;
use rand_chacha::ChaCha8Rng;
use std::net::SocketAddr;
use std::ops::Range;

/// Digits of a key: keys are k0000 to k9999.
const KEY: usize = 4;

/// The address that `load` names.
pub(crate) fn address(load: &Load) -> SocketAddr {
    let Load::Redis { address, .. } = load;
    *address
}

/// A whole request in memory, of which only random digits change, so that the next one is ready before it is due.
#[derive(Clone)]
pub(crate) struct Request {
    bytes: Vec<u8>,
    /// Where the random digits are: the key, then each value.
    digits: Vec<Range<usize>>,
}

impl Request {
    /// Lays the request out. `Err` for sizes that the site file would not allow.
    pub(crate) fn new(load: &Load) -> Result<Request, Error> {
        let Load::Redis { fields, value, .. } = *load;
        if !(1..=1000).contains(&fields) || !(1..=4096).contains(&value) {
            return Err(Error::Plan(format!(
                "a request of {fields} fields of {value} bytes; expected fields: 1 to 1000, value: 1 to 4096"
            )));
        }
        let mut request = Request { bytes: Vec::new(), digits: Vec::new() };
        request.bytes.extend(format!("*{}\r\n$4\r\nHSET\r\n${}\r\nk", 2 + 2 * fields, 1 + KEY).bytes());
        request.random(KEY);
        for field in 0..fields {
            let name = format!("f{field:02}");
            request.bytes.extend(format!("${}\r\n{name}\r\n${value}\r\n", name.len()).bytes());
            request.random(value as usize);
        }
        Ok(request)
    }

    fn random(&mut self, digits: usize) {
        let from = self.bytes.len();
        self.bytes.resize(from + digits, b'0');
        self.digits.push(from..from + digits);
        self.bytes.extend(b"\r\n");
    }

    /// Draws new digits. Not exactly uniform (256 is no multiple of 10), which no one can see in a latency.
    pub(crate) fn draw(&mut self, rng: &mut ChaCha8Rng) {
        for range in &self.digits {
            let digits = &mut self.bytes[range.clone()];
            rng.fill_bytes(digits);
            digits.iter_mut().for_each(|d| *d = b'0' + *d % 10);
        }
    }

    /// What to send.
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::SeedableRng;

    fn load(fields: u32, value: u32) -> Load {
        Load::Redis { address: "127.0.0.1:1".parse().unwrap(), fields, value }
    }

    #[test]
    fn a_request_is_the_bytes_that_redis_expects() {
        let request = Request::new(&load(2, 3)).unwrap();
        let expected = "*6\r\n$4\r\nHSET\r\n$5\r\nk0000\r\n$3\r\nf00\r\n$3\r\n000\r\n$3\r\nf01\r\n$3\r\n000\r\n";
        assert_eq!(String::from_utf8_lossy(request.bytes()), expected);
    }

    #[test]
    fn one_seed_gives_the_same_digits_and_only_digits_change() {
        let drawn = |seed| {
            let mut request = Request::new(&load(101, 8)).unwrap();
            request.draw(&mut ChaCha8Rng::seed_from_u64(seed));
            request
        };
        assert_eq!(drawn(1).bytes(), drawn(1).bytes());
        assert_ne!(drawn(1).bytes(), drawn(2).bytes());
        let mut blank = drawn(1);
        for range in blank.digits.clone() {
            assert!(blank.bytes[range.clone()].iter().all(u8::is_ascii_digit));
            blank.bytes[range].fill(b'0');
        }
        assert_eq!(blank.bytes, Request::new(&load(101, 8)).unwrap().bytes);
    }

    #[test]
    fn sizes_outside_the_site_files_are_refused() {
        for (fields, value) in [(0, 1), (1001, 1), (1, 0), (1, 4097)] {
            assert!(Request::new(&load(fields, value)).is_err());
        }
    }
}
