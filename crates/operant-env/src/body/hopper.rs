//! Hopper: a one-legged body hops forward.

use std::sync::Arc;

use operant_lane::{Draws, Float, Lane, Mask};

use super::legged::{BEND, ENDS, HEIGHT, RADII, TILT, TORSO, foot, leg, thigh};
use super::model::{Dof, GRAVITY, Impedance, Link, Model, Pair, Point, above};
use super::{
    CTRL, FORWARD, SURVIVE, State, X_POSITION, Z_DISTANCE, between, clipped, integrated, metrics,
    motion_names, options, paid, shared, speed, squares, uniform,
};
use crate::any::AnyEnv;
use crate::{ActionSpace, Env, EnvSpec, ObsSpace, Step};

const LINKS: [Link; 4] =
    [TORSO, thigh(3), leg(1, 4), foot(2, 5, [5.315574769873931, 0.1035230805900054], 0.065)];

const FOOT_ENDS: [[f64; 2]; 2] = [[-0.13, 0.0], [0.26, 0.0]];
const WEIGHTS: [f64; 4] =
    [0.08492239638897524, 0.051923310146107036, 0.04959511864425975, 0.06690271076821869];

const fn end(link: usize, end: usize) -> Point {
    let (at, friction) = if link == 3 { (FOOT_ENDS[end], 2.0) } else { (ENDS[link][end], 1.0) };
    Point { link, at, radius: RADII[link], friction, weight: WEIGHTS[link] }
}

const POINTS: [Point; 8] =
    [end(0, 0), end(0, 1), end(1, 0), end(1, 1), end(2, 0), end(2, 1), end(3, 0), end(3, 1)];

const ABOVE: ([u32; 4], [u32; 6]) = above(&LINKS, 2);

/// The model.
const MODEL: Model<4, 6, 8, 3, 3> = Model {
    links: LINKS,
    dofs: [
        Dof::FREE,
        Dof::FREE,
        Dof::FREE,
        Dof::limited(BEND, 1.0, 1.0, 0.9173573040079763),
        Dof::limited(BEND, 1.0, 1.0, 0.8423092317158408),
        Dof::limited(TILT, 1.0, 1.0, 0.9000381439194955),
    ],
    slides: 2,
    height: 0.0,
    points: POINTS,
    pairs: [Pair::of(&POINTS, 0, 4), Pair::of(&POINTS, 0, 6), Pair::of(&POINTS, 2, 6)],
    margin: 0.002,
    contacts: Impedance { range: [0.8, 0.8], width: 0.01, time: 0.02 },
    limits: Impedance::DEFAULT,
    gravity: [0.0, -GRAVITY],
    fluid: None,
    driven: 3,
    gears: [200.0; 3],
    control: 1.0,
    timestep: 0.002,
    links_above: ABOVE.0,
    above: ABOVE.1,
};

integrated!(MODEL: [4, 6, 8, 3, 3], false);

options! {
    frame_skip: whole = 4, 1, 100; "time steps of 0.002 s per environment step"
    forward_reward_weight: number = 1.0, 0.0, 1e6; "factor of the forward speed in the reward"
    ctrl_cost_weight: number = 1e-3, 0.0, 1e6; "factor of the squared action in the cost"
    healthy_reward: number = 1.0, -1e6, 1e6; "reward of a step that ends in a healthy state"
    terminate_when_unhealthy: flag = true; "end the episode when the state is no longer healthy"
    healthy_state_min: number = -100.0, -1e9, 1e9; "lower bound of all numbers of a healthy state but x and z"
    healthy_state_max: number = 100.0, -1e9, 1e9; "upper bound of all numbers of a healthy state but x and z"
    healthy_z_min: number = 0.7, -1e9, 1e9; "lower bound of the torso's height in a healthy state, m"
    healthy_z_max: number = 1e9, -1e9, 1e9; "upper bound of the torso's height in a healthy state, m"
    healthy_angle_min: number = -0.2, -1e9, 1e9; "lower bound of the torso's angle in a healthy state, rad"
    healthy_angle_max: number = 0.2, -1e9, 1e9; "upper bound of the torso's angle in a healthy state, rad"
    reset_noise_scale: number = 5e-3, 0.0, 10.0; "bound of the uniform noise on initial positions and velocities"
    exclude_current_positions_from_observation: flag = true; "leave the position along x out of observations"
}

