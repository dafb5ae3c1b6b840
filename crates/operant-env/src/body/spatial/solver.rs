//! The acceleration, at the optimum of a convex problem (docs/bodies.md): Newton's method, whose step is exact if it is known which rows
//! push, so that it ends as soon as they stay the same.

use operant_lane::{Float, Lane, Mask, Uint, bundle};

use super::contact::Contact;
use super::leg::Leg;
use super::matrix::{Eliminated, Matrix};
use super::model::{LEGS, TORSO};
use super::placed::Placed;
use super::vector::{Twist, Vector, add_times, dot, inside, outside};
use crate::body::planar::{f, zero};

/// Iterations of the solver after which its last iterate stands.
const TURNS: u32 = 12;
/// The iteration from which on a step of the solver is followed as far as the cost decreases. Without it one of 312,000 evaluations cycled.
const SEARCHED: u32 = 4;

bundle! {
    /// An acceleration in the torso's axes.
    pub struct Acceleration {
        torso: [[Float; 3]; 2],
        /// Of hip and ankle of each leg.
        legs: [[Float; 2]; LEGS],
    }
}

bundle! {
    /// The rows that push: bits.
    struct Rows {
        /// Four for the torso's contact.
        torso: Uint,
        /// Of each leg: four for each contact, then one for each limit.
        legs: [Uint; LEGS],
    }
}

bundle! {
    /// A leg while its acceleration is computed.
    struct Turn {
        rows: Uint,
        eliminated: [(Of Eliminated); 2],
        /// Of hip and ankle.
        accelerations: [Float; 2],
    }
}

impl<L: Lane> Rows<L> {
    #[inline(always)]
    fn all(bits: u32) -> Self {
        Rows { torso: L::Uint::splat(bits), legs: [L::Uint::splat(bits); LEGS] }
    }

    #[inline(always)]
    fn differ(&self, other: &Self) -> L::Mask {
        let mut differ = self.torso.ne(other.torso);
        for k in 0..LEGS {
            differ = differ | self.legs[k].ne(other.legs[k]);
        }
        differ
    }
}

impl<L: Lane> Acceleration<L> {
    /// This and `factor` times another.
    #[inline(always)]
    fn plus(&self, other: &Self, factor: L::Float) -> Self {
        let mut all = *self;
        for k in 0..2 {
            all.torso[k] = add_times::<L, 3>(self.torso[k], other.torso[k], factor);
        }
        for k in 0..LEGS {
            all.legs[k] = add_times::<L, 2>(self.legs[k], other.legs[k], factor);
        }
        all
    }
}

impl<L: Lane> Leg<L> {
    /// The bits of the rows that push at an acceleration.
    #[inline(always)]
    fn rows(&self, up: Vector<L>, torso: Twist<L>, hinges: [L::Float; 2]) -> L::Uint {
        let none = L::Uint::splat(0);
        let twists = self.twists(torso, hinges);
        let mut bits = none;
        for part in 0..2 {
            let limit = &self.parts[part].limit;
            let pushes = limit.row(hinges[part]).lt(zero::<L>()) & limit.stiffness.gt(zero::<L>());
            bits = bits | pushes.select(L::Uint::splat(1 << (24 + part)), none);
        }
        for number in 0..6 {
            let contact = &self.contacts[number];
            bits = L::when(contact.touches(), bits, |bits| {
                bits | contact.bits(up, twists[number / 2], 4 * number)
            });
        }
        bits
    }
}

/// First and second derivative of the cost along the way between two accelerations, of which `part` is gone.
#[derive(Clone, Copy)]
struct Way<L: Lane> {
    part: L::Float,
    up: Vector<L>,
}

impl<L: Lane> Way<L> {
    /// Adds what a row contributes whose values at both accelerations are these.
    #[inline(always)]
    fn add(self, [slope, bend]: [L::Float; 2], stiffness: L::Float, [a, b]: [L::Float; 2]) -> [L::Float; 2] {
        let o = zero::<L>();
        let now = self.part.mul_add(b, (f::<L>(1.0) - self.part) * a);
        let force = now.min(o) - a.lt(o).select(b, o);
        let change = stiffness * (b - a);
        [change.mul_add(force, slope), now.lt(o).select(change * (b - a), o) + bend]
    }

