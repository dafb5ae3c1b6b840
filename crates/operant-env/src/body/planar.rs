//! Bodies that move in a plane: the acceleration of a model under joint limits and contacts, and its motion over time. The physics is that
//! of MuJoCo; docs/bodies.md has the formulas, and the names of the steps here are theirs.
//!
//! A link's inertia is a symmetric matrix over its twist (angular velocity, velocity of the origin along x and z). A contact that is
//! active adds its stiffness to the matrix of its link, so that one routine projects both the mass matrix and the Hessian of the
//! constraint forces onto the joints, and no Jacobian is stored. The origin is below the root, so that nothing depends on its x.

use operant_lane::{Float, Lane, Mask, Uint, bundle};

use super::model::{Dof, Model, Pair};
use super::rows::{Contact, Limit, Rows, Touch, WORDS, closest};

/// A loop over `0..count`. Vector lanes have a copy of the body for each turn, where the constants of the model are operands; a body is
/// too large for the compiler to unroll by itself. Other lanes, whose speed matters less, have a loop, which is quicker to compile.
macro_rules! each {
    ($lane:ty, $count:expr, |$i:ident| $body:block) => {
        if const { <$lane as Lane>::UNROLLS } {
            each!(@ $count, $i $body; 0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15)
        } else {
            for $i in 0..$count $body
        }
    };
    (@ $count:expr, $i:ident $body:block; $($k:literal)*) => {{
        const { assert!($count <= 16, "more turns than copies") };
        $(if const { $k < $count } {
            let $i: usize = $k;
            $body
        })*
    }};
}

/// A vector in the plane: x, z.
pub type Vector<L> = [<L as Lane>::Float; 2];
/// An angular velocity and the velocity of the origin, or a moment about the origin and a force: about y, along x, along z.
pub type Twist<L> = [<L as Lane>::Float; 3];
/// A symmetric matrix over twists, row by row from the diagonal on.
pub type Matrix<L> = [<L as Lane>::Float; 6];
/// The lower triangle of a symmetric matrix over joints.
pub type Joint<L, const D: usize> = [[<L as Lane>::Float; D]; D];

/// Iterations of the solver after which its last iterate stands. 8 were the most in 580,000 evaluations; one usually is enough.
const TURNS: u32 = 12;

#[inline(always)]
pub fn f<L: Lane>(value: f64) -> L::Float {
    L::Float::splat(value)
}

#[inline(always)]
pub fn zero<L: Lane>() -> L::Float {
    f::<L>(0.0)
}

/// Where the links are, and how they move.
pub struct Pose<L: Lane, const N: usize> {
    angle: [L::Float; N],
    /// Sine and cosine of each link's angle.
    turn: [Vector<L>; N],
    /// The point at which each link is joined to its parent.
    anchor: [Vector<L>; N],
    twist: [Twist<L>; N],
    /// What a unit velocity of the link's hinge adds to its twist.
    axis: [Twist<L>; N],
    /// The acceleration of the anchor with joints that do not accelerate, minus gravity.
    pull: [Vector<L>; N],
}

impl<L: Lane, const N: usize> Pose<L, N> {
    /// Where a point of a link is, given from its joint.
    #[inline(always)]
    fn point(&self, link: usize, at: [f64; 2]) -> Vector<L> {
        let [x, z] = turned::<L>(self.turn[link], at);
        [self.anchor[link][0] + x, self.anchor[link][1] + z]
    }
}

/// A body in motion, before its acceleration is known.
pub struct Placed<L: Lane, const N: usize, const D: usize> {
    pose: Pose<L, N>,
    inertias: [Matrix<L>; N],
    /// Forces on the joints but for those of limits and contacts.
    force: [L::Float; D],
}

bundle! {
    /// The motion of a body.
    pub struct Motion<const D: usize> {
        /// Positions of the joints.
        q: [Float; D],
        /// Velocities.
        v: [Float; D],
        /// Accelerations of the last evaluation, from which the solver begins.
        a: [Float; D],
    }
}

/// What a step of the environment does besides the motion.
#[derive(Clone, Copy)]
pub struct Moved<L: Lane, const D: usize> {
    /// The motion after the step.
    pub motion: Motion<L, D>,
    /// How far the root moved along x.
    pub forward: L::Float,
    /// The motion at the last evaluation, which is the last stage of a Runge-Kutta step.
    pub last: Motion<L, D>,
    /// How many evaluations reached the solver's bound.
    pub unsolved: L::Float,
}

