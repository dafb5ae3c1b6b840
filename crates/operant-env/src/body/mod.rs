//! Bodies: MuJoCo's tasks of Gymnasium. A task is a [`model`] and a file with its rules; [`planar`] computes how bodies move in a plane,
//! [`spatial`] how Ant moves in space.
//! docs/bodies.md is about all of them.

mod ant;
mod half_cheetah;
mod hopper;
mod inverted_double_pendulum;
mod inverted_pendulum;
mod legged;
mod model;
mod planar;
mod reacher;
mod rows;
mod spatial;
mod swimmer;
mod walker2d;

use operant_lane::{Draws, Float, Lane, Mask, bundle};

use crate::Registry;
use crate::scene::{GREY, Point, RED, Scene, Shape};
use crate::spec::EnvMetric;

use model::Capsule;
use planar::{Motion, Moved, Planar};

/// Registers all bodies.
pub fn family(registry: Registry) -> Registry {
    registry
        .with(half_cheetah::HalfCheetah::<17>::default())
        .with(hopper::Hopper::<11>::default())
        .with(walker2d::Walker2d::<17>::default())
        .with(ant::Ant::<105>::default())
        .with(swimmer::Swimmer::<8>::default())
        .with(reacher::Reacher::default())
        .with(inverted_pendulum::InvertedPendulum::default())
        .with(inverted_double_pendulum::InvertedDoublePendulum::default())
}

/// Positions, velocities and accelerations beyond which an episode ends, as MuJoCo resets its simulation.
const MOST: f64 = 1e10;

bundle! {
    /// A body and what happened to it in this episode.
    pub struct State<const D: usize, const T: usize> {
        /// Positions of the joints.
        q: [Float; D],
        /// Velocities.
        v: [Float; D],
        /// Accelerations of the last evaluation, from which the solver of the constraint forces begins.
        a: [Float; D],
        /// Evaluations in which the solver reached its bound.
        unsolved: Float,
        /// 1 when a number became too large.
        diverged: Float,
        /// Terms of the reward, summed over the episode.
        terms: [Float; T],
    }
}

impl<L: Lane, const D: usize, const T: usize> State<L, D, T> {
    fn at_rest(q: [L::Float; D], v: [L::Float; D]) -> Self {
        let zero = L::Float::splat(0.0);
        State { q, v, a: [zero; D], unsolved: zero, diverged: zero, terms: [zero; T] }
    }

    /// The state after a motion, and where it is too fast to go on. There the body stays where it was.
    #[inline(always)]
    fn after(&self, moved: &Moved<L, D>) -> (Self, L::Mask) {
        let Motion { q, v, a } = moved.motion;
        let fine = is_fine::<L>([q, v, a].as_flattened());
        let one = L::Float::splat(1.0);
        let next = State { q, v, a, unsolved: self.unsolved + moved.unsolved, ..*self };
        let stuck = State { diverged: one, ..*self };
        (<Self as operant_lane::Select<L::Mask>>::select(fine, next, stuck), !fine)
    }
}

/// Whether no number is too large.
#[inline(always)]
fn is_fine<L: Lane>(numbers: &[L::Float]) -> L::Mask {
    let mut fine = L::Mask::splat(true);
    for number in numbers {
        fine = fine & number.abs().le(L::Float::splat(MOST));
    }
    fine
}

/// Adds the terms of a step's reward to the sums of its episode. Returns the reward: none where the motion is too fast.
#[inline(always)]
fn paid<L: Lane, const T: usize>(
    sums: &mut [L::Float; T],
    terms: [L::Float; T],
    reward: L::Float,
    diverged: L::Mask,
) -> L::Float {
    let zero = L::Float::splat(0.0);
    for k in 0..T {
        sums[k] = sums[k] + diverged.select(zero, terms[k]);
    }
    diverged.select(zero, reward)
}

// Names and meanings of metrics, those of `info` in Gymnasium.
const X_POSITION: [&str; 2] = ["x_position", "position along x, m"];
const Z_DISTANCE: [&str; 2] = ["z_distance_from_origin", "height above that of the start, m"];
const DISTANCE: [&str; 2] = ["distance_from_origin", "distance from the origin, m"];
const FORWARD: [&str; 2] = ["reward_forward", "reward of the forward speed, summed over the episode"];
const CTRL: [&str; 2] = ["reward_ctrl", "cost of actions, negative, summed over the episode"];
const SURVIVE: [&str; 2] = ["reward_survive", "reward of healthy states, summed over the episode"];

