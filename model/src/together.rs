//! Which of many have something in common.

use std::collections::HashMap;

/// Of each the first of those that it belongs together with, itself where there is none before: those with a name in common, and
/// all that belong together with either. O(names).
pub fn together<'a>(names: impl IntoIterator<Item = impl IntoIterator<Item = &'a str>>) -> Vec<usize> {
    let mut first: Vec<usize> = Vec::new();
    let mut of: HashMap<&str, usize> = HashMap::new();
    for (nth, names) in names.into_iter().enumerate() {
        first.push(nth);
        for name in names {
            let other = root(&mut first, *of.entry(name).or_insert(nth));
            let own = root(&mut first, nth);
            first[own.max(other)] = own.min(other);
        }
    }
    (0..first.len()).map(|nth| root(&mut first, nth)).collect()
}

fn root(first: &mut [usize], mut nth: usize) -> usize {
    while first[nth] != nth {
        first[nth] = first[first[nth]];
        nth = first[nth];
    }
    nth
}

#[cfg(test)]
mod tests {
    use super::together;

    #[test]
    fn what_has_a_name_in_common_belongs_together_and_so_on() {
        let none: [&[&str]; 0] = [];
        assert_eq!(together(none.map(|names| names.iter().copied())), [] as [usize; 0]);
        let all: [&[&str]; 6] = [&["a", "b"], &["c"], &["d", "e"], &["b", "f"], &["c", "e"], &["g", "g"]];
        assert_eq!(together(all.map(|names| names.iter().copied())), [0, 1, 1, 0, 1, 5]);
        // The last ties all together.
        let tied: [&[&str]; 4] = [&["a"], &["b"], &["c"], &["c", "b", "a"]];
        assert_eq!(together(tied.map(|names| names.iter().copied())), [0; 4]);
    }
}
