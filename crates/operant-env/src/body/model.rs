//! What a body in a plane is made of: tables to be read beside the model's XML. Lengths in m, masses in kg, angles in rad, moments of
//! inertia in kg m^2. Model axes: x forward, z up, angles about y.

/// Acceleration of gravity, m/s^2.
pub const GRAVITY: f64 = 9.81;
/// A degree, rad.
pub const DEGREE: f64 = core::f64::consts::PI / 180.0;

/// A body: N links, D joints, P points that may touch the floor, S pairs of links that may touch each other, A motors.
#[derive(Debug)]
pub struct Model<const N: usize, const D: usize, const P: usize, const S: usize, const A: usize> {
    /// The links; a parent stands before its children.
    pub links: [Link; N],
    /// The joints: the slides of the root first, then the hinges from the root to the ends.
    pub dofs: [Dof; D],
    /// How many of the joints are slides of the root: along x, then along z.
    pub slides: usize,
    /// The root's height where its slide is at 0.
    pub height: f64,
    /// The points that may touch the floor, the two ends of a capsule one after the other.
    pub points: [Point; P],
    /// The pairs of links that may touch each other.
    pub pairs: [Pair; S],
    /// Distance at which contacts begin to push.
    pub margin: f64,
    /// Contacts.
    pub contacts: Impedance,
    /// Limits of joints.
    pub limits: Impedance,
    /// Acceleration of gravity.
    pub gravity: [f64; 2],
    /// What the links move through.
    pub fluid: Option<Fluid>,
    /// The joint of the first motor; the others follow.
    pub driven: usize,
    /// Force or torque of each motor at a control of 1.
    pub gears: [f64; A],
    /// The largest control.
    pub control: f64,
    /// Time step, s.
    pub timestep: f64,
    /// For each link those on the way to the root, as bits.
    pub links_above: [u32; N],
    /// For each joint those on the way to the root, as bits; [`above`] computes both.
    pub above: [u32; D],
}

impl<const N: usize, const D: usize, const P: usize, const S: usize, const A: usize> Model<N, D, P, S, A> {
    /// Environment steps per second.
    pub fn fps(&self, frame_skip: u32) -> f32 {
        (1.0 / (self.timestep * f64::from(frame_skip))) as f32
    }
}

/// A rigid body.
#[derive(Debug, Clone, Copy)]
pub struct Link {
    /// The link that it is joined to; None for the root.
    pub parent: Option<usize>,
    /// Its hinge; None if it does not turn against its parent.
    pub dof: Option<usize>,
    /// 1 or -1: the sense of the hinge about y.
    pub sign: f64,
    /// Where it is joined to its parent, in the parent's axes from the parent's own joint.
    pub anchor: [f64; 2],
    /// Mass.
    pub mass: f64,
    /// Centre of mass, from its joint.
    pub com: [f64; 2],
    /// Moment of inertia about the centre of mass.
    pub inertia: f64,
}

impl Link {
    /// A link with a hinge that turns by `sign` about y.
    pub const fn hinged(
        parent: Option<usize>,
        dof: usize,
        sign: f64,
        anchor: [f64; 2],
        [mass, inertia]: [f64; 2],
        com: [f64; 2],
    ) -> Self {
        Link { parent, dof: Some(dof), sign, anchor, mass, com, inertia }
    }

    /// A root that slides and does not turn.
    pub const fn cart(mass: f64) -> Self {
        Link { parent: None, dof: None, sign: 1.0, anchor: [0.0; 2], mass, com: [0.0; 2], inertia: 0.0 }
    }
}

/// A joint.
#[derive(Debug, Clone, Copy)]
pub struct Dof {
    /// Its limits.
    pub range: Option<[f64; 2]>,
    /// Distance from a limit at which it begins to push.
    pub margin: f64,
    /// Of a spring that rests at 0.
    pub stiffness: f64,
    /// Force per velocity.
    pub damping: f64,
    /// Inertia of its motor.
    pub armature: f64,
    /// Its inverse inertia in the initial pose, which sets the stiffness of its limits.
    pub weight: f64,
}

impl Dof {
    /// A joint without limits, spring, damping and motor.
    pub const FREE: Self =
        Dof { range: None, margin: 0.0, stiffness: 0.0, damping: 0.0, armature: 0.0, weight: 1.0 };

    /// A joint with limits and no spring.
    pub const fn limited(range: [f64; 2], damping: f64, armature: f64, weight: f64) -> Self {
        Dof { range: Some(range), margin: 0.0, stiffness: 0.0, damping, armature, weight }
    }
}