/// What a body measures where an episode ends: metrics of the task's own, its terms of the reward, and those of all bodies.
fn metrics(own: &[[&str; 2]], terms: &[[&str; 2]]) -> Vec<EnvMetric> {
    let of_all = [
        ["unsolved", "evaluations of an episode whose constraint forces are not exact"],
        ["diverged", "1 when a number became too large for the simulation"],
    ];
    [own, terms, &of_all].into_iter().flatten().map(|[name, help]| EnvMetric::new(name, help)).collect()
}

/// A number of [`metrics`].
#[inline(always)]
fn measured<F: Copy>(index: usize, own: &[F], terms: &[F], of_all: [F; 2]) -> F {
    match index.checked_sub(own.len()) {
        None => own[index],
        Some(at) if at < terms.len() => terms[at],
        Some(at) => of_all[at - terms.len()],
    }
}

/// What observations mean that are positions and velocities of these joints, slides first, without the first numbers.
fn motion_names(slides: usize, joints: &[&str], skipped: usize) -> Vec<String> {
    let of = |whats: [&'static str; 2]| {
        let what = move |k: usize| whats[usize::from(k >= slides)];
        joints.iter().enumerate().map(move |(k, joint)| format!("{} of {joint}", what(k)))
    };
    of(["position", "angle"]).chain(of(["velocity", "angular velocity"])).skip(skipped).collect()
}

/// The sum of squares.
fn squares<F: Float, const N: usize>(numbers: &[F; N]) -> F {
    numbers.iter().fold(F::splat(0.0), |sum, number| number.mul_add(*number, sum))
}

/// Uniform noise of up to `scale` on every number.
fn uniform<L: Lane, const N: usize>(draws: &mut Draws<'_, L>, scale: f64) -> [L::Float; N] {
    core::array::from_fn(|_| draws.between(-scale, scale))
}

/// Normal noise on every number.
fn normal<L: Lane, const N: usize>(draws: &mut Draws<'_, L>, scale: f64) -> [L::Float; N] {
    core::array::from_fn(|_| draws.normal() * L::Float::splat(scale))
}

/// The motion of a model with D joints and A motors over `count` time steps, compiled once for each lane: by the Euler method with implicit
/// damping, or by that of Runge and Kutta.
macro_rules! integrated {
    ($model:ident: [$n:literal, $d:literal, $p:literal, $s:literal, $a:literal], $euler:literal) => {
        /// The body.
        struct Body;

        impl crate::body::planar::Planar<$n, $d, $p, $s, $a> for Body {
            const MODEL: &'static Model<$n, $d, $p, $s, $a> = &$model;
        }

        /// The state after `count` time steps, the motion's other results, and where it is too fast to go on.
        #[inline(never)]
        fn moved<L: Lane, const T: usize>(
            state: &State<L, $d, T>,
            action: &[L::Float; $a],
            count: u32,
        ) -> (State<L, $d, T>, crate::body::planar::Moved<L, $d>, L::Mask) {
            let motion = crate::body::planar::Motion { q: state.q, v: state.v, a: state.a };
            let moved = <Body as crate::body::planar::Planar<_, _, _, _, _>>::advance::<L, $euler>(
                motion, action, count,
            );
            let (next, diverged) = state.after(&moved);
            (next, moved, diverged)
        }
    };
}
use integrated;

/// Sets an option of a task.
macro_rules! set_option {
    () => {
        fn set_option(&mut self, name: &str, value: &crate::OptionValue) -> Result<(), crate::OptionError> {
            Env::spec(self).check_option(name, value)?;
            self.options.set(name, value);
            Ok(())
        }
    };
}
use set_option;

/// What the environments of all tasks have in common: D joints, and metrics of their own.
macro_rules! shared {
    ($d:literal, $capsules:expr, $span:literal $(, $body:ident)?; |$s:ident| $own:expr) => {
        crate::body::set_option!();

        fn metric<L: Lane>(&self, last: &Step<L, Self::State<L>>, index: usize) -> L::Float {
            let $s = &last.state$(.$body)?;
            crate::body::measured(index, &$own, &$s.terms, [$s.unsolved, $s.diverged])
        }

        fn draw(&self, s: &Self::State<f32>) -> crate::Scene {
            crate::body::scene(Body, $capsules, $span, &s$(.$body)?.q)
        }

        fn unpack(&self, public: &[f64]) -> Vec<f64> {
            let mut leaves = public.to_vec();
            leaves.resize(operant_lane::bundle::leaves_of::<f64, Self::State<f64>>().len(), 0.0);
            leaves
        }

        fn pack(&self, leaves: &[f64]) -> Vec<f64> {
            leaves[..2 * $d].to_vec()
        }
    };
}
use shared;

/// A body from the side, in the middle of a view of `span` m to the left and right, with a floor that moves by, if there is one.
fn scene<
    B: Planar<N, D, P, S, A>,
    const N: usize,
    const D: usize,
    const P: usize,
    const S: usize,
    const A: usize,
