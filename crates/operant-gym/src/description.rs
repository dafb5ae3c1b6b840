//! The description of a Gymnasium environment: how to make it, and its spaces. Python writes it once
//! (`operant._record`), and runs keep it.

use std::path::{Path, PathBuf};

use operant_env::{ActionSpace, EnvSpec, ObsSpace, OwnSpaces};
use serde::{Deserialize, Serialize};

/// The version of the format.
pub const VERSION: u32 = 1;

/// Settings for environments with discrete and with continuous actions, and for images.
const DISCRETE: &str = include_str!("../presets/discrete.toml");
const CONTINUOUS: &str = include_str!("../presets/continuous.toml");
const IMAGES: &str = include_str!("../presets/images.toml");
const ATARI: &str = include_str!("../presets/atari.toml");

/// The smallest side of an image that the convolutions of [`IMAGES`] take.
const SMALLEST_IMAGE: usize = 36;

/// A Gymnasium environment.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Description {
    operant_gym: u32,
    /// How workers make it: `gym:ID`, `module:Class` or `/path/to/file.py:Class`, with keyword arguments after a question mark; or `here:ID` for
    /// an environment that a function of the program makes, which no other program has.
    pub(crate) make: String,
    /// The directory in which modules are searched last.
    pub(crate) directory: String,
    /// Whether it provides action masks.
    pub(crate) masked: bool,
    /// Whether it truncates its episodes itself, after the time limit of `spec`.
    #[serde(default)]
    pub(crate) limited: bool,
    /// `start` of each discrete component of an action.
    pub(crate) starts: Vec<i64>,
    /// The environment's own spaces; none in descriptions of earlier versions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) spaces: Option<OwnSpaces>,
    /// Whether it is an Atari game with the preprocessing of `--preset atari`.
    pub(crate) atari: bool,
    /// Name, spaces, time limit.
    pub(crate) spec: EnvSpec,
    #[serde(skip)]
    pub(crate) python: PathBuf,
    /// Whether workers may be started.
    #[serde(skip)]
    pub(crate) may_run: bool,
    /// Whether only evaluations step it.
    #[serde(skip)]
    pub(crate) only_evaluates: bool,
}

/// A description is invalid.
#[derive(Debug, thiserror::Error)]
pub enum DescriptionError {
    /// It is not of this format.
    #[error("it is not a valid description of an environment: {0}")]
    Format(#[from] serde_json::Error),
    /// It was written by a later version.
    #[error("it has version {0} of the format; this program reads up to {VERSION}, so update operant")]
    Later(u32),
    /// Its spaces are invalid.
    #[error("{0}")]
    Spec(String),
}

impl Description {
    /// Whether a text is meant to be a description.
    pub fn is_meant(text: &[u8]) -> bool {
        text.starts_with(b"{\"operant_gym\"")
    }

    /// Reads a text that [`Description::to_json`] or Python wrote, for workers in `python`. No worker starts before
    /// [`Description::allow`]: the text may be a stranger's.
    ///
    /// # Errors
    /// When it is none.
    pub fn from_json(text: &[u8], python: &Path) -> Result<Self, DescriptionError> {
        #[derive(Deserialize)]
        struct Version {
            operant_gym: u32,
        }
        let Version { operant_gym } = serde_json::from_slice(text)?;
        if operant_gym > VERSION {
            return Err(DescriptionError::Later(operant_gym));
        }
        let mut description: Self = serde_json::from_slice(text)?;
        description.python = python.to_owned();
        let spec = &mut description.spec;
        // It becomes a part of file names.
        let fits = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_';
        if spec.name.is_empty() || !spec.name.bytes().all(fits) {
            let what = format!(
                "the environment has the name {:?}, not one of lower-case letters, digits and _",
                spec.name
            );
            return Err(DescriptionError::Spec(what));
        }
        let of = |space: &str, problem: String| DescriptionError::Spec(format!("{space}: {problem}"));
        spec.obs.check().map_err(|problem| of("observation_space", problem))?;
        check_actions(&spec.actions).map_err(|problem| of("action_space", problem))?;
        "Gymnasium".clone_into(&mut spec.family);
        spec.preset = Some(preset(spec, description.atari));
        Ok(description)
    }

    /// Whether a function of the program that trains makes the environment.
    pub fn is_local(&self) -> bool {
        self.make.starts_with("here:")
    }

    /// Lets workers run the [`Description::program`].
    pub fn allow(&mut self) {
        self.may_run = true;
    }

    /// Makes environments for evaluations only: those of training have no workers, and observations of zeros.
    pub fn only_evaluate(&mut self) {
        self.only_evaluates = true;
    }

    /// What workers run: the name that makes the environment, with its arguments, and the directory in which modules are searched last.
    pub fn program(&self) -> [&str; 2] {
        [&self.make, &self.directory]
    }