/// A body. Its model is a constant of the type, so that it is folded into the code of vector lanes.
pub trait Planar<const N: usize, const D: usize, const P: usize, const S: usize, const A: usize> {
    /// The model.
    const MODEL: &'static Model<N, D, P, S, A>;
    /// The inverse weight of each point's edges of the friction pyramid.
    const EDGE_WEIGHTS: [f64; P] = {
        let (mut weights, mut number) = ([0.0; P], 0);
        while number < P {
            weights[number] = Self::MODEL.points[number].edge_weight();
            number += 1;
        }
        weights
    };

    /// Whether link `j` is on the way from link `i` to the root.
    #[inline(always)]
    fn is_above(j: usize, i: usize) -> bool {
        Self::MODEL.links_above[i] >> j & 1 == 1
    }

    /// Whether joint `j` is on the way from joint `i` to the root.
    #[inline(always)]
    fn supports(j: usize, i: usize) -> bool {
        Self::MODEL.above[i] >> j & 1 == 1
    }

    /// The outward pass: from the root to the ends.
    #[inline(always)]
    fn pose<L: Lane>(q: &[L::Float; D], v: &[L::Float; D]) -> Pose<L, N> {
        let (zero, one) = (zero::<L>(), f::<L>(1.0));
        let mut pose = Pose {
            angle: [zero; N],
            turn: [[zero, one]; N],
            anchor: [[zero; 2]; N],
            twist: [[zero; 3]; N],
            axis: [[zero; 3]; N],
            pull: [[zero; 2]; N],
        };
        each!(L, N, |i| { Self::pose_link::<L>(&mut pose, i, q, v) });
        pose
    }

    #[inline(always)]
    fn pose_link<L: Lane>(pose: &mut Pose<L, N>, i: usize, q: &[L::Float; D], v: &[L::Float; D]) {
        let link = &Self::MODEL.links[i];
        match link.parent {
            None => {
                if Self::MODEL.slides > 0 {
                    pose.twist[i][1] = v[0];
                }
                if Self::MODEL.slides > 1 {
                    pose.anchor[i][1] = q[1] + f::<L>(Self::MODEL.height);
                    pose.twist[i][2] = v[1];
                }
                pose.pull[i] = [f::<L>(-Self::MODEL.gravity[0]), f::<L>(-Self::MODEL.gravity[1])];
            }
            Some(parent) => {
                let offset = turned::<L>(pose.turn[parent], link.anchor);
                let spin = pose.twist[parent][0];
                let square: L::Float = spin * spin;
                for k in 0..2 {
                    pose.anchor[i][k] = pose.anchor[parent][k] + offset[k];
                    pose.pull[i][k] = (-square).mul_add(offset[k], pose.pull[parent][k]);
                }
                pose.angle[i] = pose.angle[parent];
                pose.twist[i] = pose.twist[parent];
                pose.turn[i] = pose.turn[parent];
            }
        }
        if let Some(dof) = link.dof {
            let sign = f::<L>(link.sign);
            let [x, z] = pose.anchor[i];
            pose.angle[i] = q[dof].mul_add(sign, pose.angle[i]);
            let (sin, cos) = pose.angle[i].sin_cos();
            pose.turn[i] = [sin, cos];
            pose.axis[i] = [sign, -(sign * z), sign * x];
            pose.twist[i] = add_scaled::<L>(pose.twist[i], v[dof], pose.axis[i]);
        }
    }

    /// The twists of the links for velocities, or accelerations, of the joints.
    #[inline(always)]
    fn twists<L: Lane>(pose: &Pose<L, N>, v: &[L::Float; D]) -> [Twist<L>; N] {
        let mut twists = [[zero::<L>(); 3]; N];
        each!(L, N, |i| {
            let link = &Self::MODEL.links[i];
            let mut twist = link.parent.map_or([zero::<L>(); 3], |parent| twists[parent]);
            if link.parent.is_none() {
                (0..Self::MODEL.slides).for_each(|slide| twist[1 + slide] = v[slide]);
            }
            if let Some(dof) = link.dof {
                twist = add_scaled::<L>(twist, v[dof], pose.axis[i]);
            }
            twists[i] = twist;
        });
        twists
    }

    /// The inertia of each link about the origin, and what moves it against the joints: centrifugal forces, gravity and drag.
    #[inline(always)]
    fn inertias<L: Lane>(pose: &Pose<L, N>) -> ([Matrix<L>; N], [Twist<L>; N]) {
        let zero = zero::<L>();
        let (mut inertias, mut wrenches) = ([[zero; 6]; N], [[zero; 3]; N]);
        each!(L, N, |i| { (inertias[i], wrenches[i]) = Self::inertia::<L>(pose, i) });
        (inertias, wrenches)
    }

