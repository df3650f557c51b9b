//! Random streams of requests and answers, cut into reads and writes at random: each answer is counted, and nothing else.

use giusto_measure::passive::{Protocol, Requests, Watch};
use rand::{Rng, RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use std::collections::BTreeSet;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::fd::{AsRawFd, RawFd};
use std::os::unix::net::{UnixListener, UnixStream};
use std::sync::Mutex;

/// One test at a time: it is this process that is watched.
static ALONE: Mutex<()> = Mutex::new(());

/// A request, and what the service writes when it has read it; whether that is an answer.
type Exchange = (Vec<u8>, Vec<u8>, bool);

type Draw = fn(&mut ChaCha8Rng) -> Exchange;

fn bytes(rng: &mut ChaCha8Rng, most: usize) -> Vec<u8> {
    let length = rng.random_range(0..most);
    // Ends of lines and what looks like a beginning are frequent.
    let choices = b"\r\n\r\n*$:+-0123456789 END\r\nHTTP/1.1 200 OK\r\n";
    (0..length).map(|_| choices[rng.random_range(0..choices.len())]).collect()
}

fn bulk(bytes: &[u8]) -> Vec<u8> {
    [format!("${}\r\n", bytes.len()).as_bytes(), bytes, b"\r\n"].concat()
}

fn redis(rng: &mut ChaCha8Rng) -> Exchange {
    let request = match rng.random_range(0..8) {
        0 => b"PING\r\n".to_vec(),
        _ => {
            let words: Vec<Vec<u8>> = (0..rng.random_range(1..6)).map(|_| bulk(&bytes(rng, 300))).collect();
            [format!("*{}\r\n", words.len()).into_bytes(), words.concat()].concat()
        }
    };
    let one = bulk(&bytes(rng, 2000));
    let answer: Vec<u8> = match rng.random_range(0..11) {
        0 => b"+OK\r\n".to_vec(),
        1 => b"-ERR no such thing: 12 $5 9999999999\r\n".to_vec(),
        2 => format!(":{}\r\n", rng.random_range(-42..5_000_000_000i64)).into_bytes(),
        3 => b"$-1\r\n".to_vec(),
        4 => b"*-1\r\n".to_vec(),
        5 => b"*0\r\n".to_vec(),
        6 => [b"*3\r\n*2\r\n:1\r\n".to_vec(), one.clone(), b"+a\r\n".to_vec(), one].concat(),
        7 => [b"%2\r\n+k\r\n".to_vec(), one, b"+l\r\n_\r\n".to_vec()].concat(),
        8 => [b">2\r\n+message\r\n".to_vec(), one, b"+OK\r\n".to_vec()].concat(), // a push before the answer
        9 => b"#t\r\n".to_vec(),
        _ => one,
    };
    (request, answer, true)
}

fn memcached(rng: &mut ChaCha8Rng) -> Exchange {
    let data = bytes(rng, 2000);
    let with = |line: String| [line.into_bytes(), data.clone(), b"\r\n".to_vec()].concat();
    let stored = |name: &str, tail: &str| with(format!("{name} key 0 60 {}{tail}\r\n", data.len()));
    let value = with(format!("VALUE key 0 {}\r\n", data.len()));
    match rng.random_range(0..9) {
        0 => (stored("set", ""), b"STORED\r\n".to_vec(), true),
        1 => (stored("add", " noreply"), Vec::new(), false),
        2 => (with(format!("cas key 0 60 {} 77\r\n", data.len())), b"EXISTS\r\n".to_vec(), true),
        3 => (b"get none\r\n".to_vec(), b"END\r\n".to_vec(), true),
        4 => (b"get key key\r\n".to_vec(), [value.clone(), value, b"END\r\n".to_vec()].concat(), true),
        5 => (b"incr key 12\r\n".to_vec(), b"NOT_FOUND\r\n".to_vec(), true),
        6 => (b"stats\r\n".to_vec(), b"STAT pid 1\r\nSTAT uptime 12\r\nEND\r\n".to_vec(), true),
        7 => (b"mg key v\r\n".to_vec(), with(format!("VA {} t0\r\n", data.len())), true),
        _ => (with(format!("ms key {} T60\r\n", data.len())), b"HD\r\n".to_vec(), true),
    }
}

fn http(rng: &mut ChaCha8Rng) -> Exchange {
    let (body, headers) = (bytes(rng, 2000), "Host: x\r\nAccept: */*\r\nCookie: content-length: 7\r\n");
    let sized = |line: &str| {
        let head = format!("{line}\r\nContent-Type: text\r\ncontent-LENGTH:  {}\r\n{headers}\r\n", body.len());
        [head.into_bytes(), body.clone()].concat()
    };
    let chunk = format!("{:x};name=9\r\n", body.len().max(1));
    let text = if body.is_empty() { b"a".to_vec() } else { body.clone() };
    let head = format!("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n{headers}\r\n").into_bytes();
    let chunked = [
        head,
        chunk.clone().into_bytes(),
        text.clone(),
        b"\r\n".to_vec(),
        chunk.into_bytes(),
        text,
        b"\r\n0\r\nA: b\r\n\r\n".to_vec(),
    ];
    let get = format!("GET / HTTP/1.1\r\n{headers}\r\n").into_bytes();
    match rng.random_range(0..6) {
        0 => (get, sized("HTTP/1.1 404 Not Found"), true),
        1 => (get, chunked.concat(), true),
        2 => (sized("POST /a HTTP/1.1"), b"HTTP/1.1 204 No Content\r\n\r\n".to_vec(), true),
        3 => (
            sized("PUT /a HTTP/1.1"),
            [b"HTTP/1.1 100 Continue\r\n\r\n".to_vec(), sized("HTTP/1.1 200 OK")].concat(),
            true,
        ),
        4 => {
            let head = format!("HEAD / HTTP/1.1\r\n{headers}\r\n").into_bytes();
            (head, b"HTTP/1.1 200 OK\r\nContent-Length: 12345\r\n\r\n".to_vec(), true)
        }
        _ => (get, b"HTTP/1.1 304 Not Modified\r\nContent-Length: 12345\r\n\r\n".to_vec(), true),
    }
}

fn lines(rng: &mut ChaCha8Rng) -> Exchange {
    let mut line = || {
        let text: Vec<u8> = (0..rng.random_range(0..200)).map(|_| rng.random_range(b' '..b'~')).collect();
        [text, b"\n".to_vec()].concat()
    };
    (line(), line(), true)
}

/// One read of at most `length`, by any system call for it.
fn read(rng: &mut ChaCha8Rng, fd: RawFd, into: &mut [u8]) -> usize {
    let (pointer, length) = (into.as_mut_ptr(), into.len());
    let first = rng.random_range(0..=length);
    // SAFETY: both lie in `into`.
    let mut pieces = [piece(pointer, first), piece(unsafe { pointer.add(first) }, length - first)];
    let mut message = message(&mut pieces);
    // SAFETY: plain calls that write into `into`.
    let got = unsafe {
        match rng.random_range(0..4) {
            0 => libc::read(fd, pointer.cast(), length),
            1 => libc::recv(fd, pointer.cast(), length, 0),
            2 => libc::readv(fd, pieces.as_ptr(), 2),
            _ => libc::recvmsg(fd, &mut message, 0),
        }
    };
    got.max(0) as usize
}

/// One write of all of `bytes`, by any system call for it.
fn write(rng: &mut ChaCha8Rng, fd: RawFd, bytes: &[u8]) {
    let (pointer, length) = (bytes.as_ptr().cast_mut(), bytes.len());
    let first = rng.random_range(0..=length);
    // SAFETY: both lie in `bytes`.
    let mut pieces = [piece(pointer, first), piece(unsafe { pointer.add(first) }, length - first)];
    let message = message(&mut pieces);
    // SAFETY: plain calls that read from `bytes`.
    let wrote = unsafe {
        match rng.random_range(0..4) {
            0 => libc::write(fd, pointer.cast(), length),
            1 => libc::send(fd, pointer.cast(), length, libc::MSG_NOSIGNAL),
            2 => libc::writev(fd, pieces.as_ptr(), 2),
            _ => libc::sendmsg(fd, &message, libc::MSG_NOSIGNAL),
        }
    };
    assert_eq!(wrote, length as isize);
}

fn piece(pointer: *mut u8, length: usize) -> libc::iovec {
    libc::iovec { iov_base: pointer.cast(), iov_len: length }
}

fn message(pieces: &mut [libc::iovec; 2]) -> libc::msghdr {
    // SAFETY: a plain structure, of which all that is not set is 0.
    let mut message: libc::msghdr = unsafe { std::mem::zeroed() };
    (message.msg_iov, message.msg_iovlen) = (pieces.as_mut_ptr(), 2);
    message
}

/// Reads requests and writes what belongs to them, in pieces.
fn serve(seed: u64, fd: RawFd, exchanges: &[Exchange]) {
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let (mut got, mut due, mut buffer) = (0, 0, vec![0; 4096]);
    for (request, answer, _) in exchanges {
        due += request.len();
        while got < due {
            // The first request is in one piece, as those of real clients are.
            let most = if got == 0 { 4096 } else { rng.random_range(1..4096) };
            got += read(&mut rng, fd, &mut buffer[..most]);
        }
        let mut rest = answer.as_slice();
        while !rest.is_empty() {
            let part = rng.random_range(1..=rest.len());
            write(&mut rng, fd, &rest[..part]);
            rest = &rest[part..];
        }
    }
}

/// Writes all requests in pieces, but for the first one, and reads what comes.
fn ask(rng: &mut ChaCha8Rng, mut stream: impl Read + Write + AsRawFd, exchanges: &[Exchange], answers: usize) {
    let all: Vec<u8> = exchanges.iter().flat_map(|(request, ..)| request.clone()).collect();
    let (fd, first) = (stream.as_raw_fd(), exchanges[0].0.len());
    std::thread::scope(|scope| {
        let seed = rng.next_u64();
        scope.spawn(move || {
            let mut rng = ChaCha8Rng::seed_from_u64(seed);
            let mut rest = &all[..];
            while !rest.is_empty() {
                let is_first = rest.len() == all.len();
                let part = if is_first { first } else { rng.random_range(1..=rest.len().min(3000)) };
                write(&mut rng, fd, &rest[..part]);
                rest = &rest[part..];
            }
        });
        stream.read_exact(&mut vec![0; answers]).unwrap();
    });
}

#[test]
fn every_answer_is_counted_however_the_streams_are_cut() {
    let _alone = ALONE.lock();
    let kinds: [(Protocol, Draw); 4] =
        [(Protocol::Redis, redis), (Protocol::Memcached, memcached), (Protocol::Http, http), (Protocol::Lines, lines)];
    let folder = tempfile::tempdir().unwrap();
    let mut requests = match Requests::new(501) {
        Ok(requests) => requests,
        Err(why) => return println!("SKIPPED: {why}"),
    };
    let seeds = if std::env::var_os("GIUSTO_SOAK").is_some() { 500 } else { 120 };
    for seed in 0..seeds {
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        let (protocol, exchange) = kinds[seed as usize % 4];
        // What tells the protocol comes first.
        let mut exchanges: Vec<Exchange> = vec![exchange(&mut ChaCha8Rng::seed_from_u64(1))];
        exchanges.extend((0..rng.random_range(1..200)).map(|_| exchange(&mut rng)));
        if protocol == Protocol::Redis && exchanges[0].0.starts_with(b"P") || protocol == Protocol::Lines {
            exchanges.remove(0);
        }
        if protocol == Protocol::Lines {
            exchanges.insert(0, (b"hello\n".to_vec(), b"hello\n".to_vec(), true));
        } else if protocol == Protocol::Redis {
            exchanges.insert(0, (b"*1\r\n$4\r\nPING\r\n".to_vec(), b"+PONG\r\n".to_vec(), true));
        }
        let bytes = exchanges.iter().map(|(_, answer, _)| answer.len()).sum();
        let service = 1 + seed as usize;
        requests.watch(service, &BTreeSet::from([std::process::id()])).unwrap();
        let path = folder.path().join(seed.to_string());
        let (tcp, unix) = (TcpListener::bind("127.0.0.1:0").unwrap(), UnixListener::bind(&path).unwrap());
        if seed % 3 == 0 {
            // A Unix socket is known from the second connection on.
            let first = UnixStream::connect(&path).unwrap();
            std::thread::scope(|scope| {
                scope.spawn(|| unix.accept().unwrap().0.read_exact(&mut [0; 4]).unwrap());
                (&first).write_all(b"x\r\n\0").unwrap();
            });
            let client = UnixStream::connect(&path).unwrap();
            std::thread::scope(|scope| {
                scope.spawn(|| serve(seed, unix.accept().unwrap().0.as_raw_fd(), &exchanges));
                ask(&mut rng, client, &exchanges, bytes);
            });
        } else {
            let client = TcpStream::connect(tcp.local_addr().unwrap()).unwrap();
            client.set_nodelay(true).unwrap();
            std::thread::scope(|scope| {
                scope.spawn(|| serve(seed, tcp.accept().unwrap().0.as_raw_fd(), &exchanges));
                ask(&mut rng, client, &exchanges, bytes);
            });
        }
        let seen = requests.responses(service);
        let expected = exchanges.iter().filter(|(.., counts)| *counts).count() as u64;
        assert_eq!((seen.answered, seen.unseen), (expected, 0), "seed {seed}, {protocol:?}: {:?}", seen.connections);
        assert_eq!(seen.connections.get(&protocol), Some(&1), "seed {seed}: {:?}", seen.connections);
        requests.watch(service, &BTreeSet::new()).unwrap();
    }
}

/// A connection to this process, which is watched as service 0: the client's end, and the service's.
fn connection(requests: &mut Requests) -> (TcpStream, TcpStream) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    requests.watch(0, &BTreeSet::from([std::process::id()])).unwrap();
    let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    (client, listener.accept().unwrap().0)
}

