//! Curves of several runs, read at the same places.

/// The values of several curves at evenly spaced places, from where every curve has begun to where the first one ends. A curve is a
/// list of places and values, by growing places; values between its points are interpolated. Curves without a point are left out.
pub fn aligned(curves: &[Vec<(f64, f64)>], places: usize) -> Vec<(f64, Vec<f64>)> {
    let ends = || curves.iter().filter_map(|curve| Some((curve.first()?.0, curve.last()?.0)));
    let begin = ends().map(|(first, _)| first).fold(f64::NEG_INFINITY, f64::max);
    let end = ends().map(|(_, last)| last).fold(f64::INFINITY, f64::min);
    if ends().next().is_none() || begin > end {
        return Vec::new();
    }
    let last = if begin < end { places.saturating_sub(1) } else { 0 };
    let places = (0..=last).map(|k| begin + (end - begin) * k as f64 / last.max(1) as f64);
    places.map(|at| (at, curves.iter().filter_map(|curve| interpolated(curve, at)).collect())).collect()
}

/// The value of a curve at a place between its points, or of its nearest end; none without a point.
fn interpolated(curve: &[(f64, f64)], at: f64) -> Option<f64> {
    let after = curve.partition_point(|(x, _)| *x < at);
    let (Some(b), before) = (curve.get(after), after.checked_sub(1).map(|k| curve[k])) else {
        return curve.last().map(|last| last.1);
    };
    let Some(a) = before else { return Some(b.1) };
    Some(a.1 + (at - a.0) / (b.0 - a.0) * (b.1 - a.1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn curves_are_read_where_all_of_them_are() {
        let curves = [vec![(0.0, 0.0), (10.0, 10.0)], vec![], vec![(2.0, 5.0), (4.0, 5.0), (6.0, 9.0)]];
        assert_eq!(
            aligned(&curves, 3),
            [(2.0, vec![2.0, 5.0]), (4.0, vec![4.0, 5.0]), (6.0, vec![6.0, 9.0])]
        );
        assert_eq!(aligned(&curves[1..2], 3), []);
        assert_eq!(aligned(&[vec![(0.0, 1.0)], vec![(1.0, 1.0)]], 3), []);
        assert_eq!(aligned(&[vec![(1.0, 2.0)], vec![(1.0, 4.0)]], 3), [(1.0, vec![2.0, 4.0])]);
    }
}
