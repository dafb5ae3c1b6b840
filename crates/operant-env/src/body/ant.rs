//! Ant: a body on four legs walks forward.

use std::sync::Arc;

use operant_lane::{Draws, Float, Lane, Mask, bundle};

use super::spatial::{MARGIN, Motion, RADIUS, TIMESTEP, TORSO_RADIUS, advance, points};
use super::{
    CTRL, DISTANCE, FORWARD, SURVIVE, X_POSITION, capsule, half_metres, is_fine, measured, metrics, normal,
    options, paid, set_option, speed, squares, uniform,
};
use crate::any::AnyEnv;
use crate::scene::{GREY, RED, Scene, Shape};
use crate::{ActionSpace, Env, EnvSpec, ObsSpace, Step};

options! {
    frame_skip: whole = 5, 1, 100; "time steps of 0.01 s per environment step"
    forward_reward_weight: number = 1.0, 0.0, 1e6; "factor of the forward speed in the reward"
    ctrl_cost_weight: number = 0.5, 0.0, 1e6; "factor of the squared action in the cost"
    contact_cost_weight: number = 5e-4, 0.0, 1e6; "factor of the squared contact forces in the cost"
    healthy_reward: number = 1.0, -1e6, 1e6; "reward of a step that ends in a healthy state"
    main_body: whole = 1, 1, 13; "the body whose speed is rewarded: the torso, then three for each leg, in the order of the observations"
    terminate_when_unhealthy: flag = true; "end the episode when the state is no longer healthy"
    healthy_z_min: number = 0.2, -1e9, 1e9; "lower bound of the torso's height in a healthy state, m"
    healthy_z_max: number = 1.0, -1e9, 1e9; "upper bound of the torso's height in a healthy state, m"
    contact_force_min: number = -1.0, -1e9, 1e9; "lower bound that contact forces are clipped to, in observations and the cost"
    contact_force_max: number = 1.0, -1e9, 1e9; "upper bound that contact forces are clipped to"
    reset_noise_scale: number = 0.1, 0.0, 10.0; "bound of the uniform noise on initial positions, and deviation of the normal noise on velocities"
    exclude_current_positions_from_observation: flag = true; "leave the position along x and y out of observations"
    include_cfrc_ext_in_observation: flag = true; "observe contact forces"
}

bundle! {
    /// The body and what happened to it in this episode.
    pub struct State {
        /// Positions: of the torso, its orientation as a quaternion, and the hinges.
        q: [Float; 15],
        /// Velocities: of the torso in the axes of the world, its turning in its own, and of the hinges.
        v: [Float; 14],
        /// Accelerations of the last evaluation, from which the solver of the constraint forces begins.
        a: [Float; 14],
        /// Evaluations in which the solver reached its bound.
        unsolved: Float,
        /// 1 when a number became too large.
        diverged: Float,
        /// From the torso to where the main body was at the last evaluation, along x.
        ahead: Float,
        /// Moment and force of contacts at the last evaluation on each body, clipped.
        pushes: [Float; 78],
        /// Terms of the reward, summed over the episode.
        terms: [Float; 4],
    }
}

/// The environment; O is 105 numbers, 78 fewer without contact forces, 2 more with the position.
#[derive(Debug, Clone, Default)]
pub struct Ant<const O: usize> {
    options: Options,
}

/// What the numbers of an observation mean, from the position along x on.
fn names() -> Vec<String> {
    // As Gymnasium calls them.
    let legs = ["front left", "front right", "back left", "back right"];
    let of_legs = |parts: &[&str], what: &str| -> Vec<String> {
        let of_leg =
            |leg: &str| parts.iter().map(|part| format!("{what} the {leg} {part}")).collect::<Vec<_>>();
        legs.into_iter().flat_map(of_leg).collect()
    };
    let along = |what: &str| ["x", "y", "z"].map(|axis| format!("{what} {axis}"));
    let mut names = along("position of the torso along").to_vec();
    names.extend(["w", "x", "y", "z"].map(|part| format!("{part} of the torso's quaternion")));
    names.extend(of_legs(&["hip", "ankle"], "angle of"));
    names.extend(along("velocity of the torso along"));
    names.extend(along("angular velocity of the torso about its"));
    names.extend(of_legs(&["hip", "ankle"], "angular velocity of"));
    let bodies = of_legs(&["hip link", "thigh", "shin"], "on");
    for body in core::iter::once("on the torso".to_owned()).chain(bodies) {
        names.extend(along(&format!("contact moment {body} about")));
        names.extend(along(&format!("contact force {body} along")));
    }
    names
}