/// The first of two requests is read at once and answered 100 ms later; the second arrives in between.
#[test]
fn a_request_that_has_no_answer_yet_keeps_its_time() {
    let _alone = ALONE.lock();
    let mut requests = match Requests::new(4) {
        Ok(requests) => requests,
        Err(why) => return println!("SKIPPED: {why}"),
    };
    let (mut client, mut served) = connection(&mut requests);
    let wait = |ms| std::thread::sleep(std::time::Duration::from_millis(ms));
    for _ in 0..2 {
        client.write_all(b"first\n").unwrap();
        served.read_exact(&mut [0; 6]).unwrap();
        wait(50);
        client.write_all(b"second\n").unwrap();
        wait(50);
        served.read_exact(&mut [0; 7]).unwrap();
        served.write_all(b"one\ntwo\n").unwrap();
        client.read_exact(&mut [0; 8]).unwrap();
    }
    let seen = requests.responses(0);
    let longer =
        |ms: u64| seen.responses.iter().filter(|[ns, _]| *ns > ms * 1_000_000).map(|[_, count]| count).sum::<u64>();
    assert_eq!((seen.answered, longer(49), longer(99)), (4, 4, 2));
}

/// The last request wants no answer and its client is gone when it is read: nothing remained unseen.
#[test]
fn the_end_of_a_stream_that_is_read_with_its_last_bytes_is_no_request() {
    let _alone = ALONE.lock();
    let mut requests = match Requests::new(4) {
        Ok(requests) => requests,
        Err(why) => return println!("SKIPPED: {why}"),
    };
    let (mut client, mut served) = connection(&mut requests);
    client.write_all(b"get a\r\n").unwrap();
    served.read_exact(&mut [0; 7]).unwrap();
    served.write_all(b"END\r\n").unwrap();
    // With an answer that was not read the connection would be reset, which has no end of the stream.
    client.read_exact(&mut [0; 5]).unwrap();
    client.write_all(b"delete a noreply\r\n").unwrap();
    drop(client);
    std::thread::sleep(std::time::Duration::from_millis(20));
    assert_eq!(served.read(&mut [0; 100]).unwrap(), 18);
    let seen = requests.responses(0);
    assert_eq!((seen.answered, seen.unseen), (1, 0));
}

