//! The requested configuration, and its resolution for a device: sources -> requested -> resolved. No step changes a
//! value in place.

use std::sync::Arc;

use operant_learn::cpu::unit_for;
use operant_learn::network::MEMORY_KEYS;
use operant_learn::{Config, CoreKind, Encoder, Precision};
use toml::{Table, Value};

use super::device_request::{DeviceName, DeviceRequest};
use super::keys::keys;
use super::layers::Layers;
use super::origin::{Entries, Entry, Origin};
use super::settings::Settings;
use super::{RunConfig, weights};
use crate::error::{Error, Result};
use crate::init_from::InitialWeights;

/// The requested configuration: every value typed and checked. The device may be open, and with it `num_envs` and
/// whether the preset's `[gpu]` table applies.
#[derive(Debug, Clone, PartialEq)]
pub struct Requested {
    /// The settings for the device requested by name, or for the CPU while the device is open; with the number of
    /// environments below an `auto`.
    pub settings: Settings,
    /// The `[gpu]` table of the environment's preset.
    gpu: Entries,
    /// Origin of `num_envs = "auto"`, if it was requested.
    auto_envs: Option<Origin>,
    /// The weights that a new run begins with, if they were read already.
    weights: Option<Arc<InitialWeights>>,
}

impl Layers {
    /// Checks the whole configuration, with the preset's `[gpu]` table if a GPU is requested by name.
    ///
    /// # Errors
    /// The first invalid value, with its origin and a remedy.
    pub fn build(self) -> Result<Requested> {
        let Layers { facts, mut entries, options, gpu, auto_envs, untranslated, weights, .. } =
            self.with_algorithm()?;
        without_unused(&mut entries);
        let settings = Settings { untranslated, ..Settings::of(facts, entries, options)? };
        let requested = Requested { settings, gpu, auto_envs, weights };
        match &requested.settings.run.device {
            DeviceRequest::Only(DeviceName::Cuda(_)) => requested.on_gpu(),
            DeviceRequest::Only(DeviceName::Cpu) => requested.on_cpu(),
            // Settings that only GPUs support are refused once the CPU is chosen.
            DeviceRequest::Auto if requested.auto_may_take_a_gpu() && requested.on_gpu().is_ok() => {
                Ok(requested)
            }
            DeviceRequest::FirstOf(_) if requested.on_gpu().is_ok() => Ok(requested),
            _ => requested.checked(),
        }
    }
}

/// With an explicit `core = "mlp"` or `encoder = "auto"`, keys of the preset that mean nothing there return to their defaults.
fn without_unused(entries: &mut Entries) {
    let defaults = Table::try_from(Config::default()).expect("settings are TOML");
    let off = [
        ("core", CoreKind::Mlp.name(), &MEMORY_KEYS[..]),
        ("encoder", Encoder::Auto.name(), &["embed_width"][..]),
    ];
    for (key, word, unused) in off {
        let value = Value::from(word);
        if !entries.get(key).is_some_and(|entry| entry.origin.is_explicit() && entry.value == value) {
            continue;
        }
        for &key in unused {
            if let (Some(entry), Some(default)) = (entries.get_mut(key), defaults.get(key))
                && !entry.origin.is_explicit()
            {
                *entry = Entry { value: default.clone(), origin: Origin::Default };
            }
        }
    }
}

impl Requested {
    /// Where the value of a key came from.
    pub fn origin(&self, key: &str) -> Option<&Origin> {
        match &self.auto_envs {
            Some(origin) if key == "num_envs" => Some(origin),
            _ => self.settings.origin(key),
        }
    }

    /// The value of a key as TOML; None if it has none, or if the device has not chosen it yet.
    pub fn value(&self, key: &str) -> Option<&Value> {
        let is_open = key == "num_envs" && self.num_envs_is_open();
        self.settings.value(key).filter(|_| !is_open)
    }

    /// Whether the device has not chosen `num_envs` yet.
    pub fn num_envs_is_open(&self) -> bool {
        self.auto_envs.is_some()
    }