impl<const O: usize> Ant<O> {
    /// How many numbers observations leave out: the position along x and y.
    const SKIPPED: usize = if O % 78 == 27 { 2 } else { 0 };

    /// Where the main body is along x, from the torso.
    fn main_body<L: Lane>(&self, q: &[L::Float; 15]) -> L::Float {
        match self.options.main_body as usize {
            // The capsules to the hips are where the torso is.
            body if body == 1 || body % 3 == 2 => L::Float::splat(0.0),
            body => points::<L>(q)[(body - 3) / 3][body % 3][0],
        }
    }
}

impl<const O: usize> Env for Ant<O> {
    type State<L: Lane> = State<L>;
    type Obs<L: Lane> = [L::Float; O];
    type Action<L: Lane> = [L::Float; 8];

    fn spec(&self) -> EnvSpec {
        EnvSpec {
            name: "ant".into(),
            aliases: vec!["Ant-v5".into(), "Ant".into()],
            family: "bodies".into(),
            summary: "walk forward on four legs; about 0 to 6,000 per episode".into(),
            rules: "A torso on four legs of two joints each walks forward with eight motors. The reward is its speed, plus 1 while its height \
                    is between 0.2 and 1 m, minus costs of the action and of contact forces. The episode ends at another height."
                .into(),
            reference: "Identical to Gymnasium 1.4.0's Ant-v5 on MuJoCo 4.0.0 with its solver run to the end, up to float rounding.".into(),
            obs: ObsSpace::symmetric(&[f64::INFINITY; O]),
            obs_names: names().into_iter().skip(Self::SKIPPED).take(O).collect(),
            actions: ActionSpace::Box { low: vec![-1.0; 8], high: vec![1.0; 8] },
            metrics: metrics(&[X_POSITION, DISTANCE], &[FORWARD, CTRL, ["reward_contact", "cost of contact forces, negative, summed over the episode"], SURVIVE]),
            time_limit: 1000,
            fps: (1.0 / (f64::from(self.options.frame_skip) * TIMESTEP)) as f32,
            options: Options::list(),
            preset: Some(include_str!("../../presets/ant.toml").into()),
            ..EnvSpec::default()
        }
    }

    set_option!();

    fn resolve(self) -> Arc<dyn AnyEnv> {
        let options = self.options;
        match (options.exclude_current_positions_from_observation, options.include_cfrc_ext_in_observation) {
            (true, true) => Arc::new(Ant::<105> { options }),
            (false, true) => Arc::new(Ant::<107> { options }),
            (true, false) => Arc::new(Ant::<27> { options }),
            (false, false) => Arc::new(Ant::<29> { options }),
        }
    }

    fn metric<L: Lane>(&self, last: &Step<L, State<L>>, index: usize) -> L::Float {
        let State { q, terms, unsolved, diverged, .. } = last.state;
        measured(index, &[q[0], squares(&[q[0], q[1]]).sqrt()], &terms, [unsolved, diverged])
    }

    fn draw(&self, s: &State<f32>) -> Scene {
        // Seen from the right and a little above, with a line of the floor every half metre.
        let seen = |[x, y, z]: [f32; 3]| [x + 0.3 * y, z + 0.25 * y];
        let (span, side) = (1.5f32, 1.0);
        let mut shapes = Vec::new();
        for y in half_metres(s.q[1], -side, side) {
            shapes.push(Shape::line([[-span, 0.25 * y], [span, 0.25 * y]], GREY));
        }
        for x in half_metres(s.q[0], -span - 0.3 * side, span + 0.3 * side) {
            // As far as the line is in view.
            let ends = [-span, span].map(|edge| ((edge - x) / 0.3).clamp(-side, side));
            shapes.push(Shape::line(ends.map(|y| seen([x, y, 0.0])), GREY));
        }
        let torso = [0.0, 0.0, s.q[2]];
        let mut legs = points::<f32>(&s.q);
        let touching = legs.iter().flatten().filter(|[.., z]| *z < RADIUS as f32 + MARGIN as f32);
        let touching =
            touching.map(|&[x, y, _]| Shape::circle(seen([x, y, 0.0]), 0.04, RED)).collect::<Vec<_>>();
        // Those further away first.
        legs.sort_by(|a, b| b[0][1].total_cmp(&a[0][1]));
        for (k, leg) in legs.into_iter().enumerate() {
            if k == 2 {
                shapes.push(Shape::circle(seen(torso), TORSO_RADIUS as f32, 1));
            }
            let [hip, ankle, end] = leg;
            for (ends, colour) in [([torso, hip], 1), ([hip, ankle], 2), ([ankle, end], 3)] {
                shapes.push(capsule(ends.map(seen), RADIUS as f32, colour));
            }
        }
        shapes.extend(touching);
        Scene { low: [-span, -0.3 * span], high: [span, 1.2 * span], shapes }
    }

