//! Statistics against values computed by hand or by other means.

use operant_sweep::stats::{aggregate, improvement, interquartile_mean, mean, quantile};

#[test]
fn the_interquartile_mean_leaves_out_a_quarter_at_either_end() {
    assert_eq!(interquartile_mean(&[7.0]), 7.0);
    assert_eq!(interquartile_mean(&[1.0, 2.0, 6.0]), 3.0, "a quarter of three, rounded down, is none");
    assert_eq!(interquartile_mean(&[100.0, 1.0, 2.0, -50.0]), 1.5);
    assert_eq!(interquartile_mean(&[9.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, -99.0]), 4.5);
    assert!(interquartile_mean(&[]).is_nan());
}

#[test]
fn quantiles_are_interpolated() {
    assert_eq!(quantile(&[1.0, 2.0, 4.0], 0.5), 2.0);
    assert_eq!(quantile(&[1.0, 2.0, 4.0], 0.75), 3.0);
    assert_eq!(quantile(&[1.0, 2.0, 4.0], 1.0), 4.0);
    assert!(quantile(&[], 0.5).is_nan());
}

#[test]
fn intervals_cover_what_resampling_gives() {
    let one = aggregate(&[vec![3.0]]);
    assert_eq!((one.value, one.low, one.high), (3.0, 3.0, 3.0));
    // Two seeds: their mean is the lower one, the middle or the upper one with probabilities 1/4, 1/2, 1/4.
    let two = aggregate(&[vec![0.0, 10.0]]);
    assert_eq!((two.value, two.low, two.high), (5.0, 0.0, 10.0));
    let many: Vec<f64> = (0..40).map(f64::from).collect();
    let of_many = aggregate(std::slice::from_ref(&many));
    assert_eq!(of_many.value, mean(&many));
    // The standard error of the interquartile mean of 40 uniform numbers, by simulation: 2.6.
    assert!((11.0..17.0).contains(&of_many.low) && (22.0..28.0).contains(&of_many.high), "{of_many:?}");
    assert_eq!(aggregate(std::slice::from_ref(&many)), of_many, "the same numbers each time");
}

#[test]
fn a_tie_counts_as_half_an_improvement() {
    let half = improvement(&[vec![1.0, 1.0]], &[vec![1.0]]);
    assert_eq!((half.value, half.low, half.high), (0.5, 0.5, 0.5));
    assert_eq!(improvement(&[vec![2.0, 3.0]], &[vec![1.0, 1.5]]).value, 1.0);
    assert_eq!(improvement(&[vec![1.0, 3.0]], &[vec![2.0, 3.0]]).value, 0.375, "0 + 0 + 1 + 1/2 of four");
    // Tasks have equal weight.
    assert_eq!(improvement(&[vec![2.0], vec![0.0, 0.0]], &[vec![1.0], vec![1.0]]).value, 0.5);
}
