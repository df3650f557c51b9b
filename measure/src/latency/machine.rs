//! What of the kernel and the machine matters to latency.

use crate::Error;
use giusto_model::{Duration, IdleState, LatencyMachine, LatencyRun};
use rustix::mm::{mlockall, munlockall, MlockAllFlags};
use rustix::time::{clock_getres, ClockId};
use std::fs;

/// All memory of this process is locked while it lives, what comes to it too.
pub(super) struct Locked;

impl Locked {
    pub(super) fn all() -> Result<Self, Error> {
        match mlockall(MlockAllFlags::CURRENT | MlockAllFlags::FUTURE) {
            Ok(()) => Ok(Locked),
            Err(_) => Err(Error::NoLock),
        }
    }
}

impl Drop for Locked {
    fn drop(&mut self) {
        // It cannot fail: it needs no privilege, and there is nothing to say.
        let _ = munlockall();
    }
}

/// Looks at the machine; `core` stands for all where each has its own setting.
pub(super) fn look(core: u32) -> LatencyMachine {
    let (kernel, build) = {
        let name = rustix::system::uname();
        (name.release().to_string_lossy().into_owned(), name.version().to_string_lossy().into_owned())
    };
    let cpu = format!("/sys/devices/system/cpu/cpu{core}");
    let resolution = clock_getres(ClockId::MonotonicCoarse).tv_nsec;
    LatencyMachine {
        preemption: preemption(
            &build,
            &text("/proc/cmdline").unwrap_or_default(),
            &debug("sched/preempt").unwrap_or_default(),
        ),
        dynamic: build.contains("PREEMPT_DYNAMIC"),
        kernel,
        // The coarse clock advances at each tick (kernel/time/posix-timers.c, KTIME_LOW_RES).
        hz: u64::try_from(resolution).ok().filter(|ns| *ns > 1).map(|ns| (1_000_000_000 + ns / 2) / ns),
        idle_states: idle_states(&cpu),
        rt_runtime: number("/proc/sys/kernel/sched_rt_runtime_us").map(Duration::from_us),
        rt_period: number("/proc/sys/kernel/sched_rt_period_us").map(Duration::from_us),
        fair_server: debug(&format!("sched/fair_server/cpu{core}/runtime"))
            .and_then(|ns| ns.parse().ok())
            .map(Duration::from_ns),
        isolated: text("/sys/devices/system/cpu/isolated").unwrap_or_default(),
        nohz_full: text("/sys/devices/system/cpu/nohz_full").filter(|list| list != "(null)").unwrap_or_default(),
        clocksource: text("/sys/devices/system/clocksource/clocksource0/current_clocksource"),
        governor: text(&format!("{cpu}/cpufreq/scaling_governor")),
        virtualised: text("/proc/cpuinfo").is_some_and(|all| virtualised(&all))
            || text("/sys/hypervisor/type").is_some(),
        timer_slack: number("/proc/self/timerslack_ns").map(Duration::from_ns),
        locked: true,
    }
}

fn text(path: &str) -> Option<String> {
    fs::read_to_string(path).ok().map(|text| text.trim().to_string())
}

fn number(path: &str) -> Option<u64> {
    text(path)?.parse().ok()
}

fn debug(name: &str) -> Option<String> {
    text(&format!("/sys/kernel/debug/{name}"))
}

fn idle_states(cpu: &str) -> Vec<IdleState> {
    let state = |nth: usize| {
        let of = |what: &str| text(&format!("{cpu}/cpuidle/state{nth}/{what}"));
        Some(IdleState { name: of("name")?, exit: Duration::from_us(of("latency")?.parse().ok()?) })
    };
    (0..).map_while(state).collect()
}

/// From the text of the kernel's build, its command line, and `sched/preempt` of debugfs, in which the mode is in parentheses.
fn preemption(build: &str, cmdline: &str, debug: &str) -> Option<String> {
    if build.contains("PREEMPT_RT") {
        return Some("rt".into());
    }
    let now = debug.split_once('(').and_then(|(_, rest)| rest.split_once(')')).map(|(mode, _)| mode);
    let asked = cmdline.split(' ').filter_map(|word| word.strip_prefix("preempt=")).next_back();
    let known = |mode: &&str| ["none", "voluntary", "full", "lazy"].contains(mode);
    let mode = now.filter(known).or(asked.filter(known)).map(String::from);
    let fixed = || match build.contains("PREEMPT_DYNAMIC") {
        // Chosen at build time, and stated in no place that every user may read.
        true => None,
        false if build.contains("PREEMPT_LAZY") => Some("lazy".into()),
        false if build.contains("PREEMPT") => Some("full".into()),
        false => None,
    };
    mode.or_else(fixed).or_else(|| built(&config()?))
}

