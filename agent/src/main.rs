//! `giusto-agent FILE`: the agent alone, small enough for any virtual machine. `giusto agent` is the same.

use std::path::Path;
use std::process::ExitCode;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let code = match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["--help" | "-h"] | [] => {
            println!("giusto-agent FILE        switch the tasks of this machine as the host's manager says\ngiusto-agent FILE MODE   ask the host for another mode\n\nThe file: formats/agent.md");
            return ExitCode::from(if arguments.is_empty() { 2 } else { 0 });
        }
        [file] => giusto_agent::serve(Path::new(file), None),
        [file, mode] => giusto_agent::serve(Path::new(file), Some(mode)),
        _ => return usage(),
    };
    code.unwrap_or_else(|error| {
        eprintln!("giusto-agent: {error}");
        ExitCode::from(error.exit_code())
    })
}

fn usage() -> ExitCode {
    eprintln!("giusto-agent: expected one file and at most one mode; see giusto-agent --help");
    ExitCode::from(2)
}
