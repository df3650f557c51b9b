//! Replies of a web server, read piece by piece: as much of HTTP/1.1 (RFC 9112) as tells where one ends and the next begins.

/// Bytes of a line that are kept: longer ones are no header that matters.
const KEPT: usize = 1024;

/// Where in a reply it is.
#[derive(Default)]
enum At {
    /// The first line.
    #[default]
    Status,
    Headers,
    /// So many bytes of the body are still to come; after it come more, or nothing.
    Body(u64, After),
    ChunkSize,
    /// Lines after the last chunk.
    Trailer,
}

#[derive(Clone, Copy)]
enum After {
    Reply,
    /// The line end of a chunk.
    Chunk,
}

/// The unfinished reply between two reads.
#[derive(Default)]
pub(crate) struct HttpReplies {
    at: At,
    line: Vec<u8>,
    /// Of the reply that is being read.
    status: String,
    length: Option<u64>,
    chunked: bool,
    closes: bool,
}

impl HttpReplies {
    /// Takes what was read and hands over the status of each whole reply, in order, such as `200 OK`. `Err` holds what is no
    /// such reply. O(bytes).
    pub(crate) fn feed(&mut self, mut bytes: &[u8], mut each: impl FnMut(&str)) -> Result<(), String> {
        while let Some((&byte, rest)) = bytes.split_first() {
            if let At::Body(left, after) = &mut self.at {
                let part = (*left).min(bytes.len() as u64);
                *left -= part;
                bytes = &bytes[part as usize..];
                if *left == 0 {
                    match after {
                        After::Chunk => self.at = At::ChunkSize,
                        After::Reply => self.done(&mut each),
                    }
                }
                continue;
            }
            bytes = rest;
            if byte != b'\n' {
                if self.line.len() < KEPT {
                    self.line.push(byte);
                }
                continue;
            }
            let text = String::from_utf8_lossy(&self.line).trim_end_matches('\r').to_string();
            self.line.clear();
            self.line_end(&text, &mut each)?;
        }
        Ok(())
    }

    /// Whether the server closes the connection after the reply that was handed over last.
    pub(crate) fn closes(&self) -> bool {
        self.closes
    }

    fn line_end(&mut self, line: &str, each: &mut impl FnMut(&str)) -> Result<(), String> {
        match self.at {
            At::Status if line.starts_with("HTTP/1.1 ") => {
                (self.status, self.length) = (line["HTTP/1.1 ".len()..].into(), None);
                (self.chunked, self.closes) = (false, false);
                self.at = At::Headers;
            }
            At::Status => return Err(format!("'{line}' is no status of HTTP/1.1")),
            At::Headers if line.is_empty() => return self.body(each),
            At::Headers => {
                let (name, value) = line.split_once(':').ok_or_else(|| format!("'{line}' is no header"))?;
                let value = value.trim();
                if name.eq_ignore_ascii_case("content-length") {
                    self.length = Some(value.parse().map_err(|_| format!("'{line}' is no length"))?);
                }
                if name.eq_ignore_ascii_case("transfer-encoding") {
                    self.chunked = value.eq_ignore_ascii_case("chunked");
                }
                if name.eq_ignore_ascii_case("connection") {
                    self.closes = value.eq_ignore_ascii_case("close");
                }
            }
            At::ChunkSize => {
                let digits = line.split(';').next().unwrap_or_default().trim();
                let size = u64::from_str_radix(digits, 16).map_err(|_| format!("'{line}' is no length of a chunk"))?;
                // With its line end.
                let whole = size.checked_add(2).ok_or_else(|| format!("'{line}' is no length of a chunk"))?;
                self.at = if size == 0 { At::Trailer } else { At::Body(whole, After::Chunk) };
            }
            At::Trailer if line.is_empty() => self.done(each),
            At::Trailer | At::Body(..) => {}
        }
        Ok(())
    }

    /// After the headers.
    fn body(&mut self, each: &mut impl FnMut(&str)) -> Result<(), String> {
        let bodiless = self.status.starts_with("204") || self.status.starts_with("304");
        match (self.status.starts_with('1'), bodiless, self.chunked, self.length) {
            (true, ..) => self.at = At::Status, // another follows
            (_, true, ..) | (_, _, false, Some(0)) => self.done(each),
            (_, _, true, _) => self.at = At::ChunkSize,
            (_, _, _, Some(length)) => self.at = At::Body(length, After::Reply),
            _ => return Err("a reply that ends with its connection; make the server send Content-Length".into()),
        }
        Ok(())
    }

    fn done(&mut self, each: &mut impl FnMut(&str)) {
        self.at = At::Status;
        each(&self.status);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn replies_are_the_same_however_they_are_split() {
        let stream = concat!(
            "HTTP/1.1 200 OK\r\ncontent-LENGTH: 5\r\nX: HTTP/1.1 500 no\r\n\r\n\r\n\r\nx",
            "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 204 No Content\r\n\r\n",
            "HTTP/1.1 503 Busy\r\nConnection: close\r\nContent-Length: 2\r\n\r\nno",
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3;a=b\r\n\r\n0\r\nA\r\n0123456789\r\n0\r\nT: x\r\n\r\n",
            "HTTP/1.1 302 Found\r\nContent-Length: 0\r\n\r\n",
        );
        let expected = ["200 OK", "204 No Content", "503 Busy", "200 OK", "302 Found"];
        for size in 1..=stream.len() {
            let (mut replies, mut parser) = (Vec::new(), HttpReplies::default());
            for piece in stream.as_bytes().chunks(size) {
                let before = replies.len();
                parser.feed(piece, |status| replies.push(status.to_string())).unwrap();
                if replies.len() == before + 1 && size == 1 {
                    assert_eq!(parser.closes(), replies.len() == 3);
                }
            }
            assert_eq!(replies, expected, "pieces of {size}");
        }
    }

    #[test]
    fn what_does_not_say_where_it_ends_is_named() {
        for bad in [
            "SSH-2.0\r\n",
            "HTTP/1.0 200 OK\r\n",
            "HTTP/1.1 200 OK\r\n\r\n",
            "HTTP/1.1 200 OK\r\nwhat\r\n",
            "HTTP/1.1 200 OK\r\nContent-Length: -1\r\n",
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nx\r\n",
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nffffffffffffffff\r\n",
        ] {
            assert!(HttpReplies::default().feed(bad.as_bytes(), |_| ()).is_err(), "{bad}");
        }
    }
}
