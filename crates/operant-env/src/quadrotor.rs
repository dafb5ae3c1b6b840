//! Quadrotor: a Crazyflie 2 flown by its four motors; hover from a random attitude, or follow a lemniscate.
//!
//! The model is a rigid body with a quaternion attitude, four rotors whose speeds follow the commands with a
//! first-order lag, and drag that grows with the rotor speeds. It is integrated with fourth-order Runge-Kutta at 100
//! Hz, and the quaternion is normalised after each step. The gyroscopic moment of the rotors, the ground effect and the
//! battery are not modelled. The parameters are published values:
//!
//! - mass 27 g: the manufacturer's data sheet;
//! - moments of inertia and drag: Foerster, "System Identification of the Crazyflie 2.0 Nano Quadrocopter" (2015);
//! - arm length, thrust and torque per squared rotor speed: Luis and Le Ny, "Design of a Trajectory Tracking Controller
//!   for a Nanoquadcopter" (2016);
//! - maximum thrust of 2.25 times the weight: Panerati et al., "Learning to Fly" (2021);
//! - motor time constant: Eschmann et al., "Learning to Fly in Seconds" (2024).
//!
//! World axes: x to the right, y away from the viewer, z up. Body axes: x forward, y left, z up. Rotors, in order:
//! front right, rear right, rear left, front left; the first and third turn counterclockwise.

use core::f64::consts::PI;

use operant_lane::{Draws, Float, Lane, Mask, bundle};

use crate::spec::{OptionError, OptionValue, names};
use crate::{ActionSpace, Env, EnvOption, EnvSpec, ObsSpace, Point, RED, Registry, Scene, Shape, Step};

/// Gravity, m/s^2.
const GRAVITY: f64 = 9.81;
/// Mass, kg.
const MASS: f64 = 0.027;
/// Principal moments of inertia, kg m^2.
const INERTIA: [f64; 3] = [1.657171e-5, 1.6655602e-5, 2.9261652e-5];
/// Distances from the origin, m, up to which the picture shows the quadrotor where it is.
const EDGE: [f32; 3] = [1.2, 0.8, 1.05];
/// Distance from the centre to a rotor, m.
const ARM: f64 = 0.0397;
/// Thrust of a rotor, N per squared rpm.
const THRUST: f64 = 3.16e-10;
/// Torque of a rotor, N m per squared rpm.
const TORQUE: f64 = 7.94e-12;
/// Maximum thrust of all rotors, as a multiple of the weight.
const THRUST_TO_WEIGHT: f64 = 2.25;
/// Maximum thrust of a rotor, N.
const MAX_THRUST: f64 = THRUST_TO_WEIGHT * MASS * GRAVITY / 4.0;
/// Drag coefficients along the body axes: N per rad/s (sum of the rotor speeds) and per m/s (airspeed).
const DRAG: [f64; 3] = [9.1785e-7, 9.1785e-7, 10.311e-7];
/// Motor time constant, s.
const LAG: f64 = 0.15;
/// Duration of a step, s.
const DT: f64 = 0.01;
/// Distance from the target at which the episode ends, m.
const FURTHEST: f64 = 3.0;
/// Angular velocity of an axis at which the episode ends, rad/s: the range of the gyroscope, 2,000 degrees per second.
const FASTEST: f64 = 2000.0 * PI / 180.0;
/// Half the width of the lemniscate, m.
const SIZE: f64 = 1.0;
/// Coefficients of a step's cost: distance (m), speed relative to the target's (m/s), angular speed (rad/s), and the
/// sum of the squared deviations of the commands from hover. The reward is 1 / (1 + cost).
const COST: [f64; 4] = [10.0, 0.2, 0.05, 0.1];
/// How far ahead the observation includes points of the lemniscate, s.
const AHEAD: [f64; 2] = [0.15, 0.4];

