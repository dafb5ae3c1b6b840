//! The shapes that pictures consist of: environments describe their state with them, rings carry them, and monitors draw them.

/// A point: x to the right, y up, in the scene's own units.
pub type Point = [f32; 2];

/// A shape of a scene. Tones are palette entries: 0 to 4 are ground, body, accent, target and faint; the following ones
/// are the named colours of [`tone`], and each may be darker ([`tone::darker`]).
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
    /// Palette entry: dark green.
    pub const DARK_GREEN: u8 = 11;
    /// Palette entry: brown.
    pub const BROWN: u8 = 12;
    /// Palette entry: white, for what lies on a filled shape.
    pub const WHITE: u8 = 13;

    /// Number of levels of brightness of a palette entry: the two highest bits of a tone.
    pub const LEVELS: usize = 4;

    /// A tone that is darker by some levels, down to the darkest of [`LEVELS`].
    pub const fn darker(tone: u8, by: u8) -> u8 {
        let (entry, level) = parts(tone);
        let darkest = LEVELS as u8 - 1;
        let level = if level as u8 + by < darkest { level as u8 + by } else { darkest };
        entry as u8 | level << 6
    }

    /// The palette entry of a tone, and how many levels darker it is.
    pub const fn parts(tone: u8) -> (usize, usize) {
        (tone as usize & 63, tone as usize >> 6)
    }
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

    /// Its tone.
    pub fn tone(&self) -> u8 {
        match self {
            Shape::Line { tone, .. }
            | Shape::Circle { tone, .. }
            | Shape::Polygon { tone, .. }
            | Shape::Text { tone, .. }
            | Shape::Rectangle { tone, .. } => *tone,
        }
    }

    /// The same shape with a tone that is darker by some levels.
    #[must_use]
    pub fn darker(mut self, by: u8) -> Self {
        match &mut self {
            Shape::Line { tone, .. }
            | Shape::Circle { tone, .. }
            | Shape::Polygon { tone, .. }
            | Shape::Text { tone, .. }
            | Shape::Rectangle { tone, .. } => *tone = tone::darker(*tone, by),
        }
        self
    }
}
