//! An environment of one's own, defined and trained outside operant: `cargo run --release --example corridor`.
//! docs/environments.md explains it step by step.

use std::sync::Arc;

use operant_env::lane::{Draws, Float, Lane, Mask, Uint, bundle};
use operant_env::{ActionSpace, AnyEnv, Env, EnvSpec, ObsSpace, Registry, Scene, Shape, Step};
use operant_run::{CommandLine, EnvFacts, Job, RunResult, backend, config, train};

/// Half the length of the corridor, m.
const WALL: f64 = 2.0;
/// Speed that a push adds, m/s.
const PUSH: f64 = 0.5;
/// Time between steps, s.
const DT: f64 = 0.1;
/// Its preset.
const PRESET: &str = "
solved_at = 160.0
total_timesteps = 200_000
num_envs = 64
num_steps = 32
learning_rate = 2e-3
";

bundle! {
    /// A cart in a corridor.
    pub struct State {
        /// Position, m from the middle.
        x: Float,
        /// Velocity, m/s.
        x_dot: Float,
    }
}

/// Keep a cart near the middle of a corridor with gusts of wind.
#[derive(Clone)]
struct Corridor;

impl Env for Corridor {
    type State<L: Lane> = State<L>;
    type Obs<L: Lane> = [L::Float; 2];
    type Action<L: Lane> = L::Uint;

    fn spec(&self) -> EnvSpec {
        EnvSpec {
            name: "corridor".into(),
            summary: "keep a cart near the middle of a windy corridor; 1 a step at best".into(),
            obs: ObsSpace::symmetric(&[WALL, f64::INFINITY]),
            actions: ActionSpace::Discrete(vec![3]),
            time_limit: 200,
            fps: 10.0,
            preset: Some(PRESET.into()),
            ..EnvSpec::default()
        }
    }

    fn reset<L: Lane>(&self, draws: &mut Draws<L>) -> State<L> {
        State { x: draws.between(-1.0, 1.0), x_dot: L::Float::splat(0.0) }
    }

    fn step<L: Lane>(&self, s: &State<L>, action: &L::Uint, draws: &mut Draws<L>) -> Step<L, State<L>> {
        let f = L::Float::splat;
        let (left, right) = (action.eq(L::Uint::splat(0)), action.eq(L::Uint::splat(2)));
        let push = left.select(f(-PUSH), right.select(f(PUSH), f(0.0))).named("push");
        let wind = draws.between(-PUSH, PUSH).named("wind");
        let x_dot = (s.x_dot + push + wind).named("x_dot");
        let x = x_dot.mul_add(f(DT), s.x).named("x");
        let reward = f(1.0) - x.abs() * f(1.0 / WALL);
        Step { state: State { x, x_dot }, reward, terminated: x.abs().gt(f(WALL)) }
    }

    fn observe<L: Lane>(&self, s: &State<L>) -> [L::Float; 2] {
        [s.x, s.x_dot]
    }

    fn draw(&self, s: &State<f32>) -> Scene {
        let wall = WALL as f32;
        let floor = Shape::line([[-wall, 0.0], [wall, 0.0]], 0);
        Scene {
            low: [-wall, -0.5],
            high: [wall, 1.5],
            shapes: vec![floor, Shape::rectangle([s.x, 0.1], 0.4, 0.2, 1)],
        }
    }
}

/// Trains with these settings on top of the preset, in `runs/` by default.
pub fn learn(settings: &[&str]) -> operant_run::Result<RunResult> {
    let set = settings.iter().map(|setting| (*setting).to_owned()).collect();
    let line = CommandLine { set, ..CommandLine::default() };
    let env: Arc<dyn AnyEnv> = Arc::new(Corridor);
    let requested = config::requested(EnvFacts::of(&env.spec(), &Registry::default()), &line, None)?;
    Ok(train(Job::new(requested), |requested, device| backend(&env, requested, device))?.result)
}

fn main() -> operant_run::Result<()> {
    println!("{}", learn(&[])?.to_json());
    Ok(())
}
