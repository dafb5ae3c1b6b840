//! Taxi: pick up a passenger and drop it off at its destination.
//!
//! From Dietterich, "Hierarchical reinforcement learning with the MAXQ value function decomposition" (2000), with the
//! rules and the action mask of Gymnasium's Taxi.

use operant_lane::{Draws, Float, Lane, Mask, Uint, bundle};

use super::FAMILY;
use crate::spec::{OptionError, OptionValue, names};
use crate::{
    ActionSpace, BLUE, Env, EnvOption, EnvSpec, GREEN, GREY, ObsSpace, RED, Scene, Shape, Step, YELLOW, grid,
};

/// Cells per side.
const SIDE: u32 = 5;
/// Cells with a wall on their right side; walls at the border are not included.
const WALLS: u32 = 1 << 1 | 1 << 6 | 1 << 15 | 1 << 17 | 1 << 20 | 1 << 22;
/// The four stands, one cell per byte: red, green, yellow, blue.
const STANDS: u32 = 4 << 8 | 20 << 16 | 23 << 24;
/// The passenger's location when it is in the taxi.
const ABOARD: u32 = 4;
/// The action that picks up the passenger; the actions below it are moves.
const PICK_UP: u32 = 4;
/// The action that drops off the passenger.
const DROP_OFF: u32 = 5;
/// The moves to the left and to the right of south, north, east and west, two bits each.
const LEFT: u32 = 2 | 3 << 2 | 1 << 4;
const RIGHT: u32 = 3 | 2 << 2 | 1 << 6;

bundle! {
    /// The state of the taxi and the passenger.
    pub struct State {
        /// The taxi's cell, row by row.
        cell: Uint,
        /// The passenger's stand, or 4 if it is in the taxi.
        passenger: Uint,
        /// The stand that is the passenger's destination.
        destination: Uint,
        /// Whether the passenger may still change its destination.
        fickle: Mask,
    }
}

/// The environment.
#[derive(Debug, Clone)]
pub struct Taxi {
    is_rainy: bool,
    rainy_probability: f64,
    fickle_passenger: bool,
    fickle_probability: f64,
    action_mask: bool,
}

impl Default for Taxi {
    fn default() -> Self {
        Taxi {
            is_rainy: false,
            rainy_probability: 0.8,
            fickle_passenger: false,
            fickle_probability: 0.3,
            action_mask: true,
        }
    }
}

#[inline(always)]
fn stand<U: Uint>(number: U) -> U {
    U::splat(STANDS).shr_by(number.shl(3)) & U::splat(255)
}

#[inline(always)]
fn moved<U: Uint>(cell: U, way: U) -> U {
    let u = U::splat;
    let wall = |cell: U| (u(WALLS).shr_by(cell) & u(1)).eq(u(1));
    let column = cell - u(SIDE) * (cell * u(13)).shr(6);
    let south = way.eq(u(0)) & cell.lt(u(SIDE * (SIDE - 1)));
    let north = way.eq(u(1)) & cell.ge(u(SIDE));
    let east = way.eq(u(2)) & column.lt(u(SIDE - 1)) & !wall(cell);
    let west = way.eq(u(3)) & column.ne(u(0)) & !wall(cell - u(1));
    let across = east.select(cell + u(1), west.select(cell - u(1), cell));
    south.select(cell + u(SIDE), north.select(cell - u(SIDE), across)).named("moved")
}

/// Whether the passenger can be picked up, and whether it can be dropped off (it is in the taxi, and the taxi is at a
/// stand).
#[inline(always)]
fn chances<L: Lane>(s: &State<L>) -> (L::Mask, L::Mask) {
    let u = L::Uint::splat;
    let aboard = s.passenger.eq(u(ABOARD));
    let at_stand = (0..4).fold(L::Mask::splat(false), |any, number| any | s.cell.eq(stand(u(number))));
    (!aboard & s.cell.eq(stand(s.passenger)), aboard & at_stand)
}

