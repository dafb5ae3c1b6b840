//! A unit against the twin, bit for bit.

use crate::{Activation, Deltas, Floats, LANES, Sums, Unit, VECTORS, Weights, Words, pack_pairs, pair_rows};

/// Numbers of many magnitudes: some zero or denormal, none so large that sums overflow.
struct Numbers(u64);

impl Numbers {
    fn word(&mut self) -> u32 {
        // Splitmix64.
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ z >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z >> 32) as u32
    }

    /// Near 1, or where `wide` from the denormal numbers to 2^16.
    fn number(&mut self, wide: bool) -> f32 {
        let (bits, exponent) = (self.word(), self.word());
        let exponent = if wide { exponent % 144 } else { 118 + exponent % 12 };
        f32::from_bits(bits & 0x807f_ffff | exponent << 23)
    }

    fn rows(&mut self, vectors: usize, wide: bool) -> Vec<Floats> {
        (0..vectors).map(|_| core::array::from_fn(|_| self.number(wide))).collect()
    }

    fn list(&mut self, length: usize, wide: bool) -> Vec<f32> {
        (0..length).map(|_| self.number(wide)).collect()
    }
}

/// Where two results differ first.
fn difference<T: Copy + PartialEq + core::fmt::Debug>(
    what: String,
    unit: &[T],
    twin: &[T],
) -> Option<String> {
    let at = unit.iter().zip(twin).position(|(unit, twin)| unit != twin)?;
    Some(format!("{what}: {:?} at {at}, but its twin has {:?}", unit[at], twin[at]))
}

fn bits(rows: &[Floats]) -> Vec<Words> {
    rows.iter().map(|row| row.map(f32::to_bits)).collect()
}

impl Unit {
    /// Compares the unit with its twin on layers of random sizes and numbers; returns the differences.
    pub fn problems(self, rounds: usize) -> Vec<String> {
        let mut numbers = Numbers(rounds as u64);
        let mut problems = Vec::new();
        for round in 0..rounds {
            let (inputs, outputs) = (1 + numbers.word() as usize % 150, 1 + numbers.word() as usize % 150);
            let (wide, activation) = (round % 2 == 1, [Activation::Tanh, Activation::Relu][round / 2 % 2]);
            let name = format!("{inputs} to {outputs}");
            let mut packed = [Weights::new(inputs, outputs), Weights::new(outputs, inputs)];
            let weight = numbers.list(inputs * outputs, wide);
            packed[0].pack(&weight, &numbers.list(outputs, false));
            packed[1].pack_transposed(&weight);
            problems.extend(self.forward_problem::<1>(&packed[0], &name, activation, &mut numbers, wide));
            problems.extend(self.forward_problem::<2>(&packed[0], &name, activation, &mut numbers, wide));
            problems.extend(self.forward_problem::<4>(&packed[0], &name, activation, &mut numbers, wide));
            let mut x = vec![[0; LANES]; VECTORS * pair_rows(inputs)];
            pack_pairs::<VECTORS>(&numbers.rows(VECTORS * inputs, wide), &mut x);
            let dz = numbers.rows(VECTORS * outputs, wide);
            let of = |unit: Unit| {
                let mut buffers = [outputs, inputs].map(|n| vec![[0; LANES]; Deltas::vectors(n)]);
                let [above, below] = &mut buffers;
                let (mut above, mut below) = (Deltas::of(above, outputs), Deltas::of(below, inputs));
                let mut sums = Sums::new(inputs, outputs);
                let mut scratch = vec![[0.0; LANES]; Unit::scratch::<VECTORS>()];
                above.take(&dz);
                for _ in 0..2 {
                    unit.add_products(&x, above.view(), &mut sums);
                }
                unit.deltas_of_inputs(&packed[1], above.view(), &x, activation, &mut scratch, &mut below);
                let mut gradient = vec![0.0; (inputs + 1) * outputs];
                let (weight, bias) = gradient.split_at_mut(inputs * outputs);
                sums.write(weight, bias);
                let [_, below] = buffers;
                (below, gradient.iter().map(|x| x.to_bits()).collect::<Vec<_>>())
            };
            let ((deltas, gradient), (twin_deltas, twin_gradient)) = (of(self), of(self.twin()));
            problems.extend(difference(format!("{name}, deltas"), &deltas, &twin_deltas));
            problems.extend(difference(format!("{name}, gradient"), &gradient, &twin_gradient));
        }
        problems
    }

