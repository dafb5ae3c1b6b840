//! Nonlinearities, one number at a time. Their results are rounded to bf16, so tanh need not be exact.

/// The nonlinearity of a hidden layer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Activation {
    /// Hyperbolic tangent, with an absolute error of at most 1e-4.
    Tanh,
    /// max(x, 0).
    Relu,
}

/// Coefficients of a piecewise polynomial `c0 + c1 a + c2 a^2` for tanh(a): piece k spans (k +- 0.5) / [`SCALE`]. Each is the minimax
/// polynomial of its piece, and piece 0 has no constant, so that small numbers keep their relative size.
pub(crate) const TANH: [[f32; 32]; 3] = [
    [
        0.0,
        -0.0009882611,
        -0.007727658,
        -0.01941077,
        -0.027809318,
        -0.021958433,
        0.0059798914,
        0.057916567,
        0.13033491,
        0.21664043,
        0.30956158,
        0.40275827,
        0.4915243,
        0.57283485,
        0.6452169,
        0.7081162,
        0.7618062,
        0.80690587,
        0.8444557,
        0.875362,
        0.9005893,
        0.9210367,
        0.9375098,
        0.95071113,
        0.9612415,
        0.9696067,
        0.9763966,
        0.98158306,
        0.98555344,
        0.9887749,
        0.9912947,
        0.99325675,
    ],
    [
        1.0008855,
        1.021963,
        1.079453,
        1.1398219,
        1.1713655,
        1.1556911,
        1.0916904,
        0.99043494,
        0.86782384,
        0.73877436,
        0.61440426,
        0.50152224,
        0.40334794,
        0.32061127,
        0.25241667,
        0.19724618,
        0.15319379,
        0.118432455,
        0.091144726,
        0.06990018,
        0.053449456,
        0.040766813,
        0.031025017,
        0.023565363,
        0.017868439,
        0.013527763,
        0.010144141,
        0.0076590218,
        0.005824463,
        0.004387801,
        0.0033021788,
        0.0024845458,
    ],
    [
        -0.03642459,
        -0.15162997,
        -0.27536073,
        -0.35358328,
        -0.38321975,
        -0.37274262,
        -0.33606744,
        -0.28669202,
        -0.23477493,
        -0.1865204,
        -0.14489517,
        -0.11070746,
        -0.08355829,
        -0.06250858,
        -0.04644442,
        -0.034345392,
        -0.025308436,
        -0.018609716,
        -0.013651842,
        -0.010000827,
        -0.007318812,
        -0.005352096,
        -0.0039117634,
        -0.0028579193,
        -0.0020873838,
        -0.0015242749,
        -0.0011027226,
        -0.0008050274,
        -0.00059310667,
        -0.0004329294,
        -0.0003159966,
        -0.00023081645,
    ],
];
/// Pieces per unit.
pub(crate) const SCALE: f32 = 6.35;
/// Beyond this tanh is within 1e-4 of 1.
pub(crate) const LIMIT: f32 = 4.96;
/// Added to a number below 2^22, it leaves the nearest integer in the lowest bits.
pub(crate) const ROUNDER: f32 = 8_388_608.0;

fn tanh(x: f32) -> f32 {
    // NaN stays NaN.
    let a = if x.abs() > LIMIT { LIMIT } else { x.abs() };
    let piece = (a.mul_add(SCALE, ROUNDER).to_bits() & 31) as usize;
    let [c0, c1, c2] = TANH.map(|table| table[piece]);
    c2.mul_add(a, c1).mul_add(a, c0).copysign(x)
}

impl Activation {
    /// Its value at x; NaN stays NaN.
    pub(crate) fn value(self, x: f32) -> f32 {
        match self {
            Self::Tanh => tanh(x),
            Self::Relu if x < 0.0 => 0.0,
            Self::Relu => x,
        }
    }

    /// The gradient of its input, from its output y and the output's gradient.
    pub(crate) fn slope(self, y: f32, dy: f32) -> f32 {
        match self {
            Self::Tanh => dy * (-y).mul_add(y, 1.0),
            Self::Relu if y > 0.0 => dy,
            Self::Relu => 0.0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tanh_is_within_a_ten_thousandth_and_odd() {
        let mut worst = [0.0f64; 2];
        for k in 0..1_000_000 {
            let x = k as f32 / 100_000.0;
            let error = f64::from(tanh(x)) - f64::from(x).tanh();
            worst[0] = worst[0].max(error.abs());
            if x > 0.0 && x < 0.25 {
                worst[1] = worst[1].max(error.abs() / f64::from(x).tanh());
            }
            assert_eq!(tanh(-x).to_bits(), (-tanh(x)).to_bits());
        }
        assert!(worst[0] < 1e-4 && worst[1] < 1e-3, "{worst:?}");
        assert!(tanh(f32::NAN).is_nan() && tanh(f32::INFINITY) < 1.0 && tanh(1e-30) > 0.0);
    }
}
