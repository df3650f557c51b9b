//! Prints the process of a virtual machine that runs, and the thread of each of its vCPUs:
//!
//! ```text
//! vcpus qmp /run/vm.sock
//! vcpus libvirt flight-1
//! ```

use giusto_daemon::Running;
use giusto_model::{Adopt, Origin};
use std::path::Path;
use std::process::ExitCode;

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let adopt = match words.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["qmp", path] => Adopt::Qmp(path.into()),
        ["libvirt", name] => Adopt::Libvirt(name.into()),
        _ => {
            eprintln!("expected: vcpus qmp PATH, or vcpus libvirt NAME");
            return ExitCode::from(2);
        }
    };
    let found =
        Running::begin("vm", &Origin::Adopt(adopt), &Default::default(), &[], Path::new("/nonexistent"), &mut |_| {
            Ok(())
        })
        .and_then(|vm| Ok((vm.processes(), vm.vcpus()?)));
    match found {
        Ok((processes, vcpus)) => {
            processes.iter().for_each(|pid| println!("process {pid}"));
            vcpus.iter().for_each(|tid| println!("vcpu {tid}"));
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("{error}");
            ExitCode::from(4)
        }
    }
}