/// The environment; O is 11, or 12 with the position along x.
#[derive(Debug, Clone, Default)]
pub struct Hopper<const O: usize> {
    options: Options,
}

impl<const O: usize> Env for Hopper<O> {
    type State<L: Lane> = State<L, 6, 3>;
    type Obs<L: Lane> = [L::Float; O];
    type Action<L: Lane> = [L::Float; 3];

    fn spec(&self) -> EnvSpec {
        EnvSpec {
            name: "hopper".into(),
            aliases: vec!["Hopper-v5".into(), "Hopper".into()],
            family: "bodies".into(),
            summary: "hop forward on one leg; about 0 to 4,000 per episode".into(),
            rules: "A torso on one leg hops forward in a plane with three motors. The reward is its speed, plus 1 while it stands, minus a \
                    cost of the action. The episode ends when it no longer stands: below 0.7 m, or tilted by more than 0.2 rad."
                .into(),
            reference: "Identical to Gymnasium 1.4.0's Hopper-v5 on MuJoCo 4.0.0 with its solver run to the end, up to float rounding.".into(),
            obs: ObsSpace::symmetric(&[f64::INFINITY; O]),
            obs_names: motion_names(MODEL.slides, &["the torso along x", "the torso along z", "the torso", "the thigh", "the leg", "the foot"], 12 - O),
            actions: ActionSpace::Box { low: vec![-1.0; 3], high: vec![1.0; 3] },
            metrics: metrics(&[X_POSITION, Z_DISTANCE], &[FORWARD, CTRL, SURVIVE]),
            time_limit: 1000,
            fps: MODEL.fps(self.options.frame_skip),
            options: Options::list(),
            preset: Some(include_str!("../../presets/hopper.toml").into()),
            ..EnvSpec::default()
        }
    }

    shared!(6, &[], 1.5; |s| [s.q[0], s.q[1] - L::Float::splat(HEIGHT)]);

    fn resolve(self) -> Arc<dyn AnyEnv> {
        match self.options.exclude_current_positions_from_observation {
            true => Arc::new(Hopper::<11> { options: self.options }),
            false => Arc::new(Hopper::<12> { options: self.options }),
        }
    }

    fn reset<L: Lane>(&self, draws: &mut Draws<L>) -> State<L, 6, 3> {
        let scale = self.options.reset_noise_scale;
        let mut q: [L::Float; 6] = uniform(draws, scale);
        q[1] = q[1] + L::Float::splat(HEIGHT);
        State::at_rest(q, uniform(draws, scale))
    }

    fn step<L: Lane>(
        &self,
        s: &State<L, 6, 3>,
        action: &[L::Float; 3],
        _: &mut Draws<L>,
    ) -> Step<L, State<L, 6, 3>> {
        let f = L::Float::splat;
        let o = &self.options;
        let (mut state, moved, diverged) = moved::<L, _>(s, action, o.frame_skip);
        let ahead = speed::<L>(moved.forward, f64::from(o.frame_skip) * MODEL.timestep);
        let small = state.q[2..].iter().chain(&state.v).fold(L::Mask::splat(true), |all, number| {
            all & between(o.healthy_state_min, *number, o.healthy_state_max)
        });
        let healthy = small
            & between(o.healthy_z_min, state.q[1], o.healthy_z_max)
            & between(o.healthy_angle_min, state.q[2], o.healthy_angle_max);
        let stands = healthy.select(f(o.healthy_reward), f(0.0));
        let gain = ahead.mul_add(f(o.forward_reward_weight), stands);
        let energy = squares(action);
        let reward = energy.mul_add(f(-o.ctrl_cost_weight), gain);
        let terms = [ahead * f(o.forward_reward_weight), energy * f(-o.ctrl_cost_weight), stands];
        let terminated = if o.terminate_when_unhealthy { diverged | !healthy } else { diverged };
        Step { reward: paid::<L, _>(&mut state.terms, terms, reward, diverged), state, terminated }
    }

    fn observe<L: Lane>(&self, s: &State<L, 6, 3>) -> [L::Float; O] {
        let skipped = 12 - O;
        core::array::from_fn(|k| match k + skipped {
            k if k < 6 => s.q[k],
            k => clipped(s.v[k - 6]),
        })
    }
}
