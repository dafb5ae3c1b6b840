//! What the sources ask for, and the settings that a device makes of it: sources -> requested -> resolved. Nothing here changes a
//! value in place; each step gives new ones.

use operant_learn::Precision;
use toml::{Table, Value};

use super::device_request::{DeviceName, DeviceRequest};
use super::keys::keys;
use super::layers::Layers;
use super::origin::{Entries, Entry, Origin};
use super::settings::Settings;
use crate::error::{Error, Result};

/// The configuration that is asked for: every value typed and checked, while the device may be open, and with it the preset's part for
/// GPUs and `num_envs`.
#[derive(Debug, Clone, PartialEq)]
pub struct Requested {
    /// The settings as they are for a device that is asked for by name, and for the CPU while that is open; with the number of
    /// environments below an `auto`.
    pub settings: Settings,
    /// What the environment's preset has for GPUs, by key.
    gpu: Entries,
    /// Where `num_envs = "auto"` was asked for, if it was.
    auto_envs: Option<Origin>,
}

impl Layers {
    /// Checks the whole: with the preset for GPUs where a GPU is asked for by name.
    ///
    /// # Errors
    /// The first thing that does not fit, with the value, its origin and a remedy.
    pub fn build(self) -> Result<Requested> {
        let Layers { facts, entries, options, gpu, auto_envs } = self;
        let settings = Settings::of(facts, entries, options)?;
        let requested = Requested { settings, gpu, auto_envs };
        match &requested.settings.run.device {
            DeviceRequest::Only(DeviceName::Cuda(_)) => requested.on_gpu(),
            DeviceRequest::Only(DeviceName::Cpu) => requested.on_cpu(),
            // What fits a GPU alone is refused once the CPU is chosen.
            DeviceRequest::Auto if requested.has_gpu_preset() && requested.on_gpu().is_ok() => Ok(requested),
            DeviceRequest::FirstOf(_) if requested.on_gpu().is_ok() => Ok(requested),
            _ => requested.checked(),
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

    /// The value of a key, as TOML has it; None where it has none, or the device is yet to decide.
    pub fn value(&self, key: &str) -> Option<&Value> {
        let is_open = key == "num_envs" && self.num_envs_is_open();
        self.settings.value(key).filter(|_| !is_open)
    }

    /// Whether the device is yet to decide `num_envs`.
    pub fn num_envs_is_open(&self) -> bool {
        self.auto_envs.is_some()
    }

    /// Whether the environment's preset has a part for GPUs.
    pub fn has_gpu_preset(&self) -> bool {
        !self.gpu.is_empty()
    }

    /// Whether the command line sets this key: what it sets is never overridden by a device.
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

    /// The same for a GPU: what the preset has for GPUs lies over the rest of it, and under everything else.
    ///
    /// # Errors
    /// As [`Layers::build`].
    pub fn on_gpu(&self) -> Result<Requested> {
        let mut entries = self.settings.entries.clone();
        for (key, entry) in &self.gpu {
            if entries.get(key).is_none_or(|below| !below.origin.is_explicit()) {
                entries.insert(key, entry.clone());
            }
        }
        self.with(entries)?.checked()
    }

    /// The same for the CPU. What only GPUs have is overridden where a file or a variable set it, and refused where the command line
    /// did.
    ///
    /// # Errors
    /// As [`Layers::build`].
    pub fn on_cpu(&self) -> Result<Requested> {
        self.check_for_cpu()?;
        let run = &self.settings.run;
        let overlap = run.overlap.then_some(("overlap", Value::Boolean(false)));
        let precision = Value::String(Precision::F32.name().to_owned());
        let precision = (run.precision != Precision::F32).then_some(("precision", precision));
        self.overriding([overlap, precision].into_iter().flatten(), "the CPU")?.checked()
    }

    /// Refuses what exists on GPUs only where the command line sets it.
    fn check_for_cpu(&self) -> Result<()> {
        let run = &self.settings.run;
        if run.overlap && self.is_from_command_line("overlap") {
            let error = Error::usage("overlap = true exists on GPUs only: the CPU does one thing at a time")
                .remedy("leave overlap out, or set it to false");
            return Err(self.placed(error, "overlap"));
        }
        if run.precision == Precision::F32 || !self.is_from_command_line("precision") {
            return Ok(());
        }
        let what = format!("{} needs a GPU to train on", self.settings.assignment("precision"));
        let error = Error::usage(what).remedy("the CPU trains in f32: leave precision out, or set it to f32");
        Err(self.placed(error, "precision"))
    }

    /// The same with the one value that a device has for each of these keys.
    pub(crate) fn overriding(
        &self,
        values: impl IntoIterator<Item = (&'static str, Value)>,
        device: &str,
    ) -> Result<Requested> {
        let mut entries = self.settings.entries.clone();
        for (key, value) in values {
            let Some(entry) = entries.get_mut(key) else { continue };
            let reason = format!("{device} has no {key} = {}, which {} asks for", entry.value, entry.origin);
            *entry = Entry { value, origin: Origin::Overridden(reason) };
        }
        self.with(entries)
    }

    /// What the device overrides, in one line.
    pub(crate) fn overridden(&self) -> Option<String> {
        let shown = |entry: &Entry| match &entry.origin {
            Origin::Overridden(reason) => Some(format!("{reason}: it is {}", entry.value)),
            _ => None,
        };
        let shown: Vec<String> = self.settings.entries.values().filter_map(shown).collect();
        (!shown.is_empty()).then(|| shown.join("; "))
    }

    /// The request of a run that goes on from a checkpoint saved under the configuration `saved`. It has as many environments as
    /// the checkpoint, so `auto` asks for nothing.
    ///
    /// # Errors
    /// The first key whose change does not fit the checkpoint, with both values.
    pub fn resuming(&self, saved: &str, run: &str) -> Result<Requested> {
        let saved: Table = saved.parse().map_err(|error: toml::de::Error| {
            Error::usage(format!("the checkpoint's configuration is not valid TOML: {}", error.message()))
                .at(run.to_string())
        })?;
        for (key, reason) in keys().filter_map(|key| Some((key.name, key.fixed?))) {
            let (Some(entry), Some(old)) = (self.settings.entries.get(key), saved.get(key)) else { continue };
            if entry.value != *old {
                let what =
                    format!("{key} = {} cannot resume a run with {key} = {old}: {reason}", entry.value);
                return Err(Error::usage(what)
                    .at(entry.origin.to_string())
                    .remedy(format!("leave {key} as it is, or start a new run with it")));
            }
        }
        Requested { auto_envs: None, ..self.clone() }.checked()
    }

    /// The settings of a run, final: where `num_envs` is open, with the number that the device chose and why, or with None the one below
    /// `auto`.
    ///
    /// # Errors
    /// When other values do not fit it.
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

    /// The configuration as TOML, as [`Settings::to_toml`].
    pub fn to_toml(&self, origins: bool) -> String {
        self.settings.shown(self.auto_envs.as_ref(), origins)
    }

    fn with(&self, entries: Entries) -> Result<Requested> {
        let Settings { facts, options, .. } = &self.settings;
        let settings = Settings::of(facts.clone(), entries, options.clone())?;
        Ok(Requested { settings, gpu: self.gpu.clone(), auto_envs: self.auto_envs.clone() })
    }

    /// Itself, if all values fit together. Until the device has decided, `num_envs` has no number to check.
    fn checked(self) -> Result<Requested> {
        if !self.num_envs_is_open() {
            self.settings.check_minibatches()?;
        }
        Ok(self)
    }
}
