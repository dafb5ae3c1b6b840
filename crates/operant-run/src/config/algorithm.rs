//! The values of a configuration that depend on the run's algorithm.

use operant_learn::Config;
use operant_learn::algorithms::Algorithm;
use toml::{Table, Value};

use operant_learn::presets::GPU_TABLE;
use operant_learn::setting::Key;

use super::KeyGroup;
use super::keys::keys;
use super::layers::Layers;
use super::origin::{Entry, Origin};
use crate::error::{Error, Result};

impl Layers {
    /// The values for the run's algorithm. A preset is written for one algorithm, PPO unless it names another. Where the run has another one,
    /// its facts about the environment stay; its hyperparameters give way to the defaults of the algorithm, and to its table in the preset.
    ///
    /// # Errors
    /// When the user set a key of another algorithm.
    pub(super) fn with_algorithm(mut self) -> Result<Self> {
        let name = self.entries.get("algorithm").and_then(|entry| entry.value.as_str());
        let chosen = Algorithm::ALL.into_iter().find(|algorithm| Some(algorithm.name()) == name);
        let chosen = chosen.unwrap_or(self.preset_algorithm);
        for key in keys() {
            if let Some(entry) = self.entries.get(key.name)
                && !chosen.reads(key)
                && entry.origin.is_explicit()
                // Another algorithm than that of the resumed run or of the weights is refused later, with the reason.
                && !matches!(entry.origin, Origin::Resumed(_) | Origin::Weights(_))
            {
                let others = Algorithm::ALL.into_iter().filter(|other| other.reads(key));
                let others: Vec<String> = others.map(|other| format!("\"{other}\"")).collect();
                let others = match &others[..] {
                    [first @ .., last] if !first.is_empty() => format!("{} or {last}", first.join(", ")),
                    others => others.concat(),
                };
                let what = format!(
                    "{} is a setting of algorithm = {others}, and the run has \"{chosen}\"",
                    key.name
                );
                let instead = match key.name {
                    "batch_size" => "; a minibatch has num_envs * num_steps / num_minibatches samples",
                    _ => "",
                };
                let remedy = format!("remove it, or set algorithm = {others}{instead}");
                return Err(Error::usage(what).at(entry.origin.to_string()).remedy(remedy));
            }
        }
        if chosen != self.preset_algorithm {
            self.gpu.clear();
            self.forget_preset();
            self.auto_envs = self.auto_envs.filter(|origin| !matches!(origin, Origin::Preset(_)));
        }
        let mut own: Table = chosen.declaration().preset.parse().expect("the preset of an algorithm is TOML");
        let on_gpu = self.preset_table(own.remove(GPU_TABLE), &Origin::AlgorithmGpu(chosen))?;
        for (key, entry) in on_gpu {
            self.gpu.entry(key).or_insert(entry);
        }
        let own = self.preset_table(Some(Value::Table(own)), &Origin::Algorithm(chosen))?;
        let of_env = self.of_algorithms.iter().filter(|(algorithm, _)| *algorithm == chosen);
        let of_env: Vec<_> = of_env.flat_map(|(_, entries)| entries.clone()).collect();
        for (key, entry) in own {
            if self.entries.get(key).is_none_or(|below| below.origin == Origin::Default) {
                self.entries.insert(key, entry);
            }
        }
        for (key, entry) in of_env {
            if self.entries.get(key).is_none_or(|below| !below.origin.is_explicit()) {
                self.entries.insert(key, entry);
            }
        }
        Ok(self)
    }

