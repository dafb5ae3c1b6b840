//! HalfCheetah: a two-legged body runs forward.

use std::sync::Arc;

use operant_lane::{Draws, Float, Lane};

use super::model::{Dof, GRAVITY, Impedance, Link, Model, Point, above};
use super::{
    CTRL, FORWARD, State, X_POSITION, integrated, metrics, motion_names, normal, options, paid, shared,
    speed, squares, uniform,
};
use crate::any::AnyEnv;
use crate::{ActionSpace, Env, EnvSpec, ObsSpace, Step};

const RADIUS: f64 = 0.046;
const FRICTION: f64 = 0.4;

const LINKS: [Link; 7] = [
    link(
        None,
        2,
        [0.0, 0.0],
        [6.25020920502092, 0.897117688111749],
        [0.15238987816307403, 0.025398313027179008],
    ),
    link(Some(0), 3, [-0.5, 0.0], [1.5435146443514645, 0.01684433958158996], [0.1, -0.13]),
    link(Some(1), 4, [0.16, -0.25], [1.5874476987447697, 0.018267419079497912], [-0.14, -0.07]),
    link(Some(2), 5, [-0.28, -0.14], [1.0953974895397491, 0.0063524232635983275], [0.03, -0.097]),
    link(Some(0), 6, [0.5, 0.0], [1.4380753138075317, 0.013739643347280341], [-0.07, -0.12]),
    link(Some(4), 7, [-0.14, -0.24], [1.200836820083682, 0.008222108619246861], [0.065, -0.09]),
    link(Some(5), 8, [0.13, -0.18], [0.8845188284518829, 0.003529109456066946], [0.045, -0.07]),
];

const fn link(parent: Option<usize>, dof: usize, anchor: [f64; 2], inertia: [f64; 2], com: [f64; 2]) -> Link {
    Link::hinged(parent, dof, 1.0, anchor, inertia, com)
}

const fn hinge(range: [f64; 2], stiffness: f64, damping: f64, weight: f64) -> Dof {
    Dof { stiffness, ..Dof::limited(range, damping, 0.1, weight) }
}

const fn end(link: usize, at: [f64; 2], weight: f64) -> Point {
    Point { link, at, radius: RADIUS, friction: FRICTION, weight }
}

const ABOVE: ([u32; 7], [u32; 9]) = above(&LINKS, 2);

/// The model.
const MODEL: Model<7, 9, 16, 0, 6> = Model {
    links: LINKS,
    dofs: [
        Dof::FREE,
        Dof::FREE,
        Dof::FREE,
        hinge([-0.52, 1.05], 240.0, 6.0, 2.729788644884893),
        hinge([-0.785, 0.785], 180.0, 4.5, 5.893248984162904),
        hinge([-0.4, 0.785], 120.0, 3.0, 8.894877004054676),
        hinge([-1.0, 0.7], 180.0, 4.5, 3.0813926054768768),
        hinge([-1.2, 0.87], 120.0, 3.0, 6.882795962275771),
        hinge([-0.5, 0.5], 60.0, 1.5, 9.468134962769764),
    ],
    slides: 2,
    height: 0.7,
    points: [
        end(0, [-0.5, 0.0], 0.06415751945610272),
        end(0, [0.5, 0.0], 0.06415751945610272),
        end(0, [0.7146493405538257, 0.19672398208600017], 0.06415751945610272),
        end(0, [0.4853506594461742, 0.0032760179139998263], 0.06415751945610272),
        end(1, [0.18871939418669426, -0.2446903182275904], 0.09691101560963138),
        end(1, [0.011280605813305769, -0.015309681772409586], 0.09691101560963138),
        end(2, [-0.27446086117273405, -0.13648516234985636], 0.12720922534654552),
        end(2, [-0.005539138827266005, -0.003514837650143668], 0.12720922534654552),
        end(3, [0.004927244951249875, -0.006405535741606308], 0.24374928349017175),
        end(3, [0.05507275504875012, -0.1875944642583937], 0.24374928349017175),
        end(4, [-0.003914941666783009, -0.004580049102872574], 0.0814837948136707),
        end(4, [-0.136085058333217, -0.23541995089712742], 0.0814837948136707),
        end(5, [0.005147897820126264, -0.0025144248195741042], 0.1319968179007737),
        end(5, [0.12485210217987375, -0.1774855751804259], 0.1319968179007737),
        end(6, [0.005475026862347528, -0.012226506956322526], 0.2661441029233887),
        end(6, [0.08452497313765248, -0.1277734930436775], 0.2661441029233887),
    ],
    pairs: [],
    margin: 0.0,
    contacts: Impedance { range: [0.0001, 0.8], width: 0.01, time: 0.02 },
    limits: Impedance { range: [0.0001, 0.8], width: 0.03, time: 0.02 },
    gravity: [0.0, -GRAVITY],
    fluid: None,
    driven: 3,
    gears: [120.0, 90.0, 60.0, 120.0, 60.0, 30.0],
    control: 1.0,
    timestep: 0.01,
    links_above: ABOVE.0,
    above: ABOVE.1,
};