    #[inline(always)]
    fn inertia<L: Lane>(pose: &Pose<L, N>, i: usize) -> (Matrix<L>, Twist<L>) {
        let zero = zero::<L>();
        let link = &Self::MODEL.links[i];
        let arm = turned::<L>(pose.turn[i], link.com);
        let [x, z] = [pose.anchor[i][0] + arm[0], pose.anchor[i][1] + arm[1]];
        let mass = f::<L>(link.mass);
        let [mx, mz] = [mass * x, mass * z];
        let inertia = [mx.mul_add(x, mz.mul_add(z, f::<L>(link.inertia))), mz, -mx, mass, zero, mass];
        let [spin, ahead, up] = pose.twist[i];
        let square: L::Float = spin * spin;
        let [px, pz] = pose.pull[i];
        let mut force = [(-square).mul_add(arm[0], px) * mass, (-square).mul_add(arm[1], pz) * mass];
        let mut moment = zero;
        if let Some(fluid) = &Self::MODEL.fluid {
            let [sin, cos] = pose.turn[i];
            let [vx, vz] = [spin.mul_add(z, ahead), (-spin).mul_add(x, up)];
            let [along, across] = [vx * cos - vz * sin, vx * sin + vz * cos];
            let drag = |v: L::Float, [quadratic, linear]: [f64; 2]| {
                v.abs().mul_add(f::<L>(quadratic), f::<L>(linear)) * v
            };
            let [a, b] = [drag(along, fluid.along), drag(across, fluid.across)];
            force[0] = force[0] + (a * cos + b * sin);
            force[1] = force[1] + (b * cos - a * sin);
            moment = drag(spin, fluid.turning);
        }
        (inertia, [moment + (z * force[0] - x * force[1]), force[0], force[1]])
    }

    /// The inward pass of matrices: onto the joints, with `diagonal` added to the diagonal.
    #[inline(always)]
    fn project<L: Lane>(
        pose: &Pose<L, N>,
        mut of_links: [Matrix<L>; N],
        diagonal: [L::Float; D],
    ) -> Joint<L, D> {
        let mut matrix = [[zero::<L>(); D]; D];
        each!(L, N, |k| { Self::project_link::<L>(&mut matrix, pose, &mut of_links, &diagonal, N - 1 - k) });
        matrix
    }

    #[inline(always)]
    fn project_link<L: Lane>(
        matrix: &mut Joint<L, D>,
        pose: &Pose<L, N>,
        of_links: &mut [Matrix<L>; N],
        diagonal: &[L::Float; D],
        i: usize,
    ) {
        let (link, own) = (&Self::MODEL.links[i], of_links[i]);
        if let Some(dof) = link.dof {
            let force = times::<L>(own, pose.axis[i]);
            matrix[dof][dof] = dot::<L>(pose.axis[i], force) + diagonal[dof];
            each!(L, N, |j| {
                if let (true, Some(other)) = (Self::is_above(j, i), Self::MODEL.links[j].dof) {
                    matrix[dof][other] = dot::<L>(pose.axis[j], force);
                }
            });
            matrix[dof][..Self::MODEL.slides].copy_from_slice(&force[1..1 + Self::MODEL.slides]);
        }
        match link.parent {
            Some(parent) => {
                for k in 0..6 {
                    of_links[parent][k] = of_links[parent][k] + own[k];
                }
            }
            None => {
                if Self::MODEL.slides > 0 {
                    matrix[0][0] = own[3] + diagonal[0];
                }
                if Self::MODEL.slides > 1 {
                    matrix[1][0] = own[4];
                    matrix[1][1] = own[5] + diagonal[1];
                }
            }
        }
    }

    /// The inward pass of wrenches.
    #[inline(always)]
    fn collect<L: Lane>(pose: &Pose<L, N>, mut wrenches: [Twist<L>; N]) -> [L::Float; D] {
        let mut forces = [zero::<L>(); D];
        each!(L, N, |k| {
            let i = N - 1 - k;
            let (link, own) = (&Self::MODEL.links[i], wrenches[i]);
            if let Some(dof) = link.dof {
                forces[dof] = dot::<L>(pose.axis[i], own);
            }
            match link.parent {
                Some(parent) => {
                    for k in 0..3 {
                        wrenches[parent][k] = wrenches[parent][k] + own[k];
                    }
                }
                None => forces[..Self::MODEL.slides].copy_from_slice(&own[1..1 + Self::MODEL.slides]),
            }
        });
        forces
    }

