//! Walker2d: a two-legged body walks forward.

use std::sync::Arc;

use operant_lane::{Draws, Float, Lane, Mask};

use super::legged::{BEND, ENDS, HEIGHT, RADII, TILT, TORSO, foot, leg, thigh};
use super::model::{Dof, GRAVITY, Impedance, Link, Model, Point, above};
use super::{
    CTRL, FORWARD, SURVIVE, State, X_POSITION, Z_DISTANCE, between, clipped, integrated, metrics,
    motion_names, options, paid, shared, speed, squares, uniform,
};
use crate::any::AnyEnv;
use crate::{ActionSpace, Env, EnvSpec, ObsSpace, Step};

const FOOT_INERTIA: [f64; 2] = [3.1667253948185117, 0.02399774663482943];

const LINKS: [Link; 7] = [
    TORSO,
    thigh(3),
    leg(1, 4),
    foot(2, 5, FOOT_INERTIA, 0.1),
    thigh(6),
    leg(4, 7),
    foot(5, 8, FOOT_INERTIA, 0.1),
];

const FOOT_ENDS: [[f64; 2]; 2] = [[0.0, 0.0], [0.2, 0.0]];
/// Of torso, thigh, leg and foot.
const WEIGHTS: [f64; 4] = [0.0853164980232042, 0.06051637875212593, 0.06299719488697496, 0.13474576502547686];

/// One of the ends of a link's capsule; the links of the left leg are as those of the right.
const fn end(link: usize, end: usize) -> Point {
    let part = if link > 3 { link - 3 } else { link };
    let (at, friction) = if part == 3 { (FOOT_ENDS[end], 1.9) } else { (ENDS[part][end], 0.9) };
    Point { link, at, radius: RADII[part], friction, weight: WEIGHTS[part] }
}

const THIGH: Dof = Dof::limited(BEND, 0.1, 0.01, 12.106152843486317);
const LEG: Dof = Dof::limited(BEND, 0.1, 0.01, 9.595294937183608);
const FOOT: Dof = Dof::limited(TILT, 0.1, 0.01, 18.21142212360485);

const ABOVE: ([u32; 7], [u32; 9]) = above(&LINKS, 2);

/// The model.
const MODEL: Model<7, 9, 14, 0, 6> = Model {
    links: LINKS,
    dofs: [Dof::FREE, Dof::FREE, Dof::FREE, THIGH, LEG, FOOT, THIGH, LEG, FOOT],
    slides: 2,
    height: 0.0,
    points: [
        end(0, 0),
        end(0, 1),
        end(1, 0),
        end(1, 1),
        end(2, 0),
        end(2, 1),
        end(3, 0),
        end(3, 1),
        end(4, 0),
        end(4, 1),
        end(5, 0),
        end(5, 1),
        end(6, 0),
        end(6, 1),
    ],
    pairs: [],
    margin: 0.0,
    contacts: Impedance::DEFAULT,
    limits: Impedance::DEFAULT,
    gravity: [0.0, -GRAVITY],
    fluid: None,
    driven: 3,
    gears: [100.0; 6],
    control: 1.0,
    timestep: 0.002,
    links_above: ABOVE.0,
    above: ABOVE.1,
};

integrated!(MODEL: [7, 9, 14, 0, 6], false);

options! {
    frame_skip: whole = 4, 1, 100; "time steps of 0.002 s per environment step"
    forward_reward_weight: number = 1.0, 0.0, 1e6; "factor of the forward speed in the reward"
    ctrl_cost_weight: number = 1e-3, 0.0, 1e6; "factor of the squared action in the cost"
    healthy_reward: number = 1.0, -1e6, 1e6; "reward of a step that ends in a healthy state"
    terminate_when_unhealthy: flag = true; "end the episode when the state is no longer healthy"
    healthy_z_min: number = 0.8, -1e9, 1e9; "lower bound of the torso's height in a healthy state, m"
    healthy_z_max: number = 2.0, -1e9, 1e9; "upper bound of the torso's height in a healthy state, m"
    healthy_angle_min: number = -1.0, -1e9, 1e9; "lower bound of the torso's angle in a healthy state, rad"
    healthy_angle_max: number = 1.0, -1e9, 1e9; "upper bound of the torso's angle in a healthy state, rad"
    reset_noise_scale: number = 5e-3, 0.0, 10.0; "bound of the uniform noise on initial positions and velocities"
    exclude_current_positions_from_observation: flag = true; "leave the position along x out of observations"
}

