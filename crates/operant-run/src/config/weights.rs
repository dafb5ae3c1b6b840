//! The settings that a new run takes over with the weights that it begins with.

use std::sync::Arc;

use toml::Value;

use super::layers::{Layers, accepted};
use super::{CommandLine, Entry, Origin, Requested};
use crate::error::{Error, Result};
use crate::init_from::InitialWeights;

impl Layers {
    /// Checks the whole configuration of a command; that of a new run with the settings of the weights that it begins with.
    ///
    /// # Errors
    /// Those of [`Layers::build`]; when the weights cannot be read, or settings of the user give another network.
    pub(super) fn built_for(self, line: &CommandLine, is_new: bool) -> Result<Requested> {
        if !is_new || self.facts.name.is_empty() {
            return self.build();
        }
        let requested = self.with_weights(line.weights.clone())?.build()?;
        requested.weights()?;
        Ok(requested)
    }

    /// Adds the settings of the weights. They override everything except what the user sets.
    fn with_weights(mut self, given: Option<Arc<InitialWeights>>) -> Result<Self> {
        let entry = self.entries.get("init_from");
        let weights = match (given, entry.and_then(|entry| entry.value.as_str())) {
            (Some(given), _) => given,
            (None, Some(what)) => Arc::new(
                InitialWeights::find(&self.run_dir(), what)
                    .map_err(|error| at(error, entry.map(|entry| &entry.origin)))?,
            ),
            (None, None) => return Ok(self),
        };
        let origin = || Origin::Weights(weights.source.clone());
        for (key, value) in weights.settings() {
            if self.entries.get(key.name).is_none_or(|below| !below.origin.is_explicit()) {
                self.entries.insert(key.name, accepted(key, value, origin())?);
            }
        }
        // The step is recorded too, and the run works in every directory.
        let recorded = Value::String(weights.recorded.clone());
        let origin = entry_origin(&self);
        self.entries.insert("init_from", Entry { value: recorded, origin });
        self.weights = Some(weights);
        Ok(self)
    }
}

/// Where `init_from` was set; the program sets it without an origin.
fn entry_origin(layers: &Layers) -> Origin {
    let own = || Origin::Flag("init_from".to_owned());
    layers.entries.get("init_from").map_or_else(own, |entry| entry.origin.clone())
}

/// The error, at the origin of `init_from` if it has no place.
pub(super) fn at(error: Error, origin: Option<&Origin>) -> Error {
    let place = error.place.or_else(|| origin.map(ToString::to_string));
    Error { place, ..error }
}