    /// Solves `matrix x = b`: `L' D L`, eliminated from the ends to the root, which fills in nothing where two legs meet.
    #[inline(always)]
    fn solve<L: Lane>(mut matrix: Joint<L, D>, mut b: [L::Float; D]) -> [L::Float; D] {
        each!(L, D, |k| { Self::eliminate::<L>(&mut matrix, &mut b, D - 1 - k) });
        each!(L, D, |k| {
            each!(L, D, |row| {
                if Self::supports(row, k) {
                    b[k] = (-matrix[k][row]).mul_add(b[row], b[k]);
                }
            });
        });
        b
    }

    #[inline(always)]
    fn eliminate<L: Lane>(matrix: &mut Joint<L, D>, b: &mut [L::Float; D], k: usize) {
        let inverse = f::<L>(1.0) / matrix[k][k];
        each!(L, D, |row| {
            if Self::supports(row, k) {
                let part = matrix[k][row] * inverse;
                Self::eliminate_row::<L>(matrix, k, row, part);
                b[row] = (-part).mul_add(b[k], b[row]);
            }
        });
        each!(L, D, |row| {
            if Self::supports(row, k) {
                matrix[k][row] = matrix[k][row] * inverse;
            }
        });
        b[k] = b[k] * inverse;
    }

    #[inline(always)]
    fn eliminate_row<L: Lane>(matrix: &mut Joint<L, D>, k: usize, row: usize, part: L::Float) {
        each!(L, D, |column| {
            if column == row || (column < row && Self::supports(column, row)) {
                matrix[row][column] = (-part).mul_add(matrix[k][column], matrix[row][column]);
            }
        });
    }

    #[inline(always)]
    fn limit<L: Lane>(dof: &Dof, q: L::Float, v: L::Float) -> Limit<L> {
        let Some([low, high]) = dof.range else { return Limit::none() };
        let [below, above] = [q - f::<L>(low), f::<L>(high) - q];
        let is_low = below.lt(above);
        let side = is_low.select(f::<L>(1.0), f::<L>(-1.0));
        let r = is_low.select(below, above) - f::<L>(dof.margin);
        let [stiffness, reference] = L::when(r.lt(zero::<L>()), [zero::<L>(); 2], |_| {
            let [stiffness, spring] = Self::MODEL.limits.of::<L>(r, dof.weight);
            [stiffness, f::<L>(-Self::MODEL.limits.damping()).mul_add(side * v, spring)]
        });
        Limit { side, stiffness, reference }
    }

    #[inline(always)]
    fn contact<L: Lane>(pose: &Pose<L, N>, number: usize) -> Contact<L> {
        let point = &Self::MODEL.points[number];
        let [x, centre] = pose.point(point.link, point.at);
        let height = centre - f::<L>(point.radius);
        let r = height - f::<L>(Self::MODEL.margin);
        let z = height * f::<L>(0.5);
        let [stiffness, normal, along] = L::when(r.lt(zero::<L>()), [zero::<L>(); 3], |_| {
            let [stiffness, spring] = Self::MODEL.contacts.of::<L>(r, Self::EDGE_WEIGHTS[number]);
            let damping = f::<L>(-Self::MODEL.contacts.damping());
            let [spin, ahead, up] = pose.twist[point.link];
            let [normal, along] = [(-spin).mul_add(x, up), spin.mul_add(z, ahead)];
            [stiffness, damping.mul_add(normal, spring), damping * along]
        });
        Contact { at: [x, z], stiffness, reference: [normal, along] }
    }

