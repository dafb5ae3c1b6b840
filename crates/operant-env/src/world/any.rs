//! A recorded world as an environment.

use std::sync::{Arc, OnceLock};

use operant_lane::{Leaf, Wide};

use super::World;
use super::stepper::{Programs, WorldStepper};
use crate::any::{AnyEnv, LaneWidth, StepError, Stepper, TileSpec};
use crate::registry::EnvOptions;
use crate::replay::{Arithmetic, Case, CaseError, CaseWords, Outcome, StepWords};
use crate::scene::Scene;
use crate::spec::{EnvSpec, OptionError};

/// A world that the row interpreter steps.
#[derive(Debug)]
pub struct WorldEnv {
    world: World,
    /// The compiled functions, by lane.
    programs: [OnceLock<Arc<Programs>>; 3],
}

impl WorldEnv {
    /// The environment of a world.
    pub fn new(world: World) -> Self {
        Self { world, programs: Default::default() }
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
        let [one, eight, sixteen] = &self.programs;
        let world = &self.world;
        let compiled = |cell: &OnceLock<Arc<Programs>>, compile: fn(&World) -> Programs| {
            Arc::clone(cell.get_or_init(|| Arc::new(compile(world))))
        };
        Ok(match tile.lanes {
            LaneWidth::One => {
                let programs = compiled(one, Programs::compile::<f32>);
                Box::new(WorldStepper::<f32>::new(world, &programs, tile))
            }
            LaneWidth::Eight => {
                let programs = compiled(eight, Programs::compile::<Wide<8>>);
                Box::new(WorldStepper::<Wide<8>>::new(world, &programs, tile))
            }
            LaneWidth::Sixteen => {
                let programs = compiled(sixteen, Programs::compile::<Wide<16>>);
                Box::new(WorldStepper::<Wide<16>>::new(world, &programs, tile))
            }
        })
    }

    fn world(&self) -> Option<World> {
        Some(self.world.clone())
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