/// The meaning of the numbers of an observation.
const OBSERVED: [&str; 7] = [
    "numbers 1-3: the target's position relative to the body, in body axes (m)",
    "4-12: the rotation matrix from body to world, row by row",
    "13-15: velocity in body axes (m/s)",
    "16-18: angular velocity in body axes (rad/s)",
    "19-22: rotor speeds (fractions of the maximum)",
    "23-25: the same for the target in 0.15 s",
    "26-28: the same for the target in 0.4 s",
];

/// The motion of the body: position, velocity, attitude, angular velocity and rotor speeds, in this order.
type Motion<L> = [<L as Lane>::Float; 17];
/// A vector in three dimensions.
type Vector<L> = [<L as Lane>::Float; 3];
/// The rows of a rotation matrix from body to world coordinates.
type Rotation<L> = [Vector<L>; 3];

bundle! {
    /// The state of the quadrotor.
    pub struct State {
        /// Position, m, and velocity, m/s, in world coordinates; attitude, a quaternion from body to world, real part
        /// first; angular velocity in body coordinates, rad/s; rotor speeds, as a fraction of the maximum.
        motion: [Float; 17],
        /// Wind velocity, m/s.
        wind: [Float; 3],
        /// Factors that scale mass, inertia and thrust.
        factors: [Float; 3],
        /// Phase on the lemniscate, rad; 0 for the hover task.
        phase: Float,
    }
}

/// The environment. O is the length of the observation: 22 for hovering, 28 for the lemniscate.
#[derive(Debug, Clone)]
pub struct Quadrotor<const O: usize> {
    /// Maximum initial tilt, degrees.
    tilt: f64,
    /// Maximum component of the wind, m/s.
    wind: f64,
    /// Maximum relative deviation of mass, inertia and thrust.
    vary: f64,
    /// Time per round of the lemniscate, s.
    period: f64,
    /// Integration steps per environment step.
    substeps: u32,
}

/// The task of hovering at a point.
pub type Hover = Quadrotor<22>;
/// The task of following a lemniscate.
pub type Lemniscate = Quadrotor<28>;

/// Registers both tasks.
pub fn family(registry: Registry) -> Registry {
    registry.with(Hover::default()).with(Lemniscate::default())
}

impl<const O: usize> Default for Quadrotor<O> {
    fn default() -> Self {
        let tilt = if Self::FOLLOWS { 30.0 } else { 90.0 };
        Quadrotor { tilt, wind: 0.0, vary: 0.0, period: 5.5, substeps: 1 }
    }
}

#[inline(always)]
fn f<L: Lane>(value: f64) -> L::Float {
    L::Float::splat(value)
}

#[inline(always)]
fn dot<L: Lane>(a: &Vector<L>, b: &Vector<L>) -> L::Float {
    a[2].mul_add(b[2], a[1].mul_add(b[1], a[0] * b[0]))
}

#[inline(always)]
fn norm<L: Lane>(a: &Vector<L>) -> L::Float {
    dot::<L>(a, a).sqrt()
}

/// Transforms a vector from body to world coordinates.
#[inline(always)]
fn outward<L: Lane>(rotation: &Rotation<L>, v: &Vector<L>) -> Vector<L> {
    core::array::from_fn(|row| dot::<L>(&rotation[row], v))
}

/// Transforms a vector from world to body coordinates.
#[inline(always)]
fn inward<L: Lane>(rotation: &Rotation<L>, v: &Vector<L>) -> Vector<L> {
    core::array::from_fn(|column| dot::<L>(&core::array::from_fn(|row| rotation[row][column]), v))
}

/// The rotation matrix of the attitude, which is a unit quaternion.
#[inline(always)]
fn rotation<L: Lane>(motion: &Motion<L>) -> Rotation<L> {
    let [w, x, y, z] = [motion[6], motion[7], motion[8], motion[9]];
    let twice = |a: L::Float, b: L::Float| (a * b) * f::<L>(2.0);
    let one = f::<L>(1.0);
    [
        [one - twice(y, y) - twice(z, z), twice(x, y) - twice(w, z), twice(x, z) + twice(w, y)],
        [twice(x, y) + twice(w, z), one - twice(x, x) - twice(z, z), twice(y, z) - twice(w, x)],
        [twice(x, z) - twice(w, y), twice(y, z) + twice(w, x), one - twice(x, x) - twice(y, y)],
    ]
}

