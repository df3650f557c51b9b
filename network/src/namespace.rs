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
use rustix::net::{socket, AddressFamily, SocketType};
use rustix::thread::{move_into_link_name_space, LinkNameSpaceType};
use std::cell::{Cell, OnceCell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, AsRawFd, OwnedFd, RawFd};
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;

/// Paths to the namespaces that one knows by an id. They are kept, as looking for them takes a look at every process, and tried
/// before they are believed. No file is: it would keep a namespace from vanishing, and there may be more than a process may
/// have open.
#[derive(Default)]
pub(crate) struct Neighbours {
    known: RefCell<BTreeMap<i32, PathBuf>>,
    /// Whether they were looked for in this piece of work.
    looked: Cell<bool>,
}

impl Neighbours {
    /// A piece of work begins.
    pub(crate) fn anew(&self) {
        self.looked.set(false);
    }
}

/// Paths to all namespaces by their cookies, as [`Neighbours`]; and why one could not be looked at.
#[derive(Default)]
pub(crate) struct Cookies(OnceCell<(BTreeMap<u64, PathBuf>, Option<String>)>);

/// A network namespace, open.
pub(crate) struct Namespace {
    /// Of all namespaces since the machine started only this one has it (SO_NETNS_COOKIE).
    pub(crate) cookie: u64,
    pub(crate) route: Asking,
    pub(crate) napis: Option<Napis>,
    pub(crate) offloads: Offloads,
    sysfs: OwnedFd,
    /// To be entered by.
    file: File,
}

impl Namespace {
    /// That of the calling thread.
    pub(crate) fn here() -> Result<Namespace, Error> {
        let doing = || "look into a network namespace";
        let route = Asking::route().map_err(|source| Error::kernel(doing(), source))?;
        let cookie = cookie(route.fd())?;
        let napis = Napis::new().map_err(|source| Error::kernel("ask for the kernel's family netdev", source))?;
        let offloads = Offloads::new().map_err(|source| Error::kernel("open a socket for ethtool", source))?;
        let sysfs = sysfs().map_err(|source| Error::kernel("mount sysfs for a network namespace", source))?;
        let file = File::open("/proc/thread-self/ns/net");
        let file = file.map_err(|source| Error::kernel("open a network namespace", source))?;
        Ok(Namespace { cookie, route, napis, offloads, sysfs, file })
    }

    fn of(file: &File) -> Result<Namespace, Error> {
        elsewhere(|| {
            enter(file)?;
            Namespace::here()
        })
    }

    /// Does it in a thread that is there.
    pub(crate) fn within<T: Send>(&self, work: impl FnOnce() -> T + Send) -> Result<T, Error> {
        let file = &self.file;
        elsewhere(|| {
            enter(file)?;
            Ok(work())
        })
    }

    /// The one that this one knows by `id`; `None`: it cannot be found.
    pub(crate) fn known_as(&self, id: i32, neighbours: &Neighbours) -> Result<Option<Namespace>, Error> {
        let id_of = |file: &File| {
            let failed = |source| Error::kernel("ask for the id of a network namespace", source);
            self.route.id_of(file.as_raw_fd()).map_err(failed)
        };
        // Its process may have ended, and another one may have the number.
        let tried = |path: PathBuf| match File::open(path) {
            Ok(file) if id_of(&file)? == Some(id) => Namespace::of(&file).map(Some),
            _ => Ok(None),
        };
        let known = || neighbours.known.borrow().get(&id).cloned();
        if let Some(found) = known().map(tried).transpose()?.flatten() {
            return Ok(Some(found));
        }
        if neighbours.looked.replace(true) {
            return Ok(None);
        }
        let mut all = BTreeMap::new();
        for (path, file) in candidates() {
            all.extend(id_of(&file)?.map(|id| (id, path)));
        }
        neighbours.known.replace(all);
        Ok(known().map(tried).transpose()?.flatten())
    }

