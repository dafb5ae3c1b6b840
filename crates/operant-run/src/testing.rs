//! A tiny deterministic learner for tests of the loop: gradient descent on a quadratic, with noise drawn from a
//! counter, so that every update depends on all before it.

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use operant_env::{Scene, Shape};
use operant_learn::{
    Backend, Dtype, EpisodeRecording, EvalActions, Evaluation, LearnError, Snapshot, Tensor, Ticket,
    UpdateStats,
};
use operant_metrics::Record;

/// Statistics of update `ticket` in which `episodes` ended with mean return `mean`.
pub fn stats(ticket: u64, episodes: u64, mean: f64) -> UpdateStats {
    UpdateStats {
        ticket: Ticket(ticket),
        episodes,
        metrics: Record {
            episodic_return: mean,
            episodic_return_min: mean,
            episodic_return_max: mean,
            episodic_length: 1.0,
            policy_loss: 0.0,
            time_rollout: 0.0,
            time_update: 0.0,
            bytes_h2d: 0.0,
            bytes_d2h: 0.0,
            ..Record::default()
        },
        ..UpdateStats::default()
    }
}

/// The calls that reached a [`Quadratic`].
pub type Trace = Arc<Mutex<Vec<String>>>;

/// Minimises (x - 1)^2 from x = 0; the return of an episode is -100 (x - 1)^2.
pub struct Quadratic {
    x: f64,
    updates: u64,
    batch: u64,
    finished: VecDeque<UpdateStats>,
    in_a_row: u64,
    pulse: Arc<AtomicU64>,
    /// Like a GPU, returns an update only when waited for, and accepts the next meanwhile.
    pub lags: bool,
    /// Update (from one) at which every loss becomes NaN.
    pub nan_from: u64,
    /// Called at the end of each update with its number.
    pub after: Box<dyn FnMut(u64) + Send>,
    /// Evaluations and saves, in order.
    pub trace: Trace,
}

impl Quadratic {
    pub fn new(batch: u64) -> Self {
        Quadratic {
            x: 0.0,
            updates: 0,
            batch,
            finished: VecDeque::new(),
            lags: false,
            in_a_row: 0,
            pulse: Arc::default(),
            nan_from: u64::MAX,
            after: Box::new(|_| {}),
            trace: Trace::default(),
        }
    }

    fn episodic_return(&self) -> f64 {
        -100.0 * (self.x - 1.0).powi(2)
    }

    fn log(&self, call: String) {
        self.trace.lock().expect("never poisoned").push(call);
    }
}

/// A hash as noise in [0, 1): splitmix64.
fn noise(counter: u64) -> f64 {
    let mut z = counter.wrapping_mul(0x9E37_79B9_7F4A_7C15);
    z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    ((z ^ (z >> 31)) >> 11) as f64 / (1u64 << 53) as f64
}

impl Backend for Quadratic {
    fn enqueue_update(&mut self) -> Result<Ticket, LearnError> {
        assert!(self.finished.len() <= usize::from(self.lags), "too many updates in flight");
        self.updates += 1;
        self.pulse.fetch_add(1, Ordering::Relaxed);
        let mut stats = stats(self.updates - 1, 40, self.episodic_return());
        if self.updates >= self.nan_from {
            self.in_a_row += 1;
            (stats.nonfinite, stats.nonfinite_in_a_row) = (1, self.in_a_row);
            stats.metrics.policy_loss = f64::NAN;
        } else {
            self.x -= 0.1 * (self.x - 1.0) + 0.01 * (noise(self.updates) - 0.5);
        }
        stats.env_steps = self.updates * self.batch;
        (self.after)(self.updates);
        self.finished.push_back(stats);
        Ok(stats.ticket)
    }

    fn poll(&mut self, wait: bool) -> Result<Option<UpdateStats>, LearnError> {
        Ok(if self.lags && !wait { None } else { self.finished.pop_front() })
    }

    fn evaluate_until(
        &mut self,
        episodes: Range<usize>,
        round: u64,
        _: EvalActions,
        _: &mut dyn FnMut() -> bool,
    ) -> Result<Evaluation, LearnError> {
        assert!(self.finished.is_empty(), "evaluated while an update was in flight");
        self.log(format!("evaluate {round} after {}", self.updates));
        let traces: Vec<u64> = episodes.map(|i| i as u64).collect();
        let returns = traces.iter().map(|i| self.episodic_return() + noise(round << 32 | i) * 1e-6).collect();
        Ok(Evaluation { returns, lengths: vec![1; traces.len()], traces, metrics: Vec::new() })
    }

    fn pulse(&self) -> Arc<AtomicU64> {
        Arc::clone(&self.pulse)
    }

    fn scene(&mut self) -> Option<EpisodeRecording> {
        let dot = Shape::circle([self.x as f32, 0.0], 0.1, 2);
        let frame = Scene { low: [-1.0, -1.0], high: [2.0, 1.0], shapes: vec![dot] };
        Some(EpisodeRecording { frames: vec![frame], fps: 30.0, episodic_return: self.episodic_return() })
    }

    fn save(&mut self) -> Result<Snapshot, LearnError> {
        assert!(self.finished.is_empty(), "saved while an update was in flight");
        self.log(format!("save after {}", self.updates));
        let data = self.x.to_le_bytes().to_vec();
        let x = Tensor { name: "x".into(), dtype: Dtype::F64, shape: vec![1], data };
        Ok(Snapshot { tensors: vec![x], counters: [("updates".to_string(), self.updates)].into() })
    }

    fn load(&mut self, snapshot: &Snapshot) -> Result<(), LearnError> {
        let misfit = || LearnError::Snapshot("it has no x".into());
        let tensor = snapshot.tensors.iter().find(|tensor| tensor.name == "x").ok_or_else(misfit)?;
        self.x = f64::from_le_bytes(tensor.data.as_slice().try_into().map_err(|_| misfit())?);
        self.updates = *snapshot.counters.get("updates").ok_or_else(misfit)?;
        Ok(())
    }
}