/// A point on the lemniscate, and its derivative with respect to the phase.
#[inline(always)]
fn lemniscate<L: Lane>(phase: L::Float) -> (Vector<L>, Vector<L>) {
    let (sin, cos) = phase.sin_cos();
    let size = f::<L>(SIZE);
    let zero = f::<L>(0.0);
    ([size * sin, size * sin * cos, zero], [size * cos, size * (cos * cos - sin * sin), zero])
}

/// The time derivative of a motion, per second.
fn derivative<L: Lane>(
    motion: &Motion<L>,
    command: &[L::Float; 4],
    wind: &Vector<L>,
    factors: &Vector<L>,
) -> Motion<L> {
    let [velocity, rate]: [Vector<L>; 2] = [3, 10].map(|first| core::array::from_fn(|k| motion[first + k]));
    let speeds: [L::Float; 4] = core::array::from_fn(|k| motion[13 + k]);
    let turn = rotation::<L>(motion);

    // Forces in body coordinates, before the division by the mass.
    let [thrust_a, thrust_b, thrust_c, thrust_d] =
        speeds.map(|speed| speed * speed * f::<L>(MAX_THRUST) * factors[2]);
    let thrust = (thrust_a + thrust_b) + (thrust_c + thrust_d);
    let whirl = ((speeds[0] + speeds[1]) + (speeds[2] + speeds[3]))
        * f::<L>((MAX_THRUST / THRUST).sqrt() * PI / 30.0);
    let air = inward::<L>(&turn, &core::array::from_fn(|k| velocity[k] - wind[k]));
    let drag: Vector<L> = core::array::from_fn(|k| air[k] * whirl * f::<L>(-DRAG[k]));
    let force = outward::<L>(&turn, &[drag[0], drag[1], drag[2] + thrust]);
    let mass = factors[0] * f::<L>(MASS);

    // Torques in body coordinates.
    let lever = f::<L>(ARM / core::f64::consts::SQRT_2);
    let torque = [
        ((thrust_c + thrust_d) - (thrust_a + thrust_b)) * lever,
        ((thrust_b + thrust_c) - (thrust_a + thrust_d)) * lever,
        ((thrust_b + thrust_d) - (thrust_a + thrust_c)) * f::<L>(TORQUE / THRUST),
    ];
    // Euler's equations. A common factor of the moments of inertia cancels in the coupling terms.
    let [p, q, r] = rate;
    let coupling = [(q * r, 1, 2), (r * p, 2, 0), (p * q, 0, 1)];
    let spin: Vector<L> = core::array::from_fn(|k| {
        let (product, i, j) = coupling[k];
        let own = torque[k] * f::<L>(1.0 / INERTIA[k]) / factors[1];
        product.mul_add(f::<L>((INERTIA[i] - INERTIA[j]) / INERTIA[k]), own)
    });

    let [w, x, y, z] = [motion[6], motion[7], motion[8], motion[9]];
    let half = f::<L>(0.5);
    let attitude = [
        -(x * p + y * q + z * r) * half,
        (w * p + y * r - z * q) * half,
        (w * q + z * p - x * r) * half,
        (w * r + x * q - y * p) * half,
    ];
    core::array::from_fn(|k| match k {
        0..3 => velocity[k],
        3..6 => force[k - 3] / mass - if k == 5 { f::<L>(GRAVITY) } else { f::<L>(0.0) },
        6..10 => attitude[k - 6],
        10..13 => spin[k - 10],
        _ => (command[k - 13] - speeds[k - 13]) * f::<L>(1.0 / LAG),
    })
}

impl<const O: usize> Quadrotor<O> {
    const FOLLOWS: bool = O > 22;

