//! How many parameters functions of the kernel have, as its type information (BTF) says.
//!
//! Kernels built with pahole 1.30 list hidden parameters of functions that BPF programs call; loading a scheduler fails there
//! with messages that do not tell why (docs/kernel.md).

use std::collections::BTreeMap;

const MAGIC: u16 = 0xeb9f;
const FUNC: u32 = 12;
const FUNC_PROTO: u32 = 13;

/// The number of parameters of each of `names` that is there; `None`: this is no BTF.
pub(crate) fn parameters(btf: &[u8], names: &[&str]) -> Option<BTreeMap<String, u32>> {
    let word = |at: usize| Some(u32::from_le_bytes(btf.get(at..at + 4)?.try_into().ok()?));
    if btf.get(..2)? != MAGIC.to_le_bytes() {
        return None;
    }
    let [header, types, types_long, texts] = [4, 8, 12, 16].map(|at| word(at).map(|value| value as usize));
    let (header, texts) = (header?, header? + texts?);
    let end = header + types? + types_long?;
    let mut at = header + types?;
    let (mut protos, mut functions) = (BTreeMap::new(), Vec::new());
    let mut id = 0;
    while at < end {
        id += 1;
        let (name, info, refers) = (word(at)?, word(at + 4)?, word(at + 8)?);
        let (kind, members) = (info >> 24 & 0x1f, info & 0xffff);
        match kind {
            FUNC => functions.push((name as usize, refers)),
            FUNC_PROTO => {
                protos.insert(id, members);
            }
            _ => {}
        }
        let (bytes, each) = extra(kind)?;
        at += 12 + bytes * if each { members as usize } else { 1 };
    }
    let text = |offset: usize| {
        let bytes = btf.get(texts + offset..)?;
        std::str::from_utf8(&bytes[..bytes.iter().position(|&byte| byte == 0)?]).ok()
    };
    let found = functions.into_iter().filter_map(|(name, proto)| {
        let name = text(name).filter(|name| names.contains(name))?;
        Some((name.to_string(), *protos.get(&proto)?))
    });
    Some(found.collect())
}

/// Bytes that follow a type of this kind: for each of its members where it has some, once otherwise (include/uapi/linux/btf.h).
fn extra(kind: u32) -> Option<(usize, bool)> {
    Some(match kind {
        1 | 14 | 17 => (4, false),          // INT, VAR, DECL_TAG
        3 => (12, false),                   // ARRAY
        4 | 5 | 15 | 19 => (12, true),      // STRUCT, UNION, DATASEC, ENUM64
        6 | 13 => (8, true),                // ENUM, FUNC_PROTO
        2 | 7..=12 | 16 | 18 => (0, false), // PTR, FWD, TYPEDEF, qualifiers, FUNC, FLOAT, TYPE_TAG
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// BTF of one function with so many parameters.
    fn one(name: &str, parameters: u32) -> Vec<u8> {
        let proto = [0, FUNC_PROTO << 24 | parameters, 0].into_iter().chain((0..2 * parameters).map(|_| 0));
        let types: Vec<u32> = proto.chain([1, FUNC << 24, 1]).collect();
        let (long, texts) = (types.len() as u32 * 4, format!("\0{name}\0"));
        let header = [u32::from(MAGIC) | 1 << 16, 24, 0, long, long, texts.len() as u32];
        header.into_iter().chain(types).flat_map(u32::to_le_bytes).chain(texts.bytes()).collect()
    }

    #[test]
    fn parameters_are_counted_and_what_is_no_btf_is_told() {
        for count in [0, 2, 5] {
            let found = parameters(&one("scx_bpf_kick_cpu", count), &["scx_bpf_kick_cpu", "absent"]).unwrap();
            assert_eq!(found, BTreeMap::from([("scx_bpf_kick_cpu".to_string(), count)]));
        }
        assert_eq!(parameters(b"ELF", &["a"]), None);
        let whole = one("a", 3);
        assert!((0..whole.len() - 3).all(|cut| parameters(&whole[..cut], &["a"]).is_none_or(|found| found.is_empty())));
    }

    #[test]
    fn the_kernels_own_is_read() {
        let Ok(btf) = std::fs::read("/sys/kernel/btf/vmlinux") else { return };
        let found = parameters(&btf, &["schedule", "sched_setscheduler"]).unwrap();
        assert_eq!(found.get("schedule"), Some(&0), "{found:?}");
    }
}
