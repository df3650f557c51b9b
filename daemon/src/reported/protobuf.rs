//! As much of protobuf's wire format as messages of OTLP need: fields by number, each a varint, 64 bits, 32 bits, or bytes.

/// The value of a field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Value<'m> {
    /// A varint.
    Number(u64),
    /// Eight bytes.
    Fixed(u64),
    /// Four bytes.
    Short(u32),
    /// A text, a message, or packed numbers.
    Bytes(&'m [u8]),
}

/// The fields of a message, in its order. One that is cut off or malformed is an error, after which nothing comes.
pub(super) struct Fields<'m>(pub(super) &'m [u8]);

impl<'m> Iterator for Fields<'m> {
    type Item = Result<(u64, Value<'m>), String>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.0.is_empty() {
            return None;
        }
        let field = self.field().ok_or_else(|| "it is no message of protobuf, or is cut off".to_string());
        if field.is_err() {
            self.0 = &[];
        }
        Some(field)
    }
}

impl<'m> Fields<'m> {
    fn field(&mut self) -> Option<(u64, Value<'m>)> {
        let key = self.varint()?;
        let value = match key & 7 {
            0 => Value::Number(self.varint()?),
            1 => Value::Fixed(u64::from_le_bytes(self.bytes(8)?.try_into().ok()?)),
            2 => {
                let length = usize::try_from(self.varint()?).ok()?;
                Value::Bytes(self.bytes(length)?)
            }
            5 => Value::Short(u32::from_le_bytes(self.bytes(4)?.try_into().ok()?)),
            _ => return None, // groups, which OTLP has none of
        };
        (key >> 3 > 0).then_some((key >> 3, value))
    }

    fn varint(&mut self) -> Option<u64> {
        let mut number = 0u64;
        for nth in 0..10 {
            let (&byte, rest) = self.0.split_first()?;
            self.0 = rest;
            number |= u64::from(byte & 0x7f).checked_shl(7 * nth)?;
            if byte < 0x80 {
                return Some(number);
            }
        }
        None
    }

    fn bytes(&mut self, length: usize) -> Option<&'m [u8]> {
        let (bytes, rest) = self.0.split_at_checked(length)?;
        self.0 = rest;
        Some(bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn fields_of_each_kind_are_read_and_what_is_cut_off_is_refused() {
        let message = [0x08, 0xac, 0x02, 0x12, 2, b'h', b'i', 0x19, 1, 0, 0, 0, 0, 0, 0, 0, 0x25, 5, 0, 0, 0];
        let fields: Vec<_> = Fields(&message).collect::<Result<_, _>>().unwrap();
        let expected = [(1, Value::Number(300)), (2, Value::Bytes(b"hi")), (3, Value::Fixed(1)), (4, Value::Short(5))];
        assert_eq!(fields, expected);
        for bad in [&message[..5], &[0x08], &[0x0b], &[0x00, 0x00], &[0xff; 11], &[0x12, 0xff, 0xff, 0xff, 0xff, 0x0f]]
        {
            assert!(Fields(bad).any(|field| field.is_err()), "{bad:?}");
        }
    }

    proptest! {
        #[test]
        fn no_bytes_kill_the_reader(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
            prop_assert!(Fields(&bytes).count() <= bytes.len());
        }
    }
}
