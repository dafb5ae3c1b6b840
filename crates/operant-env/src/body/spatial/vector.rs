//! Vectors in space, twists, symmetric matrices, and orientations.

use operant_lane::{Float, Lane, Mask};

use crate::body::planar::{f, zero};

/// A vector in the torso's axes.
pub type Vector<L> = [<L as Lane>::Float; 3];
/// An angular velocity and the velocity of what is at the torso's centre, or a moment about that and a force.
pub type Twist<L> = [Vector<L>; 2];
/// A symmetric matrix over vectors, row by row from the diagonal on.
pub type Symmetric<L> = [<L as Lane>::Float; 6];

/// Where an entry of a [`Symmetric`] matrix is.
pub const AT: [[usize; 3]; 3] = [[0, 1, 2], [1, 3, 4], [2, 4, 5]];

#[inline(always)]
pub fn dot<L: Lane>(a: Vector<L>, b: Vector<L>) -> L::Float {
    a[2].mul_add(b[2], a[1].mul_add(b[1], a[0] * b[0]))
}

#[inline(always)]
pub fn cross<L: Lane>(a: Vector<L>, b: Vector<L>) -> Vector<L> {
    [
        (-a[2]).mul_add(b[1], a[1] * b[2]),
        (-a[0]).mul_add(b[2], a[2] * b[0]),
        (-a[1]).mul_add(b[0], a[0] * b[1]),
    ]
}

/// `a + factor b`.
#[inline(always)]
pub fn add_times<L: Lane, const D: usize>(
    a: [L::Float; D],
    b: [L::Float; D],
    factor: L::Float,
) -> [L::Float; D] {
    let mut sum = a;
    for k in 0..D {
        sum[k] = b[k].mul_add(factor, a[k]);
    }
    sum
}

#[inline(always)]
pub fn sum<L: Lane, const D: usize>(a: [L::Float; D], b: [L::Float; D]) -> [L::Float; D] {
    let mut sum = a;
    for k in 0..D {
        sum[k] = a[k] + b[k];
    }
    sum
}

#[inline(always)]
pub fn scaled<L: Lane>(a: Vector<L>, factor: L::Float) -> Vector<L> {
    [a[0] * factor, a[1] * factor, a[2] * factor]
}

#[inline(always)]
pub fn times<L: Lane>(a: Symmetric<L>, b: Vector<L>) -> Vector<L> {
    [dot::<L>([a[0], a[1], a[2]], b), dot::<L>([a[1], a[3], a[4]], b), dot::<L>([a[2], a[4], a[5]], b)]
}

/// The acceleration of a point at `arm` from one that does not accelerate.
#[inline(always)]
pub fn swing<L: Lane>(spin: Vector<L>, turning: Vector<L>, arm: Vector<L>) -> Vector<L> {
    let inward = add_times::<L, 3>(cross::<L>(turning, arm), spin, dot::<L>(spin, arm));
    add_times::<L, 3>(inward, arm, -dot::<L>(spin, spin))
}

/// The axes of the world in those of a body with this orientation.
#[inline(always)]
pub fn axes<L: Lane>([w, x, y, z]: [L::Float; 4]) -> [Vector<L>; 3] {
    let two = f::<L>(2.0);
    let one = f::<L>(1.0);
    let [x2, y2, z2] = [x * two, y * two, z * two];
    let diagonal = |a: L::Float, b: L::Float| one - (a + b);
    let [xx, yy, zz] = [x * x2, y * y2, z * z2];
    let [xy, xz, yz] = [x * y2, x * z2, y * z2];
    let [wx, wy, wz] = [w * x2, w * y2, w * z2];
    [
        [diagonal(yy, zz), xy - wz, xz + wy],
        [xy + wz, diagonal(xx, zz), yz - wx],
        [xz - wy, yz + wx, diagonal(xx, yy)],
    ]
}

/// A vector of the world in the torso's axes.
#[inline(always)]
pub fn inside<L: Lane>(axes: &[Vector<L>; 3], v: Vector<L>) -> Vector<L> {
    add_times::<L, 3>(add_times::<L, 3>(scaled::<L>(axes[0], v[0]), axes[1], v[1]), axes[2], v[2])
}

/// The inverse of [`inside`].
#[inline(always)]
pub fn outside<L: Lane>(axes: &[Vector<L>; 3], v: Vector<L>) -> Vector<L> {
    [dot::<L>(axes[0], v), dot::<L>(axes[1], v), dot::<L>(axes[2], v)]
}

/// An orientation, a quaternion, turned about its own axes; its length becomes 1.
#[inline(always)]
pub fn turned<L: Lane>([w, x, y, z]: [L::Float; 4], turn: Vector<L>) -> [L::Float; 4] {
    let angle = dot::<L>(turn, turn).sqrt();
    let (sin, c) = (angle * f::<L>(0.5)).sin_cos();
    let part = angle.gt(f::<L>(1e-12)).select(sin / angle, f::<L>(0.5));
    let [a, b, d] = scaled::<L>(turn, part);
    let mut next = [
        w * c - dot::<L>([x, y, z], [a, b, d]),
        w * a + x * c + y * d - z * b,
        w * b + y * c + z * a - x * d,
        w * d + z * c + x * b - y * a,
    ];
    let mut square = zero::<L>();
    for k in 0..4 {
        square = next[k].mul_add(next[k], square);
    }
    let length = f::<L>(1.0) / square.sqrt();
    for k in 0..4 {
        next[k] = next[k] * length;
    }
    next
}
