//! Craftax-Classic: an open world in which a player gathers, crafts, builds, fights and survives, for 22 achievements.
//!
//! The rules are those of `Craftax-Classic-Symbolic-v1` of the package craftax 1.6.1 (Matthews et al., "Craftax", ICML 2024), step for step,
//! oddities included; `tests/craftax.rs` compares them. Maps have the package's distribution, and each episode has its own.
//! The default observation has the same content as indices; `view = "symbolic"` gives the package's 1,345 numbers.

mod blocks;
mod generate;
mod mobs;
mod picture;
mod player;
mod view;

use std::marker::PhantomData;
use std::sync::{Arc, OnceLock};

use operant_lane::{Draws, Float, Int, Lane, Mask, Uint, bundle};

use crate::replay::CaseError;
use crate::spec::names;
use crate::{
    ActionSpace, AnyEnv, Env, EnvMetric, EnvOption, EnvSpec, OptionError, OptionValue, Registry, Scene, Step,
};
use player::ACHIEVEMENTS;
use view::View;
pub use view::{Indices, Symbols};

bundle! {
    /// The state of the game.
    pub struct State {
        /// The blocks, eight in a word.
        map: (Memory 512),
        /// A bit for each 8 x 8 cells, row by row, that may hold a path.
        tunnels: [Uint; 2],
        /// Steps since the start of the episode.
        time: Uint,
        /// The player's row; outside the map only where it dies.
        row: Int,
        /// Its column.
        column: Int,
        /// 1 left, 2 right, 3 up, 4 down.
        facing: Uint,
        /// 0 to 9, like food, drink and energy.
        health: Int,
        /// See health.
        food: Uint,
        /// See health.
        drink: Uint,
        /// See health.
        energy: Uint,
        /// Whether the player sleeps.
        sleeping: Mask,
        /// Counter towards a change of health, in half points.
        recover: Int,
        /// Counter towards a point of food, in half points.
        hunger: Uint,
        /// Counter towards a point of drink, in half points.
        thirst: Uint,
        /// Counter towards a point of energy.
        fatigue: Int,
        /// 0 to 9 of each item.
        items: [Uint; 12],
        /// Three zombies, three cows, two skeletons: their cells, 64 row + column.
        mob_place: [Uint; 8],
        /// Their health.
        mob_health: [Int; 8],
        /// Steps until they may attack again.
        mob_cooldown: [Uint; 8],
        /// Whether they are alive.
        mob_live: [Mask; 8],
        /// Whether others find the mob in its cell; only of live ones.
        mob_marked: [Mask; 8],
        /// Rows of three arrows.
        arrow_row: [Int; 3],
        /// Their columns.
        arrow_column: [Int; 3],
        /// Rows that they fly in a step.
        arrow_rows: [Int; 3],
        /// Columns that they fly in a step.
        arrow_columns: [Int; 3],
        /// Whether they have hit nothing yet.
        arrow_live: [Mask; 3],
        /// Cells of ten plants.
        plant_place: [Uint; 10],
        /// Their ages in steps.
        plant_age: [Uint; 10],
        /// Whether they were planted.
        plant_used: [Mask; 10],
        /// A bit for each achievement of the episode.
        achievements: Uint,
    }
}

/// Steps of a day.
const DAY: u32 = 300;
/// Most steps of an episode.
const LONGEST: u32 = 10_000;

/// What depends on the time of day.
#[derive(Debug)]
struct Day {
    /// The light, from 0 to 1.
    light: Vec<f64>,
    /// The chance that a zombie appears.
    zombie: Vec<f64>,
}

impl Day {
    fn shared() -> Arc<Self> {
        static DAYS: OnceLock<Arc<Day>> = OnceLock::new();
        let make = || {
            let light = |time: u32| {
                let turn = std::f64::consts::PI * (f64::from(time) / f64::from(DAY) + 0.3);
                1.0 - Float::cos(turn).abs().powi(3)
            };
            let light: Vec<f64> = (0..DAY).map(light).collect();
            let zombie = light.iter().map(|light| 0.02 + 0.1 * (1.0 - light) * (1.0 - light)).collect();
            Arc::new(Day { light, zombie })
        };
        Arc::clone(DAYS.get_or_init(make))
    }
}