    /// The one that has this cookie; `None`: it has gone. Errors: one was looked at in vain.
    pub(crate) fn with_cookie(wanted: u64, cookies: &Cookies) -> Result<Option<Namespace>, Error> {
        if own_cookie()? == wanted {
            return Namespace::here().map(Some);
        }
        let (all, in_vain) = cookies.0.get_or_init(all_cookies);
        let found = all.get(&wanted).and_then(|path| File::open(path).ok());
        let found = found.map(|file| Namespace::of(&file)).transpose()?;
        match (found.filter(|found| found.cookie == wanted), in_vain) {
            (None, Some(why)) => Err(Error::kernel("look for a network namespace", io::Error::other(why.clone()))),
            (found, _) => Ok(found),
        }
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

    /// The queues that receive.
    pub(crate) fn receive_queues(&self, link: &Link) -> io::Result<Vec<String>> {
        self.same(link)?;
        Ok(self.names(&link.name, "queues")?.into_iter().filter(|name| name.starts_with("rx-")).collect())
    }

    /// Numbers of the interrupts of a card on PCI, or of the PCI function that a virtio card is; none of what is no such card, or
    /// where other interfaces are of the same function.
    pub(crate) fn interrupts(&self, link: &Link) -> Vec<u32> {
        let found = self.same(link).and_then(|()| {
            if self.names(&link.name, "device/net")?.iter().filter(|name| !name.starts_with('.')).count() > 1 {
                return Ok(Vec::new());
            }
            self.names(&link.name, if self.is_virtio(link) { "device/../msi_irqs" } else { "device/msi_irqs" })
        });
        found.into_iter().flatten().filter_map(|name| name.parse().ok()).collect()
    }

    /// Whether it is a virtio card: these have a NAPI for each queue that sends, too.
    pub(crate) fn is_virtio(&self, link: &Link) -> bool {
        let device = rustix::fs::readlinkat(&self.sysfs, format!("class/net/{}/device", link.name), []);
        device.is_ok_and(|device| {
            device.to_str().is_ok_and(|path| path.rsplit('/').next().unwrap_or("").starts_with("virtio"))
        })
    }

    fn names(&self, name: &str, folder: &str) -> io::Result<Vec<String>> {
        let path = format!("class/net/{name}/{folder}");
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let folder = rustix::fs::openat(&self.sysfs, path, flags, Mode::empty())?;
        let names = rustix::fs::Dir::read_from(folder)?;
        Ok(names.filter_map(|entry| entry.ok()?.file_name().to_str().ok().map(String::from)).collect())
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

fn cookie(socket: RawFd) -> Result<u64, Error> {
    const SO_NETNS_COOKIE: i32 = 71;
    let (mut cookie, mut length) = (0u64, 8 as libc::socklen_t);
    // SAFETY: the kernel fills at most the eight bytes that are told.
    let done =
        unsafe { libc::getsockopt(socket, libc::SOL_SOCKET, SO_NETNS_COOKIE, (&raw mut cookie).cast(), &mut length) };
    (done == 0).then_some(cookie).ok_or_else(|| Error::Lacks {
        what: "a kernel that tells network namespaces apart".into(),
        how: "use Linux 5.14 or later (SO_NETNS_COOKIE)".into(),
    })
}

/// That of the namespace of the calling thread.
fn own_cookie() -> Result<u64, Error> {
    let socket = socket(AddressFamily::UNIX, SocketType::DGRAM, None);
    cookie(socket.map_err(|source| Error::kernel("open a socket", source.into()))?.as_raw_fd())
}

/// In a thread that may go into another namespace.
fn elsewhere<T: Send>(work: impl FnOnce() -> Result<T, Error> + Send) -> Result<T, Error> {
    std::thread::scope(|scope| scope.spawn(work).join())
        .unwrap_or_else(|_| Err(Error::kernel("enter a network namespace", io::Error::other("its thread broke down"))))
}

fn enter(file: &File) -> Result<(), Error> {
    move_into_link_name_space(file.as_fd(), Some(LinkNameSpaceType::Network))
        .map_err(|source| Error::kernel("enter a network namespace", source.into()))
}

/// One thread goes through all of them.
fn all_cookies() -> (BTreeMap<u64, PathBuf>, Option<String>) {
    let through = || {
        let (mut all, mut in_vain) = (BTreeMap::new(), None);
        for (path, file) in candidates() {
            match enter(&file).and_then(|()| own_cookie()) {
                Ok(cookie) => _ = all.insert(cookie, path),
                Err(error) => in_vain = Some(error.to_string()),
            }
        }
        Ok((all, in_vain))
    };
    elsewhere(through).unwrap_or_else(|error| (BTreeMap::new(), Some(error.to_string())))
}

/// Every network namespace that can be reached, each once, with a path to it; one at a time is open.
fn candidates() -> impl Iterator<Item = (PathBuf, File)> {
    let names = |folder: &str| fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path());
    let processes =
        names("/proc").filter(|path| path.file_name().is_some_and(|name| name.as_encoded_bytes()[0].is_ascii_digit()));
    let paths = names("/run/netns").chain(processes.map(|path| path.join("ns/net")));
    let mut known = BTreeSet::new();
    let opened = paths.filter_map(|path| File::open(&path).ok().map(|file| (path, file)));
    opened.filter(move |(_, file)| file.metadata().is_ok_and(|data| known.insert((data.dev(), data.ino()))))
}