impl Taxi {
    /// The direction of the move. In the rain the taxi may turn to either side, unless the cell ahead is blocked.
    #[inline(always)]
    fn way<L: Lane>(&self, cell: L::Uint, action: L::Uint, uniform: L::Float) -> L::Uint {
        if !self.is_rainy {
            return action;
        }
        let (u, f) = (L::Uint::splat, L::Float::splat);
        let (ahead, aside) = (self.rainy_probability, (1.0 - self.rainy_probability) / 2.0);
        let blocked = moved(cell, action).eq(cell) | uniform.lt(f(ahead)) | action.ge(u(PICK_UP));
        let turn = |to: u32| u(to).shr_by(action.shl(1)) & u(3);
        let turned = uniform.lt(f(ahead + aside)).select(turn(LEFT), turn(RIGHT));
        blocked.select(action, turned).named("way")
    }
}

impl Env for Taxi {
    type State<L: Lane> = State<L>;
    type Obs<L: Lane> = [L::Uint; 1];
    type Action<L: Lane> = L::Uint;

    const MASKED: bool = true;

    fn spec(&self) -> EnvSpec {
        EnvSpec {
            name: "taxi".into(),
            aliases: vec!["Taxi-v3".into(), "Taxi-v4".into(), "Taxi".into()],
            family: FAMILY.into(),
            summary: "take a passenger to its destination; +20 for the drop-off, -1 per step, -10 for an illegal pick-up or drop-off".into(),
            rules: "Drive south, north, east or west on 5 x 5 cells with walls, pick up the passenger at one of four stands, and \
                    drop it off at another. Actions without effect are masked."
                .into(),
            reference: "Identical to Gymnasium's Taxi-v4 with action mask; identical to Taxi-v3 except for rain.".into(),
            variant_of: None,
            obs: ObsSpace::index(500),
            obs_names: names(["((row * 5 + column) * 5 + passenger) * 4 + destination", "stands are 0 red, 1 green, 2 yellow, 3 blue; passenger 4 is in the taxi"]),
            actions: ActionSpace::Discrete(vec![6]),
            action_names: names(["south", "north", "east", "west", "pick up", "drop off"]),
            metrics: Vec::new(),
            time_limit: 200,
            fps: 6.0,
            options: vec![
                EnvOption::flag("is_rainy", false, "whether it rains: a move may turn to either side"),
                EnvOption::number("rainy_probability", 0.8, 0.0, 1.0, "probability of moving straight ahead in the rain"),
                EnvOption::flag("fickle_passenger", false, "whether passengers may change their destination during the ride"),
                EnvOption::number("fickle_probability", 0.3, 0.0, 1.0, "probability that a fickle passenger changes the destination"),
                EnvOption::flag("action_mask", true, "whether actions without effect are masked"),
            ],
            preset: Some(include_str!("../../presets/taxi.toml").into()),
            ..EnvSpec::default()
        }
    }

    fn set_option(&mut self, name: &str, value: &OptionValue) -> Result<(), OptionError> {
        match self.spec().check_option(name, value)?.name.as_str() {
            "is_rainy" => self.is_rainy = value.is_on(),
            "rainy_probability" => self.rainy_probability = value.number(),
            "fickle_passenger" => self.fickle_passenger = value.is_on(),
            "action_mask" => self.action_mask = value.is_on(),
            _ => self.fickle_probability = value.number(),
        }
        Ok(())
    }

    #[inline(always)]
    fn reset<L: Lane>(&self, draws: &mut Draws<L>) -> State<L> {
        let passenger = draws.below(4);
        let other = draws.below(3);
        let destination = other.lt(passenger).select(other, other + L::Uint::splat(1));
        let fickle = if self.fickle_passenger {
            draws.unit().lt(L::Float::splat(self.fickle_probability))
        } else {
            L::Mask::splat(false)
        };
        State { cell: draws.below(SIDE * SIDE), passenger, destination, fickle }
    }