    #[inline(always)]
    fn touch<L: Lane>(pose: &Pose<L, N>, pair: &Pair) -> Touch<L> {
        let [first, second]: [[Vector<L>; 2]; 2] =
            core::array::from_fn(|k| pair.ends[k].map(|at| pose.point(pair.links[k], at)));
        let radius = pair.radii[0] + pair.radii[1];
        let middle = |ends: &[Vector<L>; 2], k: usize| (ends[0][k] + ends[1][k]) * f::<L>(0.5);
        let [dx, dz] = [0, 1].map(|k| middle(&second, k) - middle(&first, k));
        let reach = pair.reach + Self::MODEL.margin;
        let none = [zero::<L>(); 5];
        let near = dx.mul_add(dx, dz * dz).lt(f::<L>(reach * reach));
        let [moment, x, z, stiffness, reference] = L::when(near, none, |none| {
            let (from, gap, is_apart) = closest::<L>(first, second);
            let distance = gap[0].mul_add(gap[0], gap[1] * gap[1]).sqrt();
            let r = distance - f::<L>(radius + Self::MODEL.margin);
            L::when(r.lt(zero::<L>()) & is_apart & distance.gt(zero::<L>()), none, |_| {
                let normal = gap.map(|part| part / distance);
                let half = (distance - f::<L>(radius)).mul_add(f::<L>(0.5), f::<L>(pair.radii[0]));
                let at: Vector<L> = core::array::from_fn(|k| normal[k].mul_add(half, from[k]));
                let wrench = [at[1] * normal[0] - at[0] * normal[1], normal[0], normal[1]];
                let [stiffness, spring] = Self::MODEL.contacts.of::<L>(r, pair.weight);
                let [a, b] = pair.links.map(|link| dot::<L>(pose.twist[link], wrench));
                let reference = f::<L>(-Self::MODEL.contacts.damping()).mul_add(b - a, spring);
                [wrench[0], wrench[1], wrench[2], stiffness, reference]
            })
        });
        Touch { wrench: [moment, x, z], stiffness, reference }
    }

    /// Everything that does not depend on the acceleration.
    #[inline(always)]
    fn place<L: Lane>(q: &[L::Float; D], v: &[L::Float; D], control: &[L::Float; A]) -> Placed<L, N, D> {
        let pose = Self::pose::<L>(q, v);
        let (inertias, wrenches) = Self::inertias::<L>(&pose);
        let bias = Self::collect::<L>(&pose, wrenches);
        let mut force = bias;
        each!(L, D, |k| {
            let dof = &Self::MODEL.dofs[k];
            force[k] = -force[k];
            if dof.stiffness != 0.0 {
                force[k] = q[k].mul_add(f::<L>(-dof.stiffness), force[k]);
            }
            if dof.damping != 0.0 {
                force[k] = v[k].mul_add(f::<L>(-dof.damping), force[k]);
            }
            if let Some(motor) = k.checked_sub(Self::MODEL.driven).filter(|motor| *motor < A) {
                force[k] = control[motor].mul_add(f::<L>(Self::MODEL.gears[motor]), force[k]);
            }
        });
        Placed { pose, inertias, force }
    }

    /// The forces on the joints that give the acceleration `x`, but for those in `pushes` on the links.
    #[inline(always)]
    fn forces_for<L: Lane>(
        placed: &Placed<L, N, D>,
        twists: &[Twist<L>; N],
        x: &[L::Float; D],
        pushes: [Twist<L>; N],
    ) -> [L::Float; D] {
        let mut needed = pushes;
        each!(L, N, |i| {
            let inertia = times::<L>(placed.inertias[i], twists[i]);
            for k in 0..3 {
                needed[i][k] = inertia[k] - needed[i][k];
            }
        });
        let mut forces = Self::collect::<L>(&placed.pose, needed);
        each!(L, D, |k| {
            if Self::MODEL.dofs[k].armature != 0.0 {
                forces[k] = x[k].mul_add(f::<L>(Self::MODEL.dofs[k].armature), forces[k]);
            }
        });
        forces
    }

    /// The force of its limits on a joint; 0 where none pushes.
    #[inline(always)]
    fn limit_force<L: Lane>(motion: &Motion<L, D>, k: usize) -> L::Float {
        let limit = Self::limit::<L>(&Self::MODEL.dofs[k], motion.q[k], motion.v[k]);
        let short = limit.side.mul_add(motion.a[k], -limit.reference);
        -(short.min(zero::<L>()) * limit.stiffness * limit.side)
    }

