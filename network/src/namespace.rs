//! A network namespace: what asks and changes things in it, without being in it.
//!
//! Sockets and a mount of sysfs belong to the namespace in which they were made, so a thread enters it once, makes them, and ends.
//! They keep the namespace, and with it a container's end of a veth pair, from vanishing: hold them for one piece of work only.

use crate::features::Offloads;
use crate::genl::Napis;
use crate::route::{Asking, Seen};
use crate::{Error, Link};
use rustix::fs::{Mode, OFlags};
use rustix::mount::{fsconfig_create, fsmount, fsopen, FsMountFlags, FsOpenFlags, MountAttrFlags};
use rustix::thread::{move_into_link_name_space, LinkNameSpaceType};
use std::cell::OnceCell;
use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;

/// Namespaces that one knows by an id, looked for once in a piece of work: that takes a look at every process. Held no longer than it.
#[derive(Default)]
pub(crate) struct Neighbours(OnceCell<Vec<(i32, File)>>);

/// A network namespace, open.
pub(crate) struct Namespace {
    /// Of all namespaces since the machine started only this one has it (SO_NETNS_COOKIE).
    pub(crate) cookie: u64,
    pub(crate) route: Asking,
    pub(crate) napis: Option<Napis>,
    pub(crate) offloads: Offloads,
    sysfs: OwnedFd,
}

impl Namespace {
    /// That of the calling thread.
    pub(crate) fn here() -> Result<Namespace, Error> {
        let doing = || "look into a network namespace";
        let route = Asking::route().map_err(|source| Error::kernel(doing(), source))?;
        let cookie = cookie(&route)?;
        let napis = Napis::new().map_err(|source| Error::kernel("ask for the kernel's family netdev", source))?;
        let offloads = Offloads::new().map_err(|source| Error::kernel("open a socket for ethtool", source))?;
        let sysfs = sysfs().map_err(|source| Error::kernel("mount sysfs for a network namespace", source))?;
        Ok(Namespace { cookie, route, napis, offloads, sysfs })
    }

    fn of(file: &File) -> Result<Namespace, Error> {
        let enter = || {
            move_into_link_name_space(file.as_fd(), Some(LinkNameSpaceType::Network))
                .map_err(|source| Error::kernel("enter a network namespace", source.into()))?;
            Namespace::here()
        };
        std::thread::scope(|scope| scope.spawn(enter).join()).unwrap_or_else(|_| {
            Err(Error::kernel("enter a network namespace", io::Error::other("its thread broke down")))
        })
    }

    /// The one that this one knows by `id`; `None`: it cannot be found.
    pub(crate) fn known_as(&self, id: i32, neighbours: &Neighbours) -> Result<Option<Namespace>, Error> {
        if neighbours.0.get().is_none() {
            let named = |file: File| match self.route.id_of(file.as_raw_fd()) {
                Ok(id) => Ok(id.map(|id| (id, file))),
                Err(source) => Err(Error::kernel("ask for the id of a network namespace", source)),
            };
            let all: Result<Vec<_>, Error> =
                candidates().into_iter().filter_map(|file| named(file).transpose()).collect();
            let _ = neighbours.0.set(all?);
        }
        let known = neighbours.0.get().into_iter().flatten().find(|(known, _)| *known == id);
        known.map(|(_, file)| Namespace::of(file)).transpose()
    }

    /// The one that has this cookie; `None`: it has gone. Errors: one was looked at in vain.
    pub(crate) fn with_cookie(wanted: u64) -> Result<Option<Namespace>, Error> {
        let here = Namespace::here()?;
        if here.cookie == wanted {
            return Ok(Some(here));
        }
        let mut in_vain = None;
        for file in candidates() {
            match Namespace::of(&file) {
                Ok(namespace) if namespace.cookie == wanted => return Ok(Some(namespace)),
                Ok(_) => {}
                Err(error) => in_vain = Some(error),
            }
        }
        in_vain.map_or(Ok(None), Err)
    }

    /// What stands in a file of an interface, such as `threaded`. Errors: NotFound, also where the interface is another one now.
    pub(crate) fn read(&self, link: &Link, file: &str) -> io::Result<String> {
        self.same(link)?;
        self.text(&link.name, file)
    }