    /// What a user may not expect of training with these spaces.
    pub fn notes(&self) -> Vec<String> {
        let mut notes = Vec::new();
        let is_large = |shape: &Vec<usize>| shape.iter().filter(|side| **side >= SMALLEST_IMAGE).count() > 1;
        if !has_image(&self.spec.obs) && images(&self.spec.obs).iter().any(is_large) {
            notes.push(format!(
                "observation_space: an image gets fully connected layers; convolutions need one image, of shape (H, W) or (H, W, C) from \
                 {SMALLEST_IMAGE} x {SMALLEST_IMAGE} on: transpose it, or stack several, with gymnasium.wrappers.TransformObservation"
            ));
        }
        if let ActionSpace::Box { low, high } = &self.spec.actions
            && let Some((low, high)) = low.iter().zip(high).find(|(low, high)| is_far(**low, **high))
        {
            notes.push(format!(
                "action_space: the initial policy samples with mean 0 and standard deviation 1, clipped to the bounds, here {low} and \
                 {high}: use gymnasium.wrappers.RescaleAction(env, -1.0, 1.0)"
            ));
        }
        notes
    }

    /// The text of a file.
    pub fn to_json(&self) -> String {
        let mut written = self.clone();
        written.spec.preset = None;
        serde_json::to_string(&written).expect("numbers and texts")
    }

