//! Reacher: an arm of two links reaches for a point.

use core::f64::consts::PI;

use operant_lane::{Draws, Float, Lane, Mask, bundle};

use super::model::{Capsule, Dof, Impedance, Link, Model, above};
use super::planar::Planar;
use super::{CTRL, State, integrated, measured, metrics, options, paid, scene, set_option, squares, uniform};
use crate::spec::names;
use crate::{ActionSpace, Env, EnvSpec, ObsSpace, RED, Scene, Shape, Step};

// The plane is seen from above, so that hinges turn the other way.
const LINKS: [Link; 2] = [
    Link::hinged(None, 0, -1.0, [0.0, 0.0], [0.03560471674068432, 3.9175660390264734e-05], [0.05, 0.0]),
    Link::hinged(
        Some(0),
        1,
        -1.0,
        [0.1, 0.0],
        [0.039793506945470715, 5.283552571071551e-5],
        [0.05631578947368421, 0.0],
    ),
];
/// The fingertip on the second link.
const TIP: [f64; 2] = [0.11, 0.0];

const CAPSULES: [Capsule; 2] = [
    Capsule { link: 0, ends: [[0.0, 0.0], [0.1, 0.0]], radius: 0.01 },
    Capsule { link: 1, ends: [[0.0, 0.0], [0.11, 0.0]], radius: 0.01 },
];

const ABOVE: ([u32; 2], [u32; 2]) = above(&LINKS, 0);

/// The model.
const MODEL: Model<2, 2, 0, 0, 2> = Model {
    links: LINKS,
    dofs: [
        Dof { damping: 1.0, armature: 1.0, ..Dof::FREE },
        Dof::limited([-3.0, 3.0], 1.0, 1.0, 0.9998211549602818),
    ],
    slides: 0,
    height: 0.0,
    points: [],
    pairs: [],
    margin: 0.0,
    contacts: Impedance::DEFAULT,
    limits: Impedance::DEFAULT,
    gravity: [0.0, 0.0],
    fluid: None,
    driven: 0,
    gears: [200.0; 2],
    control: 1.0,
    timestep: 0.01,
    links_above: ABOVE.0,
    above: ABOVE.1,
};

integrated!(MODEL: [2, 2, 0, 0, 2], false);

options! {
    frame_skip: whole = 2, 1, 100; "time steps of 0.01 s per environment step"
    reward_dist_weight: number = 1.0, 0.0, 1e6; "factor of the distance in the cost"
    reward_control_weight: number = 1.0, 0.0, 1e6; "factor of the squared action in the cost"
}

bundle! {
    /// The arm and its target.
    pub struct Arm {
        /// The arm.
        body: (Of State<2, 2>),
        /// The target's place, m.
        target: [Float; 2],
        /// From the target to the fingertip at the last evaluation, m.
        gap: [Float; 2],
    }
}

/// The environment.
#[derive(Debug, Clone, Default)]
pub struct Reacher {
    options: Options,
}

/// From the target to the fingertip.
fn gap<L: Lane>(q: &[L::Float; 2], target: &[L::Float; 2]) -> [L::Float; 2] {
    let tip = Body::point::<L>(q, 1, TIP);
    core::array::from_fn(|k| tip[k] - target[k])
}

impl Env for Reacher {
    type State<L: Lane> = Arm<L>;
    type Obs<L: Lane> = [L::Float; 10];
    type Action<L: Lane> = [L::Float; 2];

    fn spec(&self) -> EnvSpec {
        EnvSpec {
            name: "reacher".into(),
            aliases: vec!["Reacher-v5".into(), "Reacher".into()],
            family: "bodies".into(),
            summary: "reach for a point with an arm of two links; about -4 per episode".into(),
            rules: "An arm of two links in a plane reaches for a point with two motors. Each step costs the distance of its fingertip and \
                    the squared action."
                .into(),
            reference: "Identical to Gymnasium 1.4.0's Reacher-v5 on MuJoCo 4.0.0 with its solver run to the end, up to float rounding.".into(),
            obs: ObsSpace::symmetric(&[f64::INFINITY; 10]),
            obs_names: names(["cosine of the first hinge's angle", "cosine of the second's", "sine of the first's", "sine of the second's", "the target's x", "the target's y", "velocity of the first hinge", "velocity of the second", "x from the target to the fingertip", "y from the target to the fingertip"]),
            actions: ActionSpace::Box { low: vec![-1.0; 2], high: vec![1.0; 2] },
            metrics: metrics(
                &[["distance", "distance of the fingertip from its target, m"]],
                &[["reward_dist", "cost of the distance, negative, summed over the episode"], CTRL],
            ),
            time_limit: 50,
            fps: MODEL.fps(self.options.frame_skip),
            options: Options::list(),
            preset: Some(include_str!("../../presets/reacher.toml").into()),
            ..EnvSpec::default()
        }
    }

    set_option!();

    fn metric<L: Lane>(&self, last: &Step<L, Arm<L>>, index: usize) -> L::Float {
        let State { terms, unsolved, diverged, .. } = last.state.body;
        measured(index, &[squares(&last.state.gap).sqrt()], &terms, [unsolved, diverged])
    }

    fn draw(&self, s: &Arm<f32>) -> Scene {
        let mut scene = scene(Body, &CAPSULES, 0.25, &s.body.q);
        scene.shapes.push(Shape::circle(s.target, 0.009, RED));
        scene
    }

    // MuJoCo has the target as two joints at rest.
    fn unpack(&self, public: &[f64]) -> Vec<f64> {
        let [q0, q1, x, y, v0, v1, ..] = *public else { return public.to_vec() };
        vec![q0, q1, v0, v1, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, x, y, 0.0, 0.0]
    }

    fn pack(&self, leaves: &[f64]) -> Vec<f64> {
        vec![leaves[0], leaves[1], leaves[10], leaves[11], leaves[2], leaves[3], 0.0, 0.0]
    }

    fn reset<L: Lane>(&self, draws: &mut Draws<L>) -> Arm<L> {
        // Uniform in the disc.
        let radius = draws.unit().sqrt() * L::Float::splat(0.2);
        let (sin, cos) = draws.between(-PI, PI).sin_cos();
        let target = [radius * cos, radius * sin];
        let body = State::at_rest(uniform(draws, 0.1), uniform(draws, 0.005));
        Arm { body, target, gap: gap::<L>(&body.q, &target) }
    }

    fn step<L: Lane>(&self, s: &Arm<L>, action: &[L::Float; 2], _: &mut Draws<L>) -> Step<L, Arm<L>> {
        let f = L::Float::splat;
        let o = &self.options;
        let (mut body, moved, terminated) = moved::<L, _>(&s.body, action, o.frame_skip);
        let gap: [L::Float; 2] = terminated.select(s.gap, gap::<L>(&moved.last.q, &s.target));
        let cost = squares(&gap).sqrt() * f(o.reward_dist_weight);
        let energy = squares(action);
        let reward = energy.mul_add(f(-o.reward_control_weight), -cost);
        let terms = [-cost, energy * f(-o.reward_control_weight)];
        let reward = paid::<L, _>(&mut body.terms, terms, reward, terminated);
        Step { state: Arm { body, target: s.target, gap }, reward, terminated }
    }

    fn observe<L: Lane>(&self, s: &Arm<L>) -> [L::Float; 10] {
        let [(sin0, cos0), (sin1, cos1)] = s.body.q.map(Float::sin_cos);
        let [v0, v1] = s.body.v;
        [cos0, cos1, sin0, sin1, s.target[0], s.target[1], v0, v1, s.gap[0], s.gap[1]]
    }
}