    /// The acceleration. Its forces of limits and contacts are the optimum of a convex problem. Newton's method with whole steps is exact as
    /// soon as the rows that push stay the same. Also returns whether the solver reached its bound.
    #[inline(always)]
    fn accelerate<L: Lane>(placed: &Placed<L, N, D>, motion: &Motion<L, D>) -> ([L::Float; D], L::Mask) {
        let Motion { q, v, a } = motion;
        let Placed { pose, inertias, force } = placed;
        let zero = zero::<L>();
        let mut limits = [Limit::<L>::none(); D];
        each!(L, D, |k| { limits[k] = Self::limit::<L>(&Self::MODEL.dofs[k], q[k], v[k]) });
        let mut contacts = [Contact::<L>::none(); P];
        each!(L, P, |number| { contacts[number] = Self::contact::<L>(pose, number) });
        let mut touches = [Touch::<L>::none(); S];
        each!(L, S, |number| { touches[number] = Self::touch::<L>(pose, &Self::MODEL.pairs[number]) });

        // Forces on links and joints for an acceleration, with the stiffness of the rows that push, and one bit for each of these.
        let rows = |x: &[L::Float; D]| {
            let twists = Self::twists::<L>(pose, x);
            let (mut matrices, mut pushes) = (*inertias, [[zero; 3]; N]);
            let mut active = Rows::<L> { words: [L::Uint::splat(0); WORDS], next: 0 };
            let (mut diagonal, mut forces) = ([zero; D], [zero; D]);
            each!(L, D, |k| { diagonal[k] = f::<L>(Self::MODEL.dofs[k].armature) });
            each!(L, D, |k| {
                if Self::MODEL.dofs[k].range.is_some() {
                    let limit = &limits[k];
                    let short = limit.side.mul_add(x[k], -limit.reference);
                    let pushes = short.lt(zero) & limit.stiffness.gt(zero);
                    active.note(pushes);
                    let stiffness = pushes.select(limit.stiffness, zero);
                    diagonal[k] = diagonal[k] + stiffness;
                    forces[k] = -(stiffness * short * limit.side);
                }
            });
            each!(L, P, |number| {
                let (point, contact) = (&Self::MODEL.points[number], &contacts[number]);
                let link = point.link;
                let friction = f::<L>(point.friction);
                let value = (matrices[link], pushes[link], [L::Mask::splat(false); 3]);
                let (matrix, push, edges) =
                    L::when(contact.stiffness.gt(zero), value, |(mut matrix, mut push, _)| {
                        let [spin, ahead, up] = twists[link];
                        let [x, z] = contact.at;
                        let u = (-spin).mul_add(x, up) - contact.reference[0];
                        let s = (spin.mul_add(z, ahead) - contact.reference[1]) * friction;
                        let sides = [u + s, u - s, u];
                        let edges = [sides[0].lt(zero), sides[1].lt(zero), sides[2].lt(zero)];
                        let [a, b, c] = [sides[0].min(zero), sides[1].min(zero), sides[2].min(zero)];
                        let stiff = |edge: L::Mask| edge.select(contact.stiffness, zero);
                        let [ha, hb, hc] = [stiff(edges[0]), stiff(edges[1]), stiff(edges[2])];
                        let normal = (a + b + (c + c)) * contact.stiffness;
                        let along = (a - b) * (friction * contact.stiffness);
                        push[0] = push[0] + (x * normal - z * along);
                        push[1] = push[1] - along;
                        push[2] = push[2] - normal;
                        let sum = ha + hb;
                        let [nn, nt, tt] =
                            [sum + (hc + hc), (ha - hb) * friction, sum * (friction * friction)];
                        // The rows of the normal and the floor over twists are (-x, 0, 1) and (z, 1, 0).
                        let [wx, wz] = [z * tt - x * nt, z * nt - x * nn];
                        let added = [z * wx - x * wz, wx, wz, tt, nt, nn];
                        for k in 0..6 {
                            matrix[k] = matrix[k] + added[k];
                        }
                        (matrix, push, edges)
                    });
                (matrices[link], pushes[link]) = (matrix, push);
                active.note(edges[0]);
                active.note(edges[1]);
                active.note(edges[2]);
            });
            let mut touching = [zero; S];
            each!(L, S, |number| {
                let (pair, touch) = (&Self::MODEL.pairs[number], &touches[number]);
                let [a, b] = pair.links.map(|link| dot::<L>(twists[link], touch.wrench));
                let short = (b - a) - touch.reference;
                let pushes_apart = short.lt(zero) & touch.stiffness.gt(zero);
                active.note(pushes_apart);
                touching[number] = pushes_apart.select(touch.stiffness, zero);
                let force = touching[number] * short;
                for k in 0..3 {
                    let part = force * touch.wrench[k];
                    pushes[pair.links[0]][k] = pushes[pair.links[0]][k] + part;
                    pushes[pair.links[1]][k] = pushes[pair.links[1]][k] - part;
                }
            });
            (twists, matrices, diagonal, pushes, forces, touching, active.words)
        };

        // No rows have all bits, so that the first turn solves.
        let begin = (*a, [L::Uint::splat(u32::MAX); WORDS], L::Mask::splat(true));
        let (x, _, unsolved) = L::repeat_while(
            TURNS,
            begin,
            |(_, _, changes)| *changes,
            |_, (x, before, _)| {
                let (twists, matrices, diagonal, pushes, forces, touching, bits) = rows(&x);
                let changes = !(bits[0].eq(before[0]) & bits[1].eq(before[1]));
                let x = L::when(changes, x, |x| {
                    let needed = Self::forces_for::<L>(placed, &twists, &x, pushes);
                    let mut missing = needed;
                    for k in 0..D {
                        missing[k] = (force[k] + forces[k]) - missing[k];
                    }
                    let mut hessian = Self::project::<L>(pose, matrices, diagonal);
                    each!(L, S, |number| {
                        hessian = Self::stiffen::<L>(
                            hessian,
                            pose,
                            &Self::MODEL.pairs[number],
                            &touches[number],
                            touching[number],
                        );
                    });
                    add_times::<L, D>(&x, &Self::solve::<L>(hessian, missing), f::<L>(1.0))
                });
                (x, bits, changes)
            },
        );
        (x, unsolved)
    }