/// The environment with one of its observations.
#[derive(Debug, Clone)]
pub struct CraftaxClassic<V> {
    day: Arc<Day>,
    /// Whether health counts in the reward too.
    rewards_health: bool,
    /// Steps of an episode at most.
    episode_length: u32,
    /// Whether an option asks for the package's numbers.
    symbolic: bool,
    view: PhantomData<V>,
}

impl<V: View> Default for CraftaxClassic<V> {
    fn default() -> Self {
        CraftaxClassic {
            day: Day::shared(),
            rewards_health: true,
            episode_length: LONGEST,
            symbolic: false,
            view: PhantomData,
        }
    }
}

impl<V> CraftaxClassic<V> {
    /// The same with another view.
    fn viewed<W>(self) -> CraftaxClassic<W> {
        let Self { day, rewards_health, episode_length, symbolic, .. } = self;
        CraftaxClassic { day, rewards_health, episode_length, symbolic, view: PhantomData }
    }
}

/// Registers it.
pub fn family(registry: Registry) -> Registry {
    registry.with(CraftaxClassic::<Indices>::default())
}

/// Numbers of a mob, an arrow and a plant in a public state.
const MOB: usize = 5;
const ARROW: usize = 5;
const PLANT: usize = 4;
/// Numbers before them: time, player, needs, counters, items.
const PLAYER: usize = 13 + player::ITEMS;
/// Mobs, arrows, plants.
const COUNTS: [usize; 3] = [8, 3, 10];

impl<V: View> Env for CraftaxClassic<V> {
    type State<L: Lane> = State<L>;
    type Obs<L: Lane> = V::Obs<L>;
    type Action<L: Lane> = L::Uint;

    const AHEAD: bool = true;

    fn spec(&self) -> EnvSpec {
        let metric = |name: &&str| EnvMetric::new(name, "Fraction of episodes that achieved it.");
        EnvSpec {
            name: "craftax_classic".into(),
            aliases: vec!["Craftax-Classic-Symbolic-v1".into()],
            family: "craftax".into(),
            summary: "gather, craft, build, fight and survive in an open world; 22 achievements".into(),
            rules: "Each achievement gives 1 once, each point of health 0.1. Walk, collect or hit what is in front, sleep, place blocks, and \
                    make tools beside a table (of iron beside a furnace too). The episode ends at health 0, in lava, or after 10,000 steps."
                .into(),
            reference: "craftax 1.6.1, Craftax-Classic-Symbolic-v1: identical step by step; maps have the same distribution. The \
                        observation is indices, or the package's numbers with view = \"symbolic\"."
                .into(),
            obs: V::space(),
            obs_names: V::names(),
            actions: ActionSpace::Discrete(vec![17]),
            action_names: names([
                "none", "left", "right", "up", "down", "do", "sleep", "place stone", "place table", "place furnace",
                "place plant", "make wood pickaxe", "make stone pickaxe", "make iron pickaxe", "make wood sword",
                "make stone sword", "make iron sword",
            ]),
            metrics: ACHIEVEMENTS
                .iter()
                .map(metric)
                .chain([EnvMetric::score("craftax_score", "Crafter's score of the 22 rates, 0 to 100.", ACHIEVEMENTS)])
                .collect(),
            fps: 10.0,
            options: vec![
                EnvOption::word("view", "indices", &["indices", "symbolic"], "the observation: indices, or the package's 1,345 numbers"),
                EnvOption::word(
                    "rewards",
                    "all",
                    &["all", "achievements"],
                    "what is rewarded: achievements and health, or achievements only",
                ),
                EnvOption::whole("episode_length", LONGEST, 1, LONGEST, "steps after which an episode terminates; it is not truncated"),
            ],
            preset: Some(include_str!("../../presets/craftax_classic.toml").into()),
            ..EnvSpec::default()
        }
    }

    fn set_option(&mut self, name: &str, value: &OptionValue) -> Result<(), OptionError> {
        match Env::spec(self).check_option(name, value)?.name.as_str() {
            "view" => self.symbolic = value.text() == "symbolic",
            "rewards" => self.rewards_health = value.text() == "all",
            "episode_length" => self.episode_length = value.whole(),
            other => return Err(OptionError::unknown(&Env::spec(self), other)),
        }
        Ok(())
    }

