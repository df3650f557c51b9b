//! `giusto status --watch`: the status anew every second, in the alternate screen of a terminal, else as blocks of lines.
//!
//! The terminal is given back as it was however this ends: q, Ctrl-C, a signal, a failure, a panic.

use crate::failure::Failure;
use crate::running::look;
use crate::status::lines;
use crate::table::print;
use rustix::event::{poll, PollFd, PollFlags, Timespec};
use rustix::stdio::{stdin, stdout};
use rustix::termios::{isatty, tcgetattr, tcgetwinsize, tcsetattr, OptionalActions, Termios};
use std::io::Write;
use std::process::ExitCode;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

/// Alternate screen without cursor and line wrap, and back.
const ENTER: &str = "\x1b[?1049h\x1b[?25l\x1b[?7l";
const LEAVE: &str = "\x1b[?7h\x1b[?25h\x1b[?1049l";

/// Until q, or the end of what is written to.
pub(crate) fn watch() -> Result<ExitCode, Failure> {
    let signals = giusto_daemon::Signals::mind(false);
    let dumb = std::env::var_os("TERM").is_none_or(|term| term == "dumb");
    let first = look()?;
    if dumb || !isatty(stdin()) || !isatty(stdout()) {
        let mut status = first;
        loop {
            print(&(lines(&status).join("\n") + "\n\n"))?;
            std::thread::sleep(Duration::from_secs(1));
            if signals.stopped() {
                return Ok(ExitCode::SUCCESS);
            }
            status = look()?;
        }
    }
    let _screen = Screen::enter().map_err(|error| Failure::running(format!("cannot use the terminal: {error}")))?;
    let mut shown = lines(&first);
    loop {
        print(&frame(&shown, size()))?;
        if signals.stopped() || quit() {
            return Ok(ExitCode::SUCCESS);
        }
        // One that is started again is seen again.
        shown = look().map_or_else(|failure| vec![format!("warning: {failure}")], |status| lines(&status));
    }
}

/// Columns and lines.
fn size() -> (usize, usize) {
    match tcgetwinsize(stdout()) {
        Ok(size) if size.ws_col > 0 && size.ws_row > 0 => (size.ws_col.into(), size.ws_row.into()),
        _ => (80, 24),
    }
}

/// What is on the screen after it: as much of `shown` as there is room for.
fn frame(shown: &[String], (columns, rows): (usize, usize)) -> String {
    let mut frame = String::from("\x1b[H");
    let lines = shown.iter().flat_map(|line| fitting(line, columns));
    for line in lines.take(rows.saturating_sub(1)) {
        frame += &format!("{line}\x1b[K\r\n");
    }
    frame + &fitting("q: quit", columns).concat() + "\x1b[K\x1b[J"
}

/// Rows of tables are cut off on the right, sentences go on in the next line.
fn fitting(line: &str, columns: usize) -> Vec<String> {
    let printed: Vec<char> = line.chars().filter(|c| !c.is_control()).collect();
    let sentence = line.starts_with("warning: ") || line.starts_with("note: ");
    let parts = printed.chunks(columns).map(|part| part.iter().collect());
    match printed.is_empty() {
        true => vec![String::new()],
        false => parts.take(if sentence { usize::MAX } else { 1 }).collect(),
    }
}

/// Waits a second; true if the user wants to quit.
fn quit() -> bool {
    let second = Timespec { tv_sec: 1, tv_nsec: 0 };
    match poll(&mut [PollFd::new(&stdin(), PollFlags::IN)], Some(&second)) {
        Ok(1..) => {
            let mut keys = [0; 64];
            match rustix::io::read(stdin(), &mut keys) {
                Ok(0) | Err(_) => true, // the terminal is gone
                Ok(length) => keys[..length].iter().any(|key| matches!(key, b'q' | b'Q' | 3 | 4)),
            }
        }
        _ => false, // a second, or a signal
    }
}

/// How the terminal was.
static BEFORE: Mutex<Option<Termios>> = Mutex::new(None);

struct Screen;

impl Screen {
    fn enter() -> rustix::io::Result<Screen> {
        let before = tcgetattr(stdin())?;
        *BEFORE.lock().unwrap_or_else(PoisonError::into_inner) = Some(before.clone());
        let screen = Screen;
        let said = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |panic| {
            leave(); // or what it says would go with the alternate screen
            said(panic);
        }));
        let mut raw = before;
        raw.make_raw();
        tcsetattr(stdin(), OptionalActions::Now, &raw)?;
        show(ENTER);
        Ok(screen)
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        leave();
    }
}

/// Gives the terminal back, once.
fn leave() {
    if let Some(before) = BEFORE.lock().unwrap_or_else(PoisonError::into_inner).take() {
        show(LEAVE);
        let _ = tcsetattr(stdin(), OptionalActions::Now, &before);
    }
}

fn show(text: &str) {
    let mut out = std::io::stdout().lock();
    let _ = out.write_all(text.as_bytes()).and_then(|()| out.flush());
}

#[cfg(test)]
mod tests {
    use super::frame;

    #[test]
    fn a_frame_is_never_larger_than_the_terminal_and_cleans_what_was_there() {
        let shown = ["a service: \x1b[31m█████", "second", "third"].map(String::from);
        assert_eq!(frame(&shown, (12, 3)), "\x1b[Ha service: [\x1b[K\r\nsecond\x1b[K\r\nq: quit\x1b[K\x1b[J");
        assert_eq!(frame(&["warning: ab".into()], (10, 9)), "\x1b[Hwarning: a\x1b[K\r\nb\x1b[K\r\nq: quit\x1b[K\x1b[J");
        assert_eq!(frame(&shown, (1, 1)), "\x1b[Hq\x1b[K\x1b[J");
        assert_eq!(frame(&[], (80, 24)), "\x1b[Hq: quit\x1b[K\x1b[J");
    }
}