    /// Adds the stiffness of two links that touch to the joints between them.
    #[inline(always)]
    fn stiffen<L: Lane>(
        hessian: Joint<L, D>,
        pose: &Pose<L, N>,
        pair: &Pair,
        touch: &Touch<L>,
        stiffness: L::Float,
    ) -> Joint<L, D> {
        L::when(stiffness.gt(zero::<L>()), hessian, |mut hessian| {
            // What a unit acceleration of each joint between them does along the normal.
            let mut row = [zero::<L>(); D];
            let mut link = pair.links[1];
            while link != pair.links[0] {
                if let Some(dof) = Self::MODEL.links[link].dof {
                    row[dof] = dot::<L>(pose.axis[link], touch.wrench);
                }
                link = Self::MODEL.links[link].parent.expect("the first link is above the second");
            }
            let (from, to) = (Self::MODEL.links[pair.links[0]].dof, Self::MODEL.links[pair.links[1]].dof);
            let between = from.map_or(0, |dof| dof + 1)..=to.expect("a hinge");
            for i in between.clone() {
                for j in *between.start()..=i {
                    hessian[i][j] = (stiffness * row[i]).mul_add(row[j], hessian[i][j]);
                }
            }
            hessian
        })
    }

    /// A body with its acceleration.
    #[inline(always)]
    fn at_once<L: Lane>(motion: Motion<L, D>, control: &[L::Float; A]) -> Motion<L, D> {
        let placed = Self::place::<L>(&motion.q, &motion.v, control);
        let (a, _) = Self::accelerate::<L>(&placed, &motion);
        Motion { a, ..motion }
    }

    /// Where a point of a link is, given from its joint: from the floor below the root.
    fn point<L: Lane>(q: &[L::Float; D], link: usize, at: [f64; 2]) -> [L::Float; 2] {
        Self::pose::<L>(q, &[zero::<L>(); D]).point(link, at)
    }

    /// One time step of the Euler method, with the damping of the joints implicit.
    #[inline(always)]
    fn euler<L: Lane>(motion: &Motion<L, D>, control: &[L::Float; A]) -> Moved<L, D> {
        let h = Self::MODEL.timestep;
        let placed = Self::place::<L>(&motion.q, &motion.v, control);
        let (a, unsolved) = Self::accelerate::<L>(&placed, motion);
        let twists = Self::twists::<L>(&placed.pose, &a);
        let all = Self::forces_for::<L>(&placed, &twists, &a, [[zero::<L>(); 3]; N]);
        let mut diagonal = [zero::<L>(); D];
        each!(L, D, |k| {
            diagonal[k] = f::<L>(Self::MODEL.dofs[k].armature + h * Self::MODEL.dofs[k].damping)
        });
        let damped = Self::solve::<L>(Self::project::<L>(&placed.pose, placed.inertias, diagonal), all);
        let v = add_times::<L, D>(&motion.v, &damped, f::<L>(h));
        let q = add_times::<L, D>(&motion.q, &v, f::<L>(h));
        let last = Motion { q: motion.q, v: motion.v, a };
        Moved {
            motion: Motion { q, v, a },
            forward: v[0] * f::<L>(h),
            last,
            unsolved: unsolved.select(f::<L>(1.0), zero::<L>()),
        }
    }

