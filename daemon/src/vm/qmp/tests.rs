//! Against servers of our own that speak as QEMU 7.2 does (the lines are recorded), or as no server should.

use super::*;
use std::io::{BufRead, BufReader};
use std::os::unix::net::UnixListener;
use std::thread::JoinHandle;

const GREETING: &str = r#"{"QMP": {"version": {"qemu": {"micro": 22, "minor": 2, "major": 7}, "package": "Debian 1:7.2+dfsg-7+deb12u18+b3"}, "capabilities": ["oob"]}}"#;
const EVENT: &str = r#"{"timestamp": {"seconds": 1795258562, "microseconds": 284318}, "event": "RTC_CHANGE", "data": {"offset": 0, "qom-path": "/machine/unattached/device[7]"}}"#;
const READY: &str = r#"{"return": {}, "id": "qmp_capabilities"}"#;
const VCPUS: &str = r#"{"return": [{"thread-id": 4716, "props": {"core-id": 0, "thread-id": 0, "socket-id": 0}, "qom-path": "/machine/unattached/device[0]", "cpu-index": 0, "target": "x86_64"}, {"thread-id": 4717, "props": {"core-id": 0, "thread-id": 0, "socket-id": 1}, "qom-path": "/machine/unattached/device[2]", "cpu-index": 1, "target": "x86_64"}], "id": "query-cpus-fast"}"#;

/// Serves one client: `says[0]` at once, each next one after a command.
fn serve(listener: UnixListener, says: Vec<String>) -> JoinHandle<Vec<String>> {
    std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let mut commands = BufReader::new(stream.try_clone().unwrap()).lines();
        let mut heard = Vec::new();
        for (index, text) in says.iter().enumerate() {
            if index > 0 {
                heard.extend(commands.next().and_then(Result::ok));
            }
            for part in text.as_bytes().chunks(50) {
                let _ = stream.write_all(part); // in pieces, as they may come
            }
        }
        heard
    })
}

fn answer(says: &[&[&str]]) -> (Result<Told, String>, Vec<String>) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("qmp");
    let says = says.iter().map(|lines| lines.iter().map(|line| format!("{line}\r\n")).collect()).collect();
    let server = serve(UnixListener::bind(&path).unwrap(), says);
    let told = ask(&path);
    (told, server.join().unwrap())
}

#[test]
fn vcpus_are_told_with_events_in_between() {
    let (told, heard) = answer(&[&[GREETING], &[EVENT, READY], &[EVENT, EVENT, VCPUS]]);
    assert_eq!(told, Ok(Told { pid: std::process::id(), vcpus: vec![(0, 4716), (1, 4717)] }));
    let commands: Vec<Value> = heard.iter().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(commands[0]["execute"], "qmp_capabilities");
    assert_eq!(commands[1]["execute"], "query-cpus-fast");
}

#[test]
fn who_does_not_speak_qmp_is_quoted() {
    let unmade = r#"{"id": "query-cpus-fast", "error": {"class": "GenericError", "desc": "The command 'query-cpus-fast' is not permitted before machine initialization"}}"#;
    let cases: [(&[&[&str]], &str); 6] = [
        (&[&["QEMU 7.2.22 monitor - type 'help' for more information"]], "'QEMU 7.2.22 monitor"),
        (&[&["{}"]], "expected a QMP greeting"),
        (&[&[GREETING], &["what?"]], "'what?'; expected JSON"),
        (&[&[GREETING], &[READY], &[unmade]], "before machine initialization"),
        (&[&[GREETING], &[READY], &[r#"{"return": [{"cpu-index": 0}], "id": "query-cpus-fast"}"#]], "a list of vCPUs"),
        (&[&[GREETING], &[READY]], "hung up"),
    ];
    for (says, expected) in cases {
        let error = answer(says).0.unwrap_err();
        assert!(error.contains(expected), "{error}");
    }
    let error = answer(&[&[&"x".repeat(LONGEST_LINE + 9000)]]).0.unwrap_err();
    assert!(error.contains("at most 1 MiB") && error.len() < 300, "{error}");
}

#[test]
fn a_socket_that_serves_another_client_is_an_error_after_two_seconds() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("qmp");
    // As QEMU: one client may wait while another one is served; a third one cannot even connect.
    let socket = net::socket_with(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::CLOEXEC, None).unwrap();
    net::bind(&socket, &SocketAddrUnix::new(&path).unwrap()).unwrap();
    net::listen(&socket, 0).unwrap();
    assert_eq!(server(&path), Ok(std::process::id()), "the process is told all the same");
    let listener = UnixListener::from(socket);
    listener.accept().unwrap();
    let started = Instant::now();
    let waiting = std::thread::scope(|scope| {
        let waiting = scope.spawn(|| ask(&path));
        std::thread::sleep(Duration::from_millis(50));
        let full = scope.spawn(|| ask(&path));
        [waiting.join().unwrap(), full.join().unwrap()]
    });
    assert!(started.elapsed() >= PATIENCE);
    for told in waiting {
        let error = told.unwrap_err();
        assert!(error.contains("one client at a time") && error.contains(&*path.to_string_lossy()), "{error}");
    }
}

#[test]
fn a_vm_that_was_started_again_is_found_again() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("qmp");
    assert!(ask(&path).unwrap_err().contains("there is no"));
    for _ in 0..2 {
        let lines = [GREETING, READY, VCPUS].map(|line| format!("{line}\n")).to_vec();
        let server = serve(UnixListener::bind(&path).unwrap(), lines);
        assert_eq!(ask(&path).unwrap().vcpus.len(), 2);
        server.join().unwrap();
        assert!(ask(&path).unwrap_err().contains("no process serves"), "the socket's file stays");
        std::fs::remove_file(&path).unwrap();
    }
    std::fs::write(&path, "").unwrap();
    assert!(ask(&path).unwrap_err().contains("no socket"));
}
