//! What a network must execute, from the widths of its layers: the count of the machine code has to agree.

use anyhow::{Result, ensure};
use operant_learn::network::{Input, Network};
use operant_learn::{Activation, Precision};

use super::count::Counts;

/// Instructions of a warp for 16 environments, one forward pass.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Work {
    /// Tensor core products of 16 x 8 outputs.
    pub hmma: f64,
    /// Multiply-adds of the layers and of the hyperbolic tangents.
    pub ffma: f64,
    /// Special functions of the nonlinearity.
    pub mufu: f64,
}

/// Multiply-adds of one `tanh_rational`: two polynomials of four each.
const TANH_FFMA: usize = 8;

impl Work {
    /// Of a network in a precision, as `kernels/fused/actor_critic.cuh` computes it.
    pub fn of(network: &Network, precision: Precision) -> Work {
        let bits = matches!(network.architecture.input, Input::Bits(_));
        let tanh = network.architecture.activation == Activation::Tanh;
        let k_tile = if precision == Precision::Bf16 { 16 } else { 8 };
        let (mut hmma, mut ffma, mut mufu) = (0, 0, 0);
        for chain in &network.chains {
            for (number, layer) in chain.layers.iter().enumerate() {
                let hidden = number + 1 < chain.layers.len();
                let bag = bits && number == 0; // sums of rows: no product
                let inputs = if number > 0 { layer.inputs.next_multiple_of(32) } else { layer.inputs };
                let outputs = if hidden { layer.outputs.next_multiple_of(32) } else { layer.outputs };
                if bag {
                } else if precision == Precision::F32 {
                    ffma += inputs * outputs * 16 / 32;
                } else {
                    hmma += inputs.div_ceil(k_tile) * outputs.div_ceil(8);
                }
                if hidden && tanh {
                    let values = outputs * 16 / 32;
                    mufu += values;
                    ffma += if precision == Precision::F32 { values * TANH_FFMA } else { 0 };
                }
            }
        }
        Work { hmma: hmma as f64, ffma: ffma as f64, mufu: mufu as f64 }
    }

    /// Of a tile of the gradient, for the warp of its block that does the most: forward, the gradients of the inputs, and its
    /// share of those of the weights, as `kernels/fused/gradient_rows.cuh` and `gradient_fragments.cuh` compute them. The
    /// observations are numbers.
    pub fn of_tile(network: &Network, precision: Precision, warps: usize) -> Work {
        let forward = Work::of(network, precision);
        let (threads, samples) = (warps * 32, warps * 16);
        let k_tile = if precision == Precision::Bf16 { 16 } else { 8 };
        let slope = usize::from(network.architecture.activation == Activation::Tanh);
        let (mut hmma, mut ffma) = (0, 0);
        for chain in &network.chains {
            for (number, layer) in chain.layers.iter().enumerate() {
                let hidden = number + 1 < chain.layers.len();
                let inputs = if number > 0 { layer.inputs.next_multiple_of(32) } else { layer.inputs };
                let outputs =
                    |multiple: usize| layer.outputs.next_multiple_of(if hidden { 32 } else { multiple });
                if precision == Precision::F32 {
                    let (k, n) = rectangle(inputs, outputs(4), threads);
                    let turns = (inputs / k * (outputs(4) / n)).div_ceil(threads);
                    // Where a rectangle takes all outputs, it leaves out those that only pad.
                    let n = if n == outputs(4) { layer.outputs } else { n };
                    ffma += turns * k * n * samples;
                } else {
                    let tiles = outputs(16) / 16 * inputs.div_ceil(8);
                    hmma += tiles.div_ceil(warps) * (samples / k_tile);
                }
                if number > 0 {
                    if precision == Precision::F32 {
                        ffma += inputs * outputs(4) * 16 / 32;
                    } else {
                        hmma += outputs(k_tile) / k_tile * (inputs / 8);
                    }
                    ffma += slope * inputs * 16 / 32;
                }
            }
        }
        Work { hmma: forward.hmma + hmma as f64, ffma: forward.ffma + ffma as f64, mufu: forward.mufu }
    }

