//! The quadrotor against mechanics in double precision: vectors, a rotation matrix and sums over the rotors, in place of the
//! quaternion and the signs that the environment has.

use std::sync::Arc;

use operant_env::replay::{Arithmetic, Case};
use operant_env::{AnyEnv, EnvOptions, TileSpec, builtin};

use crate::bounds;

type Vector = [f64; 3];
type Matrix = [Vector; 3];

const GRAVITY: f64 = 9.81;
const MASS: f64 = 0.027;
const INERTIA: Vector = [1.657171e-5, 1.6655602e-5, 2.9261652e-5];
const DRAG: Vector = [9.1785e-7, 9.1785e-7, 10.311e-7];
/// N and N m by the square of revolutions per minute.
const THRUST: f64 = 3.16e-10;
const TORQUE: f64 = 7.94e-12;
const LAG: f64 = 0.15;
const DT: f64 = 0.01;

/// Where the rotors are, m, and which way each turns the body.
fn rotors() -> [(Vector, f64); 4] {
    let at = 0.0397 * 0.5f64.sqrt();
    [([at, -at, 0.0], -1.0), ([-at, -at, 0.0], 1.0), ([-at, at, 0.0], -1.0), ([at, at, 0.0], 1.0)]
}

/// Maximum speed of a rotor, revolutions per minute.
fn fastest() -> f64 {
    (2.25 * MASS * GRAVITY / 4.0 / THRUST).sqrt()
}

fn cross(a: Vector, b: Vector) -> Vector {
    [a[1] * b[2] - a[2] * b[1], a[2] * b[0] - a[0] * b[2], a[0] * b[1] - a[1] * b[0]]
}

fn times(m: &Matrix, v: Vector) -> Vector {
    m.map(|row| row[0] * v[0] + row[1] * v[1] + row[2] * v[2])
}

fn transposed(m: &Matrix) -> Matrix {
    [0, 1, 2].map(|i| [0, 1, 2].map(|j| m[j][i]))
}

fn of_quaternion(q: &[f64]) -> Matrix {
    // The columns are the turned axes: v + 2 w (u x v) + 2 u x (u x v).
    let turned = |v: Vector| {
        let u = [q[1], q[2], q[3]];
        let once = cross(u, v);
        let twice = cross(u, once);
        [0, 1, 2].map(|k| v[k] + 2.0 * q[0] * once[k] + 2.0 * twice[k])
    };
    transposed(&[turned([1.0, 0.0, 0.0]), turned([0.0, 1.0, 0.0]), turned([0.0, 0.0, 1.0])])
}

#[derive(Clone, Copy)]
struct Body {
    position: Vector,
    velocity: Vector,
    turn: Matrix,
    rate: Vector,
    speeds: [f64; 4],
}

/// Air and the factors of mass, inertia and thrust.
#[derive(Clone, Copy)]
struct World {
    wind: Vector,
    factors: Vector,
}

impl Body {
    fn of(state: &[f64]) -> (Self, World) {
        let three = |first: usize| [0, 1, 2].map(|k| state[first + k]);
        let turn = of_quaternion(&state[6..10]);
        let speeds = [0, 1, 2, 3].map(|k| state[13 + k]);
        let body = Body { position: three(0), velocity: three(3), turn, rate: three(10), speeds };
        (body, World { wind: three(17), factors: three(20) })
    }

    fn slope(&self, command: [f64; 4], world: &World) -> Self {
        let air = times(&transposed(&self.turn), [0, 1, 2].map(|k| self.velocity[k] - world.wind[k]));
        let revolutions = self.speeds.map(|speed| speed * fastest());
        let radians: f64 = revolutions.iter().map(|rpm| rpm * std::f64::consts::TAU / 60.0).sum();
        let mut force = [0, 1, 2].map(|k| -DRAG[k] * radians * air[k]);
        let mut torque = [0.0; 3];
        for ((at, sense), rpm) in rotors().into_iter().zip(revolutions) {
            let thrust = [0.0, 0.0, THRUST * rpm * rpm * world.factors[2]];
            let lever = cross(at, thrust);
            force[2] += thrust[2];
            torque = [0, 1, 2].map(|k| torque[k] + lever[k]);
            torque[2] += sense * TORQUE * rpm * rpm * world.factors[2];
        }
        let inertia = INERTIA.map(|moment| moment * world.factors[1]);
        let momentum = [0, 1, 2].map(|k| inertia[k] * self.rate[k]);
        let turning = cross(self.rate, momentum);
        let pull = times(&self.turn, force).map(|part| part / (MASS * world.factors[0]));
        // The rows of a rotation matrix turn against the body.
        let turn = self.turn.map(|row| cross(row, self.rate));
        Body {
            position: self.velocity,
            velocity: [pull[0], pull[1], pull[2] - GRAVITY],
            turn,
            rate: [0, 1, 2].map(|k| (torque[k] - turning[k]) / inertia[k]),
            speeds: [0, 1, 2, 3].map(|k| (command[k] - self.speeds[k]) / LAG),
        }
    }

