//! A probe in a process of its own, to be put under a server before it starts: what a bench needs.

use super::{SupplyPlan, SupplyReport};
use crate::Error;
use giusto_model::Duration;
use std::io::{self, Read, Write};
use std::path::Path;
use std::process::{Child, Command, Stdio};

/// Waits for a line, then becomes the probe: same process, hence same cgroup, affinity and policy.
const GATE: &str = r#"read -r _ && exec "$0" "$@""#;

/// `giusto measure supply`, waiting or running. Killed when dropped.
#[derive(Debug)]
pub struct SupplyProcess(Child);

impl SupplyProcess {
    /// Makes the process, which waits for [`SupplyProcess::go`]. `giusto` is the program; `windows` is where the supply of
    /// each window goes, as CSV.
    ///
    /// # Errors
    /// A plan that cannot be measured; those of starting a process.
    pub fn new(giusto: &Path, plan: &SupplyPlan, windows: Option<&Path>) -> Result<Self, Error> {
        plan.check()?;
        let exact = |time: Duration| format!("{}ns", time.ns());
        let mut command = Command::new("sh");
        command.args(["-c", GATE]).arg(giusto).args(["measure", "supply", "--json"]);
        for (flag, time) in [("--for", plan.length), ("--window", plan.window), ("--at", plan.phase)] {
            command.args([flag, &exact(time)]);
        }
        if let Some(core) = plan.core {
            command.args(["--core", &core.to_string()]);
        }
        if let Some(ask) = plan.ask {
            command.args(["--ask", &format!("{}/{}", exact(ask.budget), exact(ask.period))]);
        }
        if let Some(windows) = windows {
            command.arg("--windows").arg(windows);
        }
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command.spawn().map(SupplyProcess).map_err(|why| failed(giusto, why))
    }

    /// Its id, the same before and after it starts to measure.
    pub fn pid(&self) -> u32 {
        self.0.id()
    }

    /// Lets it measure.
    ///
    /// # Errors
    /// It has ended.
    pub fn go(&mut self) -> Result<(), Error> {
        let told = self.0.stdin.take().map(|mut gate| gate.write_all(b"\n"));
        told.unwrap_or(Ok(())).map_err(|why| failed(Path::new("the probe"), why))
    }

    /// Waits for its report.
    ///
    /// # Errors
    /// It failed, with its own words; what it printed is no report.
    pub fn finish(mut self) -> Result<SupplyReport, Error> {
        let ended = |why| failed(Path::new("the probe"), why);
        let (mut text, mut complaint) = (String::new(), String::new());
        // Its complaint is a line or two, so that it never blocks while its report is read.
        self.0.stdout.take().map_or(Ok(0), |mut out| out.read_to_string(&mut text)).map_err(ended)?;
        self.0.stderr.take().map_or(Ok(0), |mut err| err.read_to_string(&mut complaint)).map_err(ended)?;
        if !self.0.wait().map_err(ended)?.success() {
            return Err(ended(io::Error::other(complaint.trim())));
        }
        serde_json::from_str(&text).map_err(|why| ended(why.into()))
    }
}

impl Drop for SupplyProcess {
    fn drop(&mut self) {
        // It may have ended; no other thread waits for it, so its number is still its own.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn failed(who: &Path, why: io::Error) -> Error {
    Error::System { what: format!("measure the supply with {}", who.display()), why }
}

#[cfg(test)]
mod tests {
    use super::super::Resource;
    use super::*;
    use std::fs;
    use std::os::unix::fs::PermissionsExt;

    /// A program that prints its words to a file and then does as told.
    fn program(folder: &Path, then: &str) -> std::path::PathBuf {
        let path = folder.join("giusto");
        fs::write(&path, format!("#!/bin/sh\necho $$ \"$@\" > {}\n{then}\n", folder.join("words").display())).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        path
    }

    fn plan() -> SupplyPlan {
        let ms = Duration::from_ms;
        let ask = Some(Resource { budget: ms(3), period: ms(10) });
        SupplyPlan { length: ms(100), window: ms(10), phase: Duration::from_ns(7), core: Some(1), ask }
    }

    #[test]
    fn a_probe_waits_keeps_its_id_and_hands_over_its_report() {
        let folder = tempfile::tempdir().unwrap();
        let golden = concat!(env!("CARGO_MANIFEST_DIR"), "/../formats/goldens/supply.json");
        let program = program(folder.path(), &format!("cat {golden}"));
        let mut probe = SupplyProcess::new(&program, &plan(), Some(Path::new("w.csv"))).unwrap();
        let pid = probe.pid();
        assert!(!folder.path().join("words").exists(), "it waits");
        probe.go().unwrap();
        let report = probe.finish().unwrap();
        assert_eq!(report, serde_json::from_str(&fs::read_to_string(golden).unwrap()).unwrap());
        let words = fs::read_to_string(folder.path().join("words")).unwrap();
        let expected = "measure supply --json --for 100000000ns --window 10000000ns --at 7ns --core 1 --ask 3000000ns/10000000ns --windows w.csv";
        assert_eq!(words.trim(), format!("{pid} {expected}"));
    }

    #[test]
    fn a_probe_that_fails_is_told_in_its_own_words() {
        let folder = tempfile::tempdir().unwrap();
        for (then, word) in [("echo no such core >&2; exit 2", "no such core"), ("echo {}", "missing field")] {
            let mut probe = SupplyProcess::new(&program(folder.path(), then), &plan(), None).unwrap();
            probe.go().unwrap();
            let text = probe.finish().unwrap_err().to_string();
            assert!(text.contains(word), "{text}");
        }
    }
}
