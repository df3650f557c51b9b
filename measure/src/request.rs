//! The request: `HSET k0042 f00 … f01 …` under a random key with random digits as values, or `SORT items STORE sorted`; of a
//! memcached `set k0042 0 0 N`; a line of random digits to be sent back; `GET /path HTTP/1.1`.

use crate::Error;
use giusto_model::Load;
use rand::Rng;
use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;
use std::ops::Range;

/// Digits of a key: keys are k0000 to k9999.
const KEY: usize = 4;

/// What `SORT` sorts.
const LIST: &str = "items";
/// So many items of it in one command.
const CHUNK: u32 = 1000;

/// What must be there before the first request: the list of `SORT`, of random numbers. Each command has one reply.
pub(crate) fn preparation(load: &Load, seed: u64) -> Vec<Vec<u8>> {
    let Load::RedisSort { items, .. } = *load else { return Vec::new() };
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let mut all = vec![command(&["DEL", LIST])];
    for from in (0..items).step_by(CHUNK as usize) {
        let numbers: Vec<String> = (from..items.min(from + CHUNK)).map(|_| rng.next_u32().to_string()).collect();
        let words: Vec<&str> = ["RPUSH", LIST].into_iter().chain(numbers.iter().map(String::as_str)).collect();
        all.push(command(&words));
    }
    all
}

/// In Redis' protocol.
fn command(words: &[&str]) -> Vec<u8> {
    let words_of = words.iter().map(|word| format!("${}\r\n{word}\r\n", word.len()));
    std::iter::once(format!("*{}\r\n", words.len())).chain(words_of).collect::<String>().into_bytes()
}

/// In memcached's text protocol.
fn memcached(value: u32) -> Result<Request, Error> {
    if !(1..=4096).contains(&value) {
        return Err(Error::Plan(format!("a value of {value} bytes; expected value: 1 to 4096")));
    }
    let mut request = Request { bytes: b"set k".to_vec(), digits: Vec::new() };
    request.digits.push(request.bytes.len()..request.bytes.len() + KEY);
    request.bytes.extend([b'0'; KEY]);
    request.bytes.extend(format!(" 0 0 {value}\r\n").bytes());
    request.random(value as usize);
    Ok(request)
}

/// A line of random digits.
fn echo(value: u32) -> Result<Request, Error> {
    if !(1..=4096).contains(&value) {
        return Err(Error::Plan(format!("a line of {value} bytes; expected value: 1 to 4096")));
    }
    let mut request = Request { bytes: Vec::new(), digits: Vec::new() };
    request.random(value as usize);
    Ok(request)
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
        let (fields, value) = match *load {
            Load::Redis { fields, value, .. } => (fields, value),
            Load::Memcached { value, .. } => return memcached(value),
            Load::Echo { value, .. } => return echo(value),
            Load::Http { address, ref path } => {
                let bytes = format!("GET {path} HTTP/1.1\r\nHost: {address}\r\n\r\n").into_bytes();
                return Ok(Request { bytes, digits: Vec::new() });
            }
            Load::RedisSort { .. } => {
                return Ok(Request { bytes: command(&["SORT", LIST, "STORE", "sorted"]), digits: Vec::new() })
            }
        };
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
    fn a_request_is_the_bytes_that_memcached_expects() {
        let address = "127.0.0.1:1".parse().unwrap();
        let of = |value| Request::new(&Load::Memcached { address, value, connections: 1, rate: None });
        let mut request = of(3).unwrap();
        assert_eq!(String::from_utf8_lossy(request.bytes()), "set k0000 0 0 3\r\n000\r\n");
        request.draw(&mut ChaCha8Rng::seed_from_u64(1));
        assert!(request.bytes().starts_with(b"set k") && request.bytes()[9..17] == *b" 0 0 3\r\n");
        assert!(of(0).is_err() && of(4097).is_err());
    }

    #[test]
    fn an_echo_is_a_line_and_a_web_page_is_asked_for_by_its_path() {
        let address = "127.0.0.1:80".parse().unwrap();
        let echo = |value| Request::new(&Load::Echo { address, value });
        assert_eq!(echo(3).unwrap().bytes(), b"000\r\n");
        assert!(echo(0).is_err() && echo(4097).is_err());
        let request = Request::new(&Load::Http { address, path: "/a?b=c".into() }).unwrap();
        assert_eq!(String::from_utf8_lossy(request.bytes()), "GET /a?b=c HTTP/1.1\r\nHost: 127.0.0.1:80\r\n\r\n");
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
    fn a_list_is_filled_once_with_the_numbers_of_its_seed_and_then_sorted() {
        let load = Load::RedisSort { address: "127.0.0.1:1".parse().unwrap(), items: 2500 };
        let request = Request::new(&load).unwrap();
        let expected = "*4\r\n$4\r\nSORT\r\n$5\r\nitems\r\n$5\r\nSTORE\r\n$6\r\nsorted\r\n";
        assert_eq!(String::from_utf8_lossy(request.bytes()), expected);
        let all = preparation(&load, 1);
        let words = |bytes: &Vec<u8>| bytes.iter().filter(|byte| **byte == b'$').count();
        assert_eq!(all.iter().map(words).collect::<Vec<_>>(), [2, 1002, 1002, 502]);
        assert_eq!(all, preparation(&load, 1));
        assert_ne!(all, preparation(&load, 2));
        assert!(preparation(&super::tests::load(1, 1), 1).is_empty());
    }

    #[test]
    fn sizes_outside_the_site_files_are_refused() {
        for (fields, value) in [(0, 1), (1001, 1), (1, 0), (1, 4097)] {
            assert!(Request::new(&load(fields, value)).is_err());
        }
    }
}