    fn plus(&self, slope: &Body, time: f64) -> Self {
        let three = |a: Vector, b: Vector| [0, 1, 2].map(|k| a[k] + time * b[k]);
        Body {
            position: three(self.position, slope.position),
            velocity: three(self.velocity, slope.velocity),
            turn: [0, 1, 2].map(|row| three(self.turn[row], slope.turn[row])),
            rate: three(self.rate, slope.rate),
            speeds: [0, 1, 2, 3].map(|k| self.speeds[k] + time * slope.speeds[k]),
        }
    }

    /// One step of the environment in 64 of Heun's third-order rule.
    fn step(mut self, action: &[f64], world: &World) -> Self {
        let command = [0, 1, 2, 3].map(|k| (action[k].clamp(-1.0, 1.0) + 1.0) / 2.0);
        let time = DT / 64.0;
        for _ in 0..64 {
            let first = self.slope(command, world);
            let second = self.plus(&first, time / 3.0).slope(command, world);
            let third = self.plus(&second, time * 2.0 / 3.0).slope(command, world);
            self = self.plus(&first, time / 4.0).plus(&third, time * 3.0 / 4.0);
        }
        self
    }

    /// The largest difference from a state of the environment.
    fn distance(&self, state: &[f64]) -> f64 {
        let (other, _) = Body::of(state);
        let all = |body: &Body| {
            let mut all = [body.position, body.velocity, body.rate].concat();
            all.extend(body.turn.concat());
            all.extend(body.speeds);
            all
        };
        let (a, b) = (all(self), all(&other));
        a.iter().zip(b).map(|(a, b)| (a - b).abs()).fold(0.0, f64::max)
    }
}

pub fn make(name: &str, options: &[(&str, f64)]) -> Arc<dyn AnyEnv> {
    let options: EnvOptions =
        options.iter().map(|(name, value)| ((*name).to_owned(), (*value).into())).collect();
    builtin().make(name, &options).expect("known options")
}

fn replay(
    options: &[(&str, f64)],
    state: &[f64],
    actions: &[[f64; 4]],
    arithmetic: Arithmetic,
) -> Vec<Vec<f64>> {
    let env = make("quadrotor_hover", options);
    let actions = actions.iter().map(|action| action.to_vec()).collect();
    let outcome =
        env.replay(arithmetic, &Case { state: state.to_vec(), actions, draws: None }).expect("a case");
    assert!(!outcome.terminated.contains(&true), "the flight goes on");
    outcome.state
}

/// A state at rest and upright at a height, with all rotors at `speed`.
fn at_height(height: f64, speed: f64) -> Vec<f64> {
    let mut state = vec![0.0; 24];
    state[2] = height;
    state[6] = 1.0;
    state[13..17].fill(speed);
    state[20..23].fill(1.0);
    state
}

/// A tumbling start in wind, with mass, inertia and thrust off.
fn tumbling() -> Vec<f64> {
    let mut state = at_height(0.5, 0.6);
    state[3..6].copy_from_slice(&[0.4, -0.7, 1.5]);
    let q = [0.3f64, -0.5, 0.6, 0.2];
    let norm = q.iter().map(|part| part * part).sum::<f64>().sqrt();
    state[6..10].copy_from_slice(&q.map(|part| part / norm));
    state[10..13].copy_from_slice(&[3.0, -2.0, 5.0]);
    state[17..20].copy_from_slice(&[1.5, -0.5, 0.3]);
    state[20..23].copy_from_slice(&[1.1, 0.9, 1.05]);
    state
}

/// Commands that differ between rotors and change, also beyond their bounds.
fn commands(steps: usize) -> Vec<[f64; 4]> {
    let command = |step: usize, rotor: usize| 0.3 + 0.05 * ((step * (rotor + 2)) as f64 * 0.7).sin();
    (0..steps)
        .map(|step| [0, 1, 2, 3].map(|rotor| if step == 3 { 1.5 } else { command(step, rotor) }))
        .collect()
}

#[test]
fn a_flight_follows_mechanics_in_double_precision() {
    let (start, actions) = (tumbling(), commands(40));
    let (mut body, world) = Body::of(&start);
    let flight = replay(&[], &start, &actions, Arithmetic::F64);
    for (step, (action, state)) in actions.iter().zip(&flight).enumerate() {
        body = body.step(action, &world);
        let distance = body.distance(state);
        assert!(distance < 2e-5, "step {step} is off by {distance:e}");
    }
    let moved = (flight[39][0] - start[0]).hypot(flight[39][10] - start[10]);
    assert!(moved > 0.1, "it moved and turned");
}