    /// The position and velocity of the target.
    #[inline(always)]
    fn target<L: Lane>(&self, phase: L::Float) -> (Vector<L>, Vector<L>) {
        if !Self::FOLLOWS {
            return ([f::<L>(0.0); 3], [f::<L>(0.0); 3]);
        }
        let (point, change) = lemniscate::<L>(phase);
        (point, change.map(|change| change * f::<L>(2.0 * PI / self.period)))
    }

    /// The motion after one step.
    #[inline(always)]
    fn fly<L: Lane>(&self, s: &State<L>, command: &[L::Float; 4]) -> Motion<L> {
        let h = DT / f64::from(self.substeps);
        let moved = L::repeat(self.substeps, s.motion, |_, motion| {
            let (mut slope, mut sum) = (motion, motion);
            for (stage, weight) in [1.0, 2.0, 2.0, 1.0].into_iter().enumerate() {
                let reach = f::<L>([0.0, 0.5, 0.5, 1.0][stage] * h);
                let at: Motion<L> = match stage {
                    0 => motion,
                    _ => core::array::from_fn(|k| slope[k].mul_add(reach, motion[k])),
                };
                slope = derivative::<L>(&at, command, &s.wind, &s.factors);
                sum = core::array::from_fn(|k| slope[k].mul_add(f::<L>(weight * h / 6.0), sum[k]));
            }
            sum
        });
        let square = |k: usize| moved[k] * moved[k];
        let scale = f::<L>(1.0) / ((square(6) + square(7)) + (square(8) + square(9))).sqrt();
        core::array::from_fn(|k| if (6..10).contains(&k) { moved[k] * scale } else { moved[k] })
    }
}

impl<const O: usize> Env for Quadrotor<O> {
    type State<L: Lane> = State<L>;
    type Obs<L: Lane> = [L::Float; O];
    type Action<L: Lane> = [L::Float; 4];

    fn spec(&self) -> EnvSpec {
        let (name, summary, task, preset) = if Self::FOLLOWS {
            let task = "Follow a lemniscate 2 m wide";
            let preset = include_str!("../presets/quadrotor_lemniscate.toml");
            ("quadrotor_lemniscate", "fly along a lemniscate; at most 1 per step", task, preset)
        } else {
            let task = "Fly to a point from a random place and attitude, and stay there";
            let preset = include_str!("../presets/quadrotor_hover.toml");
            ("quadrotor_hover", "hover at a point from a random attitude; at most 1 per step", task, preset)
        };
        let mut options = vec![
            EnvOption::number("tilt", Self::default().tilt, 0.0, 180.0, "maximum initial tilt, degrees"),
            EnvOption::number("wind", 0.0, 0.0, 5.0, "maximum wind speed per axis, m/s, drawn per episode"),
            EnvOption::number(
                "vary",
                0.0,
                0.0,
                0.3,
                "maximum relative deviation of mass, inertia and thrust, drawn per episode",
            ),
            EnvOption::whole("substeps", 1, 1, 16, "integration steps per environment step"),
        ];
        if Self::FOLLOWS {
            options.push(EnvOption::number("period", 5.5, 3.0, 30.0, "time per lap of the lemniscate, s"));
        }
        // The last observation of an episode exceeds a limit; rounding may make rotation entries and rotor speeds slightly
        // larger than 1. The points ahead are at most 2 SIZE from the target.
        let mut high = [2.0 * FURTHEST; 3].to_vec();
        high.extend([1.001; 9]);
        high.extend([f64::INFINITY; 3]);
        high.extend([2.0 * FASTEST; 3]);
        high.extend([1.001; 4]);
        high.resize(O, 2.0 * FURTHEST + 2.0 * SIZE);
        EnvSpec {
            name: name.into(),
            family: "flight".into(),
            summary: summary.into(),
            rules: format!(
                "{task}, with four motor commands at 100 Hz. The reward decreases with distance, speed, angular velocity and deviation \
                 from hover throttle; the episode ends more than 3 m from the target or above 2,000 degrees per second."
            ),
            reference: "A Crazyflie 2 with published mass, inertia, thrust, drag and motor lag; tests compare with a second implementation in double precision."
                .into(),
            obs: ObsSpace::symmetric(&high),
            obs_names: names(OBSERVED)[..if Self::FOLLOWS { 7 } else { 5 }].to_vec(),
            actions: ActionSpace::Box { low: vec![-1.0; 4], high: vec![1.0; 4] },
            time_limit: if Self::FOLLOWS { 1100 } else { 500 },
            fps: 50.0,
            options,
            preset: Some(preset.into()),
            ..EnvSpec::default()
        }
    }