    /// Whether the environment's preset has a `[gpu]` table.
    pub fn has_gpu_preset(&self) -> bool {
        !self.gpu.is_empty()
    }

    /// Whether `auto` may train on a GPU: there are settings for it, and its speed with them has been measured.
    pub fn auto_may_take_a_gpu(&self) -> bool {
        self.has_gpu_preset() && !self.settings.learner.algorithm.declaration().has_replay()
    }

    /// Whether the command line sets this key. A device never overrides such a value.
    pub(crate) fn is_from_command_line(&self, key: &str) -> bool {
        matches!(self.origin(key), Some(Origin::Flag(_)))
    }

    /// The error, at the origin of this key's value.
    pub(crate) fn placed(&self, error: Error, key: &str) -> Error {
        match self.origin(key) {
            Some(origin) => error.at(origin.to_string()),
            None => error,
        }
    }

    /// The request for a GPU: the preset's `[gpu]` table overrides the rest of the preset, and nothing else.
    ///
    /// # Errors
    /// Same as [`Layers::build`].
    pub fn on_gpu(&self) -> Result<Requested> {
        let mut entries = self.settings.entries.clone();
        for (key, entry) in &self.gpu {
            if entries.get(key).is_none_or(|below| !below.origin.is_explicit()) {
                entries.insert(key, entry.clone());
            }
        }
        self.with(entries)?.checked()
    }

    /// The request for the CPU. Settings that only GPUs support, or other CPUs, are overridden if a file or variable set them, and
    /// refused if the command line did.
    ///
    /// # Errors
    /// Same as [`Layers::build`].
    pub fn on_cpu(&self) -> Result<Requested> {
        self.check_for_cpu()?;
        let run = &self.settings.run;
        let overlap = run.overlap.then_some(("overlap", Value::Boolean(false), None));
        let f32 = || Value::String(Precision::F32.name().to_owned());
        let precision = unit_for(run.precision).err().map(|reason| ("precision", f32(), Some(reason)));
        self.overriding([overlap, precision].into_iter().flatten(), "the CPU")?.checked()
    }

    /// Refuses settings from the command line that this CPU does not support.
    fn check_for_cpu(&self) -> Result<()> {
        let run = &self.settings.run;
        if run.overlap && self.is_from_command_line("overlap") {
            let error =
                Error::usage("overlap = true needs a GPU: the CPU does not overlap rollout and update")
                    .remedy("leave overlap out, or set it to false");
            return Err(self.placed(error, "overlap"));
        }
        match unit_for(run.precision) {
            Err(reason) if self.is_from_command_line("precision") => {
                let what =
                    format!("{} needs a GPU to train on: {reason}", self.settings.assignment("precision"));
                let remedy = match unit_for(Precision::Bf16) {
                    Ok(_) => "this CPU trains in f32 and bf16: set precision to one of them",
                    Err(_) => "this CPU trains in f32: leave precision out, or set it to f32",
                };
                Err(self.placed(Error::usage(what).remedy(remedy), "precision"))
            }
            _ => Ok(()),
        }
    }