#[test]
fn without_thrust_it_falls_freely() {
    let flight = replay(&[], &at_height(0.0, 0.0), &[[-1.0; 4]; 50], Arithmetic::F64);
    for (step, state) in flight.iter().enumerate() {
        let time = DT * (step + 1) as f64;
        assert!((state[2] + GRAVITY * time * time / 2.0).abs() < 1e-12, "height at {time} s");
        assert!((state[5] + GRAVITY * time).abs() < 1e-12, "speed at {time} s");
    }
}

#[test]
fn a_free_rotation_keeps_its_angular_momentum() {
    let mut start = at_height(2.5, 0.0);
    start[10..13].copy_from_slice(&[6.0, -4.0, 9.0]);
    let momentum = |state: &[f64]| {
        let (body, _) = Body::of(state);
        times(&body.turn, [0, 1, 2].map(|k| INERTIA[k] * body.rate[k]))
    };
    let before = momentum(&start);
    let flight = replay(&[], &start, &[[-1.0; 4]; 100], Arithmetic::F64);
    let size = before.iter().map(|part| part.abs()).fold(0.0, f64::max);
    for state in &flight {
        for (a, b) in momentum(state).into_iter().zip(before) {
            assert!((a - b).abs() < 1e-6 * size, "{a} is not {b}");
        }
    }
    assert!((flight[99][10] - 6.0).abs() > 0.5, "the rates themselves change");
}

#[test]
fn hover_thrust_balances_the_weight() {
    let speed = (1.0f64 / 2.25).sqrt();
    let flight = replay(&[], &at_height(0.0, speed), &[[2.0 * speed - 1.0; 4]; 300], Arithmetic::F64);
    let still = at_height(0.0, speed);
    let off = flight[299].iter().zip(&still).map(|(a, b)| (a - b).abs()).fold(0.0, f64::max);
    assert!(off < 1e-9, "off by {off:e} after 3 s");
}

#[test]
fn half_the_step_leaves_a_sixteenth_of_the_error() {
    let (mut start, actions) = (tumbling(), commands(20));
    start[10..13].copy_from_slice(&[14.0, -11.0, 17.0]);
    let end =
        |substeps: f64| replay(&[("substeps", substeps)], &start, &actions, Arithmetic::F64)[19].clone();
    let fine = end(16.0);
    let error = |state: &[f64]| state.iter().zip(&fine).map(|(a, b)| (a - b).abs()).fold(0.0, f64::max);
    let ratio = error(&end(1.0)) / error(&end(2.0));
    assert!((11.0..24.0).contains(&ratio), "{ratio} in place of 16");
}

#[test]
fn a_flight_in_single_precision_is_the_same_on_all_lanes() {
    let (start, actions) = (tumbling(), commands(40));
    let [double, single, wide] = [Arithmetic::F64, Arithmetic::F32, Arithmetic::Wide]
        .map(|arithmetic| replay(&[], &start, &actions, arithmetic));
    assert_eq!(single, wide);
    let off = single[39].iter().zip(&double[39]).map(|(a, b)| (a - b).abs()).fold(0.0, f64::max);
    assert!(off < 1e-3, "single precision is off by {off:e}");
}

/// First states of 4,096 episodes.
pub fn starts(name: &str, options: &[(&str, f64)]) -> Vec<Vec<f64>> {
    let env = make(name, options);
    let leaves = env.leaves().len();
    let mut all = Vec::new();
    for first in (0..4096).step_by(256) {
        let stepper = env.stepper(TileSpec::new(1, first, 256)).expect("made of lanes");
        for row in 0..256 {
            let mut words = vec![0; leaves];
            stepper.state(row, &mut words);
            all.push(words.into_iter().map(|word| f64::from(f32::from_bits(word))).collect());
        }
    }
    all
}

/// The minimum and maximum value of a function of the first states.
pub fn range(starts: &[Vec<f64>], of: impl Fn(&[f64]) -> f64) -> [f64; 2] {
    let values = starts.iter().map(|state| of(state));
    values.fold([f64::INFINITY, f64::NEG_INFINITY], |[low, high], value| [low.min(value), high.max(value)])
}

/// Whether a range is within `low` and `high`, and covers at least 95% of it.
pub fn fills([least, greatest]: [f64; 2], low: f64, high: f64) -> bool {
    let slack = 1e-6 * (1.0 + high.abs());
    least >= low - slack && greatest <= high + slack && greatest - least >= 0.95 * (high - low)
}