    #[inline(always)]
    fn add_contact(self, sums: [L::Float; 2], contact: &Contact<L>, [a, b]: [Twist<L>; 2]) -> [L::Float; 2] {
        L::when(contact.touches(), sums, |mut sums| {
            let (a, b) = (contact.rows(self.up, a), contact.rows(self.up, b));
            for edge in 0..4 {
                sums = self.add(sums, contact.stiffness, [a[edge], b[edge]]);
            }
            sums
        })
    }

    #[inline(always)]
    fn add_leg(
        self,
        mut sums: [L::Float; 2],
        leg: &Leg<L>,
        torso: [Twist<L>; 2],
        [a, b]: [[L::Float; 2]; 2],
    ) -> [L::Float; 2] {
        for part in 0..2 {
            let limit = &leg.parts[part].limit;
            sums = self.add(sums, limit.stiffness, [limit.row(a[part]), limit.row(b[part])]);
        }
        let (a, b) = (leg.twists(torso[0], a), leg.twists(torso[1], b));
        for number in 0..6 {
            sums = self.add_contact(sums, &leg.contacts[number], [a[number / 2], b[number / 2]]);
        }
        sums
    }
}

impl<L: Lane> Placed<L> {
    /// The rows that push at an acceleration.
    #[inline(always)]
    fn pushing(&self, x: &Acceleration<L>) -> Rows<L> {
        let (none, up) = (L::Uint::splat(0), self.axes[2]);
        let mut rows = Rows::all(0);
        rows.torso = L::when(self.contact.touches(), none, |_| self.contact.bits(up, x.torso, 0));
        let mut own = [(x.legs[0], none); LEGS];
        for k in 0..LEGS {
            own[k].0 = x.legs[k];
        }
        L::scan(&self.legs, &mut own, (), |leg, (hinges, bits), ()| *bits = leg.rows(up, x.torso, *hinges));
        for k in 0..LEGS {
            rows.legs[k] = own[k].1;
        }
        rows
    }

    /// The acceleration at which the forces balance, if the rows that push are these.
    #[inline(always)]
    fn solve(&self, rows: &Rows<L>) -> Acceleration<L> {
        let (o, up) = (zero::<L>(), self.axes[2]);
        let [mass, across, along] = [f::<L>(TORSO.mass), f::<L>(TORSO.across), f::<L>(TORSO.along)];
        let inertia = Matrix {
            angular: [across, o, o, across, o, along],
            mixed: [[o; 3]; 3],
            linear: [mass, o, o, mass, o, mass],
        };
        let torso = L::when(self.contact.touches(), (inertia, self.force), |link| {
            self.contact.stiffen(link, up, rows.torso, 0)
        });
        let none = Turn { rows: rows.torso, eliminated: [Eliminated::none(); 2], accelerations: [o; 2] };
        let mut turns = [none; LEGS];
        for k in 0..LEGS {
            turns[k].rows = rows.legs[k];
        }
        let torso = L::scan(&self.legs, &mut turns, torso, |leg, turn, torso| {
            let (torso, eliminated) = leg.eliminate(torso, up, turn.rows);
            turn.eliminated = eliminated;
            torso
        });
        let torso = torso.0.solve(torso.1);
        L::scan(&self.legs, &mut turns, (), |leg, turn, ()| {
            turn.accelerations = leg.accelerations(&turn.eliminated, torso);
        });
        let mut x = Acceleration { torso, legs: [[o; 2]; LEGS] };
        for k in 0..LEGS {
            x.legs[k] = turns[k].accelerations;
        }
        x
    }

