//! Containers of Docker and Podman: their cgroups.
//!
//! Called by `services`. Both engines answer the same request on their sockets.

use crate::http_get::{self, Peer};
use serde::Deserialize;
use std::fs;
use std::path::Path;

/// Digits of an id that name one container.
const SHORT_ID: usize = 12;

/// Where engines listen.
pub(crate) const SOCKETS: [&str; 2] = ["/run/docker.sock", "/run/podman/podman.sock"];

#[derive(Deserialize)]
struct Told {
    #[serde(rename = "Id", default)]
    id: String,
    #[serde(rename = "Name", default)]
    name: String,
    #[serde(rename = "State")]
    state: State,
}

#[derive(Deserialize)]
struct State {
    #[serde(rename = "Pid")]
    pid: u32,
    #[serde(rename = "Status", default)]
    status: String,
}

/// The cgroup of a running container, below the hierarchies' roots: of the first engine at `sockets` that has one of this name
/// or id. Takes some seconds where engines do not answer. Errors say what was expected and what to do.
pub(crate) fn control_group(sockets: &[&str], name: &str) -> Result<String, String> {
    let mut said = Vec::new();
    for socket in sockets.iter().filter(|socket| Path::new(socket).exists()) {
        match pid(Path::new(socket), name) {
            Ok(pid) => return of(pid).map_err(|why| format!("container {name}, process {pid}: {why}")),
            Err(why) => said.push(format!("{socket}: {why}")),
        }
    }
    let said = match said.is_empty() {
        true => format!("no engine listens at {}", sockets.join(" or ")),
        false => said.join("; "),
    };
    Err(format!(
        "there is no container '{name}' to adopt: {said}; expected one that runs: start it with 'docker start {name}' or \
         'podman start {name}' (Podman listens after 'systemctl enable --now podman.socket')"
    ))
}

/// Its first process.
fn pid(socket: &Path, name: &str) -> Result<u32, String> {
    let answer = http_get::get(&Peer::Unix(socket), &format!("/containers/{name}/json"), "application/json")?;
    match answer.code {
        200 => {}
        404 => return Err("it has no such container".into()),
        _ => return Err(format!("it answers '{}'", answer.status)),
    }
    let told: Told =
        serde_json::from_str(&answer.body).map_err(|why| format!("its answer is none of an engine: {why}"))?;
    // Engines take the first digits of an id for a container, too: 'db' may be any whose id begins so.
    let is_it = told.name.trim_start_matches('/') == name || name.len() >= SHORT_ID && told.id.starts_with(name);
    match told.state.pid {
        _ if !is_it => Err(format!("it has no such container, only one whose id begins so: {}", told.name)),
        0 => Err(format!("it does not run, it is '{}'", told.state.status)),
        pid => Ok(pid),
    }
}

/// The cgroup of a process: where it has its processor time.
fn of(pid: u32) -> Result<String, String> {
    let text = fs::read_to_string(format!("/proc/{pid}/cgroup")).map_err(|why| {
        format!("{why}; expected a container in the PID namespace of Giusto: run giusto on the host of the engine")
    })?;
    let path = path(&text).ok_or("it is in the root's cgroup; expected a container with one of its own")?;
    if path.split('/').any(|part| part == "..") || path.ends_with(" (deleted)") {
        return Err(format!(
            "its cgroup is {path}, which is none below the root; run giusto on the host of the engine"
        ));
    }
    match path.split('/').any(|part| part.starts_with("giusto.")) {
        true => Err(format!("another giusto keeps it, in {path}: end that one, or 'giusto restore'")),
        false => Ok(path.to_string()),
    }
}

/// The path in /proc/PID/cgroup: of v1's controller `cpu`, else of systemd's hierarchy, else of v2.
fn path(text: &str) -> Option<&str> {
    let of = |wanted: &str| {
        let line = text
            .lines()
            .map(|line| line.splitn(3, ':').collect::<Vec<_>>())
            .find(|parts| parts.len() == 3 && parts[1].split(',').any(|controller| controller == wanted));
        line.map(|parts| parts[2].trim_start_matches('/')).filter(|path| !path.is_empty())
    };
    ["cpu", "name=systemd", ""].into_iter().find_map(of)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read, Write};
    use std::os::unix::net::UnixListener;

    #[test]
    fn a_process_s_cgroup_is_that_of_its_processor_time() {
        for (text, found) in [
            ("0::/system.slice/docker-ab.scope\n", Some("system.slice/docker-ab.scope")),
            ("4:memory:/m\n2:cpu,cpuacct:/docker/ab\n1:name=systemd:/s\n0::/\n", Some("docker/ab")),
            ("3:cpu:/\n1:name=systemd:/machine.slice/libpod-a:b.scope\n0::/\n", Some("machine.slice/libpod-a:b.scope")),
            ("3:cpu:/\n0::/\n", None),
            ("nonsense", None),
        ] {
            assert_eq!(path(text), found);
        }
    }

    /// Engines as they answer; a real one is in tests/exports_containers.py.
    #[test]
    fn the_first_engine_that_has_it_tells_and_others_are_named() {
        let folder = tempfile::tempdir().unwrap();
        let (one, two) = (folder.path().join("one"), folder.path().join("two"));
        let serve = |path: &Path, answer: String| {
            let listener = UnixListener::bind(path).unwrap();
            std::thread::spawn(move || {
                while let Ok((mut stream, _)) = listener.accept() {
                    let _ = stream.read(&mut [0; 1000]);
                    let _ = stream.write_all(answer.as_bytes());
                }
            });
        };
        serve(&one, "HTTP/1.0 404 Not Found\r\n\r\n{}".into());
        serve(&two, "HTTP/1.0 200 OK\r\n\r\n{\"Name\":\"/search\",\"State\":{\"Pid\":0,\"Status\":\"exited\"}}".into());
        let sockets = [one.to_str().unwrap(), two.to_str().unwrap(), "/no/such"];
        let why = control_group(&sockets, "search").unwrap_err();
        assert!(
            why.contains("no such container") && why.contains("'exited'") && why.contains("docker start search"),
            "{why}"
        );
        let three = folder.path().join("three");
        serve(&three, "HTTP/1.0 200 OK\r\n\r\n{\"Id\":\"db99\",\"Name\":\"/web\",\"State\":{\"Pid\":1}}".into());
        let why = control_group(&[three.to_str().unwrap()], "db").unwrap_err();
        assert!(why.contains("no such container, only one whose id begins so: /web"), "{why}");
        let why = control_group(&["/no/such"], "search").unwrap_err();
        assert!(why.contains("no engine listens at /no/such"), "{why}");
    }
}
