//! The search space: machine settings, which change only the time, and learning settings, which change what is learned and must
//! still solve the environment.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use operant_env::AnyEnv;
use operant_host::Topology;
use operant_learn::cpu::ROLLOUT_TILES;
use operant_run::config::{self, EnvFacts, Key, Layers, Origin, Requested};
use operant_run::{CommandLine, Error, Result, Settings, device, machine};

use super::choice::Choice;
use super::file::ConfigFile;

/// Machine settings that are tried on a CPU, with the value that leaves them to the plan.
const ON_CPU: [(&str, &str); 3] = [("threads", "0"), ("rollout_tile", "0"), ("waiting", "\"auto\"")];
/// Like `ON_CPU`, for a GPU.
const ON_GPU: [(&str, &str); 1] = [("kernels", "\"auto\"")];
/// Learning settings that are tried together.
const GRID: [&str; 2] = ["num_envs", "num_minibatches"];
/// Learning settings that only a GPU has, with their values.
const OF_GPUS: [(&str, &[&str]); 2] =
    [("precision", &["\"f32\"", "\"tf32\"", "\"bf16\""]), ("overlap", &["false", "true"])];
/// Factors for the number of environments.
const TIMES_ENVS: [(usize, usize); 6] = [(1, 2), (1, 1), (2, 1), (4, 1), (8, 1), (16, 1)];
/// Minimum updates of a run: fewer do not learn.
const MIN_UPDATES: u64 = 10;

/// A machine setting.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TunableSetting {
    pub key: &'static str,
    /// The values other than the automatic one.
    pub values: Vec<String>,
}

/// The search space.
#[derive(Debug)]
pub struct Space {
    pub env: Arc<dyn AnyEnv>,
    facts: EnvFacts,
    line: CommandLine,
    /// Learning settings of the command line, except seeds: the result depends on them.
    held: Choice,
    /// The automatic values of the tried settings.
    automatic: Choice,
    /// Machine settings, in the order in which they are tried.
    pub machine: Vec<TunableSetting>,
    /// Choices of learning settings.
    pub learning: Vec<Choice>,
    /// The name of the device that trains.
    pub device: String,
    /// A description of the device.
    pub about: String,
    /// Why settings are not tried.
    pub notes: Vec<String>,
}

