//! Random actions on any packed lane, for suites that step an environment by hand.

use operant_env::{ActionSpace, Env};
use operant_lane::{ActionDraws, Bundle, Float, Lane, Mask, Source, Uint};

/// Sets the components of an action from random words; an illegal choice is replaced by the next legal one.
pub struct RandomAction<'a, L: Lane> {
    pub space: &'a ActionSpace,
    pub words: Vec<L::Uint>,
    pub legal: Vec<L::Mask>,
    pub component: usize,
}

impl<L: Lane> Source<L> for RandomAction<'_, L> {
    fn float(&mut self) -> L::Float {
        let ActionSpace::Box { low, high } = self.space else { panic!("a box") };
        let (low, high) = (1.5 * low[self.component], 1.5 * high[self.component]);
        self.component += 1;
        let unit = operant_lane::draws::unit::<L>(self.words[self.component - 1]);
        unit.mul_add(L::Float::splat(high - low), L::Float::splat(low))
    }
    fn uint(&mut self) -> L::Uint {
        let ActionSpace::Discrete(choices) = self.space else { panic!("discrete") };
        let first: usize = choices[..self.component].iter().sum();
        let count = choices[self.component];
        let mut choice = self.words[self.component].mul_wide(L::Uint::splat(count as u32)).0;
        self.component += 1;
        for _ in 0..count {
            let mut legal = L::Mask::splat(false);
            for k in 0..count {
                legal = legal | (choice.eq(L::Uint::splat(k as u32)) & self.legal[first + k]);
            }
            let next = choice + L::Uint::splat(1);
            let next = next.eq(L::Uint::splat(count as u32)).select(L::Uint::splat(0), next);
            choice = legal.select(choice, next);
        }
        choice
    }
    fn int(&mut self) -> L::Int {
        unreachable!("no environment acts in signed integers")
    }
    fn mask(&mut self) -> L::Mask {
        unreachable!("no environment acts in truth values")
    }
}

/// The random action of a step.
pub fn action<L: Lane, E: Env>(
    env: &E,
    state: &E::State<L>,
    draws: &mut ActionDraws<L>,
    step: u64,
) -> E::Action<L> {
    let space = env.spec().actions;
    let components = space.components() as u32;
    let words = (0..components).map(|c| draws.bits(step, c, components)).collect();
    let legal = match &space {
        ActionSpace::Discrete(choices) => choices
            .iter()
            .enumerate()
            .flat_map(|(component, &count)| (0..count).map(move |choice| (component, choice)))
            .map(|(component, choice)| env.legal(state, component, choice))
            .collect(),
        ActionSpace::Box { .. } => Vec::new(),
    };
    E::Action::load(&mut RandomAction { space: &space, words, legal, component: 0 })
}
