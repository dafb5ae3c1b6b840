//! Hyperparameter files of RL Baselines3 Zoo: the hyperparameters of one environment, translated to settings.

use serde_json::{Map, Value as Json};
use toml::{Table, Value};

use super::elsewhere::{Counterpart, elsewhere};
use super::keys::find;
use super::layers::accepted_value;
use super::origin::EnvFacts;
use crate::error::{Error, Result};

/// The defaults of Stable-Baselines3's PPO, for what a file does not set. `batch_size` becomes `num_minibatches`.
const DEFAULTS: &str = "
num_envs = 1
num_steps = 2048
batch_size = 64
update_epochs = 10
learning_rate = 3e-4
lr_schedule = \"constant\"
gamma = 0.99
gae_lambda = 0.95
clip_coef = 0.2
clip_vloss = false
norm_adv = true
ent_coef = 0.0
vf_coef = 0.5
max_grad_norm = 0.5
target_kl = 0.0
hidden = [64, 64]
activation = \"tanh\"
shared_trunk = false
log_std_init = 0.0
norm_obs = false
norm_reward = false
";

/// An environment's hyperparameters as settings, and those without a counterpart, `key: value` each.
#[derive(Debug, Default)]
pub struct Zoo {
    pub table: Table,
    pub untranslated: Vec<String>,
}

impl Zoo {
    /// Reads a file's text; nothing while the environment is not known.
    ///
    /// # Errors
    /// Usage without a place: when it is not YAML, or has no hyperparameters of the environment.
    pub fn of(text: &str, facts: &EnvFacts) -> Result<Zoo> {
        if facts.name.is_empty() {
            return Ok(Zoo::default());
        }
        let mut file: Map<String, Json> = serde_saphyr::from_str(text).map_err(|error| {
            let error = error.to_string();
            let first = error.lines().next().unwrap_or_default();
            let what = format!("not valid YAML: {}", first.strip_prefix("error: ").unwrap_or(first));
            Error::usage(what).remedy("correct or remove that line")
        })?;
        let is_meant = |name: &String| {
            facts.known.get(name) == Some(&facts.name)
                || [Some(&**name), name.rsplit(':').next()]
                    .contains(&Some(facts.name.rsplit(':').next().unwrap_or_default()))
        };
        let meant = file.keys().find(|name| is_meant(name)).cloned();
        let said = match meant.and_then(|name| file.remove(&name)) {
            Some(Json::Object(said)) => said,
            None if !file.values().any(Json::is_object) => file,
            _ => {
                let names: Vec<&str> = file.keys().map(String::as_str).collect();
                return Err(Error::usage(format!("it has no hyperparameters of {}", facts.name))
                    .remedy(format!("rename one of its tables: {}", names.join(", "))));
            }
        };
        let table = DEFAULTS.parse().expect("valid TOML");
        let mut zoo = Zoo { table, untranslated: Vec::new() };
        for (name, value) in &said {
            if !zoo.hyperparameter(name, value) {
                zoo.untranslated.push(format!("{name}: {}", plain(value)));
            }
        }
        zoo.minibatches();
        Ok(zoo)
    }

