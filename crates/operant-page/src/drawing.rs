//! Pictures as numbers, for a script that draws them.

use operant_env::{Point, Scene, Shape};

/// A picture as numbers: the corners of its view, then its shapes, each as kind, tone, count and numbers.
///
/// | kind | shape | numbers |
/// | --- | --- | --- |
/// | 0 | line | x and y of each corner |
/// | 1 | polygon | x and y of each corner |
/// | 2 | circle | x, y, radius |
/// | 3 | rectangle | left, bottom, right, top |
/// | 4 | text | x, y, then its characters |
pub fn encode(scene: &Scene, to: &mut Vec<f32>) {
    to.clear();
    to.extend(scene.low.iter().chain(&scene.high));
    for shape in &scene.shapes {
        let mut put = |kind: f32, numbers: &[f32]| {
            to.extend([kind, f32::from(shape.tone()), numbers.len() as f32]);
            to.extend(numbers);
        };
        match shape {
            Shape::Line { points, .. } => put(0.0, points.as_flattened()),
            Shape::Polygon { points, .. } => put(1.0, points.as_flattened()),
            Shape::Circle { center: [x, y], radius, .. } => put(2.0, &[*x, *y, *radius]),
            Shape::Rectangle { low, high, .. } => put(3.0, &both(*low, *high)),
            Shape::Text { center, text, .. } => {
                // A character has fewer than 24 bits, and so a float holds it.
                let characters = text.chars().map(|c| u32::from(c) as f32);
                put(4.0, &center.iter().copied().chain(characters).collect::<Vec<_>>());
            }
        }
    }
}

fn both([a, b]: Point, [c, d]: Point) -> [f32; 4] {
    [a, b, c, d]
}
