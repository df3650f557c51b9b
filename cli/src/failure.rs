//! What went wrong, and the exit code that says so.

use std::io::ErrorKind::PermissionDenied;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// What to do about a missing privilege.
const AS_ROOT: &str = "run it as root: sudo giusto ...";

/// A text for people and an exit code for scripts (DESIGN, "Errors").
#[derive(Debug)]
pub(crate) struct Failure {
    code: u8,
    text: String,
    /// What the planner refused, for `--json`.
    refused: Option<Box<giusto_planner::Refused>>,
}

impl Failure {
    fn new(code: u8, text: impl ToString) -> Self {
        Failure { code, text: text.to_string(), refused: None }
    }
    /// What the planner refused, if that is what went wrong.
    pub(crate) fn refused_plan(&self) -> Option<&giusto_planner::Refused> {
        self.refused.as_deref()
    }
    /// The code of a machine that lacks something.
    pub(crate) const LACKS: u8 = 3;
    /// 1: a demand that cannot fit.
    pub(crate) fn does_not_fit(text: impl ToString) -> Self {
        Failure::new(1, text)
    }
    /// 2: bad input.
    pub(crate) fn input(text: impl ToString) -> Self {
        Failure::new(2, text)
    }
    /// 3: the machine lacks something.
    pub(crate) fn lacks(text: impl ToString) -> Self {
        Failure::new(Failure::LACKS, text)
    }
    /// 4: failed while running.
    pub(crate) fn running(text: impl ToString) -> Self {
        Failure::new(4, text)
    }
    /// 6: what was measured says nothing.
    pub(crate) fn cannot_tell(text: impl ToString) -> Self {
        Failure::new(giusto_verify::Verdict::CannotTell.exit_code(), text)
    }
    /// 0: the reader wants no more output.
    pub(crate) fn quiet() -> Self {
        Failure::new(0, String::new())
    }
    /// The code that another process chose: what the running giusto refused.
    pub(crate) fn refused(refused: giusto_daemon::Refused) -> Self {
        Failure::new(refused.exit, refused.reason)
    }
    /// For the process that asked the running giusto.
    pub(crate) fn into_refused(self) -> giusto_daemon::Refused {
        giusto_daemon::Refused { exit: self.code, reason: self.text }
    }
    /// Says the text as an event, so that it is in the log's form; [`Failure::report`] is silent then.
    pub(crate) fn logged(self) -> Self {
        if !self.text.is_empty() {
            tracing::error!(exit = self.code, "{}", self.text);
        }
        Failure { text: String::new(), ..self }
    }
    /// The same, about `what`.
    pub(crate) fn about(self, what: &str) -> Self {
        Failure { text: format!("{what}: {}", self.text), ..self }
    }
    /// Prints the text and gives the exit code.
    pub(crate) fn report(self) -> ExitCode {
        if !self.text.is_empty() {
            crate::tell::tell(format_args!("giusto: {}", self.text));
        }
        ExitCode::from(self.code)
    }
}

impl std::fmt::Display for Failure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.text)
    }
}

impl From<giusto_site::SiteError> for Failure {
    fn from(error: giusto_site::SiteError) -> Self {
        Failure::input(error)
    }
}

impl From<giusto_planner::Refusal> for Failure {
    fn from(refusal: giusto_planner::Refusal) -> Self {
        Failure::placed(refusal, None)
    }
}

impl Failure {
    /// The refusal of a site that was read from `file`, with the places of what is to be changed in it.
    pub(crate) fn of_site(mut refusal: giusto_planner::Refusal, file: &Path) -> Self {
        let Ok(text) = giusto_site::text(file) else { return Failure::from(refusal) };
        let find = |keys: &[&str]| {
            let (line, column) = giusto_site::place(&text, keys)?;
            Some(giusto_planner::Place { line, column })
        };
        let Some(place) = refusal.locate(&find) else { return Failure::from(refusal) };
        let failure = Failure::placed(refusal, Some(place));
        // As the site's reader shows it.
        let own = std::env::current_dir().ok();
        let file = own.and_then(|own| file.strip_prefix(own).ok()).unwrap_or(file).display();
        let text = format!("{file}:{}:{}: {}", place.line, place.column, failure.text);
        Failure { text, ..failure }
    }

    fn placed(refusal: giusto_planner::Refusal, place: Option<giusto_planner::Place>) -> Self {
        let failure = Failure::planner(refusal.clone());
        let refused = Some(Box::new(giusto_planner::Refused::new(&refusal, place, failure.code)));
        Failure { refused, ..failure }
    }

