//! Signals that a running giusto minds.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

/// What has been sent.
#[derive(Debug, Default)]
pub struct Signals {
    /// SIGINT, SIGTERM, SIGQUIT, and SIGHUP from a terminal that closes: an orderly end.
    pub stop: AtomicBool,
    reload: AtomicBool,
    /// Whether SIGHUP means to reload.
    hangup_reloads: AtomicBool,
}

static SIGNALS: Signals =
    Signals { stop: AtomicBool::new(false), reload: AtomicBool::new(false), hangup_reloads: AtomicBool::new(false) };

impl Signals {
    /// Minds them from now on. SIGHUP asks a `daemon` that has no terminal to read its site again, as daemons are used to;
    /// it asks any other process to stop. Where it is ignored (nohup) it stays so.
    pub fn mind(daemon: bool) -> &'static Signals {
        SIGNALS.hangup_reloads.store(daemon && std::fs::File::open("/dev/tty").is_err(), Relaxed);
        extern "C" fn handler(signal: libc::c_int) {
            match signal == libc::SIGHUP && SIGNALS.hangup_reloads.load(Relaxed) {
                true => SIGNALS.reload.store(true, Relaxed),
                false => SIGNALS.stop.store(true, Relaxed),
            }
        }
        for signal in [libc::SIGINT, libc::SIGTERM, libc::SIGHUP, libc::SIGQUIT] {
            // SAFETY: the handler only stores to atomics.
            unsafe {
                let before = libc::signal(signal, handler as *const () as libc::sighandler_t);
                if signal == libc::SIGHUP && before == libc::SIG_IGN {
                    libc::signal(signal, libc::SIG_IGN);
                }
            }
        }
        &SIGNALS
    }

    /// Whether an orderly end was asked for.
    pub fn stopped(&self) -> bool {
        self.stop.load(Relaxed)
    }

    /// Whether to reload; says so once.
    pub(crate) fn reload(&self) -> bool {
        self.reload.swap(false, Relaxed)
    }
}
