//! Lists of cores.

use crate::error::Fault;
use crate::suggest::shown;
use crate::tree::{Kind, Node};
use crate::value::{number, scalar};
use std::collections::BTreeSet;
use std::ops::RangeInclusive;

/// Cores are numbered below this (NR_CPUS of the largest Linux kernels).
const CORES: u32 = 8192;
const CORE_LIST: &str = "expected core numbers from 0 to 8191, each once: 1, 0-3, '0-1,3' or [1, 3]";

/// Core numbers, ascending.
pub(crate) fn cores(node: &Node) -> Result<Vec<u32>, Fault> {
    let mut cores = BTreeSet::new();
    let items = if let Kind::List(items) = &node.kind { items.as_slice() } else { std::slice::from_ref(node) };
    for item in items {
        for part in scalar(item, CORE_LIST)?.text.split(',') {
            let mut range =
                range(part.trim()).ok_or_else(|| item.fault(format!("'{}' names no cores", shown(part)), CORE_LIST))?;
            if let Some(twice) = range.find(|&core| !cores.insert(core)) {
                return Err(item.fault(format!("core {twice} is named twice"), CORE_LIST));
            }
        }
    }
    if cores.is_empty() {
        return Err(node.fault("there is no core in this list", CORE_LIST));
    }
    Ok(cores.into_iter().collect())
}

/// `3` or `0-3`.
fn range(text: &str) -> Option<RangeInclusive<u32>> {
    let (first, last) = text.split_once('-').unwrap_or((text, text));
    let (first, last) = (number(first.trim())?, number(last.trim())?);
    (first <= last && last < CORES).then_some(first..=last)
}
