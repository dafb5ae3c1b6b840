//! The order of names with numbers in them, for lists of runs.

use std::cmp::Ordering;

/// Orders texts with the numbers in them by value: run-2 before run-10.
pub fn natural(a: &str, b: &str) -> Ordering {
    let (mut left, mut right) = (a, b);
    while let (Some(x), Some(y)) = (left.chars().next(), right.chars().next()) {
        let digits = |text: &str| text.len() - text.trim_start_matches(|c: char| c.is_ascii_digit()).len();
        let (m, n) = (digits(left), digits(right));
        let (by, m, n) = match m > 0 && n > 0 {
            true => {
                let (x, y) = (left[..m].trim_start_matches('0'), right[..n].trim_start_matches('0'));
                (x.len().cmp(&y.len()).then_with(|| x.cmp(y)), m, n)
            }
            false => (x.cmp(&y), x.len_utf8(), y.len_utf8()),
        };
        if by != Ordering::Equal {
            return by;
        }
        (left, right) = (&left[m..], &right[n..]);
    }
    left.len().cmp(&right.len()).then_with(|| a.cmp(b))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_sorted_as_people_do() {
        let mut names = ["run-10", "run-2", "run", "run-2b", "run-02", "ppo-1-seed-3", "ppo-1-seed-12", "äh"];
        names.sort_by(|a, b| natural(a, b));
        assert_eq!(
            names,
            ["ppo-1-seed-3", "ppo-1-seed-12", "run", "run-02", "run-2", "run-2b", "run-10", "äh"]
        );
        // Longer than any integer.
        assert_eq!(natural(&"9".repeat(50), &("1".to_string() + &"0".repeat(50))), Ordering::Less);
    }
}