    /// One time step of the classical method of Runge and Kutta.
    #[inline(always)]
    fn runge_kutta<L: Lane>(motion: &Motion<L, D>, control: &[L::Float; A]) -> Moved<L, D> {
        let h = Self::MODEL.timestep;
        let none = [zero::<L>(); D];
        let begin = (motion.q, (motion.v, motion.a), (none, none), zero::<L>());
        let (q, (v, a), (sum_v, sum_a), unsolved) =
            L::repeat(4, begin, |stage, (_, (slope, a), (sum_v, sum_a), unsolved)| {
                let is = |number: u32| stage.eq(L::Uint::splat(number));
                let reach = is(0).select(zero::<L>(), is(3).select(f::<L>(h), f::<L>(0.5 * h)));
                let weight = (is(0) | is(3)).select(f::<L>(1.0), f::<L>(2.0));
                let q = add_times::<L, D>(&motion.q, &slope, reach);
                let v = add_times::<L, D>(&motion.v, &a, reach);
                let placed = Self::place::<L>(&q, &v, control);
                let (a, missed) = Self::accelerate::<L>(&placed, &Motion { q, v, a });
                let unsolved = unsolved + missed.select(f::<L>(1.0), zero::<L>());
                let sums = (add_times::<L, D>(&sum_v, &v, weight), add_times::<L, D>(&sum_a, &a, weight));
                (q, (v, a), sums, unsolved)
            });
        let sixth = f::<L>(h / 6.0);
        Moved {
            motion: Motion {
                q: add_times::<L, D>(&motion.q, &sum_v, sixth),
                v: add_times::<L, D>(&motion.v, &sum_a, sixth),
                a,
            },
            forward: sum_v[0] * sixth,
            last: Motion { q, v, a },
            unsolved,
        }
    }

    /// Moves the body for `count` time steps with the same control, which is held to its range.
    #[inline(always)]
    fn advance<L: Lane, const EULER: bool>(
        motion: Motion<L, D>,
        control: &[L::Float; A],
        count: u32,
    ) -> Moved<L, D> {
        let range = f::<L>(Self::MODEL.control);
        let mut control = *control;
        control.iter_mut().for_each(|part| *part = part.clamp(-range, range));
        let begin = (motion, motion, zero::<L>(), zero::<L>());
        let (motion, last, forward, unsolved) =
            L::repeat(count, begin, |_, (motion, _, forward, unsolved)| {
                let moved = if const { EULER } {
                    Self::euler::<L>(&motion, &control)
                } else {
                    Self::runge_kutta::<L>(&motion, &control)
                };
                (moved.motion, moved.last, forward + moved.forward, unsolved + moved.unsolved)
            });
        Moved { motion, forward, last, unsolved }
    }
}

/// `a + factor b`.
#[inline(always)]
fn add_times<L: Lane, const D: usize>(
    a: &[L::Float; D],
    b: &[L::Float; D],
    factor: L::Float,
) -> [L::Float; D] {
    let mut sum = *b;
    for k in 0..D {
        sum[k] = b[k].mul_add(factor, a[k]);
    }
    sum
}

/// A vector of a link in the axes of the world.
#[inline(always)]
fn turned<L: Lane>(turn: Vector<L>, [a, b]: [f64; 2]) -> Vector<L> {
    let [sin, cos] = turn;
    match (a, b) {
        (0.0, 0.0) => [zero::<L>(); 2],
        (0.0, b) => [sin * f::<L>(b), cos * f::<L>(b)],
        (a, 0.0) => [cos * f::<L>(a), sin * f::<L>(-a)],
        (a, b) => [sin.mul_add(f::<L>(b), cos * f::<L>(a)), sin.mul_add(f::<L>(-a), cos * f::<L>(b))],
    }
}

#[inline(always)]
fn add_scaled<L: Lane>(to: Twist<L>, by: L::Float, twist: Twist<L>) -> Twist<L> {
    [twist[0].mul_add(by, to[0]), twist[1].mul_add(by, to[1]), twist[2].mul_add(by, to[2])]
}

#[inline(always)]
fn dot<L: Lane>(a: Twist<L>, b: Twist<L>) -> L::Float {
    a[2].mul_add(b[2], a[1].mul_add(b[1], a[0] * b[0]))
}

#[inline(always)]
fn times<L: Lane>([ww, wx, wz, xx, xz, zz]: Matrix<L>, by: Twist<L>) -> Twist<L> {
    [dot::<L>([ww, wx, wz], by), dot::<L>([wx, xx, xz], by), dot::<L>([wz, xz, zz], by)]
}