    fn resolve(self) -> Arc<dyn AnyEnv> {
        if self.symbolic { Arc::new(self.viewed::<Symbols>()) } else { Arc::new(self.viewed::<Indices>()) }
    }

    fn reset<L: Lane>(&self, draws: &mut Draws<L>) -> State<L> {
        let (u, i, no) = (L::Uint::splat, L::Int::splat, L::Mask::splat(false));
        let middle = i(blocks::SIDE as i32 / 2);
        let (map, tunnels) = generate::world::<L>(draws);
        State {
            map,
            tunnels,
            time: u(0),
            row: middle,
            column: middle,
            facing: u(player::UP),
            health: i(player::FULL as i32),
            food: u(player::FULL),
            drink: u(player::FULL),
            energy: u(player::FULL),
            sleeping: no,
            recover: i(0),
            hunger: u(0),
            thirst: u(0),
            fatigue: i(0),
            items: [u(0); player::ITEMS],
            mob_place: [u(0); 8],
            mob_health: [1, 1, 1, 3, 3, 3, 0, 0].map(i),
            mob_cooldown: [u(0); 8],
            mob_live: [no; 8],
            mob_marked: [no; 8],
            arrow_row: [i(0); 3],
            arrow_column: [i(0); 3],
            arrow_rows: [i(1); 3],
            arrow_columns: [i(1); 3],
            arrow_live: [no; 3],
            plant_place: [u(0); 10],
            plant_age: [u(0); 10],
            plant_used: [no; 10],
            achievements: u(0),
        }
    }

    fn step<L: Lane>(&self, state: &State<L>, action: &L::Uint, draws: &mut Draws<L>) -> Step<L, State<L>> {
        let mut state = *state;
        let (reward, terminated) = self.step_in_place(&mut state, action, draws);
        Step { state, reward, terminated }
    }

    fn step_in_place<L: Lane>(
        &self,
        state: &mut State<L>,
        action: &L::Uint,
        draws: &mut Draws<L>,
    ) -> (L::Float, L::Mask) {
        let (health, achievements) = (state.health, state.achievements);
        state.step(&self.day, *action, draws);
        let earned = L::Float::from_uint((state.achievements & !achievements).count_ones());
        let healed = L::Float::from_int(state.health - health);
        let share = L::Float::splat(if self.rewards_health { 0.1 } else { 0.0 });
        let late = L::Uint::splat(self.episode_length).le(state.time);
        // In lava it is 0 too.
        let dead = state.health.eq(L::Int::splat(0));
        (share.mul_add(healed, earned), dead | late)
    }

    fn observe<L: Lane>(&self, s: &State<L>) -> Self::Obs<L> {
        V::of(s, L::Float::gather(&self.day.light, hour::<L>(s.time)))
    }

    #[inline(always)]
    fn metric<L: Lane>(&self, last: &Step<L, State<L>>, index: usize) -> L::Float {
        L::Float::from_uint(last.state.achievements.shr(index as u32) & L::Uint::splat(1))
    }

    fn draw(&self, state: &State<f32>) -> Scene {
        picture::draw(state)
    }

    fn unpack(&self, public: &[f64]) -> Vec<f64> {
        let [mobs, arrows, plants] = COUNTS;
        let (player, rest) = public.split_at(PLAYER);
        let (mob_numbers, rest) = rest.split_at(MOB * mobs);
        let (arrow_numbers, rest) = rest.split_at(ARROW * arrows);
        let (plant_numbers, rest) = rest.split_at(PLANT * plants);
        let (achievements, rest) = rest.split_at(ACHIEVEMENTS.len());
        let (marks, cells) = rest.split_at(mobs);
        let word = |cells: &[f64]| {
            let code = |cell: &f64| blocks::of_public(*cell as u32).unwrap_or(blocks::OUTSIDE);
            f64::from(cells.iter().enumerate().fold(0, |word, (k, cell)| word | code(cell) << (4 * k)))
        };
        let mut leaves: Vec<f64> = cells.chunks(8).map(word).collect();
        let mut tunnels = 0u64;
        for (cell, _) in
            cells.iter().enumerate().filter(|(_, cell)| **cell == f64::from(blocks::public(blocks::PATH)))
        {
            tunnels |= 1 << (cell / 64 / 8 * 8 + cell % 64 / 8);
        }
        leaves.extend([tunnels as u32, (tunnels >> 32) as u32].map(f64::from));
        leaves.extend(player);
        let place = |of: &[f64]| 64.0 * of[0] + of[1];
        let of_mobs = || mob_numbers.chunks(MOB);
        leaves.extend(of_mobs().map(place));
        leaves.extend((2..MOB).flat_map(|k| of_mobs().map(move |mob| mob[k])));
        leaves.extend(marks);
        leaves.extend((0..ARROW).flat_map(|k| arrow_numbers.chunks(ARROW).map(move |arrow| arrow[k])));
        let of_plants = || plant_numbers.chunks(PLANT);
        leaves.extend(of_plants().map(place));
        leaves.extend((2..PLANT).flat_map(|k| of_plants().map(move |plant| plant[k])));
        leaves.push(achievements.iter().enumerate().map(|(k, earned)| earned * f64::from(1u32 << k)).sum());
        leaves
    }