    fn planner(refusal: giusto_planner::Refusal) -> Self {
        use giusto_planner::Refusal::{
            Apart, Asked, DoesNotFit, Host, Late, Latency, Machine, Modes, NoRecovery, Nowhere, On, Packets, Path,
            Recovery, Tasks, Topic, Unmeasured,
        };
        match refusal {
            Path(ref inner) if inner.is_input() => Failure::input(refusal),
            DoesNotFit(_) | Recovery(_) | Apart { .. } | Topic(_) | Path(_) | Packets(_) | Modes(_) => {
                Failure::does_not_fit(refusal)
            }
            Machine { .. } => Failure::lacks(refusal),
            Asked { .. }
            | Tasks { .. }
            | Unmeasured { .. }
            | Nowhere { .. }
            | Host { .. }
            | NoRecovery(_)
            | Latency { .. } => Failure::input(refusal),
            Late { refusal: ref inner, .. } => {
                let text = refusal.to_string();
                Failure { text, ..Failure::from(inner.as_ref().clone()) }
            }
            On { host, refusal } => {
                let inner = Failure::from(*refusal);
                Failure { text: format!("on {host}: {inner}"), ..inner }
            }
        }
    }
}

impl From<giusto_planner::Error> for Failure {
    fn from(error: giusto_planner::Error) -> Self {
        match error {
            giusto_planner::Error::Io { what: "write", .. } => Failure::running(error),
            giusto_planner::Error::Void { .. } => Failure::cannot_tell(error),
            _ => Failure::input(error),
        }
    }
}

impl From<giusto_daemon::Error> for Failure {
    fn from(error: giusto_daemon::Error) -> Self {
        use giusto_daemon::Error::{Compute, Io, Lacks, Measure, Network, NothingToTry, Unsteady};
        match error {
            Lacks { .. } => Failure::lacks(error),
            Io { ref source, .. } if source.kind() == PermissionDenied => Failure::lacks(format!("{error}; {AS_ROOT}")),
            Compute(error) => error.into(),
            Network(ref network) if network.is_lack() => Failure::lacks(error),
            Network(giusto_network::Error::Plan { .. }) => Failure::input(error),
            Network(giusto_network::Error::Journal(ref why)) if why.kind() == PermissionDenied => {
                Failure::lacks(format!("{error}; {AS_ROOT}"))
            }
            Measure(error) => error.into(),
            NothingToTry => Failure::input(error),
            Unsteady { .. } => Failure::cannot_tell(error),
            _ => Failure::running(error),
        }
    }
}

impl From<giusto_compute::Error> for Failure {
    fn from(error: giusto_compute::Error) -> Self {
        use giusto_compute::Error::{CoreTaken, Journal, Lacks, NoCore};
        match error {
            NoCore { .. } | CoreTaken { .. } | Lacks(_) => Failure::lacks(error),
            Journal(ref why) if why.kind() == PermissionDenied => Failure::lacks(format!("{error}; {AS_ROOT}")),
            _ => Failure::running(error),
        }
    }
}

impl From<giusto_measure::Error> for Failure {
    fn from(error: giusto_measure::Error) -> Self {
        use giusto_measure::Error::{
            Connect, Listener, NoLock, NoPriority, NotListening, Plan, Privilege, Quiet, Root, Task,
        };
        match error {
            Connect { .. }
            | Listener { .. }
            | NotListening { .. }
            | Privilege { .. }
            | Root { .. }
            | NoPriority { .. }
            | NoLock => Failure::lacks(error),
            Plan(_) | Task { .. } => Failure::input(error),
            Quiet { .. } => Failure::cannot_tell(error),
            _ => Failure::running(error),
        }
    }
}

impl From<giusto_simulator::Error> for Failure {
    fn from(error: giusto_simulator::Error) -> Self {
        match error {
            giusto_simulator::Error::Write(_) => Failure::running(error),
            _ => Failure::input(error),
        }
    }
}

/// Refuses `outputs` of which one is another or one of the `inputs`, by whatever path: it would be lost before it is
/// read, or after
/// it was written. Each has the flag that names it. Devices and pipes may be named twice.
pub(crate) fn apart(outputs: &[(&str, Option<&Path>)], inputs: &[&Path]) -> Result<(), Failure> {
    let mut taken: Vec<(PathBuf, &str)> = inputs.iter().map(|input| (place(input), "is read")).collect();
    for (flag, output) in outputs {
        let Some(output) = output else { continue };
        let own = place(output);
        if own.exists() && !own.is_file() && !own.is_dir() {
            continue;
        }
        if let Some((_, why)) = taken.iter().find(|(other, _)| *other == own) {
            return Err(Failure::input(format!(
                "{flag} {} {why} by the same command too; expected another path",
                output.display()
            )));
        }
        taken.push((own, "is written"));
    }
    Ok(())
}

