//! Random play with auto-reset, on any lane: what every lane has to agree on. Shared by the suites of operant-env.

use operant_env::play::{Outputs, RandomActions};
use operant_env::{ActionSpace, AnyEnv, Stepper, TileSpec};

/// A tile of environments that plays random actions, real ones also outside their bounds.
pub struct RandomPlay {
    stepper: Box<dyn Stepper>,
    random: RandomActions,
    components: usize,
    leaves: usize,
    rows: usize,
    step: u64,
    /// `(components, R)` of the last step.
    pub actions: Vec<f32>,
    /// What the last step gave.
    pub outputs: Outputs,
}

impl RandomPlay {
    pub fn new(env: &dyn AnyEnv, tile: TileSpec) -> Self {
        let spec = env.spec();
        let mut outputs = Outputs::new(&spec, env.masked(), tile.rows);
        let mut stepper = env.stepper(tile).expect("a tile");
        stepper.observe(outputs.seen()).expect("an observation");
        let components = spec.actions.components();
        let space = match spec.actions {
            ActionSpace::Box { low, high } => {
                let wider = |bounds: Vec<f64>| bounds.into_iter().map(|bound| 1.5 * bound).collect();
                ActionSpace::Box { low: wider(low), high: wider(high) }
            }
            discrete => discrete,
        };
        RandomPlay {
            stepper,
            random: RandomActions::new(space, tile.seed, tile.first, tile.rows),
            components,
            leaves: env.leaves().len(),
            rows: tile.rows,
            step: tile.step,
            actions: vec![0.0; components * tile.rows],
            outputs,
        }
    }

    pub fn step(&mut self) {
        self.random.fill(self.step, &self.outputs.legal, &mut self.actions);
        self.stepper.submit(&self.actions, self.step).expect("a step");
        self.stepper.collect(self.outputs.stepped()).expect("a step");
        self.step += 1;
    }

    /// The action of one environment in the last step.
    pub fn action(&self, row: usize) -> Vec<f32> {
        (0..self.components).map(|component| self.actions[component * self.rows + row]).collect()
    }

    /// What the last step gave one environment: reward, flags, observation and state.
    pub fn words(&self, row: usize) -> Vec<u32> {
        let [terminated, truncated] = self.outputs.ended(row).map(u32::from);
        let mut words = vec![self.outputs.rewards[row].to_bits(), terminated, truncated];
        words.extend(self.outputs.obs.iter().skip(row).step_by(self.rows));
        let mut state = vec![0; self.leaves];
        self.stepper.state(row, &mut state);
        words.extend(state);
        words
    }

    /// What else a step gives: legal choices, the clock and the return that run on, and of an episode that ended its last
    /// observation, its return and its length.
    pub fn more_words(&self, row: usize) -> Vec<u32> {
        let column = |words: &[u32]| words.iter().skip(row).step_by(self.rows).copied().collect::<Vec<_>>();
        let mut saved = vec![0; (self.leaves + 2) * self.rows];
        self.stepper.save(&mut saved);
        let mut words = [column(&self.outputs.legal), column(&saved)].concat();
        if self.outputs.ended(row) != [false; 2] {
            words.extend(column(&self.outputs.final_obs));
            words.extend([self.outputs.returns[row].to_bits(), self.outputs.lengths[row]]);
        }
        words
    }
}

/// FNV-1a over the words that one environment produced.
pub fn fold(hash: &mut u64, words: &[u32]) {
    for byte in words.iter().flat_map(|word| word.to_le_bytes()) {
        *hash = (*hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
    }
}

/// Start of [`fold`].
pub const HASH: u64 = 0xcbf2_9ce4_8422_2325;
