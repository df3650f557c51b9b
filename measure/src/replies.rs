//! Replies of any kind of service, read piece by piece.

use crate::http::HttpReplies;
use crate::reply::{Reply, ReplyParser};
use giusto_model::Load;

/// What is not finished between two reads, of a service's own kind.
pub(crate) enum Replies {
    /// Redis and memcached.
    Lines(ReplyParser),
    /// A line of so many bytes, each time: what has come of it.
    Echo {
        /// With its line end.
        length: usize,
        /// Of these.
        seen: usize,
    },
    /// A web server.
    Http(HttpReplies),
}

impl Replies {
    /// Nothing has come yet.
    pub(crate) fn of(load: &Load) -> Self {
        match load {
            Load::Redis { .. } | Load::RedisSort { .. } | Load::Memcached { .. } => {
                Replies::Lines(ReplyParser::default())
            }
            Load::Echo { value, .. } => Replies::Echo { length: *value as usize + 2, seen: 0 },
            Load::Http { .. } => Replies::Http(HttpReplies::default()),
        }
    }

    /// Takes what was read and hands over each whole reply, in order. `Err` holds what is no reply.
    pub(crate) fn feed(&mut self, bytes: &[u8], mut each: impl FnMut(Reply)) -> Result<(), String> {
        match self {
            Replies::Lines(parser) => parser.feed(bytes, each),
            Replies::Http(parser) => parser.feed(bytes, |status| match status.starts_with(['2', '3']) {
                true => each(Reply::Done),
                false => each(Reply::Refused(status.into())),
            }),
            Replies::Echo { length, seen } => {
                for &byte in bytes {
                    *seen += 1;
                    if (byte == b'\n') != (seen == length) {
                        return Err(format!("a line that is not {} bytes long, as what was sent", *length - 2));
                    }
                    if seen == length {
                        *seen = 0;
                        each(Reply::Done);
                    }
                }
                Ok(())
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_echo_is_as_long_as_what_was_sent() {
        let echo = || Replies::of(&Load::Echo { address: "127.0.0.1:7".parse().unwrap(), value: 3 });
        for size in 1..=10 {
            let (mut parser, mut count) = (echo(), 0);
            b"012\r\n345\r\n".chunks(size).for_each(|piece| parser.feed(piece, |_| count += 1).unwrap());
            assert_eq!(count, 2, "pieces of {size}");
        }
        for bad in [&b"01\r\n"[..], b"0123\r\n", b"012345"] {
            assert!(echo().feed(bad, |_| ()).is_err());
        }
    }
}
