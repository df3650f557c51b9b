//! The priorities that carry the policy core's order out.
//!
//! The kernel's real-time class then does so without asking: when a server's threads sleep, the next one runs at once, and
//! when they wake, they preempt.

/// Falling priorities from `highest` on for servers in their order, which have `now`. As few change as a walk down finds: each
/// change is a system call a thread. Where one has too few below it, all get the highest ones: a server that goes behind all
/// others whenever it wakes takes one lower each time, and all change once in as many wake-ups as there are priorities to spare.
pub(super) fn priorities(now: &[Option<u32>], highest: u32) -> Vec<u32> {
    let mut last = highest + 1;
    let mut given = Vec::with_capacity(now.len());
    for (index, current) in now.iter().enumerate() {
        let below = (now.len() - 1 - index) as u32; // so many have to find room below
        last = current.filter(|&current| current < last).unwrap_or(last - 1);
        if last <= below {
            return (0..now.len() as u32).map(|index| highest - index).collect();
        }
        given.push(last);
    }
    given
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn priorities_fall_and_change_little() {
        assert_eq!(priorities(&[None, Some(79), Some(78)], 80), [80, 79, 78], "one comes at the top");
        assert_eq!(priorities(&[Some(79), None, Some(78)], 80), [79, 78, 77], "one comes between");
        assert_eq!(priorities(&[Some(78), Some(80)], 80), [78, 77], "two change places");
        assert_eq!(priorities(&[Some(2), None, None], 80), [80, 79, 78], "no room below");
        assert_eq!(priorities(&[Some(3), Some(2), Some(1)], 3), [3, 2, 1]);
        assert!(priorities(&[], 80).is_empty());
    }

    #[test]
    fn servers_that_go_behind_all_others_in_turn_change_alone_but_for_once_in_seventy_times() {
        let mut order: Vec<(usize, Option<u32>)> = (0..10).map(|id| (id, None)).collect();
        let mut changes = 0;
        for _ in 0..710 {
            let now: Vec<Option<u32>> = order.iter().map(|one| one.1).collect();
            for (one, given) in order.iter_mut().zip(priorities(&now, 80)) {
                changes += u32::from(one.1.replace(given) != Some(given));
            }
            order.rotate_left(1);
        }
        assert!(changes <= 710 + 11 * 10, "{changes}");
    }
}