    fn set_option(&mut self, name: &str, value: &OptionValue) -> Result<(), OptionError> {
        self.spec().check_option(name, value)?;
        match name {
            "tilt" => self.tilt = value.number(),
            "wind" => self.wind = value.number(),
            "vary" => self.vary = value.number(),
            "period" => self.period = value.number(),
            _ => self.substeps = value.whole(),
        }
        Ok(())
    }

    fn reset<L: Lane>(&self, draws: &mut Draws<L>) -> State<L> {
        let phase = if Self::FOLLOWS { draws.between(0.0, 2.0 * PI) } else { f::<L>(0.0) };
        let (point, along) = self.target::<L>(phase);
        let (near, speed) = if Self::FOLLOWS { (0.1, 0.1) } else { (0.5, 0.5) };
        let position: Vector<L> = core::array::from_fn(|k| point[k] + draws.between(-near, near));
        let velocity: Vector<L> = core::array::from_fn(|k| along[k] + draws.between(-speed, speed));
        let rate: Vector<L> = core::array::from_fn(|_| draws.between(-1.0, 1.0));
        // Half angles of a yaw rotation followed by a tilt around a horizontal axis.
        let (lean, reach) =
            (draws.between(0.0, self.tilt * PI / 360.0).sin_cos(), draws.between(-PI, PI).sin_cos());
        let yaw = draws.between(-0.5 * PI, 0.5 * PI).sin_cos();
        let [x, y] = [lean.0 * reach.1, lean.0 * reach.0];
        let attitude = [lean.1 * yaw.1, x * yaw.1 + y * yaw.0, y * yaw.1 - x * yaw.0, lean.1 * yaw.0];
        let hover = f::<L>((1.0 / THRUST_TO_WEIGHT).sqrt());
        State {
            motion: core::array::from_fn(|k| match k {
                0..3 => position[k],
                3..6 => velocity[k - 3],
                6..10 => attitude[k - 6],
                10..13 => rate[k - 10],
                _ => hover,
            }),
            wind: core::array::from_fn(|_| draws.between(-self.wind, self.wind)),
            factors: core::array::from_fn(|_| draws.between(1.0 - self.vary, 1.0 + self.vary)),
            phase,
        }
    }

    fn step<L: Lane>(&self, s: &State<L>, action: &[L::Float; 4], _: &mut Draws<L>) -> Step<L, State<L>> {
        let one = f::<L>(1.0);
        let action = action.map(|part| part.clamp(-one, one));
        let motion = self.fly(s, &action.map(|part| (part + one) * f::<L>(0.5)));
        let turn = f::<L>(2.0 * PI);
        let phase = if Self::FOLLOWS {
            let phase = s.phase + f::<L>(2.0 * PI * DT / self.period);
            phase.ge(turn).select(phase - turn, phase)
        } else {
            s.phase
        };

        let (point, along) = self.target::<L>(phase);
        let distance = norm::<L>(&core::array::from_fn(|k| motion[k] - point[k])).named("distance");
        let speed = norm::<L>(&core::array::from_fn(|k| motion[3 + k] - along[k])).named("speed");
        let rate: Vector<L> = core::array::from_fn(|k| motion[10 + k]);
        let hover = f::<L>(2.0 * (1.0 / THRUST_TO_WEIGHT).sqrt() - 1.0);
        let push = action.map(|part| (part - hover) * (part - hover));
        let push = (push[0] + push[1]) + (push[2] + push[3]);
        let cost = [distance, speed, norm::<L>(&rate), push];
        let cost = cost.iter().zip(COST).fold(one, |sum, (part, price)| part.mul_add(f::<L>(price), sum));
        let far = distance.gt(f::<L>(FURTHEST));
        let fast = rate.map(|part| part.abs().gt(f::<L>(FASTEST)));
        let terminated = far | fast[0] | fast[1] | fast[2];
        Step { state: State { motion, phase, ..*s }, reward: one / cost, terminated }
    }

