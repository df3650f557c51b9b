//! BPF programs on the packets of an interface: the queueing discipline `clsact` and its filters.

use crate::route::Asking;
use netlink_packet_core::{NLM_F_CREATE, NLM_F_DUMP, NLM_F_ECHO, NLM_F_EXCL};
use netlink_packet_route::tc::{
    TcAttribute, TcBpfFlags, TcFilterBpf, TcFilterBpfOption, TcHandle, TcMessage, TcOption,
};
use netlink_packet_route::RouteNetlinkMessage as Message;
use serde::{Deserialize, Serialize};
use std::io;
use std::os::fd::RawFd;

/// Before the filters of others, unless they say 1 too.
const PREFERENCE: u32 = 1;
/// What our filters are known by, with their names.
const HANDLE: u32 = 0x6769_7573;
/// What our queue is known by.
const FQ: TcHandle = TcHandle { major: 0x6769, minor: 0 };
const CLSACT: &str = "clsact";
const ALL_PROTOCOLS: u16 = 0x0003; // ETH_P_ALL

/// Which packets, as the host sees them. The order is that of the programs in bpf/bucket.bpf.c.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Direction {
    /// Sent by the owner of the interface.
    From,
    /// For it.
    To,
    /// As [`Direction::From`], at its own end.
    Sent,
    /// What comes from its own end to the host's: only what was let through there goes on.
    Arrived,
}

impl Direction {
    /// The program's name in bpf/bucket.bpf.c, and that of the filter.
    pub(crate) fn program(self) -> &'static str {
        match self {
            Direction::From => "giusto_from",
            Direction::To => "giusto_to",
            Direction::Sent => "giusto_sent",
            Direction::Arrived => "giusto_arrived",
        }
    }

    fn parent(self) -> TcHandle {
        let minor = match self {
            Direction::From | Direction::Arrived => TcHandle::MIN_INGRESS,
            Direction::To | Direction::Sent => TcHandle::MIN_EGRESS,
        };
        TcHandle { major: u16::MAX, minor }
    }
}

/// Whether the interface has a clsact. It alone is asked for: a list has those of all interfaces.
pub(crate) fn has_clsact(route: &Asking, index: u32) -> io::Result<bool> {
    let mut message = TcMessage::with_index(index as i32);
    message.header.parent = TcHandle::CLSACT;
    // Without NLM_F_ECHO only those are told who listen to changes.
    match route.ask(Message::GetQueueDiscipline(message), NLM_F_ECHO) {
        Ok(answers) => Ok(answers.iter().any(|answer| match answer {
            Message::NewQueueDiscipline(found) => kind(found) == Some(CLSACT),
            _ => false,
        })),
        // There is none, or none any more.
        Err(error) if matches!(error.raw_os_error(), Some(libc::ENOENT | libc::EINVAL)) => Ok(false),
        Err(error) => Err(error),
    }
}

pub(crate) fn add_clsact(route: &Asking, index: u32) -> io::Result<()> {
    let flags = NLM_F_CREATE | NLM_F_EXCL;
    route.ask(Message::NewQueueDiscipline(clsact(index)), flags).map(drop)
}

pub(crate) fn remove_clsact(route: &Asking, index: u32) -> io::Result<()> {
    route.ask(Message::DelQueueDiscipline(clsact(index)), 0).map(drop)
}

fn clsact(index: u32) -> TcMessage {
    let mut message = TcMessage::with_index(index as i32);
    message.header.parent = TcHandle::CLSACT;
    message.header.handle = TcHandle { major: u16::MAX, minor: 0 };
    message.attributes.push(TcAttribute::Kind(CLSACT.into()));
    message
}

/// The queue at the root of an interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Root {
    /// The kernel's choice.
    Default,
    /// Our fq.
    Ours,
    /// Another program's.
    Other,
}

pub(crate) fn root(route: &Asking, index: u32) -> io::Result<Root> {
    let answers = route.ask(Message::GetQueueDiscipline(TcMessage::with_index(index as i32)), NLM_F_DUMP)?;
    let found = answers.iter().find_map(|answer| match answer {
        Message::NewQueueDiscipline(found)
            if found.header.index == index as i32 && found.header.parent == TcHandle::ROOT =>
        {
            Some(found.header.handle)
        }
        _ => None,
    });
    Ok(match found {
        Some(handle) if handle == FQ => Root::Ours,
        Some(TcHandle::UNSPEC) | None => Root::Default,
        Some(_) => Root::Other,
    })
}

/// Adds fq, which sends packets at the time they say. Errors: NotFound where the kernel has none.
pub(crate) fn add_fq(route: &Asking, index: u32) -> io::Result<()> {
    route.ask(Message::NewQueueDiscipline(fq(index)), NLM_F_CREATE | NLM_F_EXCL).map(drop)
}

pub(crate) fn remove_fq(route: &Asking, index: u32) -> io::Result<()> {
    route.ask(Message::DelQueueDiscipline(fq(index)), 0).map(drop)
}