/// The path without links and dots, as far as it is there.
fn place(path: &Path) -> PathBuf {
    path.canonicalize().unwrap_or_else(|_| match (path.parent(), path.file_name()) {
        (Some(folder), Some(name)) if folder.as_os_str().is_empty() => place(Path::new(".")).join(name),
        (Some(folder), Some(name)) => place(folder).join(name),
        _ => path.into(),
    })
}

/// Opens a file for writing, making its folder.
pub(crate) fn create(path: &Path) -> Result<std::io::BufWriter<std::fs::File>, Failure> {
    let cannot = |error| Failure::running(format!("cannot write {}: {error}", path.display()));
    if let Some(folder) = path.parent().filter(|folder| !folder.as_os_str().is_empty()) {
        std::fs::create_dir_all(folder).map_err(cannot)?;
    }
    std::fs::File::create(path).map(std::io::BufWriter::new).map_err(cannot)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io;

    #[test]
    fn an_output_is_neither_an_input_nor_another_output_by_whatever_path() {
        let folder = std::env::temp_dir().join(format!("giusto-apart-{}", std::process::id()));
        std::fs::create_dir_all(folder.join("real")).unwrap();
        let [input, link] = ["real/jobs.csv", "link"].map(|name| folder.join(name));
        std::fs::write(&input, "").unwrap();
        std::os::unix::fs::symlink(folder.join("real"), &link).unwrap();
        let refused = |outputs: &[&Path]| {
            let outputs: Vec<(&str, Option<&Path>)> = outputs.iter().map(|path| ("--out", Some(*path))).collect();
            apart(&outputs, &[&input]).is_err_and(|failure| failure.code == 2 && failure.text.contains("--out"))
        };
        assert!(refused(&[&link.join("jobs.csv")]) && refused(&[&folder.join("real/../real/./jobs.csv")]));
        let [new, same] = ["real/new/page", "link/new/page"].map(|name| folder.join(name));
        assert!(refused(&[&new, &same]) && !refused(&[&new]) && !refused(&[&new, &folder.join("page")]));
        assert!(!refused(&[Path::new("/dev/null"), Path::new("/dev/null")]));
        assert!(apart(&[("--out", None), ("--profile", None)], &[]).is_ok());
        std::fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    fn what_the_machine_lacks_is_3_and_what_broke_is_4() {
        let denied = || io::Error::from(PermissionDenied);
        let address = ([127, 0, 0, 1], 7001).into();
        let enforcing = |error: giusto_compute::Error| Failure::from(giusto_daemon::Error::from(error)).code;
        let measuring = |error: giusto_measure::Error| Failure::from(giusto_daemon::Error::from(error)).code;
        let (cpuset, why) = ("/other".into(), giusto_compute::Keeps::OnlyCores);
        assert_eq!(enforcing(giusto_compute::Error::CoreTaken { core: 1, cpuset, tasks: 3, why }), 3);
        assert_eq!(enforcing(giusto_compute::Error::NoCore { core: 9, online: vec![0] }), 3);
        assert_eq!(enforcing(giusto_compute::Error::Journal(denied())), 3);
        assert_eq!(enforcing(giusto_compute::Error::Journal(io::Error::other("full"))), 4);
        assert_eq!(enforcing(giusto_compute::Error::NoThread), 4);
        assert_eq!(measuring(giusto_measure::Error::Connect { address, why: io::Error::other("refused") }), 3);
        assert_eq!(measuring(giusto_measure::Error::Privilege { what: "set a priority".into() }), 3);
        assert_eq!(measuring(giusto_measure::Error::Plan("no time".into())), 2);
        assert_eq!(measuring(giusto_measure::Error::Closed { address, client: 0 }), 4);
        let packets = |error: giusto_network::Error| Failure::from(giusto_daemon::Error::from(error)).code;
        assert_eq!(packets(giusto_network::Error::NoDevice("vnet3".into())), 3);
        assert_eq!(packets(giusto_network::Error::Privilege { doing: "mount sysfs".into() }), 3);
        assert_eq!(packets(giusto_network::Error::NoPeer("vnet3".into())), 3);
        assert_eq!(packets(giusto_network::Error::Plan { name: "vnet3".into(), what: "no token".into() }), 2);
        assert_eq!(
            packets(giusto_network::Error::Kernel { doing: "add clsact".into(), source: io::Error::other("no") }),
            4
        );
        assert_eq!(packets(giusto_network::Error::Journal(denied())), 3);
        let state = Failure::from(giusto_daemon::Error::Io { doing: "open the journal".into(), source: denied() });
        assert!(state.code == 3 && state.text.contains("as root"), "{state:?}");
        assert_eq!(Failure::from(giusto_simulator::Error::Write("full".into())).code, 4);
        assert_eq!(Failure::from(giusto_simulator::Error::Horizon).code, 2);
    }
}