/// The centre of a ball that may touch the floor: an end of a capsule.
#[derive(Debug, Clone, Copy)]
pub struct Point {
    /// Its link.
    pub link: usize,
    /// Where it is, from the link's joint.
    pub at: [f64; 2],
    /// Radius of the ball.
    pub radius: f64,
    /// Coefficient of friction.
    pub friction: f64,
    /// The link's inverse inertia in the initial pose.
    pub weight: f64,
}

impl Point {
    /// The inverse weight of an edge of the friction pyramid.
    pub const fn edge_weight(&self) -> f64 {
        let square = self.friction * self.friction;
        2.0 * square * (1.0 + square) * self.weight
    }
}

/// Two capsules of one chain that may touch each other, without friction.
#[derive(Debug, Clone, Copy)]
pub struct Pair {
    /// The link nearer to the root, and the other.
    pub links: [usize; 2],
    /// The ends of their axes, from their joints.
    pub ends: [[[f64; 2]; 2]; 2],
    /// Their radii.
    pub radii: [f64; 2],
    /// The sum of the links' inverse inertias in the initial pose.
    pub weight: f64,
    /// The distance of the axes' middles beyond which the capsules do not touch.
    pub reach: f64,
}

impl Pair {
    /// The capsules whose ends begin with these points.
    pub const fn of(points: &[Point], first: usize, second: usize) -> Self {
        let [a, b] = [points[first], points[second]];
        let ends = [[a.at, points[first + 1].at], [b.at, points[second + 1].at]];
        Pair {
            links: [a.link, b.link],
            ends,
            radii: [a.radius, b.radius],
            weight: a.weight + b.weight,
            reach: a.radius + b.radius + (half(ends[0]) + half(ends[1])),
        }
    }
}

/// Half the length of an axis, or more if it is not along one of the link's axes.
const fn half([a, b]: [[f64; 2]; 2]) -> f64 {
    0.5 * ((b[0] - a[0]).abs() + (b[1] - a[1]).abs())
}

/// A link's shape, to be drawn; those with points on the floor are known by these.
#[derive(Debug, Clone, Copy)]
pub struct Capsule {
    /// The link.
    pub link: usize,
    /// The ends of its axis, from its joint.
    pub ends: [[f64; 2]; 2],
    /// Its radius.
    pub radius: f64,
}

/// How a limit or a contact pushes, by its depth: MuJoCo's `solimp` with its default middle and power, and `solref` with a damping ratio of 1.
#[derive(Debug, Clone, Copy)]
pub struct Impedance {
    /// Least and greatest impedance.
    pub range: [f64; 2],
    /// The depth at which the greatest is reached.
    pub width: f64,
    /// Time constant, s.
    pub time: f64,
}

impl Impedance {
    /// MuJoCo's defaults.
    pub const DEFAULT: Self = Impedance { range: [0.9, 0.95], width: 0.001, time: 0.02 };

    /// Acceleration per velocity.
    pub const fn damping(&self) -> f64 {
        2.0 / (self.range[1] * self.time)
    }

    /// Acceleration per depth and impedance.
    pub const fn spring(&self) -> f64 {
        1.0 / (self.range[1] * self.time * self.range[1] * self.time)
    }
}

/// A fluid's drag on a link, quadratic and linear in the velocity.
#[derive(Debug, Clone, Copy)]
pub struct Fluid {
    /// Along the link, N per (m/s)^2 and per m/s.
    pub along: [f64; 2],
    /// Across it.
    pub across: [f64; 2],
    /// Against turning, N m per (rad/s)^2 and per rad/s.
    pub turning: [f64; 2],
}

/// For each link and each joint those on the way to the root, as bits.
pub const fn above<const N: usize, const D: usize>(links: &[Link; N], slides: usize) -> ([u32; N], [u32; D]) {
    let (mut above_links, mut above) = ([0; N], [0; D]);
    let slides_of = (1 << slides) - 1;
    if slides > 1 {
        above[1] = 1;
    }
    let mut i = 0;
    while i < N {
        let mut joints = slides_of;
        let mut link = links[i].parent;
        while let Some(j) = link {
            above_links[i] |= 1 << j;
            if let Some(dof) = links[j].dof {
                joints |= 1 << dof;
            }
            link = links[j].parent;
        }
        if let Some(dof) = links[i].dof {
            above[dof] = joints;
        }
        i += 1;
    }
    (above_links, above)
}