    /// A hash of the observation and action spaces, and of how the environment is made (FNV-1a).
    pub(crate) fn content(&self) -> u64 {
        let parts = (&self.make, &self.spec.obs, &self.spec.actions, &self.starts, self.masked, self.atari);
        let text = serde_json::to_string(&parts).expect("numbers and texts");
        let hash = |hash: u64, byte: u8| (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3);
        text.bytes().fold(0xcbf2_9ce4_8422_2325, hash)
    }
}

/// The settings that it is trained with unless others are given.
fn preset(spec: &EnvSpec, atari: bool) -> String {
    if atari {
        return ATARI.to_owned();
    }
    let mut text = match spec.actions {
        ActionSpace::Discrete(_) => DISCRETE.to_owned(),
        ActionSpace::Box { .. } => CONTINUOUS.to_owned(),
    };
    if spec.obs.is_real() {
        text.push_str("norm_obs = true\n");
    }
    if has_image(&spec.obs) {
        text.push_str(IMAGES);
    }
    text
}

/// Whether the numbers of an initial policy rarely reach other actions than a bound, or a small part of the actions only.
fn is_far(low: f64, high: f64) -> bool {
    // Two standard deviations around 0. Some bounds are the greatest number of a type.
    let (reached, all) = (high.min(2.0) - low.max(-2.0), high - low);
    all < 1e30 && reached < all / 10.0
}

/// The shapes of parts of bytes that are images.
fn images(obs: &ObsSpace) -> Vec<Vec<usize>> {
    let parts = obs.parts().into_iter();
    let shape = |(_, part): (&str, &ObsSpace)| match part {
        ObsSpace::Bytes { shape } if matches!(shape.len(), 2 | 3) => Some(shape.clone()),
        _ => None,
    };
    parts.filter_map(shape).collect()
}

/// Whether one part, and only one, is an image that is large enough for convolutions, its channels last.
fn has_image(obs: &ObsSpace) -> bool {
    matches!(&images(obs)[..], [shape] if shape[0].min(shape[1]) >= SMALLEST_IMAGE
        && shape.get(2).is_none_or(|&channels| channels < SMALLEST_IMAGE))
}

/// Refuses action spaces that a policy cannot output.
fn check_actions(actions: &ActionSpace) -> Result<(), String> {
    match actions {
        ActionSpace::Discrete(choices) if choices.is_empty() || choices.contains(&0) => {
            Err("an action has no choices".to_owned())
        }
        ActionSpace::Box { low, high } if low.is_empty() || low.len() != high.len() => {
            Err("an action has no numbers".to_owned())
        }
        ActionSpace::Box { low, high } if !low.iter().zip(high).all(|(low, high)| low < high) => {
            Err("an action has a lower bound that is not below its upper bound".to_owned())
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn described(obs: &str, actions: &str) -> Result<Description, DescriptionError> {
        let text = format!(
            r#"{{"operant_gym":1,"make":"gym:X-v0","directory":"/","masked":false,"starts":[],"atari":false,
            "spec":{{"name":"x_v0","obs":{obs},"actions":{actions},"time_limit":10}}}}"#
        );
        Description::from_json(text.as_bytes(), Path::new("python3"))
    }

    #[test]
    fn presets_fit_the_spaces() {
        let box_of = r#"{"box":{"low":[-1.0],"high":["inf"]}}"#;
        let preset = |obs, actions| described(obs, actions).expect("valid").spec.preset.expect("one");
        assert!(preset(box_of, r#"{"discrete":[2]}"#).contains("norm_obs = true"));
        assert!(
            !preset(r#"{"index":{"shape":[],"below":[16]}}"#, r#"{"discrete":[4]}"#).contains("norm_obs")
        );
        let image = preset(r#"{"bytes":{"shape":[96,96,3]}}"#, r#"{"discrete":[4]}"#);
        assert!(image.contains("conv =") && !image.contains("norm_obs"));
        assert!(!preset(r#"{"bytes":{"shape":[3,96,96]}}"#, r#"{"discrete":[4]}"#).contains("conv ="));
        assert!(!preset(r#"{"bytes":{"shape":[8,8]}}"#, r#"{"discrete":[4]}"#).contains("conv ="));
        assert_ne!(
            preset(box_of, r#"{"box":{"low":[-1.0],"high":[1.0]}}"#),
            preset(box_of, r#"{"discrete":[2]}"#)
        );
    }

    #[test]
    fn what_may_surprise_is_noted() {
        let notes = |obs, actions| described(obs, actions).expect("valid").notes().join("\n");
        let (flat, discrete) = (r#"{"binary":{"shape":[3]}}"#, r#"{"discrete":[2]}"#);
        for (actions, is_noted) in [
            (r#"{"box":{"low":[-1.0],"high":[1.0]}}"#, false),
            (r#"{"box":{"low":[0.0],"high":["inf"]}}"#, false),
            (r#"{"box":{"low":[-3.4e38],"high":[3.4e38]}}"#, false),
            (r#"{"box":{"low":[-1.0,100.0],"high":[1.0,200.0]}}"#, true),
            (r#"{"box":{"low":[-100.0],"high":[100.0]}}"#, true),
        ] {
            assert_eq!(notes(flat, actions).contains("RescaleAction"), is_noted, "{actions}");
        }
        for (obs, is_noted) in [
            (r#"{"bytes":{"shape":[48,48,3]}}"#, false),
            (r#"{"bytes":{"shape":[7,7,3]}}"#, false),
            (r#"{"bytes":{"shape":[3,48,48]}}"#, true),
            (r#"{"parts":[["a",{"bytes":{"shape":[48,48]}}],["b",{"bytes":{"shape":[48,48]}}]]}"#, true),
        ] {
            assert_eq!(notes(obs, discrete).contains("convolutions"), is_noted, "{obs}");
        }
    }

    #[test]
    fn a_time_limit_above_the_environments_own_is_refused() {
        use operant_env::AnyEnv;
        let mut description = described(r#"{"binary":{"shape":[3]}}"#, r#"{"discrete":[2]}"#).expect("valid");
        let with = |description: &Description, steps: f64| {
            let options = [("max_episode_steps".to_owned(), steps.into())].into();
            crate::GymEnv::new(description.clone()).with_options(&options).map(|env| env.spec().time_limit)
        };
        assert_eq!(with(&description, 11.0).expect("it has none of its own"), 11);
        description.limited = true;
        assert_eq!(with(&description, 10.0).expect("the same"), 10);
        let error = format!("{:?}", with(&description, 11.0).expect_err("it would end at 10"));
        assert!(error.contains("gym:X-v0?max_episode_steps=11"), "{error}");
    }

    #[test]
    fn no_worker_starts_of_a_description_that_was_only_read() {
        use operant_env::{AnyEnv, TileSpec};
        let mut description = described(r#"{"binary":{"shape":[3]}}"#, r#"{"discrete":[2]}"#).expect("valid");
        description.python = "/bin/false".into();
        let env = crate::GymEnv::new(description.clone())
            .with_options(&[("workers".to_owned(), 1.0.into())].into());
        let error = env.expect("valid").stepper(TileSpec::new(1, 0, 16)).err().expect("it is refused");
        assert!(error.what.contains("not started"), "{error}");
        description.allow();
        crate::GymEnv::new(description).stepper(TileSpec::new(1, 0, 16)).expect("its workers start");
    }

    #[test]
    fn a_description_reads_back_and_damaged_ones_are_refused() {
        let description = described(r#"{"binary":{"shape":[3]}}"#, r#"{"discrete":[2]}"#).expect("valid");
        let text = description.to_json();
        assert!(Description::is_meant(text.as_bytes()));
        let again = Description::from_json(text.as_bytes(), Path::new("python3")).expect("valid");
        assert_eq!(again, description);
        assert_eq!(again.content(), description.content());
        let later = text.replace("\"operant_gym\":1", "\"operant_gym\":2");
        let error = Description::from_json(later.as_bytes(), Path::new("python3")).expect_err("later");
        assert!(error.to_string().contains("update operant"), "{error}");
        for damaged in ["", "{}", "[1]", &text[..text.len() / 2], &text.replace("make", "made")] {
            assert!(Description::from_json(damaged.as_bytes(), Path::new("python3")).is_err(), "{damaged}");
        }
        for name in ["../../x", "a/b", ""] {
            let error = Description::from_json(text.replace("x_v0", name).as_bytes(), Path::new("python3"));
            assert!(error.expect_err("no name").to_string().contains("has the name"), "{name}");
        }
        for actions in [r#"{"discrete":[]}"#, r#"{"discrete":[0]}"#, r#"{"box":{"low":[1.0],"high":[1.0]}}"#]
        {
            assert!(described(r#"{"binary":{"shape":[3]}}"#, actions).is_err(), "{actions}");
        }
    }
}
