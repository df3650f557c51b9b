//! A server that answers HSET as a test wants it: one thread a connection, ended by the clients' hanging up.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::Arc;
use std::thread;

/// Starts one on a free port. `answer` gets the stream and the number of the request on its connection (from 0), and
/// returns false to hang up. Returns the address and the count of requests that arrived.
pub(crate) fn serve<F>(answer: F) -> (SocketAddr, Arc<AtomicU64>)
where
    F: Fn(&mut TcpStream, u64) -> bool + Send + Sync + 'static,
{
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let (answer, count) = (Arc::new(answer), Arc::new(AtomicU64::new(0)));
    let arrived = count.clone();
    thread::spawn(move || {
        for stream in listener.incoming() {
            let (answer, arrived) = (answer.clone(), arrived.clone());
            let mut stream = stream.unwrap();
            stream.set_nodelay(true).unwrap();
            thread::spawn(move || {
                for request in 0.. {
                    if !read_request(&mut stream) {
                        return;
                    }
                    arrived.fetch_add(1, Ordering::SeqCst);
                    if !answer(&mut stream, request) {
                        return;
                    }
                }
            });
        }
    });
    (address, count)
}

/// Reads `*N` and N times `$LENGTH` with its bytes; false at the end of the stream. Panics if it is no HSET, which
/// the client sees as a closed connection.
fn read_request(stream: &mut TcpStream) -> bool {
    let Some(parts) = number(stream, b'*') else { return false };
    assert!(parts >= 4 && parts % 2 == 0);
    for part in 0..parts {
        let mut bytes = vec![0; number(stream, b'$').unwrap() + 2];
        stream.read_exact(&mut bytes).unwrap();
        assert!(bytes.ends_with(b"\r\n"));
        assert!(part > 0 || bytes == b"HSET\r\n");
    }
    true
}

fn number(stream: &mut TcpStream, sign: u8) -> Option<usize> {
    let mut line = Vec::new();
    let mut byte = [0];
    while !line.ends_with(b"\r\n") {
        stream.read_exact(&mut byte).ok()?;
        line.push(byte[0]);
    }
    assert_eq!(line[0], sign);
    std::str::from_utf8(&line[1..line.len() - 2]).unwrap().parse().ok()
}

/// Answers as Redis does.
pub(crate) fn reply(stream: &mut TcpStream, text: &str) -> bool {
    stream.write_all(text.as_bytes()).is_ok()
}