>(
    _: B,
    capsules: &[Capsule],
    span: f32,
    q: &[f32; D],
) -> Scene {
    let model = B::MODEL;
    let of_points = model.points.chunks_exact(2).map(|ends| Capsule {
        link: ends[0].link,
        ends: [ends[0].at, ends[1].at],
        radius: ends[0].radius,
    });
    let has_floor = P > 0;
    let has_rail = model.slides == 1;
    let mut shapes = Vec::new();
    // Room below for a floor, or for a cart; the others are seen from above.
    let low = if has_floor || has_rail { -0.25 * span } else { -0.75 * span };
    // A cart stays on its rail, in view.
    let shift = if has_rail { q[0] } else { 0.0 };
    if has_rail {
        shapes.push(Shape::line([[-1.0, 0.0], [1.0, 0.0]], GREY));
    }
    if has_floor {
        shapes.push(Shape::line([[-span, 0.0], [span, 0.0]], GREY));
        // A mark every half metre shows how the floor moves by.
        let marks = half_metres(q[0], -span, span);
        shapes.extend(marks.map(|x| Shape::line([[x, 0.0], [x - 0.06, -0.1]], GREY)));
    }
    for (k, capsule) in of_points.chain(capsules.iter().copied()).enumerate() {
        let ends = capsule.ends.map(|at| B::point::<f32>(q, capsule.link, at)).map(|[x, z]| [x + shift, z]);
        let radius = capsule.radius as f32;
        shapes.push(self::capsule(ends, radius, [1, 2, 3][k % 3]));
        if has_floor {
            let touching = ends.into_iter().filter(|end| end[1] - radius < model.margin as f32);
            shapes.extend(touching.map(|end| Shape::circle([end[0], end[1] - radius], 0.04, RED)));
        }
    }
    Scene { low: [-span, low], high: [span, low + 1.5 * span], shapes }
}

/// Half metres of the floor between `low` and `high`, from a body at `place`.
fn half_metres(place: f32, low: f32, high: f32) -> impl Iterator<Item = f32> {
    let first = ((place + low) * 2.0).ceil();
    let count = ((place + high) * 2.0).floor() - first + 1.0;
    (0..count as u32).map(move |k| (first + k as f32) * 0.5 - place)
}

/// A capsule between these centres.
fn capsule(ends: [Point; 2], radius: f32, tone: u8) -> Shape {
    let along = [ends[1][0] - ends[0][0], ends[1][1] - ends[0][1]];
    let angle = along[1].atan2(along[0]);
    let outline = (0..16).map(|k| {
        let end = ends[usize::from(k < 8)];
        let turn = angle + core::f32::consts::PI * ((k % 8) as f32 / 7.0 - 0.5 + f32::from(u8::from(k >= 8)));
        [end[0] + radius * turn.cos(), end[1] + radius * turn.sin()]
    });
    Shape::polygon(outline.collect::<Vec<Point>>(), tone)
}

/// The forward speed, m/s.
fn speed<L: Lane>(forward: L::Float, seconds: f64) -> L::Float {
    forward * L::Float::splat(1.0 / seconds)
}

/// Whether a number is between two others.
fn between<F: Float>(low: f64, number: F, high: f64) -> F::Mask {
    F::splat(low).lt(number) & number.lt(F::splat(high))
}

/// Within -10 and 10, as observations of some tasks have velocities.
fn clipped<F: Float>(number: F) -> F {
    number.clamp(F::splat(-10.0), F::splat(10.0))
}

/// Declares the options of a task: fields, defaults, ranges and help, once for the structure, `operant envs` and `--set env.NAME`.
macro_rules! options {
    ($($field:ident: $kind:ident = $default:expr $(, $low:expr, $high:expr)?; $help:literal)*) => {
        /// The options of the task.
        #[derive(Debug, Clone)]
        struct Options {
            $($field: crate::body::options!(@type $kind),)*
        }

        impl Default for Options {
            fn default() -> Self {
                Options { $($field: $default),* }
            }
        }

        impl Options {
            fn list() -> Vec<crate::EnvOption> {
                vec![$(crate::EnvOption::$kind(stringify!($field), $default, $($low, $high,)? $help)),*]
            }

            fn set(&mut self, name: &str, value: &crate::OptionValue) {
                match name {
                    $(stringify!($field) => self.$field = crate::body::options!(@value $kind value),)*
                    _ => unreachable!("the specification has been asked"),
                }
            }
        }
    };
    (@type number) => { f64 };
    (@type whole) => { u32 };
    (@type flag) => { bool };
    (@value number $value:ident) => { $value.number() };
    (@value whole $value:ident) => { $value.whole() };
    (@value flag $value:ident) => { $value.is_on() };
}
use options;
