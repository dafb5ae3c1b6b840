//! What no single value can decide: keys that must fit together, and changes a checkpoint cannot take.

use std::collections::BTreeMap;

use operant_learn::Precision;
use toml::{Table, Value};

use super::keys::{Group, KEYS, MOST_ENVS};
use super::layers::{Entry, EnvFacts, Layers, Origin};
use super::{RunConfig, Settings};
use crate::error::{Error, Result};
use crate::gpu;

/// Samples that one update may hold; beyond, buffers outgrow the machines that exist.
const MOST_SAMPLES: u64 = 1 << 28;

/// A device that is asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Wish {
    /// The best that can train this configuration.
    Auto,
    /// The CPU.
    Cpu,
    /// The GPU of this number.
    Cuda(usize),
    /// The first of these that can: two or more, none of them `Auto` or an order itself, and the CPU the last if at all.
    Order(Vec<Wish>),
}

impl Layers {
    /// Checks the whole and makes settings of it: with the preset for GPUs where a GPU is asked for. `auto` may take one, too;
    /// then [`Settings::on_gpu`] has it.
    ///
    /// # Errors
    /// The first thing that does not fit, with the value, its origin and a remedy.
    pub fn build(self) -> Result<Settings> {
        let Layers { facts, entries, options, gpu, auto_envs } = self;
        let settings = Settings { auto_envs, ..Settings::of(facts, entries, options, gpu)? };
        match settings.wish() {
            Some(Wish::Cuda(_)) => settings.on_gpu(),
            // What fits one device alone is for whoever chooses it.
            Some(Wish::Auto) if settings.has_gpu_preset() && settings.on_gpu().is_ok() => Ok(settings),
            Some(Wish::Order(_)) if settings.on_gpu().is_ok() => Ok(settings),
            Some(Wish::Cpu) => settings.on_cpu(),
            _ => settings.check().map(|()| settings),
        }
    }
}

impl Settings {
    /// The same layers for a GPU: what the preset has for GPUs lies over the rest of it, and under everything that somebody
    /// asked for.
    ///
    /// # Errors
    /// As [`Layers::build`].
    pub fn on_gpu(&self) -> Result<Settings> {
        let Settings { facts, mut entries, options, gpu, auto_envs, .. } = self.clone();
        for (key, entry) in &gpu {
            if entries.get(key).is_none_or(|below| !below.origin.is_explicit()) {
                entries.insert(key, entry.clone());
            }
        }
        let settings = Settings { auto_envs, ..Settings::of(facts, entries, options, gpu)? };
        settings.check().map(|()| settings)
    }

    /// The same layers for the CPU. What exists on GPUs only gives way where a file or a variable prefers it, and is refused
    /// where the command line demands it.
    ///
    /// # Errors
    /// As [`Layers::build`].
    pub(crate) fn on_cpu(&self) -> Result<Settings> {
        self.check_for_cpu()?;
        let overlap = self.run.overlap.then_some(("overlap", Value::Boolean(false)));
        let precision = Value::String(Precision::F32.name().to_owned());
        let precision = (self.run.precision != Precision::F32.name()).then_some(("precision", precision));
        let settings = self.giving_way([overlap, precision].into_iter().flatten(), "the CPU")?;
        settings.check().map(|()| settings)
    }

