//! One line of a trace of the scheduler.
//!
//! Who runs while an event is recorded stands first in a line, in a form of its own in each tool; nothing of that is needed. What
//! follows is alike: `[processor]`, flags, a time in seconds, the event's name, and its fields as `name=value` (`perf script`, the
//! tracing file system) or short, `name:number [priority]` (`trace-cmd report`). A thread's name may hold any character, so
//! fields are looked for from the right, where none is free.

use giusto_model::Instant;

/// What a line says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Line<'a> {
    Event(Event<'a>),
    /// Events of this processor are missing since its last one; of all of them, where it is not said of which.
    Lost(Option<u32>),
    /// The oldest events of each processor are missing: the recorder wrote over them.
    Overwritten,
    /// Nothing that matters.
    Other,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Event<'a> {
    pub(crate) at: Instant,
    pub(crate) cpu: u32,
    pub(crate) what: What<'a>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum What<'a> {
    Wakeup(Thread<'a>),
    Switch {
        prev: Thread<'a>,
        /// Whether it stops of its own accord: in any state but R.
        sleeps: bool,
        next: Thread<'a>,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Thread<'a> {
    pub(crate) tid: u32,
    pub(crate) name: &'a str,
}

/// Reads a line, without its end. The error: an event that matters has not the fields of one. O(length).
pub(crate) fn line(text: &str) -> Result<Line<'_>, String> {
    let Some((cpu, at, name, fields)) = head(text) else {
        let lost = text.contains("PERF_RECORD_LOST")
            || text.contains("[LOST ") && text.contains(" EVENTS]")
            || text.contains("EVENTS DROPPED]");
        return Ok(match overwritten(text) {
            true => Line::Overwritten,
            false if lost => Line::Lost(processor(text)),
            false => Line::Other,
        });
    };
    let what = match name.strip_prefix("sched:").unwrap_or(name) {
        "sched_switch" => switch(fields),
        "sched_wakeup" | "sched_wakeup_new" => wakeup(fields),
        _ => return Ok(Line::Other),
    };
    match what {
        Some(what) => Ok(Line::Event(Event { at, cpu, what })),
        None => Err(format!("'{}' is not what {name} says", fields.trim())),
    }
}

/// `# entries-in-buffer/entries-written: 20/35   #P:2`, where fewer are there than were written.
fn overwritten(text: &str) -> bool {
    let numbers = text.strip_prefix("# entries-in-buffer/entries-written:").and_then(|rest| Words(rest).next());
    let pair = numbers.and_then(|numbers| numbers.split_once('/'));
    let pair = pair.and_then(|(there, written)| Some((there.parse::<u64>().ok()?, written.parse::<u64>().ok()?)));
    pair.is_some_and(|(there, written)| there < written)
}

/// `CPU:1 ...`, or `[001]` somewhere.
fn processor(text: &str) -> Option<u32> {
    if let Some(rest) = text.trim_start().strip_prefix("CPU:") {
        return number(rest.split(' ').next()?);
    }
    text.split('[').skip(1).find_map(|rest| number(rest.split_once(']')?.0).filter(|_| !rest.starts_with(']')))
}

/// Processor, time, name of the event and the rest.
fn head(text: &str) -> Option<(u32, Instant, &str, &str)> {
    // The first bracket that is followed by all the rest: a thread's name may have some too.
    text.match_indices('[').find_map(|(open, _)| {
        let (cpu, rest) = text[open + 1..].split_once(']')?;
        let cpu = number(cpu)?;
        let mut words = Words(rest);
        let mut word = words.next()?;
        if !word.ends_with(':') {
            word = words.next()?; // flags
        }
        let at = time(word.strip_suffix(':')?)?;
        let name = words.next()?.strip_suffix(':')?;
        Some((cpu, at, name, words.0))
    })
}

/// Words of a text, and what is left of it.
struct Words<'a>(&'a str);

impl<'a> Words<'a> {
    fn next(&mut self) -> Option<&'a str> {
        let text = self.0.trim_start();
        let end = text.find(char::is_whitespace).unwrap_or(text.len());
        self.0 = &text[end..];
        Some(&text[..end]).filter(|word| !word.is_empty())
    }
}

/// Digits only: no sign, no blank.
fn number(text: &str) -> Option<u32> {
    Some(text).filter(|text| text.bytes().all(|b| b.is_ascii_digit()))?.parse().ok()
}

/// Seconds with up to nine decimals; more are cut off.
fn time(text: &str) -> Option<Instant> {
    let (seconds, fraction) = text.split_once('.')?;
    let digits = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    if !digits(seconds) || !digits(fraction) {
        return None;
    }
    let ns: u64 = format!("{:0<9}", &fraction[..fraction.len().min(9)]).parse().ok()?;
    seconds.parse::<u64>().ok()?.checked_mul(1_000_000_000)?.checked_add(ns).map(Instant::from_ns)
}

fn switch(fields: &str) -> Option<What<'_>> {
    let (prev, state, next) = match fields.rfind(" ==> next_comm=") {
        Some(arrow) => {
            let (left, right) = (&fields[..arrow], &fields[arrow + " ==> ".len()..]);
            let state = left.rsplit_once(" prev_state=")?.1;
            (named(left, "prev_comm=", " prev_pid=")?, state, named(right, "next_comm=", " next_pid=")?)
        }
        None => {
            let (left, right) = fields.rsplit_once(" ==> ")?;
            let (left, state) = left.rsplit_once(' ')?;
            (short(left)?, state, short(right)?)
        }
    };
    let known = state.starts_with(|c: char| c.is_ascii_alphabetic());
    known.then_some(What::Switch { prev, sleeps: !state.starts_with('R'), next })
}

