//! InvertedDoublePendulum: a cart holds two poles upright, one on the other.

use operant_lane::{Draws, Float, Lane, Mask, bundle};

use super::inverted_pendulum::{CART, CART_CAPSULE};
use super::model::{Capsule, Dof, GRAVITY, Impedance, Link, Model, above};
use super::planar::{Motion, Planar};
use super::{
    SURVIVE, State, X_POSITION, clipped, integrated, metrics, normal, options, paid, shared, uniform,
};
use crate::spec::names;
use crate::{ActionSpace, Env, EnvSpec, ObsSpace, Step};

/// The tip of a pole, from its hinge.
const TIP: [f64; 2] = [0.0, 0.6];
const POLE_INERTIA: [f64; 2] = [4.1987385815227585, 0.15497066975016235];

const LINKS: [Link; 3] = [
    CART,
    Link::hinged(Some(0), 1, 1.0, [0.0, 0.0], POLE_INERTIA, [0.0, 0.3]),
    Link::hinged(Some(1), 2, 1.0, TIP, POLE_INERTIA, [0.0, 0.3]),
];
const HINGE: Dof = Dof { damping: 0.05, ..Dof::FREE };

const CAPSULES: [Capsule; 3] = [CART_CAPSULE, pole(1), pole(2)];

const fn pole(link: usize) -> Capsule {
    Capsule { link, ends: [[0.0, 0.0], TIP], radius: 0.045 }
}

const ABOVE: ([u32; 3], [u32; 3]) = above(&LINKS, 1);

/// The model.
const MODEL: Model<3, 3, 0, 0, 1> = Model {
    links: LINKS,
    dofs: [Dof { margin: 0.01, ..Dof::limited([-1.0, 1.0], 0.05, 0.0, 0.08467261918769675) }, HINGE, HINGE],
    slides: 1,
    height: 0.0,
    points: [],
    pairs: [],
    margin: 0.0,
    contacts: Impedance::DEFAULT,
    limits: Impedance::DEFAULT,
    gravity: [1e-5, -GRAVITY],
    fluid: None,
    driven: 0,
    gears: [500.0],
    control: 1.0,
    timestep: 0.01,
    links_above: ABOVE.0,
    above: ABOVE.1,
};

integrated!(MODEL: [3, 3, 0, 0, 1], false);

options! {
    frame_skip: whole = 5, 1, 100; "time steps of 0.01 s per environment step"
    healthy_reward: number = 10.0, -1e6, 1e6; "reward of a step that ends in a healthy state"
    reset_noise_scale: number = 0.1, 0.0, 10.0; "bound of the uniform noise on initial positions, and deviation of the normal noise on velocities"
}

bundle! {
    /// The body, and the force of the slide's limits on the cart at the last evaluation.
    pub struct Poles {
        /// The body.
        body: (Of State<3, 3>),
        /// The force, N.
        push: Float,
    }
}

/// The environment.
#[derive(Debug, Clone, Default)]
pub struct InvertedDoublePendulum {
    options: Options,
}

impl Env for InvertedDoublePendulum {
    type State<L: Lane> = Poles<L>;
    type Obs<L: Lane> = [L::Float; 9];
    type Action<L: Lane> = [L::Float; 1];

    fn spec(&self) -> EnvSpec {
        EnvSpec {
            name: "inverted_double_pendulum".into(),
            aliases: vec!["InvertedDoublePendulum-v5".into(), "InvertedDoublePendulum".into()],
            family: "bodies".into(),
            summary: "hold two poles upright on a cart; at most 10,000 per episode".into(),
            rules: "A cart with one motor holds two poles upright, one on the other. The reward is 10 for every step, minus costs of the \
                    tip's distance and of the speeds. The episode ends when the tip falls to 1 m."
                .into(),
            reference: "Identical to Gymnasium 1.4.0's InvertedDoublePendulum-v5 on MuJoCo 4.0.0 with its solver run to the end, up to float rounding.".into(),
            obs: ObsSpace::symmetric(&[f64::INFINITY; 9]),
            obs_names: names(["position of the cart", "sine of the first pole's angle", "sine of the second hinge's angle", "cosine of the first pole's angle", "cosine of the second hinge's angle", "velocity of the cart", "velocity of the first pole", "velocity of the second hinge", "force of the rail's ends"]),
            actions: ActionSpace::Box { low: vec![-1.0], high: vec![1.0] },
            metrics: metrics(&[X_POSITION], &[
                SURVIVE,
                ["distance_penalty", "cost of the tip's distance, negative, summed over the episode"],
                ["velocity_penalty", "cost of the poles' speeds, negative, summed over the episode"],
            ]),
            time_limit: 1000,
            fps: MODEL.fps(self.options.frame_skip),
            options: Options::list(),
            preset: Some(include_str!("../../presets/inverted_double_pendulum.toml").into()),
            ..EnvSpec::default()
        }
    }

    shared!(3, &CAPSULES, 1.5, body; |s| [s.q[0]]);

    fn reset<L: Lane>(&self, draws: &mut Draws<L>) -> Poles<L> {
        let scale = self.options.reset_noise_scale;
        let still = [L::Float::splat(0.0); 1];
        let body = State::at_rest(uniform(draws, scale), normal(draws, scale));
        let motion = Body::at_once::<L>(Motion { q: body.q, v: body.v, a: body.a }, &still);
        Poles { body, push: Body::limit_force::<L>(&motion, 0) }
    }

    fn step<L: Lane>(&self, s: &Poles<L>, action: &[L::Float; 1], _: &mut Draws<L>) -> Step<L, Poles<L>> {
        let f = L::Float::splat;
        let (mut body, moved, diverged) = moved::<L, _>(&s.body, action, self.options.frame_skip);
        let push = Body::limit_force::<L>(&moved.last, 0);
        let [x, z] = Body::point::<L>(&moved.last.q, 2, TIP);
        let x = x + moved.last.q[0];
        let fallen = z.le(f(1.0));
        let terminated = diverged | fallen;
        let short = z - f(2.0);
        let [_, first, second] = body.v;
        let distance = [(x * x, 0.01), (short * short, 1.0)];
        let velocity = [(first * first, 1e-3), (second * second, 5e-3)];
        let less = |from, costs: [(L::Float, f64); 2]| {
            costs.into_iter().fold(from, |sum, (cost, weight)| cost.mul_add(f(-weight), sum))
        };
        let stands = fallen.select(f(0.0), f(self.options.healthy_reward));
        let reward = less(less(stands, distance), velocity);
        let terms = [stands, less(f(0.0), distance), less(f(0.0), velocity)];
        let reward = paid::<L, _>(&mut body.terms, terms, reward, diverged);
        let push = diverged.select(s.push, push);
        Step { state: Poles { body, push }, reward, terminated }
    }

    fn observe<L: Lane>(&self, s: &Poles<L>) -> [L::Float; 9] {
        let [x, first, second] = s.body.q;
        let ((sin1, cos1), (sin2, cos2)) = (first.sin_cos(), second.sin_cos());
        let [a, b, c] = s.body.v.map(clipped);
        [x, sin1, sin2, cos1, cos2, a, b, c, clipped(s.push)]
    }
}
