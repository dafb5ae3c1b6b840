//! The errors stated in `operant_lane::math`, measured: single precision against the machine's double functions, double
//! precision against identities in double-double arithmetic.

use operant_lane::Float;

/// Largest error of `f` over `inputs`, in ulp of the single-precision result.
fn worst(
    f: impl Fn(f32) -> f32,
    exact: impl Fn(f64) -> f64,
    inputs: impl Iterator<Item = f32>,
) -> (f64, f32) {
    let mut worst = (0.0, 0.0);
    for x in inputs {
        let exact = exact(f64::from(x));
        let rounded = exact as f32;
        if !rounded.is_finite() || rounded.abs() < f32::MIN_POSITIVE {
            continue;
        }
        let ulp = f64::from(f32::from_bits(rounded.abs().to_bits() + 1)) - f64::from(rounded.abs());
        let error = (f64::from(f(x)) - exact).abs() / ulp;
        if error > worst.0 {
            worst = (error, x);
        }
    }
    worst
}

/// Every 97th float between two positive ones, and their negatives.
fn both(low: f32, high: f32) -> impl Iterator<Item = f32> {
    (low.to_bits()..high.to_bits()).step_by(97).flat_map(|bits| [f32::from_bits(bits), -f32::from_bits(bits)])
}

#[test]
fn single_precision_errors_are_as_documented() {
    let positive = (f32::MIN_POSITIVE.to_bits()..f32::MAX.to_bits()).step_by(997).map(f32::from_bits);
    for (name, limit, (error, at)) in [
        ("sin", 2.0, worst(Float::sin, f64::sin, both(1e-6, 8192.0))),
        ("cos", 2.0, worst(Float::cos, f64::cos, both(1e-6, 8192.0))),
        ("exp", 1.5, worst(Float::exp, f64::exp, both(1e-6, 88.0))),
        ("ln", 1.5, worst(Float::ln, f64::ln, positive)),
        ("tanh", 5.0, worst(Float::tanh, f64::tanh, both(1e-6, 20.0))),
    ] {
        println!("{name}: {error:.2} ulp at {at:e}");
        assert!(error <= limit, "{name}: {error:.2} ulp at {at:e}, documented {limit}");
    }
}

#[test]
fn double_precision_errors_are_as_documented() {
    // The machine's functions are within one ulp themselves, hence the half ulp of grace.
    let ulp = |x: f64| f64::from_bits(x.abs().to_bits() + 1) - x.abs();
    let mut x = 1e-4;
    while x < 8000.0 {
        for x in [x, -x] {
            let check = |name: &str, limit: f64, ours: f64, theirs: f64| {
                let error = (ours - theirs).abs() / ulp(theirs);
                assert!(error <= limit + 0.5, "{name}({x}): {ours} and {theirs}, {error:.2} ulp");
            };
            check("sin", 1.5, Float::sin(x), f64::sin(x));
            check("cos", 1.5, Float::cos(x), f64::cos(x));
            check("ln", 1.5, Float::ln(x.abs()), f64::ln(x.abs()));
            if x.abs() < 700.0 {
                check("exp", 1.5, Float::exp(x), f64::exp(x));
                check("tanh", 4.0, Float::tanh(x), f64::tanh(x));
            }
        }
        x *= 1.0007;
    }
}

#[test]
fn sine_and_cosine_are_right_or_nan() {
    for x in both(1e-6, f32::INFINITY) {
        let (sin, cos) = Float::sin_cos(x);
        assert_eq!((sin.to_bits(), cos.to_bits()), (Float::sin(x).to_bits(), Float::cos(x).to_bits()));
        if x.abs() > 1_048_576.0 {
            assert!(sin.is_nan() && cos.is_nan(), "{x}: {sin}, {cos}");
            continue;
        }
        assert!(sin.abs() <= 1.0 && cos.abs() <= 1.0, "{x}: {sin}, {cos}");
        let error =
            (f64::from(sin) - f64::from(x).sin()).abs().max((f64::from(cos) - f64::from(x).cos()).abs());
        assert!(error <= 1.2e-7, "{x}: {sin}, {cos}");
    }
    for most in [1_048_576.0f32, -1_048_576.0] {
        assert!(!Float::sin(most).is_nan() && Float::sin(most * (1.0 + f32::EPSILON)).is_nan());
    }
    assert!(Float::cos(f32::INFINITY).is_nan() && Float::cos(f32::NAN).is_nan());
    let mut x = 1.0f64;
    while x < 1e300 {
        let (sin, cos) = Float::sin_cos(x);
        assert_eq!(sin.is_nan() && cos.is_nan(), x > 2_147_483_648.0, "{x}: {sin}, {cos}");
        assert!(sin.is_nan() || (sin - f64::sin(x)).abs().max((cos - f64::cos(x)).abs()) <= 1e-15, "{x}");
        x *= 1.001;
    }
}

#[test]
fn sine_and_cosine_keep_their_bits() {
    // FNV-1a over both results of every 97th float up to 10,000.
    let hash = both(1e-6, 1e4).fold(0xcbf2_9ce4_8422_2325_u64, |hash, x| {
        let (sin, cos) = Float::sin_cos(x);
        [sin, cos]
            .iter()
            .fold(hash, |hash, y| (hash ^ u64::from(y.to_bits())).wrapping_mul(0x0000_0100_0000_01b3))
    });
    assert_eq!(hash, 0xdbe3_405f_4dfd_4bed, "{hash:#x}");
}

#[test]
fn edges_are_as_documented() {
    assert_eq!(Float::exp(f32::NEG_INFINITY), 0.0);
    assert_eq!(Float::exp(200.0f32), f32::INFINITY);
    assert!(Float::exp(f32::NAN).is_nan());
    assert_eq!(Float::ln(0.0f32), f32::NEG_INFINITY);
    assert_eq!(Float::ln(f32::INFINITY), f32::INFINITY);
    assert!(Float::ln(-1.0f32).is_nan() && Float::ln(f32::NAN).is_nan());
    assert!((Float::ln(1e-40f32) - -92.103_4).abs() < 1e-4, "subnormal numbers have logarithms");
    assert!(Float::tanh(f32::INFINITY) <= 1.0 && Float::tanh(f32::NEG_INFINITY) >= -1.0);
    assert!(Float::tanh(f32::NAN).is_nan());
    assert!(both(1.0, 20.0).all(|x| Float::tanh(x).abs() <= 1.0));
    assert_eq!(Float::exp(-745.0f64), f64::exp(-745.0));
}
