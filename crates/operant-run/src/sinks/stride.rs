//! Which updates a bounded file keeps, as a pure function of the update's number, so that a resume needs no state.

/// The smallest power of two `s` for which at most `limit` of the updates 1..=`update` are multiples of `s`.
///
/// A file that holds the multiples of `stride(u, limit)` after update `u` never holds more than `limit` updates; when
/// the stride doubles, the updates to keep are every second one of those there.
pub fn stride(update: u64, limit: u64) -> u64 {
    let mut stride = 1;
    while update / stride > limit.max(1) {
        stride *= 2;
    }
    stride
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keeps_at_most_the_limit_and_more_than_half_of_it() {
        for limit in [1, 2, 7, 100] {
            for update in 1..2000 {
                let kept = update / stride(update, limit);
                assert!(kept <= limit, "{update} {limit}");
                assert!(update <= limit || kept * 2 >= limit, "{update} {limit}: {kept}");
            }
        }
        assert_eq!(stride(0, 10), 1);
        assert_eq!((stride(10, 10), stride(11, 10), stride(20, 10), stride(22, 10)), (1, 2, 2, 4));
        assert!(stride(u64::MAX, 0) > 1);
    }
}
