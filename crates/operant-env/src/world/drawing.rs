//! The picture of a recorded world: outlines whose coordinates a function computes.

use operant_lane::trace::Function;
use serde::{Deserialize, Serialize};

use super::link::{Binding, Places};
use crate::{Point, Scene, Shape};
use operant_lane::Leaf;

/// How a state is drawn.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Drawing {
    /// Lower left corner of the view.
    pub low: Point,
    /// Upper right corner of the view.
    pub high: Point,
    /// The shapes, in drawing order.
    pub shapes: Vec<Outline>,
    /// From `state` to `draw`, numbers: for each shape 1 or 0, whether it is there, and its coordinates.
    pub numbers: Function,
}

/// A shape without its coordinates.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Outline {
    /// x and y of each corner.
    Line {
        /// Corners.
        points: usize,
        /// Palette entry.
        tone: u8,
    },
    /// x and y of each corner, filled.
    Polygon {
        /// Corners.
        points: usize,
        /// Palette entry.
        tone: u8,
    },
    /// x and y of the centre, and the radius.
    Circle {
        /// Palette entry.
        tone: u8,
    },
    /// x and y of the centre, width and height.
    Rectangle {
        /// Palette entry.
        tone: u8,
    },
    /// x and y of the centre.
    Text {
        /// The text.
        text: String,
        /// Palette entry.
        tone: u8,
    },
}

impl Outline {
    /// How many coordinates the shape has.
    pub fn coordinates(&self) -> usize {
        match self {
            Outline::Line { points, .. } | Outline::Polygon { points, .. } => points.saturating_mul(2),
            Outline::Circle { .. } => 3,
            Outline::Rectangle { .. } => 4,
            Outline::Text { .. } => 2,
        }
    }

    fn shape(&self, numbers: &[f32]) -> Shape {
        let points = || numbers.chunks_exact(2).map(|point| [point[0], point[1]]).collect::<Vec<Point>>();
        match self {
            Outline::Line { tone, .. } => Shape::line(points(), *tone),
            Outline::Polygon { tone, .. } => Shape::polygon(points(), *tone),
            Outline::Circle { tone } => Shape::circle([numbers[0], numbers[1]], numbers[2], *tone),
            Outline::Rectangle { tone } => {
                Shape::rectangle([numbers[0], numbers[1]], numbers[2], numbers[3], *tone)
            }
            Outline::Text { text, tone } => Shape::text([numbers[0], numbers[1]], text, *tone),
        }
    }
}

impl Drawing {
    /// How many numbers the function returns; None if they cannot be counted.
    pub(super) fn numbers(&self) -> Option<usize> {
        let own = |shape: &Outline| shape.coordinates().checked_add(1);
        self.shapes.iter().try_fold(0usize, |all, shape| all.checked_add(own(shape)?))
    }

    /// The picture of a state, `(leaves)`.
    pub(super) fn scene(&self, leaves: &[Leaf], state: &[u32]) -> Scene {
        let places = Places::of(leaves);
        let words = self.numbers.call(&mut |name| match places.find(name) {
            Some(Binding::State(leaf)) => state[leaf..].to_vec(),
            _ => unreachable!("the world was checked"),
        });
        let numbers: Vec<f32> = words.iter().flatten().map(|word| f32::from_bits(*word)).collect();
        let mut rest = &numbers[..];
        let mut shapes = Vec::new();
        for outline in &self.shapes {
            let (own, after) = rest.split_at(1 + outline.coordinates());
            if own[0] != 0.0 {
                shapes.push(outline.shape(&own[1..]));
            }
            rest = after;
        }
        Scene { low: self.low, high: self.high, shapes }
    }
}
