//! Motion over time: the classical Runge-Kutta method, corrected for orientations, and the forces of contacts that a step ends with.

use operant_lane::{Float, Lane, Mask, Uint, bundle};

use super::model::{LEGS, MASS, MIRRORS, MOTORS, TIMESTEP};
use super::placed::Placed;
use super::vector::{Twist, Vector, add_times, cross, dot, scaled, sum, turned};
use crate::body::planar::{f, zero};

bundle! {
    /// The motion of the body: numbers as MuJoCo has them, but for mirrored ankles.
    pub struct Motion {
        /// Position of the torso's centre, its orientation as a quaternion, and the hinges.
        q: [Float; 15],
        /// Velocities: of the torso in the axes of the world, its turning in its own, and of the hinges.
        v: [Float; 14],
        /// Accelerations of the last evaluation, from which the solver begins.
        a: [Float; 14],
    }
}

bundle! {
    /// What a step of the environment does.
    pub struct Moved {
        /// The motion after the step.
        motion: (Of Motion),
        /// The motion at the last evaluation, the last stage of a Runge-Kutta step.
        last: (Of Motion),
        /// How far the torso moved along x, and from its last place to that of the last evaluation.
        forward: [Float; 2],
        /// How many evaluations reached the solver's bound.
        unsolved: Float,
    }
}

bundle! {
    /// A Runge-Kutta step after some of its stages.
    struct Stage {
        motion: (Of Motion),
        /// The velocity of this stage, the turning corrected for the orientation.
        rate: [Float; 14],
        /// How far the torso moved along x in this stage.
        forward: Float,
        /// Weighted sums over the stages.
        rates: [Float; 14],
        accelerations: [Float; 14],
        unsolved: Float,
    }
}

/// Between angles of ankles as MuJoCo has them, and mirrored ones; the ankle of leg k is number `first + 2 k`.
#[inline(always)]
fn mirrored<L: Lane, const D: usize>(mut numbers: [L::Float; D], first: usize) -> [L::Float; D] {
    for k in 0..LEGS {
        numbers[first + 2 * k] = numbers[first + 2 * k] * f::<L>(MIRRORS[k]);
    }
    numbers
}

impl<L: Lane> Motion<L> {
    /// Between the ankles of MuJoCo and mirrored ones.
    #[inline(always)]
    fn mirrored(&self) -> Self {
        Motion {
            q: mirrored::<L, 15>(self.q, 8),
            v: mirrored::<L, 14>(self.v, 7),
            a: mirrored::<L, 14>(self.a, 7),
        }
    }
}

/// Positions that move at a rate for some time.
#[inline(always)]
fn moved_on<L: Lane>(q: &[L::Float; 15], rate: &[L::Float; 14], time: L::Float) -> [L::Float; 15] {
    let mut next = *q;
    for k in 0..3 {
        next[k] = rate[k].mul_add(time, q[k]);
    }
    let turn = scaled::<L>([rate[3], rate[4], rate[5]], time);
    [next[3], next[4], next[5], next[6]] = turned::<L>([q[3], q[4], q[5], q[6]], turn);
    for k in 6..14 {
        next[k + 1] = rate[k].mul_add(time, q[k + 1]);
    }
    next
}

/// The rate at which the orientation turns after a turn at the rate before, so that the method of Runge and Kutta has its order on
/// rotations, too (Munthe-Kaas).
#[inline(always)]
fn corrected<L: Lane>(spin: Vector<L>, turn: Vector<L>) -> Vector<L> {
    let square = dot::<L>(turn, turn);
    // 1/t^2 - (1 + cos t)/(2 t sin t) as a series in t^2.
    let [a, b, c, d] =
        [f::<L>(1.0 / 12.0), f::<L>(1.0 / 720.0), f::<L>(1.0 / 30_240.0), f::<L>(1.0 / 1_209_600.0)];
    let factor = d.mul_add(square, c).mul_add(square, b).mul_add(square, a);
    let first = cross::<L>(turn, spin);
    let spin = add_times::<L, 3>(spin, first, f::<L>(0.5));
    add_times::<L, 3>(spin, cross::<L>(turn, first), factor)
}

