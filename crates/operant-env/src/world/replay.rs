//! Replaying a recorded world: on the reference of the row interpreter, or on the interpreter itself.

use operant_lane::{Kind, Leaf, Purpose};

use super::link::{Binding, Places};
use super::stepper::{Programs, WorldStepper};
use super::{DRAWS, World};
use crate::any::{Stepper, TileSpec, Widest};
use crate::play::Outputs;
use crate::replay::{Arithmetic, Case, CaseError, CaseWords, Outcome, StepWords, check_actions};
use crate::spec::ActionSpace;
use crate::vector::Autoreset;

/// Rows of the tile that replays wide.
const ROWS: usize = 16;

impl World {
    fn state_words(&self, case: &Case) -> Result<Vec<u32>, CaseError> {
        let World { spec, leaves, .. } = self;
        if case.state.len() != leaves.len() {
            let (got, expected) = (case.state.len(), leaves.len());
            return Err(CaseError::State { env: spec.name.clone(), got, expected });
        }
        let word = |(index, (leaf, &value)): (usize, (&Leaf, &f64))| {
            let refused =
                |what: &str| CaseError::Entry { env: spec.name.clone(), index, value, what: what.to_owned() };
            let is_whole = |low: f64, high: f64| value.fract() == 0.0 && (low..=high).contains(&value);
            match leaf.kind {
                Kind::Float if value.is_finite() => Ok((value as f32).to_bits()),
                Kind::Float => Err(refused("a finite number")),
                Kind::Uint if is_whole(0.0, f64::from(u32::MAX)) => Ok(value as u32),
                Kind::Uint => Err(refused("a whole number from 0 to 4294967295")),
                Kind::Int if is_whole(f64::from(i32::MIN), f64::from(i32::MAX)) => Ok(value as i32 as u32),
                Kind::Int => Err(refused("a whole number from -2147483648 to 2147483647")),
                Kind::Mask if is_whole(0.0, 1.0) => Ok(value as u32),
                Kind::Mask => Err(refused("0 or 1")),
            }
        };
        leaves.iter().zip(&case.state).enumerate().map(word).collect()
    }

    /// A state in its public form: the numbers of its leaves.
    fn numbers(&self, words: &[u32]) -> Vec<f64> {
        let number = |(leaf, &word): (&Leaf, &u32)| match leaf.kind {
            Kind::Float => f64::from(f32::from_bits(word)),
            Kind::Uint | Kind::Mask => f64::from(word),
            Kind::Int => f64::from(word as i32),
        };
        self.leaves.iter().zip(words).map(number).collect()
    }

    pub(super) fn case_words(&self, case: &Case) -> Result<CaseWords, CaseError> {
        if case.draws.is_some() {
            return Err(CaseError::DrawsOfWorld { env: self.spec.name.clone() });
        }
        let state = self.state_words(case)?;
        check_actions(&self.spec, case)?;
        let is_choice = matches!(self.spec.actions, ActionSpace::Discrete(_));
        let word = |action: &f64| if is_choice { *action as u32 } else { (*action as f32).to_bits() };
        let actions = case.actions.iter().map(|action| action.iter().map(word).collect()).collect();
        Ok(CaseWords { state, actions })
    }

