//! A picture of a state as a few shapes, for any canvas.

pub use operant_metrics::tone::{self, BLUE, BROWN, DARK_GREEN, GREEN, GREY, PURPLE, RED, WHITE, YELLOW};
pub use operant_metrics::{Point, Shape};

/// A picture.
#[derive(Debug, Clone, PartialEq)]
pub struct Scene {
    /// Lower left corner of the view.
    pub low: Point,
    /// Upper right corner of the view.
    pub high: Point,
    /// The shapes, in drawing order.
    pub shapes: Vec<Shape>,
}
