//! Virtual machines that run already: the process of a VM, and the thread of each of its vCPUs.
//!
//! Called by `services`. Both are looked for anew at each call: vCPUs come and go (hot-plug), and a VM that was started
//! again is another process. QEMU says it over QMP; where libvirt keeps that socket to itself, its status file says it.

mod libvirt;
mod qmp;
mod told;

use giusto_compute::sched::{self, Thread};
use std::path::{Path, PathBuf};
use told::Told;

/// How to ask for a VM.
#[derive(Debug)]
pub(crate) enum Vm {
    /// QEMU's QMP socket.
    Qmp(PathBuf),
    /// libvirt's name for it.
    Libvirt(String),
}

impl Vm {
    /// Its process. Errors say what was expected and what to do.
    pub(crate) fn process(&self) -> Result<Thread, String> {
        let pid = match self {
            Vm::Qmp(path) => qmp::server(path)?,
            Vm::Libvirt(name) => libvirt::read(Path::new(libvirt::FOLDER), name)?.pid,
        };
        Thread::of(pid).ok_or_else(|| format!("its process {pid} has ended"))
    }

    /// Its process, and the threads of its vCPUs in the order of the vCPUs' numbers; at least one, all different. Takes up
    /// to 2 s where QMP does not answer. Errors say what was expected and what to do.
    pub(crate) fn vcpus(&self) -> Result<(Thread, Vec<Thread>), String> {
        match self {
            Vm::Qmp(path) => checked(qmp::ask(path)?, &format!("QMP at {}", path.display())),
            Vm::Libvirt(name) => checked(libvirt::read(Path::new(libvirt::FOLDER), name)?, "libvirt"),
        }
    }
}

/// Whether the threads are there and this process's: ids that a VM reports may be old, or of another PID namespace.
fn checked(Told { pid, mut vcpus }: Told, teller: &str) -> Result<(Thread, Vec<Thread>), String> {
    vcpus.sort_unstable();
    let process = Thread::of(pid).ok_or_else(|| format!("its process {pid}, which {teller} names, has ended"))?;
    let threads = sched::threads(pid);
    let mut found: Vec<Thread> = Vec::new();
    for (number, tid) in vcpus {
        if found.iter().any(|thread| thread.tid == tid) {
            return Err(format!(
                "all its vCPUs are thread {tid}, and Giusto schedules threads; expected a thread for each: start QEMU with \
                 -accel kvm or -accel tcg,thread=multi"
            ));
        }
        let thread = Some(tid).filter(|tid| threads.contains(tid)).and_then(Thread::of).ok_or_else(|| {
            format!(
                "{teller} says that vCPU {number} is thread {tid}, but process {pid} has no such thread; expected a QEMU in \
                 the PID namespace of Giusto (a container's is another) that made its QMP socket itself (for libvirt's VMs \
                 write adopt: {{libvirt: NAME}})"
            )
        })?;
        found.push(thread);
    }
    if found.is_empty() {
        return Err(format!(
            "{teller} tells no thread of any vCPU; expected one for each: start QEMU with -accel kvm or -accel \
             tcg,thread=multi, and wait until it has made its vCPUs"
        ));
    }
    Ok((process, found))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn own_threads(then: impl FnOnce(u32, u32)) {
        let (told, tid) = std::sync::mpsc::channel();
        let (_keep, ended) = std::sync::mpsc::channel::<()>();
        std::thread::spawn(move || {
            // SAFETY: no arguments, cannot fail.
            told.send(unsafe { libc::gettid() } as u32).unwrap();
            let _ = ended.recv();
        });
        // SAFETY: as above.
        then(unsafe { libc::gettid() } as u32, tid.recv().unwrap());
    }

    #[test]
    fn vcpus_come_in_the_order_of_their_numbers() {
        own_threads(|one, other| {
            let pid = std::process::id();
            let (process, vcpus) = checked(Told { pid, vcpus: vec![(10, one), (2, other)] }, "QMP").unwrap();
            assert_eq!(
                (Some(process), vcpus),
                (Thread::of(pid), [other, one].map(|tid| Thread::of(tid).unwrap()).to_vec())
            );
        });
    }

    #[test]
    fn threads_that_are_not_the_vm_s_are_refused() {
        let mut child = std::process::Command::new("sleep").arg("60").spawn().unwrap();
        let pid = std::process::id();
        let refused = |pid, vcpus: &[(u32, u32)]| checked(Told { pid, vcpus: vcpus.to_vec() }, "QMP").unwrap_err();
        own_threads(|one, _| {
            assert!(refused(pid, &[(0, child.id())]).contains("no such thread"));
            assert!(refused(pid, &[(0, one), (1, one)]).contains("thread=multi"));
            assert!(refused(pid, &[]).contains("no thread of any vCPU"));
        });
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(refused(child.id(), &[]).contains("has ended"));
    }
}
