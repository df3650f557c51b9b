//! A guest that measures itself while its host does.

use crate::Error;
use giusto_model::{Guest, Latency, LATENCY_VERSION};
use std::io::{self, Read};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

/// Between two looks at whether it has ended.
const LOOK: Duration = Duration::from_millis(50);

/// A command that runs `giusto measure latency --json` in a guest, and hands over what that prints. Killed when dropped.
#[derive(Debug)]
pub struct GuestCommand {
    command: String,
    child: Child,
    printed: Option<JoinHandle<io::Result<String>>>,
}

impl GuestCommand {
    /// Starts it in a shell; what it says on standard error is shown.
    ///
    /// # Errors
    /// Those of starting a process.
    pub fn start(command: &str) -> Result<Self, Error> {
        let mut shell = Command::new("sh");
        shell.args(["-c", command]).stdin(Stdio::null()).stdout(Stdio::piped());
        let mut child = shell.spawn().map_err(|why| Error::system("start the guest's command", why))?;
        let output = child.stdout.take();
        let read = move || {
            let mut bytes = Vec::new();
            output.map_or(Ok(0), |mut output| output.read_to_end(&mut bytes))?;
            Ok(String::from_utf8_lossy(&bytes).into_owned())
        };
        Ok(GuestCommand { command: command.into(), child, printed: Some(thread::spawn(read)) })
    }

    /// Waits until it has ended, or `stop` is set.
    ///
    /// # Errors
    /// It failed (but for exit 6: what it measured is void, and says so), or what it printed is no measurement.
    pub fn finish(mut self, stop: &AtomicBool) -> Result<Guest, Error> {
        let status = loop {
            match self.child.try_wait().map_err(|why| Error::system("wait for the guest's command", why))? {
                Some(status) => break status,
                None if stop.load(Ordering::Relaxed) => {
                    return Err(self.broken("it was interrupted before it had ended"))
                }
                None => thread::sleep(LOOK),
            }
        };
        let printed = self.printed.take().and_then(|reader| reader.join().ok());
        let text = printed
            .unwrap_or(Ok(String::new()))
            .map_err(|why| Error::system("read what the guest's command prints", why))?;
        if !matches!(status.code(), Some(0 | 6)) {
            return Err(self.broken(&format!("it ended with {status}")));
        }
        let latency = measurement(&text).map_err(|why| self.broken(&why))?;
        Ok(Guest { command: self.command.clone(), latency })
    }

    fn broken(&self, why: &str) -> Error {
        Error::Guest { command: self.command.clone(), why: why.into() }
    }
}

impl Drop for GuestCommand {
    fn drop(&mut self) {
        // It may have ended; no other thread waits for it, so its number is still its own.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The measurement in what was printed: a console may say something before and after it.
fn measurement(text: &str) -> Result<Latency, String> {
    let expected = "expected what 'giusto measure latency --json' prints";
    let json = text.find('{').zip(text.rfind('}')).filter(|(from, to)| from < to);
    let (from, to) = json.ok_or_else(|| format!("it printed no JSON; {expected}"))?;
    let latency: Latency = serde_json::from_str(&text[from..=to]).map_err(|why| format!("{expected}: {why}"))?;
    match latency.giusto_latency {
        LATENCY_VERSION => Ok(latency),
        other => {
            Err(format!("it printed version {other}, expected {LATENCY_VERSION}: use the same giusto in the guest"))
        }
    }
}
