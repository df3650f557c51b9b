//! Replies, read piece by piece: a line ended by CR LF, split anywhere. Redis' `:N`, `+TEXT` or `-TEXT`, memcached's `STORED` or an
//! error.

/// Bytes of a line that are kept; more are dropped (an error's text is for people).
const KEPT: usize = 256;

/// One whole reply.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Reply {
    /// `:N`, `+TEXT` or `STORED`.
    Done,
    /// `-TEXT`, without the sign; `ERROR`, `CLIENT_ERROR TEXT` or `SERVER_ERROR TEXT`.
    Refused(String),
}

/// The unfinished line between two reads.
#[derive(Default)]
pub(crate) struct ReplyParser {
    line: Vec<u8>,
}

impl ReplyParser {
    /// Takes what was read and hands over each whole reply, in order. `Err` holds the line that is no reply.
    /// O(bytes), and no memory beyond [`KEPT`] bytes.
    pub(crate) fn feed(&mut self, bytes: &[u8], mut each: impl FnMut(Reply)) -> Result<(), String> {
        for &byte in bytes {
            if byte != b'\n' {
                // CR is remembered as the last byte even of a line that is cut.
                if self.line.len() == KEPT {
                    self.line.pop();
                }
                self.line.push(byte);
                continue;
            }
            let text = |line: &[u8]| String::from_utf8_lossy(line).into_owned();
            let Some(line) = self.line.strip_suffix(b"\r") else {
                return Err(format!("'{}' without CR LF", text(&self.line)));
            };
            let reply = match line {
                [b'+', ..] => Reply::Done,
                [b':', digits @ ..] if !digits.is_empty() && digits.iter().all(u8::is_ascii_digit) => Reply::Done,
                [b'-', rest @ ..] => Reply::Refused(text(rest)),
                b"STORED" => Reply::Done,
                other
                    if ["ERROR", "CLIENT_ERROR ", "SERVER_ERROR "]
                        .iter()
                        .any(|word| other.starts_with(word.as_bytes())) =>
                {
                    Reply::Refused(text(other))
                }
                other => return Err(format!("'{}'", text(other))),
            };
            self.line.clear();
            each(reply);
        }
        match self.line.first() {
            // Known at the first byte, so that no one waits for the end of a line that never comes.
            Some(&byte) if !b"+:-SEC".contains(&byte) => Err(format!("'{}'", String::from_utf8_lossy(&self.line))),
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn replies_are_the_same_however_they_are_split() {
        let stream = b":80\r\n+OK\r\n-ERR no\r\n:0\r\nSTORED\r\nERROR\r\nSERVER_ERROR out of memory\r\n";
        let refused = |text: &str| Reply::Refused(text.into());
        let memcached = [Reply::Done, refused("ERROR"), refused("SERVER_ERROR out of memory")];
        let expected = [vec![Reply::Done, Reply::Done, refused("ERR no"), Reply::Done], memcached.to_vec()].concat();
        for size in 1..=stream.len() {
            let (mut parser, mut replies) = (ReplyParser::default(), Vec::new());
            for piece in stream.chunks(size) {
                parser.feed(piece, |r| replies.push(r)).unwrap();
            }
            assert_eq!(replies, expected, "pieces of {size}");
        }
    }

    #[test]
    fn what_is_no_reply_is_named_and_long_errors_are_cut() {
        for bad in [
            &b"HTTP/1.1"[..],
            b"STORED \r\n",
            b"STORE\r\n",
            b"END\r\n",
            b"CLIENT\r\n",
            b"$3\r\n",
            b":x\r\n",
            b":\r\n",
            b"+OK\n",
            b"\r\n",
        ] {
            assert!(ReplyParser::default().feed(bad, |_| ()).is_err(), "{bad:?}");
        }
        let mut parser = ReplyParser::default();
        let mut long = vec![b'-'; 100_000];
        long.extend(b"\r\n:1\r\n");
        let mut lengths = Vec::new();
        let length = |r: Reply| if let Reply::Refused(t) = r { t.len() } else { 0 };
        parser.feed(&long, |r| lengths.push(length(r))).unwrap();
        assert_eq!(lengths, [KEPT - 2, 0]);
    }
}