    /// The same layers with the one value that a device has for each of these keys.
    pub(crate) fn giving_way(
        &self,
        values: impl IntoIterator<Item = (&'static str, Value)>,
        device: &str,
    ) -> Result<Settings> {
        let Settings { facts, mut entries, options, gpu, auto_envs, .. } = self.clone();
        for (key, value) in values {
            let Some(entry) = entries.get_mut(key) else { continue };
            let reason = format!("{device} has no {key} = {}, which {} asks for", entry.value, entry.origin);
            *entry = Entry { value, origin: Origin::GaveWay(reason) };
        }
        Ok(Settings { auto_envs, ..Settings::of(facts, entries, options, gpu)? })
    }

    /// What gave way to the device, in one line.
    pub(crate) fn gave_way(&self) -> Option<String> {
        let told = |entry: &Entry| match &entry.origin {
            Origin::GaveWay(reason) => Some(format!("{reason}: it is {}", entry.value)),
            _ => None,
        };
        let told: Vec<String> = self.entries.values().filter_map(told).collect();
        (!told.is_empty()).then(|| told.join("; "))
    }

    /// Whether the command line demands this key's value.
    pub(crate) fn is_demanded(&self, key: &str) -> bool {
        matches!(self.origin(key), Some(Origin::Flag(_)))
    }

    /// Settings whose values are of their types and not yet known to fit together.
    fn of(
        facts: EnvFacts,
        entries: BTreeMap<&'static str, Entry>,
        options: BTreeMap<String, Entry>,
        gpu: BTreeMap<&'static str, Entry>,
    ) -> Result<Settings> {
        let table = |group: Group| -> Table {
            KEYS.iter()
                .filter(|key| key.group == group)
                .filter_map(|key| Some((key.name.to_string(), entries.get(key.name)?.value.clone())))
                .collect()
        };
        let incomplete = |error: toml::de::Error| {
            Error::usage(format!("the configuration is incomplete: {}", error.message()))
                .remedy("set the key in a file or with --set")
        };
        let learner: operant_learn::Config =
            Value::Table(table(Group::Learner)).try_into().map_err(incomplete)?;
        let run: RunConfig = Value::Table(table(Group::Run)).try_into().map_err(incomplete)?;
        let env_options = options
            .iter()
            .filter_map(|(name, entry)| Some((name.clone(), entry.value.as_float()?)))
            .collect();
        let (auto_envs, applied) = (None, None);
        let environment = facts.name.clone();
        Ok(Settings {
            environment,
            learner,
            run,
            env_options,
            facts,
            entries,
            options,
            gpu,
            auto_envs,
            applied,
        })
    }
}

impl Wish {
    /// The device that a word asks for; None for one that names none.
    pub(crate) fn of(device: &str) -> Option<Wish> {
        match device {
            "auto" => Some(Wish::Auto),
            "cpu" => Some(Wish::Cpu),
            device if device.contains(',') => {
                let order: Option<Vec<Wish>> =
                    device.split(',').map(|device| Wish::of(device.trim())).collect();
                let order = order.filter(|order| order.iter().all(|wish| *wish != Wish::Auto))?;
                // Behind the CPU nothing is ever reached.
                let cpu = order.iter().position(|wish| *wish == Wish::Cpu);
                cpu.is_none_or(|cpu| cpu + 1 == order.len()).then_some(Wish::Order(order))
            }
            device => gpu::ordinal(device).map(Wish::Cuda),
        }
    }
}

impl Settings {
    /// Whether all values fit together; which `auto` leaves open where the device decides.
    pub(crate) fn check(&self) -> Result<()> {
        self.check_device()?;
        // Until the device has decided there is no number to check.
        if !self.num_envs_is_open() {
            self.check_minibatches()?;
        }
        if let Some(name) = &self.run.name {
            check_run_name(name).map_err(|error| self.placed(error, "name"))?;
        }
        Ok(())
    }

    pub(crate) fn placed(&self, error: Error, key: &str) -> Error {
        match self.origin(key) {
            Some(origin) => error.at(origin.to_string()),
            None => error,
        }
    }

    /// Whether device and precision are words that fit together; whether the machine has the device is for
    /// [`crate::device::choose`] to find out.
    fn check_device(&self) -> Result<()> {
        match self.wish() {
            None => {
                let error = Error::usage(format!("device = \"{}\" is no device", self.run.device))
                    .remedy("give auto, cpu, cuda or cuda:K, or several in order with the CPU last: cuda:1,cuda:0,cpu");
                Err(self.placed(error, "device"))
            }
            Some(Wish::Cpu) => self.check_for_cpu(),
            Some(Wish::Auto | Wish::Cuda(_) | Wish::Order(_)) => Ok(()),
        }
    }

    /// Refuses what exists on GPUs only where the command line demands it; elsewhere it is a preference, see
    /// [`Settings::on_cpu`].
    pub(crate) fn check_for_cpu(&self) -> Result<()> {
        if self.run.overlap && self.is_demanded("overlap") {
            let error = Error::usage("overlap = true exists on GPUs only: the CPU does one thing at a time")
                .remedy("leave overlap out, or set it to false");
            return Err(self.placed(error, "overlap"));
        }
        if self.run.precision == Precision::F32.name() || !self.is_demanded("precision") {
            return Ok(());
        }
        let error = Error::usage(format!("precision = \"{}\" needs a GPU to train on", self.run.precision))
            .remedy("the CPU trains in f32: leave precision out, or set it to f32");
        Err(self.placed(error, "precision"))
    }

