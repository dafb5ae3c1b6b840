//! The shapes that pictures consist of: environments describe their state with them, rings carry them, and monitors draw them.

/// A point: x to the right, y up, in the scene's own units.
pub type Point = [f32; 2];

/// A shape of a scene. Tones are palette entries: 0 to 4 are ground, body, accent, target and faint; the following ones
/// are the named colours of [`tone`].
#[derive(Debug, Clone, PartialEq)]
pub enum Shape {
    /// Connected line segments.
    Line {
        /// Corners.
        points: Vec<Point>,
        /// Palette entry.
        tone: u8,
    },
    /// A circle.
    Circle {
        /// Centre.
        center: Point,
        /// Radius.
        radius: f32,
        /// Palette entry.
        tone: u8,
    },
    /// A filled polygon, such as an arrowhead.
    Polygon {
        /// Corners, in order.
        points: Vec<Point>,
        /// Palette entry.
        tone: u8,
    },
    /// A short text, such as the number of a tile; terminals show it as characters.
    Text {
        /// Centre.
        center: Point,
        /// The text.
        text: String,
        /// Palette entry.
        tone: u8,
    },
    /// A filled rectangle.
    Rectangle {
        /// Lower left corner.
        low: Point,
        /// Upper right corner.
        high: Point,
        /// Palette entry.
        tone: u8,
    },
}

/// The named colours of the palette.
pub mod tone {
    /// Palette entry: red.
    pub const RED: u8 = 5;
    /// Palette entry: green.
    pub const GREEN: u8 = 6;
    /// Palette entry: blue.
    pub const BLUE: u8 = 7;
    /// Palette entry: purple.
    pub const PURPLE: u8 = 8;
    /// Palette entry: yellow.
    pub const YELLOW: u8 = 9;
    /// Palette entry: grey.
    pub const GREY: u8 = 10;
}

impl Shape {
    /// A filled polygon.
    pub fn polygon(points: impl Into<Vec<Point>>, tone: u8) -> Self {
        Shape::Polygon { points: points.into(), tone }
    }

    /// A short text centred on a point.
    pub fn text(center: Point, text: impl Into<String>, tone: u8) -> Self {
        Shape::Text { center, text: text.into(), tone }
    }

    /// A line from point to point.
    pub fn line(points: impl Into<Vec<Point>>, tone: u8) -> Self {
        Shape::Line { points: points.into(), tone }
    }

    /// A circle around a point.
    pub fn circle(center: Point, radius: f32, tone: u8) -> Self {
        Shape::Circle { center, radius, tone }
    }

    /// A rectangle around a point.
    pub fn rectangle(center: Point, width: f32, height: f32, tone: u8) -> Self {
        let [x, y] = center;
        Shape::Rectangle {
            low: [x - width / 2.0, y - height / 2.0],
            high: [x + width / 2.0, y + height / 2.0],
            tone,
        }
    }

    /// Its palette entry.
    pub fn tone(&self) -> u8 {
        match self {
            Shape::Line { tone, .. }
            | Shape::Circle { tone, .. }
            | Shape::Polygon { tone, .. }
            | Shape::Text { tone, .. }
            | Shape::Rectangle { tone, .. } => *tone,
        }
    }
}
