//! Keys of `info` that are metrics (`env.metrics`): a warning for those that no episode had.

/// Episodes after which the keys are judged: some environments report a key only where something happened.
const EPISODES: u32 = 10;

/// Which keys were there where episodes ended.
#[derive(Debug, Default)]
pub(crate) struct Keys {
    episodes: u32,
    /// Of each metric.
    was_there: Vec<bool>,
    /// A line for each metric: the keys that were there at the end of an episode without it, the most similar first; from a worker. Empty
    /// where the key was there without a number.
    instead: Vec<String>,
    is_judged: bool,
}

impl Keys {
    /// Whether nothing further is to be counted.
    pub(crate) fn is_judged(&self) -> bool {
        self.is_judged
    }

    /// Takes the lines of a worker.
    pub(crate) fn take(&mut self, text: &str) {
        self.instead = text.lines().map(str::to_owned).collect();
    }

    /// Counts an episode that ended with these values. Returns the warning about keys that have never been there, once.
    pub(crate) fn ended(&mut self, metrics: &[&str], values: impl Iterator<Item = f32>) -> Option<String> {
        self.episodes += 1;
        self.was_there.resize(metrics.len(), false);
        self.was_there.iter_mut().zip(values).for_each(|(was_there, value)| *was_there |= !value.is_nan());
        if self.was_there.iter().all(|was_there| *was_there) {
            self.is_judged = true;
            return None;
        }
        // The lines come with the turn in which the first such episode ended.
        if self.episodes < EPISODES || self.instead.is_empty() {
            return None;
        }
        self.is_judged = true;
        let absent = metrics.iter().zip(&self.was_there).zip(&self.instead);
        let absent = absent.filter(|((_, was_there), instead)| !**was_there && !instead.is_empty());
        let absent = absent.map(|((key, _), instead)| format!("no info[{key:?}] (info had {instead})"));
        let absent: Vec<String> = absent.collect();
        let what = format!(
            "env.metrics: the first {} episodes ended with {}; correct env.metrics, unless later episodes have it",
            self.episodes,
            absent.join(", ")
        );
        (!absent.is_empty()).then_some(what)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_that_were_never_there_are_named_once() {
        let (mut keys, metrics) = (Keys::default(), ["is_succes", "score"]);
        keys.take("'is_success', 'score'\n'score', 'is_success'");
        let mut ended = |value: f32| keys.ended(&metrics, [f32::NAN, value].into_iter());
        assert!(ended(2.0).is_none() && (2..EPISODES).all(|_| ended(f32::NAN).is_none()));
        let expected = "env.metrics: the first 10 episodes ended with no info[\"is_succes\"] (info had 'is_success', 'score'); correct env.metrics, unless later episodes have it";
        assert_eq!(ended(f32::NAN).as_deref(), Some(expected));
        assert!(keys.is_judged());
    }

    #[test]
    fn keys_that_are_there_sometimes_are_right() {
        let mut keys = Keys::default();
        keys.take("'score'");
        assert_eq!(keys.ended(&["goal"], std::iter::once(f32::NAN)), None);
        assert!(!keys.is_judged());
        assert_eq!(keys.ended(&["goal"], std::iter::once(1.0)), None);
        assert!(keys.is_judged());
    }
}