impl Space {
    /// The space for `env` under the configuration of the command line and all files. Values that an earlier tuning wrote to `file`
    /// are one of the choices. Settings of the command line or of variables are not tried, because a file cannot override them.
    ///
    /// # Errors
    /// The first thing in the configuration that cannot be used.
    pub fn new(
        env: &Arc<dyn AnyEnv>,
        facts: EnvFacts,
        mut line: CommandLine,
        file: &ConfigFile,
    ) -> Result<Self> {
        let requested = config::requested(facts.clone(), &line, None)?;
        let algorithm = requested.settings.learner.algorithm;
        if algorithm.declaration().has_replay() {
            let what = format!("operant tune cannot tune \"{algorithm}\", which learns from a replay");
            return Err(Error::usage(what).remedy("tune \"ppo\" or \"pqn\", or search with `operant sweep`"));
        }
        let (asked, place) = device::choose(&requested, None)?;
        let on_cpu = place.name == "cpu";
        let is_free = |key: &str| !matches!(asked.origin(key), Some(Origin::Flag(_) | Origin::Variable(_)));
        let was_tuned = |key: &str| file.was_tuned(key) && is_from(asked.origin(key), file.path());
        let now = if asked.num_envs_is_open() {
            // The number that the device chooses is tried like an explicit one.
            let now = device::backend(env, &asked, &place)?.settings;
            line.flags.push(("num_envs", "operant tune", now.learner.num_envs.to_string()));
            now
        } else {
            asked.resolve(None)?
        };
        let mut automatic = Choice::new();
        let keys: &[(&'static str, &str)] = if on_cpu { &ON_CPU } else { &ON_GPU };
        for (key, value) in keys.iter().filter(|(key, _)| is_free(key)) {
            automatic.insert(key, (*value).to_owned());
        }
        let preset = Layers::new(facts.clone())?.build()?;
        let preset = if on_cpu { preset } else { preset.on_gpu()? };
        let of_gpus = OF_GPUS.map(|(key, _)| key);
        let learned = || GRID.into_iter().chain(of_gpus.into_iter().filter(|_| !on_cpu));
        for key in learned().filter(|key| is_free(key)) {
            let from = if was_tuned(key) { &preset.settings } else { &now };
            automatic.extend(Some(key).zip(value_of(from, key)));
        }
        let is_learned = |key: &Key| key.group.is_learned() || of_gpus.contains(&key.name);
        let held = config::keys().filter(|key| is_learned(key) && key.name != "seed").map(|key| key.name);
        let held = held.filter(|key| matches!(asked.origin(key), Some(Origin::Flag(_))));
        let held = held.filter_map(|key| Some((key, value_of(&now, key)?))).collect();
        let before: Choice = learned()
            .filter(|key| is_free(key) && was_tuned(key))
            .filter_map(|key| Some((key, value_of(&now, key)?)))
            .filter(|(key, value)| automatic.get(key) != Some(value))
            .collect();
        let mut space = Space {
            env: Arc::clone(env),
            facts,
            line,
            held,
            automatic,
            machine: Vec::new(),
            learning: Vec::new(),
            about: about(&place.name),
            device: place.name,
            notes: Vec::new(),
        };
        space.fill(keys)?;
        if !before.is_empty() && !space.learning.contains(&before) {
            space.learning.push(before);
        }
        Ok(space)
    }

    /// Fills the space: values of the machine settings in `keys`, and choices of learning settings.
    fn fill(&mut self, keys: &[(&'static str, &str)]) -> Result<()> {
        let base = self.requested(&Choice::new())?.settings;
        for (key, _) in keys.iter().filter(|(key, _)| self.automatic.contains_key(key)) {
            let values = machine_values(key, &base);
            if !values.is_empty() {
                self.machine.push(TunableSetting { key, values });
            }
        }
        match base.run.solved_at {
            None => self.notes.push(format!(
                "settings of learning are not tried: {} has no threshold that they would have to reach",
                base.environment
            )),
            Some(_) => self.learning = self.learning_choices(&base),
        }
        Ok(())
    }

    /// The configuration with a choice, on the chosen device.
    ///
    /// # Errors
    /// When they are incompatible.
    pub fn requested(&self, choice: &Choice) -> Result<Requested> {
        let mut line = self.line.clone();
        let device = [("device", &self.device)];
        // As flags, which override everything else.
        let all = self.automatic.iter().chain(choice).map(|(key, value)| (*key, value)).chain(device);
        line.flags.extend(all.map(|(key, value)| (key, "operant tune", value.clone())));
        config::requested(self.facts.clone(), &line, None)
    }

    /// The settings to write for a choice: the choice and, if it has learning settings, also the device and the learning settings
    /// with which it was found.
    pub fn to_write(&self, choice: &Choice) -> Choice {
        let mut written = choice.clone();
        if choice.keys().any(|key| GRID.contains(key) || OF_GPUS.iter().any(|(of_gpus, _)| of_gpus == key)) {
            let device = self.device.split(':').next().unwrap_or_default();
            written.insert("device", format!("{device:?}"));
            written.extend(self.held.clone());
        }
        written
    }

    /// The settings of a choice in `file` that are overridden, or differ from the trials, in a run without this command line: each
    /// with its effective value and origin.
    ///
    /// # Errors
    /// When the configuration cannot be used.
    pub fn overridden(&self, choice: &Choice) -> Result<Vec<String>> {
        let line = CommandLine { config: self.line.config.clone(), ..CommandLine::default() };
        let now = config::requested(self.facts.clone(), &line, None)?;
        let now = if self.device == "cpu" || now.settings.uses_gpu_preset() { now } else { now.on_gpu()? };
        let mut expected = self.automatic.clone();
        expected.extend(choice.clone());
        let differs = |(key, value): (&&'static str, &String)| {
            let holds = now.value(key)?;
            let by = now.origin(key)?;
            (holds.to_string() != *value)
                .then(|| format!("{key} = {holds} is in effect, from {by}, instead of {value}"))
        };
        Ok(expected.iter().filter_map(differs).collect())
    }

    /// Environments and minibatches around the base that fit together, then what only GPUs have.
    fn learning_choices(&self, base: &Settings) -> Vec<Choice> {
        let mut choices = self.grid(base);
        // The automatic value is not a change.
        let changes = |(key, values): (&'static str, &[&str])| -> Vec<Choice> {
            let own = self.automatic.get(key);
            let others = values.iter().filter(|value| own.is_some_and(|own| own != *value));
            let others = others.map(|value| Choice::from([(key, (*value).to_owned())]));
            std::iter::once(Choice::new()).chain(others).collect()
        };
        let [precisions, overlaps] = OF_GPUS.map(changes);
        for precision in precisions {
            choices.extend(overlaps.iter().map(|overlap| {
                let mut choice = precision.clone();
                choice.extend(overlap.clone());
                choice
            }));
        }
        choices.retain(|choice| !choice.is_empty());
        choices
    }

    /// Environments and minibatches around the base that fit together.
    fn grid(&self, base: &Settings) -> Vec<Choice> {
        let [envs_free, parts_free] = GRID.map(|key| self.automatic.contains_key(key));
        let (envs, parts) = (base.learner.num_envs, base.learner.num_minibatches);
        let mut choices = Vec::new();
        for (times, over) in TIMES_ENVS.into_iter().filter(|times| envs_free || *times == (1, 1)) {
            let num_envs = envs * times / over;
            // The same samples in a minibatch, fewer and more; and the same number of minibatches.
            let same = parts * times / over;
            let mut counts = vec![same, same / 2, same * 2, parts];
            counts.retain(|count| parts_free || *count == parts);
            for (k, count) in counts.clone().into_iter().enumerate() {
                let is_new = (num_envs, count) != (envs, parts) && !counts[..k].contains(&count);
                let choice = Choice::from([(GRID[0], num_envs.to_string()), (GRID[1], count.to_string())]);
                let choice: Choice = choice
                    .into_iter()
                    .filter(|(key, value)| self.automatic.get(key).is_some_and(|a| a != value))
                    .collect();
                let fits = |requested: Requested| requested.settings.updates() >= MIN_UPDATES;
                if is_new && num_envs > 0 && count > 0 && self.requested(&choice).is_ok_and(fits) {
                    choices.push(choice);
                }
            }
        }
        choices
    }
}

/// A description of a device.
fn about(device: &str) -> String {
    if device != "cpu" {
        return device.to_owned();
    }
    let processor = operant_host::machine::processor().unwrap_or_else(|| "CPU".to_owned());
    let cpus = hardware_threads();
    format!("{processor}, {cpus} hardware thread{}", if cpus == 1 { "" } else { "s" })
}

/// Hardware threads that this process may use.
fn hardware_threads() -> usize {
    Topology::read().usable_cores().iter().map(|core| core.threads.len()).sum()
}

/// The value of a key as TOML text.
fn value_of(settings: &Settings, key: &'static str) -> Option<String> {
    settings.value(key).map(ToString::to_string)
}

/// Values of a machine setting other than the plan's.
fn machine_values(key: &str, base: &Settings) -> Vec<String> {
    let num_envs = Some(base.learner.num_envs);
    let plan = machine::plan(&base.run, num_envs, false);
    let besides = |values: &[usize], own: usize| -> Vec<String> {
        values.iter().filter(|&&value| value != own).map(ToString::to_string).collect()
    };
    let words = |words: [&str; 3], own: &str| -> Vec<String> {
        words.into_iter().filter(|word| *word != own).map(|word| format!("{word:?}")).collect()
    };
    match key {
        "threads" => {
            let cpus = hardware_threads();
            let powers = (0..usize::BITS).map(|power| 1 << power).take_while(|&threads| threads < cpus);
            besides(&powers.chain([cpus]).collect::<Vec<_>>(), plan.threads)
        }
        "rollout_tile" => besides(&ROLLOUT_TILES, plan.rollout_tile.unwrap_or(0)),
        "waiting" => words(["spin", "yield", "sleep"], plan.waiting.name()),
        _ => ["\"fused\"", "\"gemm\""].map(str::to_owned).into(),
    }
}

/// Whether a value comes from this file.
fn is_from(origin: Option<&Origin>, file: &Path) -> bool {
    matches!(origin, Some(Origin::File(path, _)) if is_same(path, file))
}

/// Whether two paths are the same file.
pub fn is_same(a: &Path, b: &Path) -> bool {
    let whole = |path: &Path| -> PathBuf { path.canonicalize().unwrap_or_else(|_| path.to_path_buf()) };
    whole(a) == whole(b)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn made(line: CommandLine, file: &ConfigFile) -> Space {
        let registry = operant_env::builtin();
        let env = device::find(&registry, "cartpole").expect("registered");
        Space::new(&env, EnvFacts::of(&env.spec(), &registry), line, file).expect("a space")
    }

    fn space(set: &[&str], flags: &[(&'static str, &str)]) -> Space {
        let set = ["device=cpu"].iter().chain(set).map(ToString::to_string).collect();
        let flags = flags.iter().map(|(key, value)| (*key, "--flag", (*value).to_owned())).collect();
        let line = CommandLine { set, flags, ..CommandLine::default() };
        let empty = tempfile::tempdir().expect("a directory");
        let file = ConfigFile::read(&empty.path().join("operant.toml"), &["cartpole"]).expect("no file");
        made(line, &file)
    }

    #[test]
    fn what_is_tried_is_valid_and_differs_from_what_is_automatic() {
        let space = space(&[], &[]);
        let base = space.requested(&Choice::new()).expect("valid").settings;
        assert_eq!((base.learner.num_envs, base.learner.num_minibatches, base.run.threads), (16, 4, 0));
        let keys: Vec<&str> = space.machine.iter().map(|knob| knob.key).collect();
        assert!(keys.ends_with(&["rollout_tile", "waiting"]), "{keys:?}");
        for knob in &space.machine {
            assert!(!knob.values.is_empty());
            for value in &knob.values {
                space.requested(&Choice::from([(knob.key, value.clone())])).expect("valid");
            }
        }
        assert!(space.learning.len() > 8, "{:?}", space.learning);
        for (k, choice) in space.learning.iter().enumerate() {
            let settings = space.requested(choice).expect("valid").settings;
            let own = (settings.learner.num_envs, settings.learner.num_minibatches);
            assert!(own != (16, 4) && settings.updates() >= MIN_UPDATES, "{choice:?}");
            assert!(!space.learning[..k].contains(choice), "{choice:?} twice");
        }
    }

    #[test]
    fn what_the_command_line_sets_is_not_tried() {
        let space =
            space(&["num_envs=32", "threads=1", "update_epochs=3"], &[("rollout_tile", "16"), ("seed", "9")]);
        let base = space.requested(&Choice::new()).expect("valid").settings;
        assert_eq!((base.learner.num_envs, base.run.threads, base.run.rollout_tile), (32, 1, 16));
        let keys: Vec<&str> = space.machine.iter().map(|knob| knob.key).collect();
        assert_eq!(keys, ["waiting"]);
        assert!(!space.learning.is_empty());
        assert!(space.learning.iter().all(|choice| choice.keys().eq(["num_minibatches"].iter())));
        // The number that the device chooses.
        let space = self::space(&["num_envs=auto"], &[]);
        let base = space.requested(&Choice::new()).expect("valid");
        assert_eq!((base.settings.learner.num_envs, base.num_envs_is_open()), (16, false));
        assert!(space.learning.iter().all(|choice| choice.keys().eq(["num_minibatches"].iter())));
    }

    #[test]
    fn what_is_found_is_written_with_what_it_was_found_with() {
        let space = space(&["num_envs=32", "update_epochs=3"], &[("seed", "9")]);
        // A trial has its own seed and device, whatever the flags say.
        let own = space.requested(&Choice::from([("seed", "3".to_owned())])).expect("valid").settings;
        assert_eq!((own.learner.seed, own.run.device.to_string().as_str()), (3, "cpu"));
        // A choice found with 32 environments is valid only with them.
        let found = Choice::from([("num_minibatches", "8".to_owned())]);
        let written = space.to_write(&found);
        assert_eq!((written["num_envs"].as_str(), written["device"].as_str()), ("32", "\"cpu\""));
        assert_eq!((written["update_epochs"].as_str(), written.get("seed")), ("3", None));
        let of_the_machine = Choice::from([("rollout_tile", "32".to_owned())]);
        assert_eq!(space.to_write(&of_the_machine), of_the_machine);
    }

    #[test]
    fn what_was_tuned_before_is_a_choice_and_what_a_person_wrote_is_the_base() {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let path = dir.path().join("operant.toml");
        let with = |text: &str| {
            std::fs::write(&path, text).expect("written");
            let set = vec!["device=cpu".to_owned()];
            let line = CommandLine { config: Some(path.clone()), set, ..CommandLine::default() };
            let file = ConfigFile::read(&path, &["cartpole"]).expect("a file");
            let space = made(line, &file);
            let base = space.requested(&Choice::new()).expect("valid").settings.learner.num_envs;
            // Three times the preset's: in no grid around it.
            let before = space.learning.contains(&Choice::from([("num_envs", "48".to_owned())]));
            (base, before, space)
        };
        let (base, before, _) = with("[cartpole]\nnum_envs = 48 # operant tune\n");
        assert_eq!((base, before), (16, true));
        let (base, before, space) = with("[cartpole]\nnum_envs = 48\n");
        assert_eq!((base, before), (48, false));
        // A file's value that differs is reported as overridden.
        let overridden = space.overridden(&Choice::from([("num_envs", "96".to_owned())])).expect("valid");
        assert!(
            overridden.len() == 1 && overridden[0].starts_with("num_envs = 48 is in effect, from "),
            "{overridden:?}"
        );
        assert_eq!(space.overridden(&Choice::new()).expect("valid"), [""; 0]);
    }
}