    /// Translates one hyperparameter; false if it has no counterpart.
    fn hyperparameter(&mut self, name: &str, value: &Json) -> bool {
        let text = plain(value);
        let linear = text.strip_prefix("lin_").and_then(|start| start.parse::<f64>().ok());
        match (name, linear) {
            ("policy", _) if text == "MlpPolicy" || text == "MultiInputPolicy" => true,
            ("policy", _) if text.starts_with("MlpLstm") => self.put("core", Value::from("lstm")),
            ("learning_rate", Some(start)) => {
                self.put("lr_schedule", Value::from("linear"))
                    && self.put("learning_rate", Value::from(start))
            }
            ("clip_range", Some(start)) => {
                self.untranslated.push(format!("clip_range: {text} (clip_coef stays {start})"));
                self.put("clip_coef", Value::from(start))
            }
            ("batch_size", _) => value
                .as_u64()
                .is_some_and(|size| size > 0 && self.raw("batch_size", Value::from(size as i64))),
            ("n_timesteps", _) => value
                .as_f64()
                .is_some_and(|steps| self.put("total_timesteps", Value::from(steps.round() as i64))),
            ("target_kl", _) if value.is_null() => true,
            ("normalize", _) => {
                let said = pairs(value);
                let is_on = |name| match said.iter().find(|(said, _)| said == name) {
                    Some((_, value)) => value == "True",
                    None => text != "False" && text != "false",
                };
                self.put("norm_obs", Value::from(is_on("norm_obs")))
                    && self.put("norm_reward", Value::from(is_on("norm_reward")))
            }
            ("policy_kwargs", _) => {
                for (name, value) in pairs(value) {
                    if !self.of_policy(&name, &value) {
                        self.untranslated.push(format!("{name}: {value}"));
                    }
                }
                true
            }
            ("env_kwargs", _) => match Value::try_from(value) {
                Ok(Value::Table(options)) => self.raw("env", Value::Table(options)),
                _ => false,
            },
            _ => {
                let key = match elsewhere(name) {
                    // A word means something else in another library.
                    Some(Counterpart::Key(key, _)) if value.is_number() || value.is_boolean() => key,
                    None if find(name).is_some() => name,
                    _ => return false,
                };
                Value::try_from(value).is_ok_and(|value| self.put(key, value))
            }
        }
    }

    /// An argument of the policy, with its value as Python writes it.
    fn of_policy(&mut self, name: &str, value: &str) -> bool {
        match name {
            "log_std_init" => value.parse::<f64>().is_ok_and(|std| self.put(name, Value::from(std))),
            "activation_fn" => {
                let word = value.rsplit('.').next().unwrap_or_default().to_ascii_lowercase();
                self.put("activation", Value::from(word))
            }
            "net_arch" => {
                // [64, 64], or dict(pi=[64, 64], vf=[64, 64]) with the same widths twice.
                let lists: Vec<&str> =
                    value.split('[').skip(1).filter_map(|rest| rest.split(']').next()).collect();
                let widths = lists.first().and_then(|list| {
                    list.split(',').map(|width| width.trim().parse().ok()).collect::<Option<Vec<i64>>>()
                });
                let is_one = lists.iter().all(|list| Some(list) == lists.first());
                widths.is_some_and(|widths| is_one && self.put("hidden", Value::from(widths)))
            }
            "lstm_hidden_size" => {
                value.parse::<i64>().is_ok_and(|width| self.put("core_width", width.into()))
            }
            "n_lstm_layers" => {
                value.parse::<i64>().is_ok_and(|layers| self.put("core_layers", layers.into()))
            }
            "ortho_init" => {
                let init = if value == "True" { "orthogonal" } else { "pytorch" };
                self.put("init", Value::from(init))
            }
            _ => false,
        }
    }

    /// Whether the key takes the value, which it then has.
    fn put(&mut self, key: &str, value: Value) -> bool {
        accepted_value(key, value, key).is_ok_and(|value| self.raw(key, value))
    }

    fn raw(&mut self, key: &str, value: Value) -> bool {
        self.table.insert(key.to_owned(), value);
        true
    }

    /// The number of minibatches, from their size.
    fn minibatches(&mut self) {
        let whole = |key| self.table.get(key).and_then(Value::as_integer).unwrap_or(1);
        let (samples, size) = (whole("num_envs").saturating_mul(whole("num_steps")), whole("batch_size"));
        // The last one is smaller there where the size does not divide the samples.
        let count = (1..=(samples / size).max(1)).rev().find(|count| samples % count == 0).unwrap_or(1);
        if count * size != samples {
            self.untranslated
                .push(format!("batch_size: {size} (minibatches have {} samples)", samples / count));
        }
        self.table.remove("batch_size");
        self.raw("num_minibatches", Value::from(count));
    }
}

/// A value without quotation marks.
fn plain(value: &Json) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

