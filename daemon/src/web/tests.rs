use super::*;
use crate::golden::Golden;
use crate::Status;
use std::io::Read;
use std::net::TcpStream;

fn free() -> SocketAddr {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap()
}

fn web(address: WebAddress, token: Option<&str>) -> Web {
    Web::listen(WebSettings { address, token: token.map(str::to_owned) }, Arc::new(Golden::default())).unwrap()
}

fn asked(mut stream: impl Read + Write, target: &str, host: &str) -> String {
    stream.write_all(format!("GET {target} HTTP/1.1\r\nHost: {host}\r\n\r\n").as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

fn status_of(answer: &str) -> &str {
    &answer[9..12]
}

#[test]
fn the_page_is_there_for_who_asks_by_an_address_and_for_no_page_of_others() {
    let address = free();
    let _web = web(WebAddress::Tcp(address), None);
    let ask = |target: &str, host: &str| asked(TcpStream::connect(address).unwrap(), target, host);
    for host in ["127.0.0.1:9500", "localhost", "[::1]:9500"] {
        let page = ask("/", host);
        assert!(status_of(&page) == "200" && page.contains("Content-Security-Policy: default-src 'none';"), "{page}");
    }
    assert_eq!(status_of(&ask("/", "evil.example:9500")), "421");
    assert_eq!(status_of(&ask("/plan", "localhost")), "404");
    let none = ask("/what-if?service=cache&load=2", "localhost");
    assert!(none.ends_with(r#"{"services":[],"says":[]}"#), "{none}");
}

#[test]
fn a_token_is_needed_where_others_reach_it() {
    let refused = WebSettings::new("0.0.0.0:9500".parse().unwrap(), None).unwrap_err();
    assert!(refused.contains("--web-token FILE"), "{refused}");
    let file = tempfile::NamedTempFile::new().unwrap();
    for (text, fits) in [("short", false), ("0123456789abcdef\n", true), ("0123456789 abcdef", false)] {
        std::fs::write(file.path(), text).unwrap();
        let settings = WebSettings::new("0.0.0.0:9500".parse().unwrap(), Some(file.path()));
        assert_eq!(settings.is_ok(), fits, "{text}: {settings:?}");
    }
    let address = free();
    let _web = web(WebAddress::Tcp(address), Some("0123456789abcdef"));
    let ask = |target: &str| asked(TcpStream::connect(address).unwrap(), target, "edge-1.example");
    for (target, status) in [
        ("/", "401"),
        ("/events", "401"),
        ("/?token=0123456789abcdeg", "401"),
        ("/?token=0123456789abcde", "401"),
        ("/?token=0123456789abcdef", "200"),
    ] {
        assert_eq!(status_of(&ask(target)), status, "{target}");
    }
}

#[test]
fn events_are_whole_statuses_and_end_with_giusto() {
    let address = free();
    let web = web(WebAddress::Tcp(address), None);
    let mut stream = TcpStream::connect(address).unwrap();
    stream.write_all(b"GET /events HTTP/1.1\r\nHost: localhost\r\n\r\n").unwrap();
    let mut seen = String::new();
    let mut bytes = [0; 4096];
    while seen.matches("\n\n").count() < 2 {
        let length = stream.read(&mut bytes).unwrap();
        assert!(length > 0, "{seen}");
        seen.push_str(std::str::from_utf8(&bytes[..length]).unwrap());
    }
    let events: Vec<&str> = seen.split("data: ").skip(1).collect();
    let status: Status = serde_json::from_str(events[0].trim_end()).unwrap();
    assert_eq!(status, Golden::default().status());
    drop(web);
    stream.read_to_end(&mut Vec::new()).unwrap();
}

#[test]
fn a_socket_that_a_dead_giusto_left_is_replaced_and_no_other_file_is() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("web");
    drop(UnixListener::bind(&path).unwrap());
    let at = WebAddress::Unix(path.clone());
    let here = web(at.clone(), None);
    assert_eq!(status_of(&asked(UnixStream::connect(&path).unwrap(), "/", "whatever")), "200");
    assert!(
        Web::listen(WebSettings { address: at.clone(), token: None }, Arc::new(Golden::default())).is_err(),
        "it is in use"
    );
    drop(here);
    assert!(!path.exists());
    std::fs::write(&path, "a file").unwrap();
    assert!(Web::listen(WebSettings { address: at, token: None }, Arc::new(Golden::default())).is_err());
    assert_eq!(std::fs::read_to_string(&path).unwrap(), "a file");
}

#[test]
fn addresses_are_told_apart() {
    assert_eq!("/run/x".parse(), Ok(WebAddress::Unix("/run/x".into())));
    assert_eq!("[::1]:9500".parse(), Ok(WebAddress::Tcp("[::1]:9500".parse().unwrap())));
    assert!("9500".parse::<WebAddress>().is_err());
}
