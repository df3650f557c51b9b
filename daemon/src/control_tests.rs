use super::*;
use crate::{Change, Status};
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

#[derive(Default)]
struct Fake {
    stopped: AtomicUsize,
}

impl Host for Fake {
    fn status(&self) -> Status {
        serde_json::from_str(include_str!("../../formats/goldens/status.json")).unwrap()
    }
    fn reload(&self, site: Option<&Path>) -> Result<Change, Refused> {
        match site {
            Some(_) => Ok(Change::default()),
            None => Err(Refused { exit: 1, reason: "does not fit".into() }),
        }
    }
    fn change_mode(&self, _: &crate::Wish) -> Result<Option<crate::ChangeStatus>, Refused> {
        Ok(None)
    }
    fn stop(&self) {
        self.stopped.fetch_add(1, Ordering::Relaxed);
    }
}

struct House {
    folder: tempfile::TempDir,
    host: Arc<Fake>,
    control: Option<Control>,
    _journal: Journal,
}

fn house() -> House {
    let folder = tempfile::tempdir().unwrap();
    fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o700)).unwrap();
    let (journal, _) = Journal::open_in(folder.path()).unwrap();
    let host = Arc::new(Fake::default());
    let control = Control::listen(&journal, host.clone()).unwrap();
    House { folder, host, control: Some(control), _journal: journal }
}

impl House {
    fn connect(&self) -> UnixStream {
        let stream = UnixStream::connect(self.folder.path().join("control")).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        stream
    }

    /// All that is answered to `bytes` until the other side or we hang up.
    fn said(&self, bytes: &[u8]) -> Vec<Answer> {
        let mut stream = self.connect();
        let _ = stream.write_all(bytes); // it may have hung up by then
        let _ = stream.shutdown(std::net::Shutdown::Write);
        let lines = BufReader::new(stream).lines().map_while(Result::ok);
        lines.map(|line| Answer::read(&line).unwrap()).collect()
    }

    fn answers(&self) -> bool {
        let start = Instant::now();
        matches!(self.said(b"{\"do\":\"status\"}\n")[..], [Answer::Status(_)]) && start.elapsed() < PATIENCE / 2
    }
}

#[test]
fn requests_are_answered_in_order_and_errors_say_what_was_expected() {
    let house = house();
    let said = house.said(
        b"{\"giusto\":1,\"do\":\"status\"}\n{\"do\":\"metrics\"}\n{\"do\":\"reload\"}\n{\"do\":\"reload\",\"site\":\"/s\"}\n{\"do\":\"fly\"}\n\n{\"do\":\"stop\"}\n",
    );
    let [Answer::Status(status), Answer::Metrics(metrics), Answer::Error(unfit), Answer::Change(_), Answer::Error(fly), Answer::Error(empty), Answer::Stopping(true)] =
        &said[..]
    else {
        panic!("{said:?}")
    };
    assert_eq!(status.host, "edge-1");
    assert!(metrics.contains("giusto_build_info"));
    assert_eq!((unfit.exit, fly.exit, empty.exit), (1, 2, 2));
    assert!(fly.reason.contains("'fly' cannot be done; expected"), "{fly}");
    assert_eq!(house.host.stopped.load(Ordering::Relaxed), 1);
}

#[test]
fn only_root_names_another_site() {
    let asked = Request::Reload(Some("/etc/other.yaml".into()));
    let refused = answer(asked, false, &Fake::default()).unwrap_err();
    assert!(refused.exit == 3 && refused.reason.contains("root"), "{refused}");
}

#[test]
fn the_socket_is_for_root_and_the_group_and_goes_with_its_owner() {
    let mut house = house();
    let path = house.folder.path().join("control");
    let found = fs::metadata(&path).unwrap();
    assert!(found.file_type().is_socket());
    assert_eq!(found.mode() & 0o777, 0o660);
    house.control = None;
    assert!(!path.exists());
    // What a dead giusto left is replaced: the process that holds the journal is alone.
    drop(UnixListener::bind(&path).unwrap());
    house.control = Some(Control::listen(&house._journal, house.host.clone()).unwrap());
    assert!(house.answers());
}

#[test]
fn a_line_that_never_ends_is_cut_off() {
    let house = house();
    let said = house.said(&[b'x'; 3 * LINE]);
    assert!(matches!(&said[..], [Answer::Error(long)] if long.reason.contains("64 KiB")), "{said:?}");
    let mut longest = vec![b' '; LINE - 1];
    longest[..15].copy_from_slice(b"{\"do\":\"status\"}");
    longest.push(b'\n');
    assert!(matches!(house.said(&longest)[..], [Answer::Status(_)]));
}

#[test]
fn clients_that_say_nothing_or_a_byte_at_a_time_go_after_a_while_and_hold_up_no_other() {
    let house = house();
    let start = Instant::now();
    let mut silent: Vec<UnixStream> = (0..crate::listening::CLIENTS - 1).map(|_| house.connect()).collect();
    let mut slow = silent[0].try_clone().unwrap();
    let dripping = std::thread::spawn(move || {
        while slow.write_all(b" ").is_ok() {
            std::thread::sleep(Duration::from_millis(100));
        }
    });
    // One that asks a lot and never reads.
    let mut deaf = silent[1].try_clone().unwrap();
    let asking = std::thread::spawn(move || while deaf.write_all(b"{\"do\":\"status\"}\n").is_ok() {});
    while !house.answers() {
        assert!(start.elapsed() < PATIENCE, "the last place is free");
    }
    let last = house.connect();
    let refused = house.said(b"{\"do\":\"status\"}\n");
    assert!(matches!(&refused[..], [Answer::Error(full)] if full.reason.contains("too many")), "{refused:?}");
    drop(last);
    let mut told = String::new();
    BufReader::new(&mut silent[2]).read_line(&mut told).unwrap();
    assert!(told.contains("no whole request came for 5 s"), "{told}");
    dripping.join().unwrap();
    asking.join().unwrap();
    let took = start.elapsed();
    assert!(took >= PATIENCE && took < PATIENCE * 4, "{took:?}");
    while !house.answers() {}
}

#[test]
fn random_bytes_never_stall_or_kill_it() {
    let house = house();
    let mut random = 7_u64;
    let mut draw = || {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (random >> 33) as usize
    };
    let template = b"{\"giusto\":1,\"do\":\"reload\",\"site\":\"/a\"}\n{\"do\":\"metrics\"}\n";
    for round in 0..2_000 {
        let mut bytes = template.to_vec();
        match round % 3 {
            0 => bytes = (0..draw() % 200).map(|_| draw() as u8).collect(),
            1 => (0..1 + draw() % 4).for_each(|_| bytes[draw() % template.len()] = draw() as u8),
            _ => bytes.truncate(draw() % template.len()),
        }
        house.said(&bytes);
    }
    assert!(house.answers());
    assert_eq!(house.host.stopped.load(Ordering::Relaxed), 0);
}