/// The configuration that the kernel was built with.
fn config() -> Option<String> {
    let release = rustix::system::uname().release().to_string_lossy().into_owned();
    text(&format!("/boot/config-{release}")).or_else(|| {
        let read = std::process::Command::new("gzip").args(["-dc", "/proc/config.gz"]).output().ok()?;
        read.status.success().then(|| String::from_utf8_lossy(&read.stdout).into_owned())
    })
}

fn built(config: &str) -> Option<String> {
    let has = |name: &str| config.lines().any(|line| line.strip_suffix("=y") == Some(name));
    let modes = [
        ("PREEMPT_RT", "rt"),
        ("PREEMPT_LAZY", "lazy"),
        ("PREEMPT", "full"),
        ("PREEMPT_VOLUNTARY", "voluntary"),
        ("PREEMPT_NONE", "none"),
    ];
    modes.into_iter().find(|(name, _)| has(&format!("CONFIG_{name}"))).map(|(_, mode)| mode.into())
}

/// The processor tells a guest that it is one.
fn virtualised(cpuinfo: &str) -> bool {
    let flags = cpuinfo.lines().filter(|line| line.starts_with("flags"));
    flags.flat_map(str::split_ascii_whitespace).any(|flag| flag == "hypervisor")
}

/// What of L could be told apart, and what not.
pub(super) fn split(runs: &[LatencyRun]) -> String {
    let tracers = ["/sys/kernel/tracing/available_tracers", "/sys/kernel/debug/tracing/available_tracers"];
    let tracers = tracers.into_iter().find_map(text).unwrap_or_default();
    let timerlat = tracers.split_ascii_whitespace().any(|tracer| tracer == "timerlat");
    let more = match timerlat {
        true => "this kernel can tell the interrupt, too: rtla timerlat top -k -c CORES",
        false => "for the interrupt by itself the kernel needs CONFIG_TIMERLAT_TRACER and tracefs (rtla timerlat)",
    };
    match runs.iter().any(|run| run.until_ready.is_some()) {
        true => format!(
            "until_ready is the timer with its interrupt (L1, and sections with interrupts off); until_run is what cannot be preempted (L2) \
             and threads of a higher priority (I), which at priority 99 are SCHED_DEADLINE and the kernel's stopper threads \
             only; {more}"
        ),
        false => format!("L is not split: the kernel keeps no books of waiting (CONFIG_SCHED_INFO); {more}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_preemption_mode_is_the_one_in_force() {
        let of = |build: &str, cmdline: &str, debug: &str| preemption(build, cmdline, debug);
        assert_eq!(of("#1 SMP PREEMPT_RT Debian", "preempt=none", "").as_deref(), Some("rt"));
        assert_eq!(
            of("#1 SMP PREEMPT_DYNAMIC", "a preempt=full b", "none (voluntary) full").as_deref(),
            Some("voluntary")
        );
        assert_eq!(of("#1 SMP PREEMPT_DYNAMIC", "a preempt=none preempt=full", "").as_deref(), Some("full"));
        assert_eq!(of("#1 SMP PREEMPT", "", "").as_deref(), Some("full"));
        assert_eq!(
            built("# CONFIG_PREEMPT is not set\nCONFIG_PREEMPT_NONE=y\nCONFIG_PREEMPT_DYNAMIC=y\n").as_deref(),
            Some("none")
        );
        assert_eq!(built("CONFIG_PREEMPT_RT=y\nCONFIG_PREEMPT=y\n").as_deref(), Some("rt"));
        assert_eq!(built("CONFIG_HZ=250\n"), None);
    }

    #[test]
    fn a_guest_is_told_by_its_flag_alone() {
        assert!(
            virtualised("model name : hypervisor-less\nflags : fpu hypervisor sse\n")
                && !virtualised("flags : fpu\nbugs : hypervisor\n")
        );
    }
}