#[test]
fn starts_are_drawn_from_the_ranges_of_the_options() {
    // The angle between the vertical axes of body and world, degrees.
    let tilt = |state: &[f64]| of_quaternion(&state[6..10])[2][2].clamp(-1.0, 1.0).acos().to_degrees();
    for (name, own) in [("quadrotor_hover", 90.0), ("quadrotor_lemniscate", 30.0)] {
        let plain = starts(name, &[]);
        assert!(fills(range(&plain, tilt), 0.0, own), "{name}: {:?}", range(&plain, tilt));
        for degrees in [40.0, 180.0] {
            let tilted = range(&starts(name, &[("tilt", degrees)]), tilt);
            // Single precision gives the angle of nearly parallel axes to about 0.05 degrees.
            assert!(fills(tilted, -0.1, degrees + 0.1), "{name}: {tilted:?}");
        }
        assert!(range(&starts(name, &[("tilt", 0.0)]), tilt)[1] < 0.1, "{name}: upright");

        let (windy, varied) = (starts(name, &[("wind", 2.5)]), starts(name, &[("vary", 0.2)]));
        for axis in 0..3 {
            let wind = |state: &[f64]| state[17 + axis];
            assert_eq!(range(&plain, wind), [0.0, 0.0], "{name}");
            assert!(fills(range(&windy, wind), -2.5, 2.5), "{name}: {:?}", range(&windy, wind));
            let factor = |state: &[f64]| state[20 + axis];
            assert_eq!(range(&plain, factor), [1.0, 1.0], "{name}");
            assert!(fills(range(&varied, factor), 0.8, 1.2), "{name}: {:?}", range(&varied, factor));
        }
        let phase = range(&plain, |state| state[23]);
        let highest = if name == "quadrotor_hover" { 0.0 } else { std::f64::consts::TAU };
        assert!(fills(phase, 0.0, highest), "{name}: {phase:?}");
    }
}

#[test]
fn observations_stay_in_bounds_with_extreme_options() {
    let extreme = [("tilt", 180.0), ("wind", 5.0), ("vary", 0.3), ("substeps", 2.0)];
    bounds::observations_stay_in_bounds(&*make("quadrotor_hover", &extreme), 2000);
    for period in [3.0, 30.0] {
        let options = [&extreme[..], &[("period", period)]].concat();
        bounds::observations_stay_in_bounds(&*make("quadrotor_lemniscate", &options), 2000);
    }
}

/// A point of the lemniscate and its derivative by the phase.
fn lemniscate(phase: f64) -> [Vector; 2] {
    let (sin, cos) = phase.sin_cos();
    [[sin, 0.5 * (2.0 * phase).sin(), 0.0], [cos, (2.0 * phase).cos(), 0.0]]
}

#[test]
fn a_lemniscate_step_has_the_reward_and_the_targets_of_the_formula() {
    let length = |v: Vector| v.iter().map(|part| part * part).sum::<f64>().sqrt();
    let less = |a: Vector, b: Vector| [0, 1, 2].map(|k| a[k] - b[k]);
    for (period, phase) in [(5.5, 1.0), (3.0, 6.27), (30.0, 4.0)] {
        let mut state = tumbling();
        state[..3].copy_from_slice(&lemniscate(phase)[0]);
        state[0] += 0.2;
        state[23] = phase;
        let action = [0.4, -0.2, 0.1, 0.9];
        let case = Case { state, actions: vec![action.to_vec()], draws: None };
        let env = make("quadrotor_lemniscate", &[("period", period)]);
        let outcome = env.replay(Arithmetic::F64, &case).expect("a case");
        let (state, obs) = (&outcome.state[0], &outcome.obs[0]);
        let after = (phase + std::f64::consts::TAU * DT / period) % std::f64::consts::TAU;
        assert!((state[23] - after).abs() < 1e-12, "phase {}, not {after}", state[23]);

        let (body, _) = Body::of(state);
        let [target, along] = lemniscate(after);
        let along = along.map(|part| part * std::f64::consts::TAU / period);
        let hover = 2.0 * (1.0f64 / 2.25).sqrt() - 1.0;
        let throttle: f64 = action.iter().map(|part| (part - hover) * (part - hover)).sum();
        let cost = 10.0 * length(less(body.position, target))
            + 0.2 * length(less(body.velocity, along))
            + 0.05 * length(body.rate)
            + 0.1 * throttle;
        let reward = 1.0 / (1.0 + cost);
        assert!((outcome.reward[0] - reward).abs() < 1e-12, "reward {}, not {reward}", outcome.reward[0]);

        for (first, ahead) in [(0, 0.0), (22, 0.15), (25, 0.4)] {
            let point = lemniscate(after + std::f64::consts::TAU * ahead / period)[0];
            let seen = times(&transposed(&body.turn), less(point, body.position));
            for k in 0..3 {
                assert!((obs[first + k] - seen[k]).abs() < 1e-6, "{ahead} s ahead: {obs:?}, not {seen:?}");
            }
        }
    }
}