    /// Resets the hyperparameters of the preset that are those of its algorithm: all but those of the network's layers.
    fn forget_preset(&mut self) {
        let of_policy = ["action_distribution", "log_std", "log_std_init", "init"];
        let defaults = Table::try_from(Config::default()).expect("settings are TOML");
        let stays = ["algorithm", "total_timesteps"];
        let is_of_layers = |key: &Key| key.group == KeyGroup::Network && !of_policy.contains(&key.name);
        for key in keys().filter(|key| key.group.is_learned() && !is_of_layers(key)) {
            if let (Some(entry), Some(default)) = (self.entries.get_mut(key.name), defaults.get(key.name))
                && matches!(entry.origin, Origin::Preset(_))
                && !stays.contains(&key.name)
            {
                *entry = Entry { value: default.clone(), origin: Origin::Default };
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use operant_learn::Optimizer;

    use super::*;
    use crate::config::{EnvFacts, Requested};

    const PRESET: &str = "solved_at = 475.0\ntotal_timesteps = 9000\nnum_envs = 64\nclip_coef = 0.3\nhidden = [32]\n\
                          [gpu]\nnum_envs = 4096\n[pqn]\nq_lambda = 0.5\nnum_envs = 8\n";

    fn requested(settings: &[&str]) -> Result<Requested> {
        let facts = EnvFacts { name: "game".into(), preset: Some(PRESET.into()), ..EnvFacts::default() };
        let mut layers = Layers::new(facts)?;
        settings.iter().try_for_each(|setting| layers.set(setting))?;
        layers.build()
    }

    #[test]
    fn another_algorithm_keeps_what_the_preset_says_about_the_environment() {
        let ppo = requested(&[]).expect("valid");
        assert_eq!((ppo.settings.learner.num_envs, ppo.has_gpu_preset()), (64, true));
        assert!(!ppo.to_toml(false).contains("q_lambda"), "{}", ppo.to_toml(false));
        let pqn = requested(&["algorithm=pqn", "end_e=0.1"]).expect("valid");
        let shown = pqn.to_toml(true);
        for (line, origin) in [
            ("solved_at = 475.0", "preset game"),
            ("total_timesteps = 9000", "preset game"),
            ("hidden = [32]", "preset game"),
            ("layer_norm = true", "default of pqn"),
            ("q_lambda = 0.5", "preset game [pqn]"),
            ("num_envs = 8", "preset game [pqn]"),
            ("end_e = 0.1", "--set"),
            ("num_minibatches = 4", "default"),
        ] {
            let found = shown.lines().find(|text| text.starts_with(&format!("{line} ")));
            assert!(found.is_some_and(|text| text.ends_with(&format!("# {origin}"))), "{line}: {shown}");
        }
        assert!(!shown.contains("clip_coef") && !pqn.has_gpu_preset(), "{shown}");
        assert_eq!(pqn.settings.learner.algorithms.pqn.q_lambda, 0.5);
        // Both orders, since a later layer may set the algorithm.
        assert_eq!(requested(&["end_e=0.1", "algorithm=pqn"]).expect("valid"), pqn);
    }

    #[test]
    fn an_algorithm_has_defaults_of_its_own_on_a_gpu() {
        let sac = requested(&["algorithm=sac", "device=cuda", "num_envs=2048"]).expect("valid");
        let shown = sac.to_toml(true);
        for (line, origin) in [("batch_size = 32768", "default of sac [gpu]"), ("num_envs = 2048", "--set")] {
            let found = shown.lines().find(|text| text.starts_with(&format!("{line} ")));
            assert!(found.is_some_and(|text| text.ends_with(&format!("# {origin}"))), "{line}: {shown}");
        }
        assert_eq!(requested(&["algorithm=sac"]).expect("valid").settings.learner.batch_size, 256);
        // The preset's own table is PPO's.
        for algorithm in ["algorithm=sac", "algorithm=td3"] {
            let own = requested(&[algorithm, "device=cuda"]).expect("valid");
            assert_eq!(own.settings.learner.num_envs, 1024, "{algorithm}");
            let error = requested(&[algorithm, "device=cuda", "learning_starts=100"]).expect_err("refused");
            assert!(
                error.what.contains("batch_size = 32768 is more than learning_starts = 100"),
                "{}",
                error.what
            );
        }
    }

    #[test]
    fn a_preset_may_be_written_for_another_algorithm() {
        let preset = "algorithm = \"pqn\"\nnum_envs = 8\nq_lambda = 0.5\n[ppo]\nclip_coef = 0.3\n";
        let facts = EnvFacts { name: "game".into(), preset: Some(preset.into()), ..EnvFacts::default() };
        let own = Layers::new(facts.clone()).and_then(Layers::build).expect("valid").settings.learner;
        assert_eq!((own.algorithm, own.num_envs, own.algorithms.pqn.q_lambda), (Algorithm::Pqn, 8, 0.5));
        assert!(own.layer_norm);
        let mut layers = Layers::new(facts).expect("valid");
        layers.set("algorithm=ppo").expect("valid");
        let other = layers.build().expect("valid").settings.learner;
        assert_eq!((other.num_envs, other.algorithms.ppo.clip_coef), (Config::default().num_envs, 0.3));
        assert!(!other.layer_norm);
    }

    #[test]
    fn a_setting_of_another_algorithm_is_one_error_that_names_it() {
        for (settings, parts) in [
            (["algorithm=pqn", "clip_coef=0.1"], ["clip_coef", "\"ppo\""]),
            (["algorithm=ppo", "q_lambda=0.1"], ["q_lambda", "\"pqn\""]),
        ] {
            let error = requested(&settings).expect_err("refused").to_string();
            assert!(parts.iter().all(|part| error.contains(part)), "{error}");
        }
        let error = requested(&["algorithm=a2c"]).expect_err("refused").to_string();
        assert!(error.contains("ppo, pqn"), "{error}");
    }

    #[test]
    fn tables_of_algorithms_stand_in_presets_alone_and_set_neither_algorithm_nor_auto() {
        for preset in ["[pqn]\nalgorithm = \"ppo\"\n", "[gpu]\nnum_envs = \"auto\"\n"] {
            let facts = EnvFacts { name: "game".into(), preset: Some(preset.into()), ..EnvFacts::default() };
            let error = Layers::new(facts).expect_err("refused").to_string();
            assert!(error.contains("cannot stand in a table"), "{error}");
        }
        let dir = tempfile::tempdir().expect("a directory");
        let file = dir.path().join("operant.toml");
        for table in ["pqn", "gpu"] {
            std::fs::write(&file, format!("[{table}]\nnum_envs = 8\n")).expect("written");
            let mut layers = Layers::new(EnvFacts::default()).expect("valid");
            let error = layers.file(&file).expect_err("refused").to_string();
            assert!(error.contains("a table of presets alone"), "{error}");
        }
    }

    #[test]
    fn a_run_of_an_earlier_version_keeps_what_the_algorithm_has_other_defaults_for() {
        let saved = requested(&["algorithm=pqn"]).expect("valid").settings.to_saved_toml();
        assert!(saved.contains("optimizer = \"radam\""), "{saved}");
        let earlier = saved.replace("optimizer = \"radam\"\n", "");
        let resumed = |text: &str| {
            let facts = EnvFacts { name: "game".into(), ..EnvFacts::default() };
            let mut layers = Layers::new(facts).expect("valid");
            layers.resumed("run", text).expect("valid");
            layers
                .build()
                .expect("valid")
                .resuming(text, "run")
                .expect("it resumes")
                .settings
                .learner
                .optimizer
        };
        assert_eq!([&saved, &earlier].map(|text| resumed(text)), [Optimizer::RAdam, Optimizer::Adam]);
    }

    #[test]
    fn a_run_resumes_with_its_algorithm() {
        let saved = requested(&["algorithm=pqn"]).expect("valid").settings.to_saved_toml();
        assert!(saved.contains("algorithm = \"pqn\"") && !saved.contains("clip_coef"), "{saved}");
        // A resumed run's settings of its algorithm do not hide why another one cannot continue it.
        let facts = EnvFacts { name: "game".into(), ..EnvFacts::default() };
        let mut layers = Layers::new(facts).expect("valid");
        layers.resumed("run", &saved).expect("valid");
        layers.set("algorithm=ppo").expect("valid");
        let error = layers.build().expect("valid").resuming(&saved, "run").expect_err("another");
        assert!(error.to_string().contains("weights of that algorithm"), "{error}");
        let error = requested(&[]).expect("valid").resuming(&saved, "run").expect_err("another");
        assert!(error.to_string().contains("algorithm"), "{error}");
        assert!(requested(&["algorithm=pqn"]).expect("valid").resuming(&saved, "run").is_ok());
        // A run of a version that had one algorithm.
        let earlier: String = requested(&[]).expect("valid").settings.to_saved_toml();
        let earlier = earlier.replace("algorithm = \"ppo\"\n", "");
        assert!(requested(&[]).expect("valid").resuming(&earlier, "run").is_ok());
    }

    #[test]
    fn learning_from_a_replay_takes_its_own_settings_and_refuses_others_by_name() {
        let sac = requested(&["algorithm=sac"]).expect("valid").settings.learner;
        assert_eq!((sac.num_envs, &sac.hidden[..], sac.log_std_init), (1, &[32][..], 0.0));
        for (settings, named) in [
            (&["algorithm=sac", "clip_coef=0.1"][..], "clip_coef is a setting of algorithm = \"ppo\""),
            (&["algorithm=sac", "num_minibatches=4"], "num_minibatches is a setting of"),
            (&["tau=0.1"], "tau is a setting of"),
            (&["batch_size=64"], "batch_size is a setting of"),
            (&["algorithm=pqn", "buffer_size=64"], "buffer_size is a setting of"),
            (&["algorithm=sac", "batch_size=8000"], "batch_size = 8000 is more than learning_starts = 5000"),
            (&["algorithm=sac", "buffer_size=100"], "buffer_size = 100 is less than learning_starts = 5000"),
            (
                &["algorithm=sac", "num_envs=4096", "buffer_size=6000"],
                "less than two steps of num_envs = 4096",
            ),
            (&["algorithm=sac", "core=gru"], "networks with critics of actions have no memory"),
            (&["algorithm=sac", "burn_in=4"], "burn_in is a setting of algorithm = \"dqn\""),
            (&["algorithm=sac", "sequence_length=4"], "sequence_length is a setting of"),
            (&["algorithm=sac", "action_distribution=beta"], "tanh squashes actions of"),
            (&["algorithm=sac", "log_std=parameter"], "SAC's network computes it"),
            (&["algorithm=sac", "updates_per_step=0"], "updates_per_step = 0"),
            (&["algorithm=sac", "tau=2"], "tau = 2"),
            (&["algorithm=sac", "alpha=-1"], "alpha = -1"),
            (&["algorithm=sac", "n_step=0"], "n_step = 0"),
            (&["algorithm=sac", "double_q=false"], "double_q is a setting of algorithm = \"dqn\""),
            (&["algorithm=sac", "end_e=0.1"], "end_e is a setting of algorithm = \"pqn\" or \"dqn\""),
            (&["algorithm=sac", "dueling=true"], "dueling is a setting of algorithm = \"pqn\" or \"dqn\""),
            (
                &["algorithm=pqn", "value_bins=51"],
                "value_bins is a setting of algorithm = \"ppo\", \"sac\", \"td3\" or \"dqn\"",
            ),
            (
                &["algorithm=pqn", "intrinsic=rnd", "intrinsic_gamma=0.9"],
                "the values of PQN choose the actions",
            ),
            (&["algorithm=sac", "intrinsic_gamma=0.9"], "intrinsic_gamma is a setting of"),
            (&["intrinsic_gamma=0.9"], "intrinsic = \"none\" has no value function of its own"),
            (&["value_bins=51"], "51: distributions of values do not support clip_vloss = true"),
            (&["algorithm=dqn", "policy_frequency=2"], "policy_frequency is a setting of"),
            (&["algorithm=dqn", "intrinsic=counts"], "intrinsic is a setting of"),
            (
                &["algorithm=dqn", "core=gru", "batch_size=100"],
                "batch_size = 100 is no multiple of sequence_length = 32",
            ),
            (&["algorithm=dqn", "core=gru", "num_envs=200"], "no more than the 32 steps of a sequence"),
            (&["algorithm=dqn", "batch_size=8000"], "batch_size = 8000 is more than learning_starts = 5000"),
            (&["algorithm=dqn", "target_network_frequency=0"], "target_network_frequency = 0"),
            (&["algorithm=dqn", "priority_exponent=-1"], "priority_exponent = -1"),
        ] {
            let error = requested(settings).expect_err("refused");
            assert!(error.what.contains(named), "{settings:?}: {}", error.what);
        }
    }
}