    fn pack(&self, leaves: &[f64]) -> Vec<f64> {
        let [mobs, arrows, plants] = COUNTS;
        let (map, rest) = leaves.split_at(blocks::WORDS);
        let (_tunnels, rest) = rest.split_at(2);
        let (player, rest) = rest.split_at(PLAYER);
        let (mob_numbers, rest) = rest.split_at(MOB * mobs);
        let (arrow_numbers, rest) = rest.split_at(ARROW * arrows);
        let mut public = player.to_vec();
        let places = |of: f64| [(of as u32 / blocks::SIDE).into(), (of as u32 % blocks::SIDE).into()];
        for mob in 0..mobs {
            public.extend::<[f64; 2]>(places(mob_numbers[mob]));
            public.extend((1..MOB - 1).map(|k| mob_numbers[k * mobs + mob]));
        }
        for arrow in 0..arrows {
            public.extend((0..ARROW).map(|k| arrow_numbers[k * arrows + arrow]));
        }
        for plant in 0..plants {
            public.extend::<[f64; 2]>(places(rest[plant]));
            public.extend((1..PLANT - 1).map(|k| rest[k * plants + plant]));
        }
        let achievements = rest[(PLANT - 1) * plants] as u32;
        public.extend((0..ACHIEVEMENTS.len()).map(|k| f64::from(achievements >> k & 1)));
        public.extend(&mob_numbers[(MOB - 1) * mobs..]);
        let code = |word: f64, k: u32| word as u32 >> (4 * k) & 15;
        public.extend(map.iter().flat_map(|word| (0..8).map(|k| f64::from(blocks::public(code(*word, k))))));
        public
    }

    fn public_len(&self, _public: &[f64]) -> Result<usize, CaseError> {
        let [mobs, arrows, plants] = COUNTS;
        let numbers = PLAYER + MOB * mobs + ARROW * arrows + PLANT * plants + ACHIEVEMENTS.len();
        Ok(numbers + mobs + (blocks::SIDE * blocks::SIDE) as usize)
    }
}

impl<L: Lane> State<L> {
    /// One step. Compiled once for each lane, whatever is observed.
    #[inline(never)]
    fn step(&mut self, day: &Day, action: L::Uint, draws: &mut Draws<L>) {
        let (u, nothing) = (L::Uint::splat, L::Int::splat(0));
        let luck = draws.unit();
        let zombie = L::Float::gather(&day.zombie, hour::<L>(self.time));
        let action = self.sleeping.select(u(0), action);
        let front = self.beside(self.facing);
        self.craft(action);
        self.act(action.eq(u(player::DO)), front, luck);
        self.place(action, front);
        self.walk(action);
        self.move_mobs(draws);
        self.move_arrows();
        self.appear(zombie, draws);
        self.grow();
        self.need(action);
        let lava = blocks::read::<L>(&self.map, self.player()).eq(u(blocks::LAVA));
        self.health = lava.select(nothing, self.health.max(nothing));
        self.time = self.time + u(1);
    }
}

/// The time of day in steps.
#[inline(always)]
fn hour<L: Lane>(time: L::Uint) -> L::Uint {
    // Exact for times below 10^8: the inverse of 300, rounded up.
    let days = time.mul_wide(L::Uint::splat(u32::MAX / DAY + 1)).0;
    time - days * L::Uint::splat(DAY)
}
