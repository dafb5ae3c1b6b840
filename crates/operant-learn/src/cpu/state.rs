//! The backend's state as a [`Snapshot`] and back: one tensor per parameter, per moment and per field of the
//! environments' state, whatever the tiles and lanes.

use operant_env::Env;
use operant_lane::bundle::leaves_of;
use operant_lane::{Kind, Leaf};
use wide::{bytemuck, f32x16};

use super::backend::CpuBackend;
use super::normalise::RunningNorm;
use super::recorder::Recorder;
use super::rollout::{Tile, leaves};
use super::tile::{LANES, splat};
use crate::backend::LearnError;
use crate::snapshot::{Dtype, Snapshot, Tensor};

/// A tensor of 32-bit words.
fn words(name: String, dtype: Dtype, shape: Vec<usize>, words: impl IntoIterator<Item = u32>) -> Tensor {
    Tensor { name, dtype, shape, data: words.into_iter().flat_map(u32::to_le_bytes).collect() }
}

/// A tensor of doubles.
fn doubles(name: &str, values: &[f64]) -> Tensor {
    let data = values.iter().flat_map(|x| x.to_le_bytes()).collect();
    Tensor { name: name.to_owned(), dtype: Dtype::F64, shape: vec![values.len()], data }
}

/// The tensor called `name`, if it is what is expected.
fn find<'a>(
    snapshot: &'a Snapshot,
    name: &str,
    dtype: Dtype,
    shape: &[usize],
) -> Result<&'a [u8], LearnError> {
    let tensor = snapshot
        .tensors
        .iter()
        .find(|tensor| tensor.name == name)
        .ok_or_else(|| LearnError::Snapshot(format!("it has no tensor {name}")))?;
    let size = shape.iter().product::<usize>() * if dtype == Dtype::F64 { 8 } else { 4 };
    if tensor.dtype != dtype || tensor.shape != shape || tensor.data.len() != size {
        return Err(LearnError::Snapshot(format!(
            "{name} is {:?} {:?} there and {dtype:?} {shape:?} here",
            tensor.dtype, tensor.shape
        )));
    }
    Ok(&tensor.data)
}

fn read_words(data: &[u8]) -> impl Iterator<Item = u32> {
    data.as_chunks::<4>().0.iter().map(|bytes| u32::from_le_bytes(*bytes))
}

fn read_floats(data: &[u8]) -> Vec<f32> {
    read_words(data).map(f32::from_bits).collect()
}

fn read_doubles(data: &[u8]) -> Vec<f64> {
    data.as_chunks::<8>().0.iter().map(|bytes| f64::from_le_bytes(*bytes)).collect()
}

fn counter(snapshot: &Snapshot, name: &str) -> Result<u64, LearnError> {
    let value = snapshot.counters.get(name).copied();
    value.ok_or_else(|| LearnError::Snapshot(format!("it has no counter {name}")))
}

/// A field of the environments' state: its name, type, and how many leaves in a row it spans.
struct Field {
    name: String,
    dtype: Dtype,
    length: usize,
    array: bool,
}

/// The fields of `E`'s running environments, array elements gathered.
fn fields<E: Env>() -> Vec<Field> {
    let mut fields: Vec<Field> = Vec::new();
    for Leaf { name, kind } in leaves_of::<f32, E::State<f32>>() {
        let dtype = match kind {
            Kind::Float => Dtype::F32,
            Kind::Uint | Kind::Mask => Dtype::U32,
            Kind::Int => Dtype::I32,
        };
        let (base, array) = name.split_once('[').map_or((name.as_str(), false), |(base, _)| (base, true));
        let base = format!("env.{base}");
        match fields.last_mut() {
            Some(last) if array && last.name == base => last.length += 1,
            _ => fields.push(Field { name: base, dtype, length: 1, array }),
        }
    }
    fields.push(Field { name: "episode.length".to_owned(), dtype: Dtype::U32, length: 1, array: false });
    fields.push(Field { name: "episode.return".to_owned(), dtype: Dtype::F32, length: 1, array: false });
    fields
}

fn shape(field: &Field, environments: usize) -> Vec<usize> {
    if field.array { vec![environments, field.length] } else { vec![environments] }
}

impl<E: Env, const V: usize> CpuBackend<E, V> {
    /// All environments, `(N, leaves)`.
    fn environments(&self) -> Vec<u32> {
        let of =
            |tile: &Tile<V>, e: usize| tile.environments.iter().skip(e).step_by(V * LANES).copied().collect();
        self.tiles.iter().flat_map(|tile| (0..tile.count).flat_map(|e| -> Vec<u32> { of(tile, e) })).collect()
    }

    /// The inverse of [`Self::environments`]; environments past N keep playing as they were.
    fn set_environments(&mut self, all: &[u32]) {
        let mut next = all.chunks_exact(leaves::<E>());
        for tile in &mut self.tiles {
            for (e, values) in next.by_ref().take(tile.count).enumerate() {
                for (leaf, value) in values.iter().enumerate() {
                    tile.environments[leaf * V * LANES + e] = *value;
                }
            }
        }
    }

