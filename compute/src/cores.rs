//! Lists of cores, as the kernel writes and reads them.

use std::fs;

/// Cores that are online, ascending; core 0 always is.
pub(crate) fn online() -> Vec<u32> {
    let cores = parse_cores(&fs::read_to_string("/sys/devices/system/cpu/online").unwrap_or_default());
    if cores.is_empty() {
        return vec![0];
    }
    cores
}

/// `0-2,5` as the kernel writes it.
pub(crate) fn parse_cores(text: &str) -> Vec<u32> {
    let range = |part: &str| {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        Some(first.parse::<u32>().ok()?..=last.parse::<u32>().ok()?)
    };
    text.trim().split(',').filter_map(range).flatten().collect()
}

/// As the kernel reads it.
pub(crate) fn join(cores: &[u32]) -> String {
    cores.iter().map(u32::to_string).collect::<Vec<_>>().join(",")
}

#[cfg(test)]
mod tests {
    use super::parse_cores;

    #[test]
    fn lists_of_cores_are_read_as_the_kernel_writes_them() {
        assert_eq!(parse_cores("0-2,5\n"), [0, 1, 2, 5]);
        assert_eq!(parse_cores("1"), [1]);
        assert!(parse_cores("").is_empty());
    }
}