integrated!(MODEL: [7, 9, 16, 0, 6], true);

options! {
    frame_skip: whole = 5, 1, 100; "time steps of 0.01 s per environment step"
    forward_reward_weight: number = 1.0, 0.0, 1e6; "factor of the forward speed in the reward"
    ctrl_cost_weight: number = 0.1, 0.0, 1e6; "factor of the squared action in the cost"
    reset_noise_scale: number = 0.1, 0.0, 10.0; "bound of the uniform noise on initial positions, and deviation of the normal noise on velocities"
    exclude_current_positions_from_observation: flag = true; "leave the position along x out of observations"
}

/// The environment; O is 17, or 18 with the position along x.
#[derive(Debug, Clone, Default)]
pub struct HalfCheetah<const O: usize> {
    options: Options,
}

impl<const O: usize> Env for HalfCheetah<O> {
    type State<L: Lane> = State<L, 9, 2>;
    type Obs<L: Lane> = [L::Float; O];
    type Action<L: Lane> = [L::Float; 6];

    fn spec(&self) -> EnvSpec {
        EnvSpec {
            name: "half_cheetah".into(),
            aliases: vec!["HalfCheetah-v5".into(), "HalfCheetah".into()],
            family: "bodies".into(),
            summary: "run forward on two legs; about 0 to 12,000 per episode".into(),
            rules: "A body of seven links in a plane runs forward with six motors. The reward is its speed minus a cost of the action. \
                    An episode never ends before its 1,000 steps."
                .into(),
            reference: "Identical to Gymnasium 1.4.0's HalfCheetah-v5 on MuJoCo 4.0.0 with its solver run to the end, up to float rounding.".into(),
            obs: ObsSpace::symmetric(&[f64::INFINITY; O]),
            obs_names: motion_names(MODEL.slides, &["the torso along x", "the torso along z", "the torso", "the back thigh", "the back shin", "the back foot", "the front thigh", "the front shin", "the front foot"], 18 - O),
            actions: ActionSpace::Box { low: vec![-1.0; 6], high: vec![1.0; 6] },
            metrics: metrics(&[X_POSITION], &[FORWARD, CTRL]),
            time_limit: 1000,
            fps: MODEL.fps(self.options.frame_skip),
            options: Options::list(),
            preset: Some(include_str!("../../presets/half_cheetah.toml").into()),
            ..EnvSpec::default()
        }
    }

    shared!(9, &[], 1.5; |s| [s.q[0]]);

    fn resolve(self) -> Arc<dyn AnyEnv> {
        match self.options.exclude_current_positions_from_observation {
            true => Arc::new(HalfCheetah::<17> { options: self.options }),
            false => Arc::new(HalfCheetah::<18> { options: self.options }),
        }
    }

    fn reset<L: Lane>(&self, draws: &mut Draws<L>) -> State<L, 9, 2> {
        let scale = self.options.reset_noise_scale;
        State::at_rest(uniform(draws, scale), normal(draws, scale))
    }

    fn step<L: Lane>(
        &self,
        s: &State<L, 9, 2>,
        action: &[L::Float; 6],
        _: &mut Draws<L>,
    ) -> Step<L, State<L, 9, 2>> {
        let f = L::Float::splat;
        let Options { frame_skip, forward_reward_weight, ctrl_cost_weight, .. } = self.options;
        let (mut state, moved, terminated) = moved::<L, _>(s, action, frame_skip);
        let ahead = speed::<L>(moved.forward, f64::from(frame_skip) * MODEL.timestep);
        let (forward, energy) = (ahead * f(forward_reward_weight), squares(action));
        let reward = energy.mul_add(f(-ctrl_cost_weight), forward);
        let terms = [forward, energy * f(-ctrl_cost_weight)];
        Step { reward: paid::<L, _>(&mut state.terms, terms, reward, terminated), state, terminated }
    }

    fn observe<L: Lane>(&self, s: &State<L, 9, 2>) -> [L::Float; O] {
        let skipped = 18 - O;
        core::array::from_fn(|k| if k + skipped < 9 { s.q[k + skipped] } else { s.v[k + skipped - 9] })
    }
}