/// The names and values of a mapping: one of YAML, or `dict(a=1, b=[2, 3])` or `{'a': 1}` as Python writes it.
fn pairs(value: &Json) -> Vec<(String, String)> {
    if let Json::Object(map) = value {
        let python = |value: &Json| match value {
            Json::Bool(true) => "True".to_owned(),
            Json::Bool(false) => "False".to_owned(),
            other => plain(other),
        };
        return map.iter().map(|(name, value)| (name.clone(), python(value))).collect();
    }
    let text = plain(value);
    let inner = text.trim().trim_start_matches("dict").trim_matches(|c| "(){}".contains(c));
    let (mut parts, mut depth) = (vec![String::new()], 0);
    for c in inner.chars() {
        depth += i32::from("([{".contains(c)) - i32::from(")]}".contains(c));
        match (c, parts.last_mut()) {
            (',', _) if depth == 0 => parts.push(String::new()),
            (c, Some(part)) if !c.is_whitespace() => part.push(c),
            _ => {}
        }
    }
    let split = |part: String| {
        let (name, value) = part.split_once(['=', ':'])?;
        Some((name.trim_matches(['\'', '"']).to_owned(), value.to_owned()))
    };
    parts.into_iter().filter_map(split).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn zoo(text: &str) -> Result<Zoo> {
        let known = [("CartPole-v1", "cartpole"), ("cartpole", "cartpole"), ("Pendulum-v1", "pendulum")];
        let known = known.into_iter().map(|(name, env)| (name.to_owned(), env.to_owned())).collect();
        Zoo::of(text, &EnvFacts { name: "cartpole".into(), known, ..EnvFacts::default() })
    }

    #[test]
    fn hyperparameters_become_settings_and_the_rest_is_named() {
        let text = "
Pendulum-v1: &shared
  n_envs: 8
  n_timesteps: !!float 1e5
  policy: 'MlpPolicy'
  gae_lambda: 0.8
CartPole-v1:
  <<: *shared
  n_steps: 32
  batch_size: 100
  learning_rate: lin_0.001
  clip_range: lin_0.2
  normalize: \"{'norm_obs': True, 'norm_reward': False}\"
  frame_stack: 4
  env_wrapper:
    - gymnasium.wrappers.FlattenObservation
  policy_kwargs: \"dict(log_std_init=-2, ortho_init=False, activation_fn=nn.ReLU, net_arch=dict(pi=[256, 64], vf=[256, 64]))\"
";
        let Zoo { table, untranslated } = zoo(text).expect("translated");
        let expected = [
            ("num_envs", "8"),
            ("total_timesteps", "100000"),
            ("num_steps", "32"),
            // 2 minibatches of 128 samples are nearest below those of 100.
            ("num_minibatches", "2"),
            ("gae_lambda", "0.8"),
            ("learning_rate", "0.001"),
            ("lr_schedule", "\"linear\""),
            ("clip_coef", "0.2"),
            ("norm_obs", "true"),
            ("norm_reward", "false"),
            ("log_std_init", "-2.0"),
            ("activation", "\"relu\""),
            ("hidden", "[256, 64]"),
            ("init", "\"pytorch\""),
            // Of Stable-Baselines3, not of operant.
            ("update_epochs", "10"),
            ("ent_coef", "0.0"),
        ];
        for (key, value) in expected {
            assert_eq!(table[key].to_string(), value, "{key}");
        }
        let named = [
            "clip_range: lin_0.2 (clip_coef stays 0.2)",
            "env_wrapper: [\"gymnasium.wrappers.FlattenObservation\"]",
            "frame_stack: 4",
            "batch_size: 100 (minibatches have 128 samples)",
        ];
        assert_eq!(untranslated, named);
        assert!(table.keys().all(|key| find(key).is_some()), "{table}");
    }

    #[test]
    fn files_without_the_environment_are_refused_and_lists_without_tables_are_of_any() {
        let error = zoo("Pendulum-v1:\n  n_envs: 4\n").expect_err("another");
        assert!(error.what.contains("cartpole") && error.remedy.expect("one").contains("Pendulum-v1"));
        let error = zoo("n_envs: [1\nb: 2").expect_err("no YAML");
        assert!(error.what.contains("line 2"), "{}", error.what);
        let Zoo { table, untranslated } =
            zoo("n_envs: 4\nnormalize: true\nlearning_rate: 1e-2\nseed: 3\ntarget_kl: null\ngamma: 7")
                .expect("translated");
        assert_eq!(untranslated, ["gamma: 7"]);
        let shown =
            ["num_envs", "norm_reward", "learning_rate", "seed", "gamma"].map(|key| table[key].to_string());
        assert_eq!(shown, ["4", "true", "0.01", "3", "0.99"]);
    }
}