    fn observe<L: Lane>(&self, s: &State<L>) -> [L::Float; O] {
        let turn = rotation::<L>(&s.motion);
        let seen = |point: Vector<L>| inward::<L>(&turn, &core::array::from_fn(|k| point[k] - s.motion[k]));
        let error = seen(self.target::<L>(s.phase).0);
        let velocity = inward::<L>(&turn, &core::array::from_fn(|k| s.motion[3 + k]));
        let ahead = if Self::FOLLOWS {
            AHEAD.map(|time| seen(self.target::<L>(s.phase + f::<L>(2.0 * PI * time / self.period)).0))
        } else {
            [error; 2]
        };
        core::array::from_fn(|k| match k {
            0..3 => error[k],
            3..12 => turn[(k - 3) / 3][k % 3],
            12..15 => velocity[k - 12],
            15..22 => s.motion[k - 5],
            _ => ahead[(k - 22) / 3][(k - 22) % 3],
        })
    }

    fn draw(&self, s: &State<f32>) -> Scene {
        let turn = rotation::<f32>(&s.motion);
        // Beyond the view it is drawn at its edge, and the height turns red.
        let at: [f32; 3] = core::array::from_fn(|k| s.motion[k]);
        let middle: [f32; 3] = core::array::from_fn(|k| at[k].clamp(-EDGE[k], EDGE[k]));
        // Seen from the front and slightly from above; the body is drawn at four times its size.
        let screen = |[x, y, z]: [f32; 3]| -> Point { [x + 0.35 * y, z + 0.25 * y] };
        let place = |v: [f32; 3]| -> Point {
            let v = outward::<f32>(&turn, &v);
            screen(core::array::from_fn(|k| middle[k] + 4.0 * v[k]))
        };
        let arm = (ARM / core::f64::consts::SQRT_2) as f32;
        let rotors = [[arm, -arm, 0.0], [-arm, -arm, 0.0], [-arm, arm, 0.0], [arm, arm, 0.0]];
        let low = [-1.6, -1.3];
        let mut shapes = Vec::new();
        if Self::FOLLOWS {
            let points = (0..=64).map(|k| screen(lemniscate::<f32>(k as f32 * PI as f32 / 32.0).0));
            shapes.push(Shape::line(points.collect::<Vec<Point>>(), 0));
        }
        shapes.push(Shape::circle(screen(self.target::<f32>(s.phase).0), 0.04, 3));
        // The projection onto the floor shows the depth.
        let floor = [middle[0], middle[1], -1.0];
        shapes.push(Shape::line([screen(floor), screen(middle)], 4));
        shapes.push(Shape::circle(screen(floor), 0.04, 4));
        for (k, rotor) in rotors.into_iter().enumerate() {
            let speed = s.motion[13 + k];
            shapes.push(Shape::line([screen(middle), place(rotor)], 1));
            shapes.push(Shape::line([place(rotor), place([rotor[0], rotor[1], 0.07 * speed * speed])], 2));
        }
        let nose = [[1.6 * arm, 0.0, 0.0], [arm, 0.35 * arm, 0.0], [arm, -0.35 * arm, 0.0]];
        shapes.push(Shape::polygon(nose.map(place), 2));
        let high = [1.6, 1.3];
        let tone = if at == middle { 4 } else { RED };
        shapes.push(Shape::text([low[0] + 0.5, high[1] - 0.15], format!("height {:+.2} m", at[2]), tone));
        Scene { low, high, shapes }
    }
}