/// One time step.
#[inline(always)]
fn runge_kutta<L: Lane>(motion: &Motion<L>, control: &[L::Float; 8]) -> Moved<L> {
    let (h, o) = (TIMESTEP, zero::<L>());
    let none = [o; 14];
    let begin =
        Stage { motion: *motion, rate: motion.v, forward: o, rates: none, accelerations: none, unsolved: o };
    let stage: Stage<L> = L::repeat(4, begin, |number, stage| {
        let is = |at: u32| number.eq(L::Uint::splat(at));
        let reach = is(0).select(o, is(3).select(f::<L>(h), f::<L>(0.5 * h)));
        let weight = (is(0) | is(3)).select(f::<L>(1.0), f::<L>(2.0));
        let q = moved_on::<L>(&motion.q, &stage.rate, reach);
        let v = add_times::<L, 14>(motion.v, stage.motion.a, reach);
        let (a, missed) = Placed::<L>::of(&q, &v, control).accelerate(&stage.motion.a);
        let turn = scaled::<L>([stage.rate[3], stage.rate[4], stage.rate[5]], reach);
        let mut rate = v;
        [rate[3], rate[4], rate[5]] = corrected::<L>([v[3], v[4], v[5]], turn);
        Stage {
            motion: Motion { q, v, a },
            rate,
            forward: stage.rate[0] * reach,
            rates: add_times::<L, 14>(stage.rates, rate, weight),
            accelerations: add_times::<L, 14>(stage.accelerations, a, weight),
            unsolved: stage.unsolved + missed.select(f::<L>(1.0), o),
        }
    });
    let sixth = f::<L>(h / 6.0);
    let forward = stage.rates[0] * sixth;
    Moved {
        motion: Motion {
            q: moved_on::<L>(&motion.q, &stage.rates, sixth),
            v: add_times::<L, 14>(motion.v, stage.accelerations, sixth),
            a: stage.motion.a,
        },
        last: stage.motion,
        forward: [forward, stage.forward - forward],
        unsolved: stage.unsolved,
    }
}

/// Moment about the centre of mass of the whole body and force of the contacts of each body at an acceleration: of the torso, then, for
/// each leg, of the capsules to the hip, to the ankle, and below, in the axes of the world.
#[inline(always)]
fn pushes<L: Lane>(motion: &Motion<L>, control: &[L::Float; 8]) -> [Twist<L>; 13] {
    let placed = Placed::<L>::of(&motion.q, &motion.v, control);
    let x = placed.acceleration(&motion.a);
    let centre = L::scan(&placed.legs, &mut [(); LEGS], [zero::<L>(); 3], |leg, (), centre| {
        sum::<L, 3>(sum::<L, 3>(centre, leg.parts[0].moment), leg.parts[1].moment)
    });
    let centre = scaled::<L>(centre, f::<L>(1.0 / MASS));
    let none = [[zero::<L>(); 3]; 2];
    let mut own = [(x.legs[0], [none; 3]); LEGS];
    for k in 0..LEGS {
        own[k].0 = x.legs[k];
    }
    L::scan(&placed.legs, &mut own, (), |leg, (hinges, pushes), ()| {
        let twists = leg.twists(x.torso, *hinges);
        for number in 0..6 {
            let (part, contact) = (number / 2, &leg.contacts[number]);
            pushes[part] = contact.push(&placed.axes, centre, twists[part], pushes[part]);
        }
    });
    let mut all = [placed.contact.push(&placed.axes, centre, x.torso, none); 13];
    for k in 0..LEGS {
        [all[1 + 3 * k], all[2 + 3 * k], all[3 + 3 * k]] = own[k].1;
    }
    all
}

/// Moves the body for `count` time steps with controls that are held to their range; also returns moment and force of the contacts of each
/// body at the last evaluation. Compiled once for each lane.
#[inline(never)]
pub fn advance<L: Lane>(
    motion: &Motion<L>,
    action: &[L::Float; 8],
    count: u32,
) -> (Moved<L>, [Twist<L>; 13]) {
    let (o, one) = (zero::<L>(), f::<L>(1.0));
    let mut control = *action;
    for k in 0..8 {
        control[k] = control[k].clamp(-one, one);
    }
    for k in 0..LEGS {
        let ankle = MOTORS[k] + 1;
        control[ankle] = control[ankle] * f::<L>(MIRRORS[k]);
    }
    let motion = motion.mirrored();
    let begin = Moved { motion, last: motion, forward: [o; 2], unsolved: o };
    let moved: Moved<L> = L::repeat(count, begin, |_, before: Moved<L>| {
        let moved = runge_kutta::<L>(&before.motion, &control);
        let forward = [before.forward[0] + moved.forward[0], moved.forward[1]];
        Moved { forward, unsolved: before.unsolved + moved.unsolved, ..moved }
    });
    let pushes = pushes::<L>(&moved.last, &control);
    (Moved { motion: moved.motion.mirrored(), last: moved.last.mirrored(), ..moved }, pushes)
}