    /// How far to go on the way between two accelerations for the least cost: `to` is the optimum if the same rows push as at `from`.
    #[inline(always)]
    fn reach(&self, from: &Acceleration<L>, to: &Acceleration<L>) -> L::Float {
        let (o, one) = (zero::<L>(), f::<L>(1.0));
        let step = to.plus(from, -one);
        let [spin, v] = step.torso;
        let turning = [spin[0], spin[1], spin[2] * f::<L>(TORSO.along / TORSO.across)];
        let mass = dot::<L>(spin, turning).mul_add(f::<L>(TORSO.across), dot::<L>(v, v) * f::<L>(TORSO.mass));
        let mut hinges = step.legs;
        let mass =
            L::scan(&self.legs, &mut hinges, mass, |leg, hinges, mass| leg.energy(step.torso, *hinges, mass));
        let mut ends = [[from.legs[0]; 2]; LEGS];
        for k in 0..LEGS {
            ends[k] = [from.legs[k], to.legs[k]];
        }
        let torso = [from.torso, to.torso];
        // Carries `mass`, since a recording unrolls a loop whose first value is constant.
        let (part, ..) = L::repeat(4, (one, o, f::<L>(1e3), mass), |_, (part, low, high, mass)| {
            let way = Way { part, up: self.axes[2] };
            let sums = way.add_contact([(part - one) * mass, mass], &self.contact, torso);
            let mut ends = ends;
            let [slope, bend] =
                L::scan(&self.legs, &mut ends, sums, |leg, ends, sums| way.add_leg(sums, leg, torso, *ends));
            let falls = slope.lt(o);
            let (low, high) = (falls.select(part, low), falls.select(high, part));
            let next = part - slope / bend;
            let is_inside = low.le(next) & next.le(high);
            (is_inside.select(next, (low + high) * f::<L>(0.5)), low, high, mass)
        });
        part
    }

    /// The acceleration, by Newton's method from `a` on: exact as soon as the rows that push stay the same. Also returns whether the solver
    /// reached its bound.
    #[inline(always)]
    pub fn accelerate(&self, a: &[L::Float; 14]) -> ([L::Float; 14], L::Mask) {
        // No rows have all bits, so that the first iteration solves.
        let begin = (self.acceleration(a), Rows::all(u32::MAX), L::Mask::splat(true));
        let (x, _, unsolved) = L::repeat_while(
            TURNS,
            begin,
            |(_, _, changes)| *changes,
            |turn, (x, before, _)| {
                let rows = self.pushing(&x);
                let changes = rows.differ(&before);
                let next = L::when(changes, x, |_| self.solve(&rows));
                let late = changes & turn.ge(L::Uint::splat(SEARCHED));
                let (next, rows) = L::when(late, (next, rows), |(next, rows)| {
                    let part = self.reach(&x, &next);
                    let one = f::<L>(1.0);
                    let whole = part.eq(one);
                    let partly = x.plus(&next.plus(&x, -one), part);
                    (whole.select(next, partly), whole.select(rows, Rows::all(u32::MAX)))
                });
                (next, rows, changes)
            },
        );
        let [turning, moving] = x.torso;
        let [ahead, left, up] = outside::<L>(&self.axes, moving);
        let mut a = *a;
        [a[0], a[1], a[2], a[3], a[4], a[5]] = [ahead, left, up, turning[0], turning[1], turning[2]];
        for k in 0..LEGS {
            [a[6 + 2 * k], a[7 + 2 * k]] = x.legs[k];
        }
        (a, unsolved)
    }

    /// An acceleration in the axes of the torso.
    #[inline(always)]
    pub fn acceleration(&self, a: &[L::Float; 14]) -> Acceleration<L> {
        let torso = [[a[3], a[4], a[5]], inside::<L>(&self.axes, [a[0], a[1], a[2]])];
        let mut legs = [[a[6], a[7]]; LEGS];
        for k in 1..LEGS {
            legs[k] = [a[6 + 2 * k], a[7 + 2 * k]];
        }
        Acceleration { torso, legs }
    }
}