    // The last number is the x of the main body at the last evaluation.
    fn unpack(&self, public: &[f64]) -> Vec<f64> {
        let mut leaves = public.to_vec();
        leaves.resize(128, 0.0);
        if public.len() == 30 {
            (leaves[29], leaves[45]) = (0.0, public[29] - public[0]);
        }
        leaves
    }

    fn pack(&self, leaves: &[f64]) -> Vec<f64> {
        let mut public = leaves[..29].to_vec();
        public.push(leaves[0] + leaves[45]);
        public
    }

    fn reset<L: Lane>(&self, draws: &mut Draws<L>) -> State<L> {
        let (scale, zero) = (self.options.reset_noise_scale, L::Float::splat(0.0));
        let mut q: [L::Float; 15] = uniform(draws, scale);
        q[2] = q[2] + L::Float::splat(0.75);
        q[3] = q[3] + L::Float::splat(1.0);
        let (v, ahead) = (normal(draws, scale), self.main_body::<L>(&q));
        State {
            q,
            v,
            a: [zero; 14],
            unsolved: zero,
            diverged: zero,
            ahead,
            pushes: [zero; 78],
            terms: [zero; 4],
        }
    }

    fn step<L: Lane>(&self, s: &State<L>, action: &[L::Float; 8], _: &mut Draws<L>) -> Step<L, State<L>> {
        let f = L::Float::splat;
        let o = &self.options;
        let (moved, all) = advance::<L>(&Motion { q: s.q, v: s.v, a: s.a }, action, o.frame_skip);
        let Motion { q, v, a } = moved.motion;
        let mut pushes = [f(0.0); 78];
        for k in 0..78 {
            pushes[k] = all[k / 6][k % 6 / 3][k % 3].clamp(f(o.contact_force_min), f(o.contact_force_max));
        }
        let [forward, last] = moved.forward;
        let ahead = last + self.main_body::<L>(&moved.last.q);
        let fine = is_fine::<L>(&q) & is_fine::<L>(&v) & is_fine::<L>(&a);
        let unsolved = s.unsolved + moved.unsolved;
        let next = State { q, v, a, unsolved, diverged: s.diverged, ahead, pushes, terms: s.terms };
        let mut state = fine.select(next, State { diverged: f(1.0), ..*s });

        let speed = speed::<L>(forward + (ahead - s.ahead), f64::from(o.frame_skip) * TIMESTEP);
        let healthy = fine & f(o.healthy_z_min).le(q[2]) & q[2].le(f(o.healthy_z_max));
        let stands = healthy.select(f(o.healthy_reward), f(0.0));
        let gain = speed.mul_add(f(o.forward_reward_weight), stands);
        let (energy, contact) = (squares(action), squares(&pushes));
        let gain = energy.mul_add(f(-o.ctrl_cost_weight), gain);
        let reward = contact.mul_add(f(-o.contact_cost_weight), gain);
        let terms = [
            speed * f(o.forward_reward_weight),
            energy * f(-o.ctrl_cost_weight),
            contact * f(-o.contact_cost_weight),
            stands,
        ];
        let terminated = if o.terminate_when_unhealthy { !healthy } else { !fine };
        Step { reward: paid::<L, _>(&mut state.terms, terms, reward, !fine), state, terminated }
    }

    fn observe<L: Lane>(&self, s: &State<L>) -> [L::Float; O] {
        core::array::from_fn(|k| match k + Self::SKIPPED {
            k if k < 15 => s.q[k],
            k if k < 29 => s.v[k - 15],
            k => s.pushes[k - 29],
        })
    }
}