/// The first request arrives while the service begins to read: whichever of both comes first, it is counted.
#[test]
fn the_first_request_of_a_unix_socket_is_counted_though_it_is_read_as_it_arrives() {
    let _alone = ALONE.lock();
    let mut requests = match Requests::new(4) {
        Ok(requests) => requests,
        Err(why) => return println!("SKIPPED: {why}"),
    };
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("socket");
    let listener = UnixListener::bind(&path).unwrap();
    requests.watch(0, &BTreeSet::from([std::process::id()])).unwrap();
    let connections = 20_000;
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for _ in 0..connections {
                let (mut served, mut asked) = (listener.accept().unwrap().0, [0; 12]);
                served.set_nonblocking(true).unwrap();
                while served.read(&mut asked[..6]).is_err() {}
                served.set_nonblocking(false).unwrap();
                served.write_all(b"first\n").unwrap();
                served.read_exact(&mut asked[6..]).unwrap();
                served.write_all(b"second\n").unwrap();
            }
        });
        for _ in 0..connections {
            let mut client = UnixStream::connect(&path).unwrap();
            client.write_all(b"hello\nagain\n").unwrap();
            client.read_exact(&mut [0; 13]).unwrap();
        }
    });
    let seen = requests.responses(0);
    // The socket is known from the second connection on.
    let missed = 2 * connections - seen.answered;
    assert!(missed <= 2 && seen.unseen <= 1, "{missed} missed, {} times out of step", seen.unseen);
}