    /// The device that is asked for; None for a word that names none, which no checked settings hold.
    pub(crate) fn wish(&self) -> Option<Wish> {
        Wish::of(&self.run.device)
    }

    /// The most environments that a run may have.
    pub(crate) fn most_envs(&self) -> usize {
        let by_samples = MOST_SAMPLES / (self.learner.num_steps as u64).max(1);
        usize::try_from(by_samples.min(MOST_ENVS as u64)).unwrap_or(usize::MAX)
    }

    fn check_minibatches(&self) -> Result<()> {
        let (n, t) = (self.learner.num_envs as u64, self.learner.num_steps as u64);
        let (batch, minibatches) = (n * t, self.learner.num_minibatches as u64);
        if batch > MOST_SAMPLES {
            let what =
                format!("num_envs x num_steps = {n} x {t} = {batch} samples are too many for one update");
            let key = if self.origin("num_steps").is_some_and(Origin::is_explicit) {
                "num_steps"
            } else {
                "num_envs"
            };
            let remedy = format!("lower num_envs or num_steps until their product is at most {MOST_SAMPLES}");
            return Err(self.placed(Error::usage(what).remedy(remedy), key));
        }
        if batch.is_multiple_of(minibatches) {
            return Ok(());
        }
        let divisors = divisors_of_product(n, t);
        let below = divisors.iter().rev().find(|divisor| **divisor < minibatches);
        let above = divisors.iter().find(|divisor| **divisor > minibatches);
        let choices: Vec<String> = [below, above].into_iter().flatten().map(|m| m.to_string()).collect();
        let what = format!(
            "num_minibatches = {minibatches} does not divide num_envs x num_steps = {n} x {t} = {batch}"
        );
        let error = Error::usage(what).remedy(format!("the nearest that do: {}", choices.join(" and ")));
        Err(self.placed(error, "num_minibatches"))
    }

    /// Refuses settings under which a run saved with `saved` cannot go on.
    ///
    /// # Errors
    /// The first key whose change does not fit the checkpoint, with both values.
    pub fn check_resumes(&self, saved: &str, run: &str) -> Result<()> {
        const FIXED: &[(&str, &str)] = &[
            ("seed", "the run's random streams are keyed by it"),
            ("num_envs", "the checkpoint holds the states of that many environments"),
            ("hidden", "the checkpoint holds weights of that shape"),
            ("activation", "the weights were trained for it"),
            ("shared_trunk", "the checkpoint holds weights of that shape"),
            ("norm_obs", "the weights were trained for it"),
        ];
        let saved: Table = saved.parse().map_err(|error: toml::de::Error| {
            Error::usage(format!("the checkpoint's configuration is not valid TOML: {}", error.message()))
                .at(run.to_string())
        })?;
        for (key, reason) in FIXED {
            let (Some(entry), Some(old)) = (self.entries.get(key), saved.get(*key)) else { continue };
            if entry.value != *old {
                let what =
                    format!("{key} = {} cannot resume a run with {key} = {old}: {reason}", entry.value);
                return Err(Error::usage(what)
                    .at(entry.origin.to_string())
                    .remedy(format!("leave {key} as it is, or start a new run with it")));
            }
        }
        Ok(())
    }
}

/// Every divisor of `n t`, ascending. Trial division of each factor, never of the product, which may be large.
fn divisors_of_product(n: u64, t: u64) -> Vec<u64> {
    let divisors = |x: u64| (1..=x).filter(move |d| x.is_multiple_of(*d));
    let mut products: Vec<u64> = divisors(n).flat_map(|a| divisors(t).map(move |b| a * b)).collect();
    products.sort_unstable();
    products.dedup();
    products
}

/// A run's name becomes a directory's.
pub(crate) fn check_run_name(name: &str) -> Result<()> {
    let legal = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.' | '+' | '=');
    if name.len() <= 128 && name.chars().all(legal) && !name.starts_with(['.', '-']) && !name.is_empty() {
        return Ok(());
    }
    Err(Error::usage(format!("name = \"{name}\" cannot name a run"))
        .remedy("use up to 128 letters, digits and - _ . + =, not beginning with a dot or a dash"))
}