    /// Writes to a file of an interface.
    pub(crate) fn write(&self, link: &Link, file: &str, value: &str) -> io::Result<()> {
        self.same(link)?;
        let path = format!("class/net/{}/{file}", link.name);
        let opened = rustix::fs::openat(&self.sysfs, path, OFlags::WRONLY | OFlags::CLOEXEC, Mode::empty())?;
        File::from(opened).write_all(value.as_bytes())
    }

    /// How many queues receive.
    pub(crate) fn receive_queues(&self, link: &Link) -> io::Result<Vec<String>> {
        self.same(link)?;
        let path = format!("class/net/{}/queues", link.name);
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let folder = rustix::fs::openat(&self.sysfs, path, flags, Mode::empty())?;
        let names = rustix::fs::Dir::read_from(folder)?
            .filter_map(|entry| entry.ok()?.file_name().to_str().ok().map(String::from))
            .filter(|name| name.starts_with("rx-"));
        Ok(names.collect())
    }

    fn same(&self, link: &Link) -> io::Result<()> {
        let index = self.text(&link.name, "ifindex")?;
        (index == link.index.to_string()).then_some(()).ok_or_else(|| io::ErrorKind::NotFound.into())
    }

    fn text(&self, name: &str, file: &str) -> io::Result<String> {
        let path = format!("class/net/{name}/{file}");
        let opened = rustix::fs::openat(&self.sysfs, path, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())?;
        let mut text = String::new();
        File::from(opened).read_to_string(&mut text)?;
        Ok(text.trim().to_string())
    }

    /// An interface that was seen here.
    pub(crate) fn link(&self, seen: &Seen) -> Link {
        Link { name: seen.name.clone(), index: seen.index, namespace: self.cookie }
    }

    /// The very interface with the name that it has now; `None`: it has gone, or is in another namespace.
    pub(crate) fn by_number(&self, link: &Link) -> io::Result<Option<Link>> {
        match link.namespace == self.cookie {
            true => Ok(self.route.numbered(link.index)?.map(|seen| self.link(&seen))),
            false => Ok(None),
        }
    }

    /// Whether the very interface is there, under this name.
    pub(crate) fn has(&self, link: &Link) -> bool {
        link.namespace == self.cookie && self.same(link).is_ok()
    }
}

/// A mount of sysfs that is in no folder and shows the calling thread's network namespace, whatever is at /sys.
fn sysfs() -> io::Result<OwnedFd> {
    let context = fsopen("sysfs", FsOpenFlags::FSOPEN_CLOEXEC)?;
    fsconfig_create(context.as_fd())?;
    Ok(fsmount(context.as_fd(), FsMountFlags::FSMOUNT_CLOEXEC, MountAttrFlags::empty())?)
}

fn cookie(socket: &Asking) -> Result<u64, Error> {
    const SO_NETNS_COOKIE: i32 = 71;
    let (mut cookie, mut length) = (0u64, 8 as libc::socklen_t);
    // SAFETY: the kernel fills at most the eight bytes that are told.
    let done = unsafe {
        libc::getsockopt(socket.fd(), libc::SOL_SOCKET, SO_NETNS_COOKIE, (&raw mut cookie).cast(), &mut length)
    };
    (done == 0).then_some(cookie).ok_or_else(|| Error::Lacks {
        what: "a kernel that tells network namespaces apart".into(),
        how: "use Linux 5.14 or later (SO_NETNS_COOKIE)".into(),
    })
}

/// Every network namespace that can be reached, each once.
fn candidates() -> Vec<File> {
    let names = |folder: &str| fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path());
    let processes =
        names("/proc").filter(|path| path.file_name().is_some_and(|name| name.as_encoded_bytes()[0].is_ascii_digit()));
    let paths: Vec<PathBuf> = names("/run/netns").chain(processes.map(|path| path.join("ns/net"))).collect();
    let mut known = BTreeSet::new();
    let opened = paths.into_iter().filter_map(|path| File::open(path).ok());
    opened.filter(|file| file.metadata().is_ok_and(|data| known.insert((data.dev(), data.ino())))).collect()
}
