//! Reverse-mode differentiation in f64: a list of variables, each with the slopes of its value by earlier ones.

/// A variable's number.
pub type Var = usize;

/// Variables in the order of their making.
#[derive(Debug, Default)]
pub struct Tape {
    values: Vec<f64>,
    /// The last of each variable's slopes.
    ends: Vec<usize>,
    slopes: Vec<(Var, f64)>,
}

impl Tape {
    /// A constant or parameter.
    pub fn leaf(&mut self, value: f64) -> Var {
        self.values.push(value);
        self.ends.push(self.slopes.len());
        self.values.len() - 1
    }

    /// The value of a variable.
    pub fn value(&self, var: Var) -> f64 {
        self.values[var]
    }

    fn node(&mut self, value: f64, slopes: impl IntoIterator<Item = (Var, f64)>) -> Var {
        self.slopes.extend(slopes);
        self.leaf(value)
    }

    /// f(x), whose slope is f'.
    pub fn of(&mut self, x: Var, f: f64, slope: f64) -> Var {
        self.node(f, [(x, slope)])
    }

    /// The sum of `weights[k] terms[k]`.
    pub fn sum(&mut self, terms: &[(Var, f64)]) -> Var {
        let value = terms.iter().map(|&(x, weight)| weight * self.values[x]).sum();
        self.node(value, terms.iter().copied())
    }

    /// The sum of a bias and of products.
    pub fn dot(&mut self, bias: Var, products: impl Iterator<Item = [Var; 2]>) -> Var {
        let (mut value, mut slopes) = (self.values[bias], vec![(bias, 1.0)]);
        for [a, b] in products {
            value += self.values[a] * self.values[b];
            slopes.extend([(a, self.values[b]), (b, self.values[a])]);
        }
        self.node(value, slopes)
    }

    /// a + b
    pub fn add(&mut self, a: Var, b: Var) -> Var {
        self.sum(&[(a, 1.0), (b, 1.0)])
    }

    /// a b
    pub fn mul(&mut self, a: Var, b: Var) -> Var {
        let (x, y) = (self.values[a], self.values[b]);
        self.node(x * y, [(a, y), (b, x)])
    }

    /// a + t (b - a)
    pub fn mix(&mut self, a: Var, b: Var, t: Var) -> Var {
        let change = self.sum(&[(b, 1.0), (a, -1.0)]);
        let change = self.mul(t, change);
        self.add(a, change)
    }

    /// exp(x)
    pub fn exp(&mut self, x: Var) -> Var {
        let y = self.values[x].exp();
        self.of(x, y, y)
    }

    /// ln(x)
    pub fn ln(&mut self, x: Var) -> Var {
        let value = self.values[x];
        self.of(x, value.ln(), 1.0 / value)
    }

    /// tanh(x)
    pub fn tanh(&mut self, x: Var) -> Var {
        let y = self.values[x].tanh();
        self.of(x, y, 1.0 - y * y)
    }

    /// 1 / (1 + exp(-x))
    pub fn sigmoid(&mut self, x: Var) -> Var {
        let y = 1.0 / (1.0 + (-self.values[x]).exp());
        self.of(x, y, y * (1.0 - y))
    }

    /// max(x, 0)
    pub fn relu(&mut self, x: Var) -> Var {
        let value = self.values[x];
        self.of(x, value.max(0.0), f64::from(value > 0.0))
    }

    /// The gradient of a variable by the first `count`.
    pub fn gradient(&self, of: Var, count: usize) -> Vec<f64> {
        let mut gradient = vec![0.0; of + 1];
        gradient[of] = 1.0;
        for var in (0..=of).rev() {
            let start = var.checked_sub(1).map_or(0, |before| self.ends[before]);
            for &(x, slope) in &self.slopes[start..self.ends[var]] {
                gradient[x] += slope * gradient[var];
            }
        }
        gradient.resize(count.max(of + 1), 0.0);
        gradient.truncate(count);
        gradient
    }
}
