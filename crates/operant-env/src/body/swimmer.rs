//! Swimmer: a body of three links swims forward in a viscous fluid.

use std::sync::Arc;

use operant_lane::{Draws, Float, Lane};

use super::model::{Capsule, DEGREE, Dof, Fluid, Impedance, Link, Model, above};
use super::{
    CTRL, DISTANCE, FORWARD, State, X_POSITION, integrated, metrics, motion_names, options, paid, shared,
    speed, squares, uniform,
};
use crate::any::AnyEnv;
use crate::{ActionSpace, Env, EnvSpec, ObsSpace, Step};

/// Mass and moment of inertia of each link.
const INERTIA: [f64; 2] = [35.604716740684324, 3.9175660390264717];

// The plane is seen from above, so that hinges turn the other way.
const LINKS: [Link; 3] = [
    Link::hinged(None, 2, -1.0, [0.0, 0.0], INERTIA, [1.0, 0.0]),
    Link::hinged(Some(0), 3, -1.0, [0.5, 0.0], INERTIA, [-0.5, 0.0]),
    Link::hinged(Some(1), 4, -1.0, [-1.0, 0.0], INERTIA, [-0.5, 0.0]),
];

const RANGE: [f64; 2] = [-100.0 * DEGREE, 100.0 * DEGREE];
/// The slides, too, have the inertia of a motor.
const ROOT: Dof = Dof { armature: 0.1, ..Dof::FREE };

const CAPSULES: [Capsule; 3] = [capsule(0, 1.5, 0.5), capsule(1, 0.0, -1.0), capsule(2, 0.0, -1.0)];

const fn capsule(link: usize, from: f64, to: f64) -> Capsule {
    Capsule { link, ends: [[from, 0.0], [to, 0.0]], radius: 0.1 }
}

const ABOVE: ([u32; 3], [u32; 5]) = above(&LINKS, 2);

/// The model.
const MODEL: Model<3, 5, 0, 0, 2> = Model {
    links: LINKS,
    dofs: [
        ROOT,
        ROOT,
        ROOT,
        Dof::limited(RANGE, 0.0, 0.1, 0.38529334162134676),
        Dof::limited(RANGE, 0.0, 0.1, 0.3933336741383495),
    ],
    slides: 2,
    height: 0.0,
    points: [],
    pairs: [],
    margin: 0.0,
    contacts: Impedance::DEFAULT,
    limits: Impedance::DEFAULT,
    gravity: [0.0, 0.0],
    fluid: Some(Fluid {
        along: [58.58823529411759, 0.46450275262296775],
        across: [388.9495034872466, 0.46450275262296775],
        turning: [17.839629114430714, 0.03760982964669581],
    }),
    driven: 3,
    gears: [150.0; 2],
    control: 1.0,
    timestep: 0.01,
    links_above: ABOVE.0,
    above: ABOVE.1,
};

integrated!(MODEL: [3, 5, 0, 0, 2], false);

options! {
    frame_skip: whole = 4, 1, 100; "time steps of 0.01 s per environment step"
    forward_reward_weight: number = 1.0, 0.0, 1e6; "factor of the forward speed in the reward"
    ctrl_cost_weight: number = 1e-4, 0.0, 1e6; "factor of the squared action in the cost"
    reset_noise_scale: number = 0.1, 0.0, 10.0; "bound of the uniform noise on initial positions and velocities"
    exclude_current_positions_from_observation: flag = true; "leave the position out of observations"
}

/// The environment; O is 8, or 10 with the position.
#[derive(Debug, Clone, Default)]
pub struct Swimmer<const O: usize> {
    options: Options,
}

impl<const O: usize> Env for Swimmer<O> {
    type State<L: Lane> = State<L, 5, 2>;
    type Obs<L: Lane> = [L::Float; O];
    type Action<L: Lane> = [L::Float; 2];

    fn spec(&self) -> EnvSpec {
        EnvSpec {
            name: "swimmer".into(),
            aliases: vec!["Swimmer-v5".into(), "Swimmer".into()],
            family: "bodies".into(),
            summary: "swim forward in a viscous fluid; about 0 to 360 per episode".into(),
            rules: "A chain of three links in a plane swims forward in a viscous fluid with two motors. The reward is its speed minus a cost of the action. \
                    An episode never ends before its 1,000 steps."
                .into(),
            reference: "Identical to Gymnasium 1.4.0's Swimmer-v5 on MuJoCo 4.0.0 with its solver run to the end, up to float rounding.".into(),
            obs: ObsSpace::symmetric(&[f64::INFINITY; O]),
            obs_names: motion_names(MODEL.slides, &["the first link along x", "the first link along y", "the first link", "the first hinge", "the second hinge"], 10 - O),
            actions: ActionSpace::Box { low: vec![-1.0; 2], high: vec![1.0; 2] },
            metrics: metrics(&[X_POSITION, DISTANCE], &[FORWARD, CTRL]),
            time_limit: 1000,
            fps: MODEL.fps(self.options.frame_skip),
            options: Options::list(),
            preset: Some(include_str!("../../presets/swimmer.toml").into()),
            ..EnvSpec::default()
        }
    }

    shared!(5, &CAPSULES, 2.0; |s| [s.q[0], squares(&[s.q[0], s.q[1]]).sqrt()]);

    fn resolve(self) -> Arc<dyn AnyEnv> {
        match self.options.exclude_current_positions_from_observation {
            true => Arc::new(Swimmer::<8> { options: self.options }),
            false => Arc::new(Swimmer::<10> { options: self.options }),
        }
    }

    fn reset<L: Lane>(&self, draws: &mut Draws<L>) -> State<L, 5, 2> {
        let scale = self.options.reset_noise_scale;
        State::at_rest(uniform(draws, scale), uniform(draws, scale))
    }

    fn step<L: Lane>(
        &self,
        s: &State<L, 5, 2>,
        action: &[L::Float; 2],
        _: &mut Draws<L>,
    ) -> Step<L, State<L, 5, 2>> {
        let f = L::Float::splat;
        let Options { frame_skip, forward_reward_weight, ctrl_cost_weight, .. } = self.options;
        let (mut state, moved, terminated) = moved::<L, _>(s, action, frame_skip);
        let ahead = speed::<L>(moved.forward, f64::from(frame_skip) * MODEL.timestep);
        let (forward, energy) = (ahead * f(forward_reward_weight), squares(action));
        let reward = energy.mul_add(f(-ctrl_cost_weight), forward);
        let terms = [forward, energy * f(-ctrl_cost_weight)];
        Step { reward: paid::<L, _>(&mut state.terms, terms, reward, terminated), state, terminated }
    }

    fn observe<L: Lane>(&self, s: &State<L, 5, 2>) -> [L::Float; O] {
        let skipped = 10 - O;
        core::array::from_fn(|k| if k + skipped < 5 { s.q[k + skipped] } else { s.v[k + skipped - 5] })
    }
}