    fn forward_problem<const V: usize>(
        self,
        weights: &Weights,
        name: &str,
        activation: Activation,
        numbers: &mut Numbers,
        wide: bool,
    ) -> Option<String> {
        let [inputs, outputs] = weights.shape();
        let mut x = vec![[0; LANES]; V * pair_rows(inputs)];
        pack_pairs::<V>(&numbers.rows(V * inputs, wide), &mut x);
        let of = |unit: Unit| {
            let mut scratch = vec![[0.0; LANES]; Unit::scratch::<V>()];
            let mut pairs = vec![[0; LANES]; V * pair_rows(outputs)];
            let mut rows = vec![[0.0; LANES]; V * outputs];
            unit.hidden::<V>(weights, &x, activation, &mut scratch, &mut pairs);
            unit.rows::<V>(weights, &x, &mut scratch, &mut rows);
            (pairs, bits(&rows))
        };
        let ((pairs, rows), (twin_pairs, twin_rows)) = (of(self), of(self.twin()));
        difference(format!("{name}, {V} vectors, outputs"), &rows, &twin_rows)
            .or_else(|| difference(format!("{name}, {V} vectors, {activation:?}"), &pairs, &twin_pairs))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::halves;

    #[test]
    fn every_unit_has_the_bits_of_the_twin() {
        if let Err(reason) = Unit::tiles() {
            eprintln!("products by tiles are not compared: {reason}");
        }
        for unit in Unit::all() {
            assert_eq!(unit.problems(200), Vec::<String>::new(), "{unit}");
        }
    }

    /// The instruction as the manual has it, an element at a time.
    fn manual(a: &[u32], b: &[u32], c: f32) -> f32 {
        let ftz = |x: f32| if x.is_subnormal() { 0.0f32.copysign(x) } else { x };
        let (mut low, mut high) = (0.0f32, 0.0f32);
        for (&a, &b) in a.iter().zip(b) {
            let ([a0, a1], [b0, b1]) = (halves(a).map(ftz), halves(b).map(ftz));
            low = ftz(a0.mul_add(b0, low));
            high = ftz(a1.mul_add(b1, high));
        }
        ftz(ftz(c) + ftz(low + high))
    }

    #[test]
    fn outputs_are_those_of_the_manual_and_near_exact_ones() {
        let mut numbers = Numbers(9);
        for (inputs, outputs) in [(1, 1), (4, 64), (33, 17), (64, 3), (100, 40)] {
            let (weight, bias) = (numbers.list(inputs * outputs, false), numbers.list(outputs, false));
            let mut packed = Weights::new(inputs, outputs);
            packed.pack(&weight, &bias);
            let x = numbers.rows(2 * inputs, false);
            let mut pairs = vec![[7; LANES]; 2 * pair_rows(inputs)];
            pack_pairs::<2>(&x, &mut pairs);
            let mut y = vec![[0.0; LANES]; 2 * outputs];
            Unit::TILES_TWIN.rows::<2>(&packed, &pairs, &mut [[0.0; LANES]; Unit::scratch::<2>()], &mut y);
            let word = |low: f32, high: f32| crate::pair_of(low, high);
            let at = |list: &dyn Fn(usize) -> f32, i: usize| if i < inputs { list(i) } else { 0.0 };
            for o in 0..outputs {
                let (w, of_x) = (
                    |i: usize| weight[o * inputs + i],
                    |v: usize, l: usize| {
                        let x = &x;
                        move |i: usize| x[2 * i + v][l]
                    },
                );
                for (v, l) in [(0, 0), (1, 5), (1, 15)] {
                    let x = of_x(v, l);
                    let words = |list: &dyn Fn(usize) -> f32| -> Vec<u32> {
                        (0..pair_rows(inputs)).map(|p| word(at(list, 2 * p), at(list, 2 * p + 1))).collect()
                    };
                    let (a, b) = (words(&w), words(&x));
                    let tiles = a.chunks(LANES).zip(b.chunks(LANES));
                    let sum = tiles.fold(0.0, |c, (a, b)| manual(a, b, c)) + bias[o];
                    assert_eq!(y[2 * o + v][l].to_bits(), sum.to_bits(), "{inputs} to {outputs}");
                    let exact: f64 = (0..inputs).map(|i| f64::from(w(i)) * f64::from(x(i))).sum();
                    let size: f64 = (0..inputs).map(|i| (f64::from(w(i)) * f64::from(x(i))).abs()).sum();
                    assert!((f64::from(sum - bias[o]) - exact).abs() <= size / 128.0 + 1e-6, "{sum} {exact}");
                }
            }
        }
    }

    #[test]
    fn gradients_are_near_exact_ones() {
        let mut numbers = Numbers(4);
        for (inputs, outputs) in [(4, 5), (35, 33), (64, 64)] {
            let (x, dz) = (numbers.rows(4 * inputs, false), numbers.rows(4 * outputs, false));
            let weight = numbers.list(inputs * outputs, false);
            let mut transposed = Weights::new(outputs, inputs);
            transposed.pack_transposed(&weight);
            let mut pairs = vec![[0; LANES]; 4 * pair_rows(inputs)];
            pack_pairs::<4>(&x, &mut pairs);
            let mut buffers = [outputs, inputs].map(|n| vec![[0; LANES]; Deltas::vectors(n)]);
            let [above, below] = &mut buffers;
            let (mut above, mut below) = (Deltas::of(above, outputs), Deltas::of(below, inputs));
            above.take(&dz);
            let mut sums = Sums::new(inputs, outputs);
            let unit = Unit::TILES_TWIN;
            unit.add_products(&pairs, above.view(), &mut sums);
            let (mut weights, mut bias) = (vec![0.0; inputs * outputs], vec![0.0; outputs]);
            sums.write(&mut weights, &mut bias);
            let sample = |rows: &[Floats], row: usize, s: usize| f64::from(rows[4 * row + s / 16][s % 16]);
            for o in 0..outputs {
                for i in 0..inputs {
                    let terms = (0..64).map(|s| sample(&dz, o, s) * sample(&x, i, s));
                    let (exact, size) = terms.fold((0.0, 0.0), |(a, b), term| (a + term, b + term.abs()));
                    assert!((f64::from(weights[o * inputs + i]) - exact).abs() <= size / 128.0, "{o} {i}");
                }
                let exact: f64 = (0..64).map(|s| sample(&dz, o, s)).sum();
                assert!((f64::from(bias[o]) - exact).abs() < 1e-4 * 64.0);
            }
            let mut scratch = [[0.0; LANES]; Unit::scratch::<4>()];
            unit.deltas_of_inputs(
                &transposed,
                above.view(),
                &pairs,
                Activation::Relu,
                &mut scratch,
                &mut below,
            );
            for i in 0..inputs {
                for s in [0, 17, 63] {
                    let is_on = f64::from(u8::from(sample(&x, i, s) > 0.0));
                    let terms = (0..outputs).map(|o| sample(&dz, o, s) * f64::from(weight[o * inputs + i]));
                    let (exact, size) = terms.fold((0.0, 0.0), |(a, b), term| (a + term, b + term.abs()));
                    let found = halves(below.view().pairs()[4 * (i / 2) + s / 16][s % 16])[i % 2];
                    assert!((f64::from(found) - is_on * exact).abs() <= size / 64.0, "{i} {s}");
                }
            }
        }
    }

    #[test]
    fn rounding_is_to_the_nearest_and_nan_stays_nan() {
        let two = halves(crate::pair_of(1.0 + 1.0 / 256.0, -3.0 - 1.0 / 512.0));
        assert_eq!(two, [1.0 + 1.0 / 128.0, -3.0]);
        let odd = halves(crate::pair_of(f32::from_bits(0x7fff_ffff), f32::INFINITY));
        assert!(odd[0].is_nan() && odd[1] == f32::INFINITY);
        let (mut y, nan) = ([[0; LANES]; LANES], [[f32::NAN; LANES]; 1]);
        let mut packed = Weights::new(1, 2);
        packed.pack(&[1.0, 0.0], &[0.0; 2]);
        let mut x = [[0; LANES]; LANES];
        pack_pairs::<1>(&nan, &mut x);
        for unit in Unit::all().into_iter().chain([Unit::TILES_TWIN, Unit::DOT_TWIN]) {
            for activation in [Activation::Tanh, Activation::Relu] {
                unit.hidden::<1>(&packed, &x, activation, &mut [[0.0; LANES]; Unit::scratch::<1>()], &mut y);
                assert!(halves(y[0][3]).iter().all(|x| x.is_nan()), "{unit} {activation:?}");
            }
        }
    }
}
