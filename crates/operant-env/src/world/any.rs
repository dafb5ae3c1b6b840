//! A recorded world as an environment.

use std::sync::{Arc, OnceLock};

use operant_lane::Leaf;

use super::World;
use super::stepper::{Programs, WorldStepper};
use crate::any::{AnyEnv, LaneWidth, StepError, Stepper, TileSpec, Widest};
use crate::play::{Play, StepperPlay};
use crate::registry::EnvOptions;
use crate::replay::{Arithmetic, Case, CaseError, CaseWords, Outcome, StepWords};
use crate::scene::Scene;
use crate::spec::{EnvSpec, OptionError};

/// A world that the row interpreter steps, on the widest lane of the build alone.
#[derive(Debug)]
pub struct WorldEnv {
    world: World,
    /// The compiled programs, created on first use: with observations, and without them for random play.
    programs: OnceLock<Arc<Programs>>,
    unobserved: OnceLock<Arc<Programs>>,
}

impl WorldEnv {
    /// The environment of a world.
    pub fn new(world: World) -> Self {
        Self { world, programs: OnceLock::new(), unobserved: OnceLock::new() }
    }

    fn stepper_of(&self, observes: bool, tile: TileSpec) -> Box<dyn Stepper> {
        let programs = if observes { &self.programs } else { &self.unobserved };
        let programs = programs.get_or_init(|| Arc::new(Programs::compile::<Widest>(&self.world, observes)));
        Box::new(WorldStepper::<Widest>::new(&self.world, programs, tile))
    }
}

impl AnyEnv for WorldEnv {
    fn spec(&self) -> EnvSpec {
        self.world.spec.clone()
    }

    fn leaves(&self) -> Vec<Leaf> {
        self.world.leaves.clone()
    }

    fn masked(&self) -> bool {
        self.world.legal.is_some()
    }

    fn with_options(&self, options: &EnvOptions) -> Result<Arc<dyn AnyEnv>, OptionError> {
        if let Some((name, _)) = options.iter().next() {
            return Err(OptionError::unknown(&self.world.spec, name));
        }
        self.world.spec.check()?;
        Ok(Arc::new(Self::new(self.world.clone())))
    }

    fn stepper(&self, tile: TileSpec) -> Result<Box<dyn Stepper>, StepError> {
        Ok(self.stepper_of(true, tile))
    }

    fn random_play(
        &self,
        seed: u64,
        first: u32,
        count: usize,
        lanes: LaneWidth,
    ) -> Result<Box<dyn Play>, StepError> {
        let stepper = |first, rows| {
            let tile = TileSpec { lanes, ..TileSpec::new(seed, first, rows) };
            Ok(self.stepper_of(false, tile))
        };
        Ok(Box::new(StepperPlay::new(&self.world.spec, self.masked(), seed, first, count, stepper)?))
    }

    fn world(&self) -> Option<World> {
        Some(self.world.clone())
    }

    fn ahead(&self) -> bool {
        self.world.ahead
    }

    fn file(&self) -> Option<String> {
        Some(self.world.to_json())
    }

    fn content(&self) -> Option<u64> {
        Some(self.world.content())
    }

    fn replay(&self, arithmetic: Arithmetic, case: &Case) -> Result<Outcome, CaseError> {
        self.world.replay(arithmetic, case)
    }

    fn case_words(&self, case: &Case) -> Result<CaseWords, CaseError> {
        self.world.case_words(case)
    }

    fn outcome(&self, steps: &[StepWords<'_>]) -> Outcome {
        self.world.outcome(steps)
    }

    fn picture(&self, state: &[u32]) -> Scene {
        let empty = || Scene { low: [0.0, 0.0], high: [1.0, 1.0], shapes: Vec::new() };
        self.world.draw.as_ref().map_or_else(empty, |drawing| drawing.scene(&self.world.leaves, state))
    }
}
