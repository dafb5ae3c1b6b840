//! Checks of many cases: a few of them by default, the others in `--all`.

/// Which cases a test checks.
#[derive(Clone, Copy, PartialEq)]
pub enum Part {
    Few,
    Others,
}

impl Part {
    /// The first of every `stride` cases, or all others.
    pub fn of<T>(self, stride: usize, cases: impl IntoIterator<Item = T>) -> Vec<T> {
        let is_mine = |k: usize| k.is_multiple_of(stride) == (self == Part::Few);
        let cases: Vec<T> =
            cases.into_iter().enumerate().filter(|(k, _)| is_mine(*k)).map(|(_, case)| case).collect();
        assert!(!cases.is_empty(), "a test without cases");
        cases
    }
}

/// Two tests of each check, which takes a [`Part`]: one by default, and one in `--all`, in the module `other_cases`.
macro_rules! in_parts {
    ($($check:ident),* $(,)?) => {
        mod few_cases {
            $(
                #[test]
                fn $check() {
                    super::$check(crate::support::parts::Part::Few);
                }
            )*
        }

        mod other_cases {
            $(
                #[test]
                #[ignore = "cargo xtask test --all"]
                fn $check() {
                    super::$check(crate::support::parts::Part::Others);
                }
            )*
        }
    };
}