    /// A copy in which each of these keys has the only value that the device supports, with a remark why if there is one.
    pub(crate) fn overriding<'a>(
        &self,
        values: impl IntoIterator<Item = (&'static str, Value, Option<&'a str>)>,
        device: &str,
    ) -> Result<Requested> {
        let mut entries = self.settings.entries.clone();
        for (key, value, remark) in values {
            let Some(entry) = entries.get_mut(key) else { continue };
            let remark = remark.map_or_else(String::new, |remark| format!(" ({remark})"));
            let reason =
                format!("{device} has no {key} = {}{remark}, which {} requests", entry.value, entry.origin);
            *entry = Entry { value, origin: Origin::Overridden(reason) };
        }
        self.with(entries)
    }

    /// The overridden settings, in one line.
    pub(crate) fn overridden(&self) -> Option<String> {
        let shown = |entry: &Entry| match &entry.origin {
            Origin::Overridden(reason) => Some(format!("{reason}: it is {}", entry.value)),
            _ => None,
        };
        let shown: Vec<String> = self.settings.entries.values().filter_map(shown).collect();
        (!shown.is_empty()).then(|| shown.join("; "))
    }

    /// The request of a run that resumes from a checkpoint saved under the configuration `saved`. The number of
    /// environments is the checkpoint's, so `auto` has no effect.
    ///
    /// # Errors
    /// The first key whose change is incompatible with the checkpoint, with both values.
    pub fn resuming(&self, saved: &str, run: &str) -> Result<Requested> {
        let saved: Table = saved.parse().map_err(|error: toml::de::Error| {
            Error::usage(format!("the checkpoint's configuration is not valid TOML: {}", error.message()))
                .at(run.to_string())
        })?;
        let defaults = Table::try_from(Config::default()).unwrap_or_default();
        for (key, reason) in keys().filter_map(|key| Some((key.name, key.fixed?))) {
            let Some(entry) = self.settings.entries.get(key) else { continue };
            // A key that the checkpoint's version did not know has its default; some have none.
            let old = saved.get(key).or_else(|| defaults.get(key));
            if old != Some(&entry.value) {
                let old = old.map_or_else(|| format!("without {key}"), |old| format!("with {key} = {old}"));
                let what = format!("{key} = {} cannot resume a run {old}: {reason}", entry.value);
                return Err(Error::usage(what)
                    .at(entry.origin.to_string())
                    .remedy(format!("leave {key} as it is, or start a new run with it")));
            }
        }
        Requested { auto_envs: None, ..self.clone() }.checked()
    }

    /// The final settings of a run. If `num_envs` is open, it takes the number that the device chose, with the reason,
    /// or with None the value below `auto`.
    ///
    /// # Errors
    /// When other values do not fit that number.
    pub fn resolve(&self, num_envs: Option<(usize, String)>) -> Result<Settings> {
        let mut entries = self.settings.entries.clone();
        if self.num_envs_is_open()
            && let Some((num_envs, reason)) = num_envs
        {
            let value = Value::Integer(i64::try_from(num_envs).unwrap_or(i64::MAX));
            entries.insert("num_envs", Entry { value, origin: Origin::Chosen(reason) });
        }
        let resolved = Requested { auto_envs: None, ..self.with(entries)? };
        Ok(resolved.checked()?.settings)
    }

    /// The weights that a new run begins with, if `init_from` or the program sets any.
    ///
    /// # Errors
    /// When they cannot be read, or settings give another network.
    pub fn weights(&self) -> Result<Option<Arc<InitialWeights>>> {
        let RunConfig { run_dir, init_from, .. } = &self.settings.run;
        let weights = match (&self.weights, init_from) {
            (Some(weights), _) => Arc::clone(weights),
            (None, Some(what)) => Arc::new(
                InitialWeights::find(run_dir, what)
                    .map_err(|error| weights::at(error, self.origin("init_from")))?,
            ),
            (None, None) => return Ok(None),
        };
        weights.check(&self.settings)?;
        Ok(Some(weights))
    }

    /// The configuration as TOML, as [`Settings::to_toml`].
    pub fn to_toml(&self, origins: bool) -> String {
        self.settings.shown(self.auto_envs.as_ref(), origins)
    }

    fn with(&self, entries: Entries) -> Result<Requested> {
        let Settings { facts, options, untranslated, .. } = self.settings.clone();
        let settings = Settings { untranslated, ..Settings::of(facts, entries, options)? };
        Ok(Requested { settings, ..self.clone() })
    }

    /// Returns itself if all values fit together. `num_envs` is not checked until the device has chosen it.
    fn checked(self) -> Result<Requested> {
        if !self.num_envs_is_open() {
            self.settings.check_minibatches()?;
        }
        Ok(self)
    }
}