fn fq(index: u32) -> TcMessage {
    let mut message = TcMessage::with_index(index as i32);
    message.header.parent = TcHandle::ROOT;
    message.header.handle = FQ;
    message.attributes.push(TcAttribute::Kind("fq".into()));
    message
}

/// Whether any filter of anybody is on the interface's clsact.
pub(crate) fn has_filters(route: &Asking, index: u32) -> io::Result<bool> {
    Ok(count(route, index, Direction::From)? + count(route, index, Direction::To)? > 0)
}

/// What is ours on an interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Filter {
    /// The program, by the kernel's number.
    pub(crate) program: u32,
    /// What the program finds as `tc_classid`.
    pub(crate) class: u32,
}

/// Our filter, if it is there.
pub(crate) fn filter(route: &Asking, index: u32, direction: Direction) -> io::Result<Option<Filter>> {
    Ok(filters(route, index, direction)?.iter().find_map(|found| ours(found, direction)))
}

/// Puts a loaded program on the interface.
pub(crate) fn add_filter(
    route: &Asking,
    index: u32,
    direction: Direction,
    class: u32,
    program: RawFd,
) -> io::Result<()> {
    let mut message = known(index, direction);
    message.attributes.push(TcAttribute::Options(vec![
        TcOption::Bpf(TcFilterBpfOption::ClassId(TcHandle::from(class))),
        TcOption::Bpf(TcFilterBpfOption::ProgFd(program as u32)),
        TcOption::Bpf(TcFilterBpfOption::ProgName(direction.program().into())),
        TcOption::Bpf(TcFilterBpfOption::Flags(TcBpfFlags::DirectAction)),
    ]));
    route.ask(Message::NewTrafficFilter(message), NLM_F_CREATE | NLM_F_EXCL).map(drop)
}

/// Takes it off again.
pub(crate) fn remove_filter(route: &Asking, index: u32, direction: Direction) -> io::Result<()> {
    route.ask(Message::DelTrafficFilter(known(index, direction)), 0).map(drop)
}

fn known(index: u32, direction: Direction) -> TcMessage {
    let mut message = TcMessage::with_index(index as i32);
    message.header.parent = direction.parent();
    message.header.handle = TcHandle::from(HANDLE);
    message.header.info = PREFERENCE << 16 | u32::from(ALL_PROTOCOLS.to_be());
    message.attributes.push(TcAttribute::Kind(TcFilterBpf::KIND.into()));
    message
}

/// How many filters of anybody, also of kinds that cannot be read here.
fn count(route: &Asking, index: u32, direction: Direction) -> io::Result<u32> {
    const LIST: u16 = 46; // RTM_GETTFILTER
    let parent = u32::from(direction.parent());
    // struct tcmsg: family and padding, interface, handle, parent, info.
    let question = [[0; 4], index.to_ne_bytes(), [0; 4], parent.to_ne_bytes(), [0; 4]].concat();
    let mut filters = 0;
    let asked = route.exchange(LIST, NLM_F_DUMP, &question, &mut |_, body| {
        // Each priority is listed too, with handle 0.
        filters += u32::from(body.get(8..12).is_some_and(|handle| handle != [0; 4]));
        Ok(())
    });
    match asked {
        Err(error) if error.raw_os_error() == Some(libc::EINVAL) => Ok(0), // no clsact
        asked => asked.map(|()| filters),
    }
}

fn filters(route: &Asking, index: u32, direction: Direction) -> io::Result<Vec<TcMessage>> {
    let mut message = TcMessage::with_index(index as i32);
    message.header.parent = direction.parent();
    let answers = match route.ask(Message::GetTrafficFilter(message), NLM_F_DUMP) {
        Err(error) if error.raw_os_error() == Some(libc::EINVAL) => return Ok(vec![]), // no clsact
        answers => answers?,
    };
    Ok(answers
        .into_iter()
        .filter_map(|answer| match answer {
            // Each priority is listed too, with handle 0.
            Message::NewTrafficFilter(found) if found.header.handle != TcHandle::UNSPEC => Some(found),
            _ => None,
        })
        .collect())
}

fn ours(found: &TcMessage, direction: Direction) -> Option<Filter> {
    let options = found.attributes.iter().find_map(|attribute| match attribute {
        TcAttribute::Options(options) => Some(options),
        _ => None,
    })?;
    let (mut named, mut filter) = (false, Filter { program: 0, class: 0 });
    for option in options {
        match option {
            TcOption::Bpf(TcFilterBpfOption::ProgName(name)) => named = name == direction.program(),
            TcOption::Bpf(TcFilterBpfOption::ProgId(id)) => filter.program = *id,
            TcOption::Bpf(TcFilterBpfOption::ClassId(class)) => filter.class = u32::from(*class),
            _ => {}
        }
    }
    (named && found.header.handle == TcHandle::from(HANDLE)).then_some(filter)
}

fn kind(message: &TcMessage) -> Option<&str> {
    message.attributes.iter().find_map(|attribute| match attribute {
        TcAttribute::Kind(kind) => Some(kind.as_str()),
        _ => None,
    })
}