    #[inline(always)]
    fn step<L: Lane>(&self, s: &State<L>, action: &L::Uint, draws: &mut Draws<L>) -> Step<L, State<L>> {
        let (u, f) = (L::Uint::splat, L::Float::splat);
        let (can_pick_up, can_drop_off) = chances(s);
        let aboard = s.passenger.eq(u(ABOARD));
        let cell = moved(s.cell, self.way::<L>(s.cell, *action, draws.unit())).named("cell");

        let picks_up = (action.eq(u(PICK_UP)) & can_pick_up).named("picks_up");
        let drops_off = (action.eq(u(DROP_OFF)) & can_drop_off).named("drops_off");
        let here = (0..3).fold(u(3), |here, number| s.cell.eq(stand(u(number))).select(u(number), here));
        let passenger = picks_up.select(u(ABOARD), drops_off.select(here, s.passenger)).named("passenger");
        let arrived = (drops_off & here.eq(s.destination)).named("arrived");
        let in_vain = action.ge(u(PICK_UP)) & !(picks_up | drops_off);
        let reward = arrived.select(f(20.0), in_vain.select(f(-10.0), f(-1.0)));

        let (mut destination, mut fickle) = (s.destination, s.fickle);
        if self.fickle_passenger {
            let changes = (s.fickle & aboard & cell.ne(s.cell)).named("changes");
            let mut rest = draws.reserve(1);
            destination = L::when(changes, destination, |destination| {
                let other = rest.below(3);
                other.lt(destination).select(other, other + u(1))
            });
            fickle = s.fickle & !changes;
        }
        Step { state: State { cell, passenger, destination, fickle }, reward, terminated: arrived }
    }

    #[inline(always)]
    fn observe<L: Lane>(&self, s: &State<L>) -> [L::Uint; 1] {
        let u = L::Uint::splat;
        [(s.cell * u(5) + s.passenger) * u(4) + s.destination]
    }

    #[inline(always)]
    fn legal<L: Lane>(&self, s: &State<L>, _component: usize, choice: usize) -> L::Mask {
        if !self.action_mask {
            return L::Mask::splat(true);
        }
        match choice as u32 {
            PICK_UP => chances(s).0,
            DROP_OFF => chances(s).1,
            way => moved(s.cell, L::Uint::splat(way)).ne(s.cell),
        }
    }

    fn draw(&self, s: &State<f32>) -> Scene {
        let center = |cell: u32| [(cell % SIDE) as f32 + 0.5, SIDE as f32 - 0.5 - (cell / SIDE) as f32];
        let cell_of = |number: u32| STANDS >> (8 * number) & 255;
        let mut shapes = Vec::new();
        for cell in 0..SIDE * SIDE {
            let [x, y] = [(cell % SIDE) as f32, (cell / SIDE) as f32];
            let stand = (0..4).find(|&number| cell_of(number) == cell);
            let tones = [RED, GREEN, YELLOW, BLUE];
            shapes.extend(stand.map(|number| grid::square(SIDE, x, y, tones[number as usize])));
            if WALLS >> cell & 1 == 1 {
                shapes.push(Shape::rectangle([x + 1.0, SIDE as f32 - 0.5 - y], 0.1, 1.0, GREY));
            }
        }
        let side = SIDE as f32;
        shapes.push(Shape::line([[0.0, 0.0], [side, 0.0], [side, side], [0.0, side], [0.0, 0.0]], GREY));
        let [x, y] = center(s.cell.0);
        shapes.push(Shape::rectangle([x, y], 0.6, 0.4, 2));
        if s.passenger.0 == ABOARD {
            shapes.push(Shape::circle([x, y], 0.15, 1));
        } else {
            shapes.push(Shape::circle(center(cell_of(s.passenger.0)), 0.2, 1));
        }
        shapes.push(Shape::text(center(cell_of(s.destination.0)), "to", 3));
        Scene { low: [0.0, 0.0], high: [side; 2], shapes }
    }

    /// Gymnasium's state number, and whether the passenger may still change its destination.
    fn unpack(&self, public: &[f64]) -> Vec<f64> {
        let number = public[0];
        vec![(number / 20.0).floor(), (number / 4.0).floor() % 5.0, number % 4.0, public[1]]
    }

    fn pack(&self, leaves: &[f64]) -> Vec<f64> {
        vec![20.0 * leaves[0] + 4.0 * leaves[1] + leaves[2], leaves[3]]
    }
}
