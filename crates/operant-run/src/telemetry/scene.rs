//! Converts an episode from the backend's recording to the ring's format.

use operant_env::Scene;
use operant_metrics::Episode;

/// Converts an episode; the ring assigns its number. The view encloses the views of all frames.
#[allow(clippy::cast_possible_truncation)] // a return, to be shown
pub(super) fn episode(recorded: &operant_learn::EpisodeRecording) -> Episode {
    let frames = &recorded.frames;
    let corner = |pick: fn(f32, f32) -> f32, start: f32, of: fn(&Scene) -> [f32; 2]| {
        frames.iter().map(of).fold([start; 2], |[x, y], [a, b]| [pick(x, a), pick(y, b)])
    };
    Episode {
        number: 0,
        fps: recorded.fps,
        episodic_return: recorded.episodic_return as f32,
        low: corner(f32::min, f32::INFINITY, |scene| scene.low),
        high: corner(f32::max, f32::NEG_INFINITY, |scene| scene.high),
        frames: frames.iter().map(|scene| scene.shapes.clone()).collect(),
    }
}

#[cfg(test)]
mod tests {
    use operant_env::Shape;

    use super::*;

    #[test]
    fn every_shape_and_the_whole_view_arrive() {
        let first =
            Scene { low: [-1.0, 0.0], high: [1.0, 2.0], shapes: vec![Shape::circle([0.5, 1.0], 0.25, 2)] };
        let shapes = vec![
            Shape::line([[0.0, 0.0], [1.0, 1.0]], 0),
            Shape::rectangle([0.0, 0.0], 2.0, 1.0, 1),
            Shape::polygon([[0.0, 0.0], [1.0, 1.0], [1.0, 0.0]], operant_env::RED),
            Shape::text([0.5, 0.5], "64", 2),
        ];
        let second = Scene { low: [0.0, -3.0], high: [4.0, 1.0], shapes };
        let recorded =
            operant_learn::EpisodeRecording { frames: vec![first, second], fps: 50.0, episodic_return: 7.5 };
        let shown = episode(&recorded);
        assert_eq!((shown.low, shown.high), ([-1.0, -3.0], [4.0, 2.0]));
        assert_eq!((shown.fps, shown.episodic_return, shown.frames.len()), (50.0, 7.5, 2));
        assert_eq!(shown.frames[0], [Shape::Circle { center: [0.5, 1.0], radius: 0.25, tone: 2 }]);
        assert_eq!(shown.frames[1][0], Shape::Line { points: vec![[0.0, 0.0], [1.0, 1.0]], tone: 0 });
        assert_eq!(shown.frames[1][1], Shape::Rectangle { low: [-1.0, -0.5], high: [1.0, 0.5], tone: 1 });
        let points = vec![[0.0, 0.0], [1.0, 1.0], [1.0, 0.0]];
        assert_eq!(shown.frames[1][2], Shape::Polygon { points, tone: 5 });
        assert_eq!(shown.frames[1][3], Shape::Text { center: [0.5, 0.5], text: "64".into(), tone: 2 });
    }
}