fn wakeup(fields: &str) -> Option<What<'_>> {
    named(fields, "comm=", " pid=").or_else(|| short(fields)).map(What::Wakeup)
}

/// `comm=NAME pid=NUMBER ...`
fn named<'a>(text: &'a str, comm: &str, pid: &str) -> Option<Thread<'a>> {
    let text = text.trim_start().strip_prefix(comm)?;
    let at = text.rfind(pid)?;
    let tid = text[at + pid.len()..].split(' ').next()?;
    Some(Thread { tid: number(tid).filter(|_| !tid.is_empty())?, name: &text[..at] })
}

/// `NAME:NUMBER [PRIORITY] ...`
fn short(text: &str) -> Option<Thread<'_>> {
    let text = text.trim_start();
    let before = &text[..text.rfind(" [")?];
    let (name, tid) = before.rsplit_once(':')?;
    Some(Thread { tid: number(tid).filter(|_| !tid.is_empty())?, name })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(text: &str) -> Event<'_> {
        match line(text) {
            Ok(Line::Event(event)) => event,
            other => panic!("{text}: {other:?}"),
        }
    }

    #[test]
    fn the_same_events_as_each_tool_prints_them() {
        // Forms: perf-script(1), trace-cmd-report(1), Documentation/trace/ftrace.rst.
        let wakeups = [
            "          <idle>-0       [001] dNh4.  2976.304618: sched_wakeup: comm=my task pid=77 prio=120 target_cpu=001",
            "         swapper     0 [001]  2976.304618: sched:sched_wakeup: comm=my task pid=77 prio=120 target_cpu=001",
            "          <idle>-0     [001]  2976.304618: sched_wakeup:         my task:77 [120] success=1 CPU:001",
            "          <idle>-0     [001]  2976.304618: sched_wakeup:         my task:77 [120]<CANT FIND FIELD success> CPU:001",
            "  a [0] b-12 (   12) [001] ..... 2976.304618000: sched_wakeup_new: comm=my task pid=77 prio=120 success=1 target_cpu=001",
        ];
        for text in wakeups {
            let thread = Thread { tid: 77, name: "my task" };
            let wanted = Event { at: Instant::from_ns(2_976_304_618_000), cpu: 1, what: What::Wakeup(thread) };
            assert_eq!(event(text), wanted, "{text}");
        }
        for (state, sleeps) in
            [("S", true), ("R", false), ("R+", false), ("D", true), ("X", true), ("S|K", true), ("I", true)]
        {
            let (prev, next) = (Thread { tid: 77, name: "my task" }, Thread { tid: 0, name: "swapper/0" });
            for text in [
                format!("my task-77 [000] d..2.  5.000001: sched_switch: prev_comm=my task prev_pid=77 prev_prio=120 prev_state={state} ==> next_comm=swapper/0 next_pid=0 next_prio=120"),
                format!("my task    77 [000]     5.000001: sched:sched_switch: prev_comm=my task prev_pid=77 prev_prio=120 prev_state={state} ==> next_comm=swapper/0 next_pid=0 next_prio=120"),
                format!("my task-77    [000]     5.000001: sched_switch:         my task:77 [120] {state} ==> swapper/0:0 [120]"),
            ] {
                let wanted = Event { at: Instant::from_ns(5_000_001_000), cpu: 0, what: What::Switch { prev, sleeps, next } };
                assert_eq!(event(&text), wanted, "{text}");
            }
        }
    }

    #[test]
    fn names_may_look_like_anything() {
        for name in ["a pid=1 b", "x ==> y", "[3] 1.5: z:", "=:= [9]", "", " "] {
            let text = format!("{name}-5 [002] 1.5: sched_switch: prev_comm={name} prev_pid=5 prev_prio=1 prev_state=R ==> next_comm={name} next_pid=6 next_prio=1");
            let (prev, next) = (Thread { tid: 5, name }, Thread { tid: 6, name });
            assert_eq!(event(&text).what, What::Switch { prev, sleeps: false, next }, "{text}");
        }
    }

    #[test]
    fn losses_are_seen_other_lines_pass_and_broken_events_are_named() {
        for text in ["CPU:1 [LOST 12 EVENTS]", "CPU:1 [EVENTS DROPPED]", "perf 12 [001] 1.5: PERF_RECORD_LOST lost 12"]
        {
            assert_eq!(line(text), Ok(Line::Lost(Some(1))), "{text}");
        }
        assert_eq!(line("# entries-in-buffer/entries-written: 20/35   #P:2"), Ok(Line::Overwritten));
        assert_eq!(line("# entries-in-buffer/entries-written: 35/35   #P:2"), Ok(Line::Other));
        for text in [
            "",
            "# tracer: nop",
            "cpus=4",
            "x-1 [000] 1.5: sched_waking: comm=x pid=1",
            "    ffffffff81 __schedule+0x1",
        ] {
            assert_eq!(line(text), Ok(Line::Other), "{text}");
        }
        for text in [
            "x-1 [000] 1.5: sched_wakeup: comm=x pid=",
            "x-1 [000] 1.5: sched_switch: prev_comm=x prev_pid=1 prev_prio=1 prev_state=",
        ] {
            assert!(line(text).is_err(), "{text}");
        }
    }
}