/// The environment; O is 17, or 18 with the position along x.
#[derive(Debug, Clone, Default)]
pub struct Walker2d<const O: usize> {
    options: Options,
}

impl<const O: usize> Env for Walker2d<O> {
    type State<L: Lane> = State<L, 9, 3>;
    type Obs<L: Lane> = [L::Float; O];
    type Action<L: Lane> = [L::Float; 6];

    fn spec(&self) -> EnvSpec {
        EnvSpec {
            name: "walker2d".into(),
            aliases: vec!["Walker2d-v5".into(), "Walker2d".into()],
            family: "bodies".into(),
            summary: "walk forward on two legs; about 0 to 6,000 per episode".into(),
            rules: "A torso on two legs walks forward in a plane with six motors. The reward is its speed, plus 1 while it stands, minus a \
                    cost of the action. The episode ends when it no longer stands: below 0.8 m, above 2 m, or tilted by more than 1 rad."
                .into(),
            reference: "Identical to Gymnasium 1.4.0's Walker2d-v5 on MuJoCo 4.0.0 with its solver run to the end, up to float rounding.".into(),
            obs: ObsSpace::symmetric(&[f64::INFINITY; O]),
            obs_names: motion_names(MODEL.slides, &["the torso along x", "the torso along z", "the torso", "the right thigh", "the right leg", "the right foot", "the left thigh", "the left leg", "the left foot"], 18 - O),
            actions: ActionSpace::Box { low: vec![-1.0; 6], high: vec![1.0; 6] },
            metrics: metrics(&[X_POSITION, Z_DISTANCE], &[FORWARD, CTRL, SURVIVE]),
            time_limit: 1000,
            fps: MODEL.fps(self.options.frame_skip),
            options: Options::list(),
            preset: Some(include_str!("../../presets/walker2d.toml").into()),
            ..EnvSpec::default()
        }
    }

    shared!(9, &[], 1.5; |s| [s.q[0], s.q[1] - L::Float::splat(HEIGHT)]);

    fn resolve(self) -> Arc<dyn AnyEnv> {
        match self.options.exclude_current_positions_from_observation {
            true => Arc::new(Walker2d::<17> { options: self.options }),
            false => Arc::new(Walker2d::<18> { options: self.options }),
        }
    }

    fn reset<L: Lane>(&self, draws: &mut Draws<L>) -> State<L, 9, 3> {
        let scale = self.options.reset_noise_scale;
        let mut q: [L::Float; 9] = uniform(draws, scale);
        q[1] = q[1] + L::Float::splat(HEIGHT);
        State::at_rest(q, uniform(draws, scale))
    }

    fn step<L: Lane>(
        &self,
        s: &State<L, 9, 3>,
        action: &[L::Float; 6],
        _: &mut Draws<L>,
    ) -> Step<L, State<L, 9, 3>> {
        let f = L::Float::splat;
        let o = &self.options;
        let (mut state, moved, diverged) = moved::<L, _>(s, action, o.frame_skip);
        let ahead = speed::<L>(moved.forward, f64::from(o.frame_skip) * MODEL.timestep);
        let healthy = between(o.healthy_z_min, state.q[1], o.healthy_z_max)
            & between(o.healthy_angle_min, state.q[2], o.healthy_angle_max);
        let stands = healthy.select(f(o.healthy_reward), f(0.0));
        let gain = ahead.mul_add(f(o.forward_reward_weight), stands);
        let energy = squares(action);
        let reward = energy.mul_add(f(-o.ctrl_cost_weight), gain);
        let terms = [ahead * f(o.forward_reward_weight), energy * f(-o.ctrl_cost_weight), stands];
        let terminated = if o.terminate_when_unhealthy { diverged | !healthy } else { diverged };
        Step { reward: paid::<L, _>(&mut state.terms, terms, reward, diverged), state, terminated }
    }

    fn observe<L: Lane>(&self, s: &State<L, 9, 3>) -> [L::Float; O] {
        let skipped = 18 - O;
        core::array::from_fn(|k| match k + skipped {
            k if k < 9 => s.q[k],
            k => clipped(s.v[k - 9]),
        })
    }
}
