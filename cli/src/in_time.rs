//! `giusto analyze`: an answer in time, or why there is none.

use crate::args::{Analyze, AnalyzeArgs};
use crate::failure::Failure;
use crate::tell::tell;
use giusto_model::Duration;
use std::process::ExitCode;
use std::sync::mpsc::{channel, RecvTimeoutError};
use std::thread;
use std::time;

/// After this time it says what it does.
const SILENT: time::Duration = time::Duration::from_secs(2);
/// Longest time to compute when none is given.
const LONGEST: Duration = Duration::from_secs(30);
/// Of the thread that computes: as much as the first one has.
const STACK: usize = 8 << 20;

/// Computes on a thread of its own, and gives up when the time is over: what still computes ends with the process.
pub(crate) fn in_time(args: AnalyzeArgs) -> Result<ExitCode, Failure> {
    let AnalyzeArgs { what, most } = args;
    let longest = most.unwrap_or(LONGEST);
    let (doing, change) = doing(&what);
    let (to, from) = channel();
    let compute = move || {
        // The receiver is only gone where the time is over.
        let _ = to.send(calculate(&what, most));
    };
    thread::Builder::new().stack_size(STACK).spawn(compute).map_err(Failure::running)?;
    let whole = time::Duration::from_nanos(longest.ns());
    let mut answer = from.recv_timeout(SILENT.min(whole));
    if matches!(answer, Err(RecvTimeoutError::Timeout)) && whole > SILENT {
        tell(format_args!("giusto: {doing}, for {longest} at most (--for)"));
        answer = from.recv_timeout(whole - SILENT);
    }
    match answer {
        Ok(answer) => answer,
        Err(RecvTimeoutError::Timeout) => {
            Err(Failure::cannot_tell(format!("no answer within {longest}; expected {change}, or more time with --for")))
        }
        Err(RecvTimeoutError::Disconnected) => Err(Failure::running("the computation broke off")),
    }
}

fn calculate(what: &Analyze, most: Option<Duration>) -> Result<ExitCode, Failure> {
    match what {
        Analyze::Share(args) => crate::analyze::share(args),
        Analyze::Interface(args) => match (&args.carts, &args.given) {
            (Some(path), _) => crate::carts::interfaces(path, args),
            (None, Some(resource)) => crate::given::given(args, resource),
            (None, None) => crate::interface::interface(args, most),
        },
        Analyze::Admission(args) => crate::admission::admission(args),
        Analyze::Criticality(args) => crate::criticality::criticality(args),
        Analyze::Plane(args) => crate::plane::plane(args),
        Analyze::Response(args) => crate::response::response(args, most),
        Analyze::Path(args) => crate::path::path(args),
        Analyze::Packets(args) => crate::packets::bounds(args),
        Analyze::Slo(args) => crate::response::slo(args),
        Analyze::Map(args) => crate::map::map(args),
        Analyze::Bucket(args) => crate::bucket::bucket(args),
        Analyze::Trace(args) => crate::bucket::trace(args),
        Analyze::Recovery(args) => crate::coordination::recovery(args),
    }
}

/// What it does, and what makes it shorter.
fn doing(what: &Analyze) -> (&'static str, &'static str) {
    const ROUND: &str = "periods rounded down to a common step, such as 1ms";
    match what {
        Analyze::Share(_) => ("looking at the jobs of a hyperperiod", ROUND),
        Analyze::Interface(_) => (
            "comparing demand and supply of many periods",
            "a coarser --quantum, a --period, or periods rounded down to a common step",
        ),
        Analyze::Admission(_) => ("comparing window by window what is asked for", ROUND),
        Analyze::Criticality(_) => ("looking for cores and scaling factors", "fewer virtual machines"),
        Analyze::Plane(_) => {
            ("looking for the corners of the curve", "a larger --from, or periods rounded down to a common step")
        }
        Analyze::Response(_) => {
            ("solving the queue in finer and finer slots", "times with a longer common divisor, or --slots N")
        }
        Analyze::Path(_) => {
            ("looking for the best part of the time for each stage", "fewer stages, or service times of fewer values")
        }
        Analyze::Packets(_) => ("adding up what is ahead of each flow", "fewer flows"),
        Analyze::Slo(_) => ("looking for the least budget of each period", "one --period, or a coarser --quantum"),
        Analyze::Map(_) => ("solving the queue for each share", "fewer --steps, or shorter periods"),
        Analyze::Bucket(_) => ("solving the queue of the bucket", "a smaller --depth"),
        Analyze::Trace(_) => ("looking for the least buckets", "a shorter recording"),
        Analyze::Recovery(_) => ("adding up the phases", "fewer servers"),
    }
}
