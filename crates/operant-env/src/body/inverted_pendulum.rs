//! InvertedPendulum: a cart holds a pole upright.

use operant_lane::{Draws, Float, Lane};

use super::model::{Capsule, DEGREE, Dof, GRAVITY, Impedance, Link, Model, above};
use super::{State, X_POSITION, integrated, metrics, motion_names, options, shared, uniform};
use crate::{ActionSpace, Env, EnvSpec, ObsSpace, Step};

/// The cart of both inverted pendulums, and its shape.
pub const CART: Link = Link::cart(10.47197551196598);
pub const CART_CAPSULE: Capsule = Capsule { link: 0, ends: [[-0.1, 0.0], [0.1, 0.0]], radius: 0.1 };

const LINKS: [Link; 2] = [
    CART,
    Link::hinged(Some(0), 1, 1.0, [0.0, 0.0], [5.018591641363306, 0.18874976687308845], [0.0005, 0.3]),
];

const CAPSULES: [Capsule; 2] =
    [CART_CAPSULE, Capsule { link: 1, ends: [[0.0, 0.0], [0.001, 0.6]], radius: 0.049 }];

const ABOVE: ([u32; 2], [u32; 2]) = above(&LINKS, 1);

/// The model.
const MODEL: Model<2, 2, 0, 0, 1> = Model {
    links: LINKS,
    dofs: [
        Dof::limited([-1.0, 1.0], 1.0, 0.0, 0.08367433805859587),
        Dof::limited([-90.0 * DEGREE, 90.0 * DEGREE], 1.0, 0.0, 2.023912919848819),
    ],
    slides: 1,
    height: 0.0,
    points: [],
    pairs: [],
    margin: 0.0,
    contacts: Impedance { time: 0.04, ..Impedance::DEFAULT },
    // A time constant is at least two time steps.
    limits: Impedance { time: 0.04, ..Impedance::DEFAULT },
    gravity: [0.0, -GRAVITY],
    fluid: None,
    driven: 0,
    gears: [100.0],
    control: 3.0,
    timestep: 0.02,
    links_above: ABOVE.0,
    above: ABOVE.1,
};

integrated!(MODEL: [2, 2, 0, 0, 1], false);

options! {
    frame_skip: whole = 2, 1, 100; "time steps of 0.02 s per environment step"
    reset_noise_scale: number = 0.01, 0.0, 10.0; "bound of the uniform noise on initial positions and velocities"
}

/// The environment.
#[derive(Debug, Clone, Default)]
pub struct InvertedPendulum {
    options: Options,
}

impl Env for InvertedPendulum {
    type State<L: Lane> = State<L, 2, 0>;
    type Obs<L: Lane> = [L::Float; 4];
    type Action<L: Lane> = [L::Float; 1];

    fn spec(&self) -> EnvSpec {
        EnvSpec {
            name: "inverted_pendulum".into(),
            aliases: vec!["InvertedPendulum-v5".into(), "InvertedPendulum".into()],
            family: "bodies".into(),
            summary: "hold a pole upright on a cart; at most 1,000 per episode".into(),
            rules: "A cart with one motor holds a pole upright. The reward is 1 for every step. The episode ends when the pole leans by \
                    more than 0.2 rad."
                .into(),
            reference: "Identical to Gymnasium 1.4.0's InvertedPendulum-v5 on MuJoCo 4.0.0 with its solver run to the end, up to float rounding.".into(),
            obs: ObsSpace::symmetric(&[f64::INFINITY; 4]),
            obs_names: motion_names(MODEL.slides, &["the cart", "the pole"], 0),
            actions: ActionSpace::Box { low: vec![-3.0], high: vec![3.0] },
            metrics: metrics(&[X_POSITION], &[]),
            time_limit: 1000,
            fps: MODEL.fps(self.options.frame_skip),
            options: Options::list(),
            preset: Some(include_str!("../../presets/inverted_pendulum.toml").into()),
            ..EnvSpec::default()
        }
    }

    shared!(2, &CAPSULES, 1.2; |s| [s.q[0]]);

    fn reset<L: Lane>(&self, draws: &mut Draws<L>) -> State<L, 2, 0> {
        let scale = self.options.reset_noise_scale;
        State::at_rest(uniform(draws, scale), uniform(draws, scale))
    }

    fn step<L: Lane>(
        &self,
        s: &State<L, 2, 0>,
        action: &[L::Float; 1],
        _: &mut Draws<L>,
    ) -> Step<L, State<L, 2, 0>> {
        let f = L::Float::splat;
        let (state, _, diverged) = moved::<L, _>(s, action, self.options.frame_skip);
        let terminated = diverged | state.q[1].abs().gt(f(0.2));
        Step { state, reward: operant_lane::Mask::select(terminated, f(0.0), f(1.0)), terminated }
    }

    fn observe<L: Lane>(&self, s: &State<L, 2, 0>) -> [L::Float; 4] {
        [s.q[0], s.q[1], s.v[0], s.v[1]]
    }
}