    /// Whether a tile's instructions are these, and few more for the losses.
    ///
    /// # Errors
    /// They are not.
    pub fn check_tile(&self, tile: &Counts) -> Result<()> {
        ensure!(
            tile.hmma == self.hmma
                && (self.mufu..=self.mufu + 16.0).contains(&tile.mufu)
                && (self.ffma..=1.02 * self.ffma + 60.0).contains(&tile.ffma),
            "a tile of the gradient has {} HMMA, {} FFMA and {} MUFU in the machine code, and the network's sizes say {}, {} and \
             {}",
            tile.hmma,
            tile.ffma,
            tile.mufu,
            self.hmma,
            self.ffma,
            self.mufu
        );
        Ok(())
    }

    /// Whether the policy's instructions are these; anything else means that a loop was missed or counted wrongly.
    ///
    /// # Errors
    /// They are not.
    pub fn check(&self, policy: &Counts) -> Result<()> {
        let counted = Work { hmma: policy.hmma, ffma: policy.ffma, mufu: policy.mufu };
        ensure!(
            counted.hmma == self.hmma && counted.mufu == self.mufu && few_more(counted.ffma, self.ffma),
            "the policy has {} HMMA, {} FFMA and {} MUFU in the machine code, and the network's sizes say {}, {} and {}",
            counted.hmma,
            counted.ffma,
            counted.mufu,
            self.hmma,
            self.ffma,
            self.mufu
        );
        Ok(())
    }
}

/// Inputs x outputs whose gradients a thread forms at a time, in single precision.
fn rectangle(inputs: usize, outputs: usize, threads: usize) -> (usize, usize) {
    let fills = |k: usize, n: usize| {
        inputs.is_multiple_of(k) && outputs.is_multiple_of(n) && inputs / k * (outputs / n) >= threads
    };
    let k = [4, 2].into_iter().find(|k| fills(*k, 4)).unwrap_or(1);
    let n = [8, 4].into_iter().find(|n| fills(k, *n)).unwrap_or(2);
    (k, n)
}

/// Multiply-adds: at least as many, and few more, since the assembler now and then writes a product as one.
fn few_more(counted: f64, least: f64) -> bool {
    counted >= least && counted <= 1.02 * least
}

#[cfg(test)]
mod tests {
    use operant_learn::Config;
    use operant_learn::network::{Architecture, Head};

    use super::*;

    fn of(hidden: usize, precision: Precision) -> Work {
        let config = Config { hidden: vec![hidden, hidden], shared_trunk: true, ..Config::default() };
        let architecture = Architecture::new(&config, Input::Dense(4), Head::MultiDiscrete(vec![2]));
        Work::of(&Network::new(architecture), precision)
    }

    #[test]
    fn products_follow_from_the_widths() {
        // 4-64-64-(2+1): 1 x 8, 4 x 8 and 4 x 1 tiles of 16 x 8; 64 and 64 hyperbolic tangents by 32 lanes for 16.
        assert_eq!(of(64, Precision::Bf16), Work { hmma: 44.0, ffma: 0.0, mufu: 64.0 });
        assert_eq!(of(64, Precision::Tf32), Work { hmma: 80.0, ffma: 0.0, mufu: 64.0 });
        assert_eq!(of(64, Precision::F32), Work { hmma: 0.0, ffma: 2_272.0 + 512.0, mufu: 64.0 });
        assert_eq!(of(128, Precision::Bf16).hmma, 16.0 + 128.0 + 8.0);
    }

    #[test]
    fn a_wrong_count_is_refused() {
        let work = of(64, Precision::Bf16);
        let right = Counts { hmma: 44.0, mufu: 64.0, ..Counts::default() };
        work.check(&right).expect("it is right");
        let error = work.check(&Counts { hmma: 43.0, ..right }).expect_err("one is missing");
        assert!(error.to_string().contains("43 HMMA"), "{error}");
    }
}
