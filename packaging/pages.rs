//! Writes what a package needs besides the program: man pages and shell completions, from the command line's definition.
//!
//! An example of the crate `cli`, so that it has that crate's dependencies and no user sees a verb for it. Called by
//! `packaging/install.sh`. Flows in: a folder; out: `*.1`, `giusto.bash`, `_giusto`, `giusto.fish` there. Pages take their
//! examples and exit codes from the help texts: nothing stands here twice.

#[allow(dead_code, unused_imports)] // only the definition is used here, never what was parsed
#[path = "../cli/src/args.rs"]
mod args;

use clap::{Command, CommandFactory};
use clap_complete::{generate_to, Shell};
use clap_mangen::roff::{bold, roman, Roff};
use clap_mangen::Man;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

const FILES: &[(&str, &str)] = &[
    ("/etc/giusto/site.yaml", "the site that giusto.service runs; not there before you write it"),
    ("/run/giusto/journal", "what giusto restore would undo, for root only; another folder with $GIUSTO_STATE"),
    ("/run/giusto/control", "socket of the giusto that runs, for root and the group giusto"),
    ("/var/lib/giusto/out", "plan and logs of giusto.service"),
    ("/usr/share/doc/giusto/examples", "sites to begin with"),
    ("/usr/share/doc/giusto/formats/site.md", "all keys of a site file"),
];

fn main() -> io::Result<()> {
    let folder = std::env::args_os().nth(1).map(PathBuf::from);
    let folder = folder.ok_or_else(|| io::Error::other("expected a folder for man pages and completions"))?;
    for shell in [Shell::Bash, Shell::Zsh, Shell::Fish] {
        generate_to(shell, &mut args::Cli::command(), "giusto", &folder)?;
    }
    let mut root = args::Cli::command().disable_help_subcommand(true);
    root.build();
    pages(&root, &root, &folder)
}

fn pages(command: &Command, root: &Command, folder: &Path) -> io::Result<()> {
    command.get_subcommands().try_for_each(|below| pages(below, root, folder))?;
    let version = format!("giusto {}", root.get_version().unwrap_or_default());
    let man = Man::new(command.clone()).source(version).manual("Giusto");
    let mut page = Vec::new();
    man.render_title(&mut page)?;
    man.render_name_section(&mut page)?;
    man.render_synopsis_section(&mut page)?;
    man.render_description_section(&mut page)?;
    man.render_options_section(&mut page)?;
    if command.has_subcommands() {
        man.render_subcommands_section(&mut page)?;
    }
    let mut roff = Roff::new();
    examples(command, &mut roff)?;
    exit_status(root, &mut roff)?;
    roff.control("SH", ["FILES"]);
    FILES.iter().for_each(|(path, what)| listed(path, what, &mut roff));
    roff.control("SH", ["SEE ALSO"]);
    roff.text([roman("giusto(1), sched(7), chrt(1), cgroups(7), systemd.service(5)")]);
    roff.to_writer(&mut page)?;
    std::fs::File::create(folder.join(man.get_filename()))?.write_all(&page)
}

/// Of the help text, the commands (indented) and what introduces them.
fn examples(command: &Command, roff: &mut Roff) -> io::Result<()> {
    let help = help(command);
    if !help.contains("\n  ") {
        return Err(io::Error::other(format!("'{}' has no example in its help", command.get_name())));
    }
    roff.control("SH", ["EXAMPLES"]);
    for paragraph in help.split("\n\n").filter(|paragraph| !paragraph.starts_with(EXIT_CODES)) {
        for line in paragraph.lines().filter(|line| *line != "Example:") {
            match line.strip_prefix("  ") {
                Some(example) => {
                    roff.control("PP", []).control("RS", ["4"]).control("nf", []);
                    roff.text([roman(
                        example
                            .replace("sites/", "/usr/share/doc/giusto/examples/")
                            .replace("formats/", "/usr/share/doc/giusto/formats/"),
                    )]);
                    roff.control("fi", []).control("RE", []);
                }
                None => _ = roff.control("PP", []).text([roman(line)]),
            }
        }
    }
    Ok(())
}

/// Its own text after the options, or those of the commands below it.
fn help(command: &Command) -> String {
    match command.get_after_help() {
        Some(help) => help.to_string(),
        None => command.get_subcommands().map(help).collect::<Vec<_>>().join("\n"),
    }
}

const EXIT_CODES: &str = "Exit codes: ";

fn exit_status(root: &Command, roff: &mut Roff) -> io::Result<()> {
    let help = help(root).replace('\n', " ");
    let codes = help.split_once(EXIT_CODES).and_then(|(_, rest)| rest.split_once('.'));
    let (codes, _) = codes.ok_or_else(|| io::Error::other(format!("the help has no '{EXIT_CODES}'")))?;
    roff.control("SH", ["EXIT STATUS"]);
    for code in codes.split(',') {
        let (number, meaning) = code.trim().split_once(' ').ok_or_else(|| io::Error::other(code.to_string()))?;
        listed(number, meaning, roff);
    }
    Ok(())
}

fn listed(term: &str, what: &str, roff: &mut Roff) {
    roff.control("TP", []).text([bold(term)]).text([roman(what)]);
}
