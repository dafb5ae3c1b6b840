// Adam with a clipped global norm, one thread a parameter, and the weights packed anew for the next minibatch. Twin of
// operant-learn's adam.
#pragma once

struct Adam {
    double max_grad_norm, beta1, beta2, eps;
    double learning_rate;  // at the start of training
    u64 updates;           // over which it falls to zero; 0 keeps it constant
};

__device__ __forceinline__ double learning_rate(const Adam& adam, u64 update) {
    if (adam.updates == 0u) return adam.learning_rate;
    const u64 done = update < adam.updates ? update : adam.updates;
    return adam.learning_rate * (1.0 - (double)done / (double)adam.updates);
}

// b to the power of n, by squaring.
__device__ __forceinline__ double power(double b, u64 n) {
    double result = 1.0;
    for (; n > 0u; n >>= 1u) {
        if (n & 1u) result *= b;
        b *= b;
    }
    return result;
}

// What a step needs, the same for all parameters.
struct AdamStep {
    float scale, step_size, root;
};

// Step number `step`, from 1, along a gradient of norm `norm`.
__device__ __forceinline__ AdamStep adam_step(const Adam& adam, double rate, double norm, u64 step) {
    const double limit = adam.max_grad_norm / (norm + 1e-6);
    return {(float)(limit < 1.0 ? limit : 1.0), (float)(rate / (1.0 - power(adam.beta1, step))),
            (float)(1.0 / sqrt(1.0 - power(adam.beta2, step)))};
}

// The new value of a parameter; moves its moments.
__device__ __forceinline__ float adam_move(
    const Adam& adam, const AdamStep& step, float param, float gradient, float& exp_avg, float& exp_avg_sq) {
    const float g = gradient * step.scale;
    exp_avg = exp_avg * (float)adam.beta1 + g * (float)(1.0 - adam.beta1);
    exp_avg_sq = exp_avg_sq * (float)adam.beta2 + g * g * (float)(1.0 - adam.beta2);
    return param - step.step_size * exp_avg / (sqrtf(exp_avg_sq) * step.root + (float)adam.eps);
}

// Puts W[n][k] where a product over k with so many columns reads it: a row's word, or half or all of a fragment's.
__device__ __forceinline__ void store_packed(float* matrix, bool fragments, unsigned columns, unsigned n, unsigned k, float value) {
    if (!fragments) {
        matrix[k * columns + n] = value;
        return;
    }
    const unsigned tiles = columns / 8u, together = tiles % 2u == 0u ? 2u : 1u;
    const unsigned block = k / K_TILE * (tiles / together) + n / 8u / together, lane = n % 8u * 4u + k % 8u / 2u;
    const unsigned register_ = PRECISION == BF16 ? k % 16u / 8u : k % 2u;
    const unsigned word = ((block * WARP + lane) * together + n / 8u % together) * 2u + register_;
    if (PRECISION == BF16) {
        ((unsigned short*)matrix)[word * 2u + k % 2u] = (unsigned short)pack_bf16(value, 0.0f);
    } else {
        ((unsigned*)matrix)[word] = to_tf32(value);
    }
}

// Puts parameter `index` of the flat vector where products read it: in the forward pass, and transposed for the gradient of the
// inputs.
__device__ inline void pack_parameter(unsigned index, float value, float* packed, float* transposed) {
    // Unrolled, so that the shapes of layers are constants and not a table in memory.
#pragma unroll
    for (unsigned chain = 0u; chain < CHAINS; ++chain) {
#pragma unroll
        for (unsigned layer = 0u; layer <= LAYERS; ++layer) {
            const unsigned ins = inputs(layer), outs = outputs(chain, layer), words = (ins + 1u) * outs;
            if (index >= words) {
                index -= words;
                continue;
            }
            float* of_layer = packed + packed_offset(chain, layer);
            if (index >= ins * outs) {
                of_layer[matrix_words(chain, layer) + index - ins * outs] = value;
                return;
            }
            const unsigned n = index / ins, k = index % ins;
            store_packed(of_layer, is_fragments(layer), padded_outputs(chain, layer), n, k, value);
            if (layer > 0u) store_packed(transposed + transposed_offset(chain, layer), PRECISION != F32, padded_inputs(layer), k, n, value);
            return;
        }
    }
}
