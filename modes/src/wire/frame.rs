//! Frames: a length of 2 bytes (big endian) and so many bytes.

/// The longest frame after its length: an Ask with its tag.
pub const MOST: usize = 320;

/// Puts what a stream delivers together to frames. Holds one unfinished frame at most.
#[derive(Clone, Debug, Default)]
pub struct Frames {
    held: Vec<u8>,
}

/// A length that no frame has; the stream cannot be read any further.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BadLength(pub usize);

impl Frames {
    /// Takes what came and hands out each whole frame, without its length. Ends early where `each` wants to.
    ///
    /// # Errors
    /// A length of 0 or more than [`MOST`], or what `each` returns.
    pub fn feed<E: From<BadLength>>(
        &mut self,
        mut bytes: &[u8],
        mut each: impl FnMut(&[u8]) -> Result<(), E>,
    ) -> Result<(), E> {
        while !bytes.is_empty() {
            let wanted = match self.held.as_slice() {
                [] | [_] => 2,
                [high, low, ..] => 2 + length(*high, *low)?,
            };
            let (now, later) = bytes.split_at(bytes.len().min(wanted - self.held.len()));
            self.held.extend_from_slice(now);
            bytes = later;
            if wanted > 2 && self.held.len() == wanted {
                let whole = each(&self.held[2..]);
                self.held.clear();
                whole?;
            }
        }
        Ok(())
    }

    /// Appends a frame to `out`; `write` appends what is in it, at most [`MOST`] bytes.
    pub(super) fn write(out: &mut Vec<u8>, write: impl FnOnce(&mut Vec<u8>)) {
        let start = out.len();
        out.extend_from_slice(&[0, 0]);
        write(out);
        let length = (out.len() - start - 2) as u16;
        out[start..start + 2].copy_from_slice(&length.to_be_bytes());
    }
}

fn length(high: u8, low: u8) -> Result<usize, BadLength> {
    let length = usize::from(u16::from_be_bytes([high, low]));
    if (1..=MOST).contains(&length) {
        return Ok(length);
    }
    Err(BadLength(length))
}