    pub(super) fn outcome(&self, steps: &[StepWords<'_>]) -> Outcome {
        let mut outcome = Outcome::default();
        for step in steps {
            outcome.obs.push(self.spec.obs.unpack(step.obs));
            outcome.reward.push(f64::from(step.reward));
            outcome.terminated.push(step.ended[0]);
            outcome.truncated.push(step.ended[1]);
            outcome.state.push(self.numbers(step.state));
        }
        outcome
    }

    pub(super) fn replay(&self, arithmetic: Arithmetic, case: &Case) -> Result<Outcome, CaseError> {
        let words = self.case_words(case)?;
        match arithmetic {
            Arithmetic::F64 => Err(CaseError::Precision { env: self.spec.name.clone() }),
            Arithmetic::F32 => Ok(self.replay_scalar(&words)),
            Arithmetic::Wide => self.replay_wide(&words),
        }
    }

    /// Calls the functions as they were recorded.
    fn replay_scalar(&self, case: &CaseWords) -> Outcome {
        let mut outcome = Outcome::default();
        let mut state = case.state.clone();
        let places = Places::of(&self.leaves);
        let place = |text: &str| places.find(text).expect("the world was checked");
        for (index, action) in case.actions.iter().enumerate() {
            let (mut next, mut reward, mut terminated) = (state.clone(), 0.0, false);
            let results =
                self.step.call(&mut |name| self.parameter(place(name), name, &state, action, index));
            for (output, words) in self.step.outputs().iter().zip(results) {
                match place(&output.place) {
                    Binding::State(leaf) => next[leaf..leaf + words.len()].copy_from_slice(&words),
                    Binding::Reward => reward = f32::from_bits(words[0]),
                    _ => terminated = words[0] != 0,
                }
            }
            state = next;
            let mut obs = vec![0; self.spec.obs.words()];
            let results =
                self.observe.call(&mut |name| self.parameter(place(name), name, &state, &[], index));
            for (output, words) in self.observe.outputs().iter().zip(results) {
                if let Binding::Obs(word) = place(&output.place) {
                    obs[word..word + words.len()].copy_from_slice(&words);
                }
            }
            let truncated = index as u64 + 1 >= u64::from(self.spec.time_limit);
            let step = StepWords { obs: &obs, reward, ended: [terminated, truncated], state: &state };
            append(&mut outcome, self.outcome(&[step]));
            if terminated || truncated {
                break;
            }
        }
        outcome
    }

    /// The words of a parameter; chance draws from seed 0, environment 0.
    fn parameter(&self, place: Binding, name: &str, state: &[u32], action: &[u32], step: usize) -> Vec<u32> {
        match place {
            Binding::State(leaf) => {
                // A memory takes as many words as it has.
                let array = format!("{}[", &name["state.".len()..]);
                let words =
                    self.leaves[leaf..].iter().take_while(|leaf| leaf.name.starts_with(&array)).count();
                state[leaf..leaf + words.max(1)].to_vec()
            }
            Binding::Action(component) => vec![action[component]],
            Binding::Draw(draw) => vec![match DRAWS[draw] {
                "step_low" => step as u32,
                "purpose" => Purpose::Step as u32,
                _ => 0,
            }],
            _ => unreachable!("the world was checked: the others are results"),
        }
    }

    /// Steps the row interpreter, in the first of 16 rows.
    fn replay_wide(&self, case: &CaseWords) -> Result<Outcome, CaseError> {
        let programs = std::sync::Arc::new(Programs::compile::<Widest>(self, true));
        let tile = TileSpec { autoreset: Autoreset::Disabled, ..TileSpec::new(0, 0, ROWS) };
        let mut stepper = WorldStepper::<Widest>::new(self, &programs, tile);
        let mut outputs = Outputs::new(&self.spec, self.legal.is_some(), ROWS);
        let mut words: Vec<u32> = case.state.iter().flat_map(|word| [*word; ROWS]).collect();
        words.extend([0; 2 * ROWS]);
        let is_choice = matches!(self.spec.actions, ActionSpace::Discrete(_));
        let mut outcome = Outcome::default();
        stepper.load(&words)?;
        for (index, action) in case.actions.iter().enumerate() {
            let number = |word: &u32| if is_choice { *word as f32 } else { f32::from_bits(*word) };
            let actions: Vec<f32> = action.iter().flat_map(|word| [number(word); ROWS]).collect();
            stepper.submit(&actions, index as u64)?;
            stepper.collect(outputs.stepped())?;
            let mut state = vec![0; self.leaves.len()];
            stepper.state(0, &mut state);
            let obs: Vec<u32> = outputs.obs.iter().step_by(ROWS).copied().collect();
            let ended = outputs.ended(0);
            let step = StepWords { obs: &obs, reward: outputs.rewards[0], ended, state: &state };
            append(&mut outcome, self.outcome(&[step]));
            if ended != [false; 2] {
                break;
            }
        }
        Ok(outcome)
    }
}

fn append(outcome: &mut Outcome, step: Outcome) {
    outcome.obs.extend(step.obs);
    outcome.reward.extend(step.reward);
    outcome.terminated.extend(step.terminated);
    outcome.truncated.extend(step.truncated);
    outcome.state.extend(step.state);
}