    pub(super) fn snapshot(&self) -> Snapshot {
        let mut tensors = Vec::new();
        let network = self.policy.network();
        for (prefix, values) in [
            ("params", &self.state.params),
            ("exp_avg", &self.state.exp_avg),
            ("exp_avg_sq", &self.state.exp_avg_sq),
        ] {
            for spec in &network.tensors {
                let bits = values[spec.range()].iter().map(|x| x.to_bits());
                tensors.push(words(format!("{prefix}.{}", spec.name), Dtype::F32, spec.shape.clone(), bits));
            }
        }
        let (all, leaves, environments) = (self.environments(), leaves::<E>(), self.config.num_envs);
        let mut first = 0;
        for field in fields::<E>() {
            let values =
                all.chunks_exact(leaves).flat_map(|leaves| &leaves[first..first + field.length]).copied();
            tensors.push(words(field.name.clone(), field.dtype, shape(&field, environments), values));
            first += field.length;
        }
        for (name, norm) in [("norm_obs", &self.obs_norm), ("norm_reward", &self.reward_norm)] {
            tensors.push(doubles(&format!("{name}.mean"), &norm.mean));
            tensors.push(doubles(&format!("{name}.var"), &norm.var));
            tensors.push(doubles(&format!("{name}.count"), &[norm.count]));
        }
        let discounted = self.tiles.iter().flat_map(|tile| {
            let row: &[f32] = bytemuck::cast_slice(&tile.discounted);
            row[..tile.count].iter().map(|x| x.to_bits())
        });
        tensors.push(words("norm_reward.return".to_owned(), Dtype::F32, vec![environments], discounted));

        let counters = [
            ("env_steps", self.updates * (environments * self.config.num_steps) as u64),
            ("updates", self.updates),
            ("adam_step", self.state.step),
            ("nonfinite_in_a_row", self.nonfinite_in_a_row),
        ];
        Snapshot { tensors, counters: counters.map(|(name, value)| (name.to_owned(), value)).into() }
    }

    pub(super) fn restore(&mut self, snapshot: &Snapshot) -> Result<(), LearnError> {
        // Everything is read and checked before anything is changed.
        let network = self.policy.network();
        let read = |prefix: &str| -> Result<Vec<f32>, LearnError> {
            let mut values = vec![0.0; network.len()];
            for spec in &network.tensors {
                let data = find(snapshot, &format!("{prefix}.{}", spec.name), Dtype::F32, &spec.shape)?;
                values[spec.range()].copy_from_slice(&read_floats(data));
            }
            Ok(values)
        };
        let (params, exp_avg, exp_avg_sq) = (read("params")?, read("exp_avg")?, read("exp_avg_sq")?);

        let (leaves, environments) = (leaves::<E>(), self.config.num_envs);
        let mut all = vec![0u32; leaves * environments];
        let mut first = 0;
        for field in fields::<E>() {
            let data = find(snapshot, &field.name, field.dtype, &shape(&field, environments))?;
            let values: Vec<u32> = read_words(data).collect();
            for (to, from) in all.chunks_exact_mut(leaves).zip(values.chunks_exact(field.length)) {
                to[first..first + field.length].copy_from_slice(from);
            }
            first += field.length;
        }
        let norm = |name: &str, features: usize| -> Result<RunningNorm, LearnError> {
            let double = |part: &str, length: usize| {
                find(snapshot, &format!("{name}.{part}"), Dtype::F64, &[length]).map(read_doubles)
            };
            let (mean, var) = (double("mean", features)?, double("var", features)?);
            Ok(RunningNorm { mean, var, count: double("count", 1)?[0] })
        };
        let obs_norm = norm("norm_obs", self.obs_norm.mean.len())?;
        let reward_norm = norm("norm_reward", 1)?;
        let discounted = read_floats(find(snapshot, "norm_reward.return", Dtype::F32, &[environments])?);
        let updates = counter(snapshot, "updates")?;
        let (step, in_a_row) = (counter(snapshot, "adam_step")?, counter(snapshot, "nonfinite_in_a_row")?);

        self.state.params = params;
        self.state.exp_avg = exp_avg;
        self.state.exp_avg_sq = exp_avg_sq;
        self.state.step = step;
        self.set_environments(&all);
        (self.obs_norm, self.reward_norm) = (obs_norm, reward_norm);
        for (tile, values) in self.tiles.iter_mut().zip(discounted.chunks(V * LANES)) {
            tile.recorder = Recorder::default();
            tile.discounted = splat(0.0);
            bytemuck::cast_slice_mut::<f32x16, f32>(&mut tile.discounted)[..values.len()]
                .copy_from_slice(values);
        }
        (self.updates, self.nonfinite_in_a_row) = (updates, in_a_row);
        Ok(())
    }
}
