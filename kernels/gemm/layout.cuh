// The layout of a network's matrices on the GEMM path (cuBLASLt), layer by layer.
//
// A product's matrix is row-major (outputs, inputs) with both padded by zeros to multiples of 8, and begins at a multiple of 128
// elements (256 bytes in bf16); elements are f32, or bf16 with PRECISION BF16. Biases are f32 and stored separately, each product's at a multiple
// of 64. Gradients have the layout of matrices and biases, all in f32: matrices first, then biases. Activations are (samples, padded width).
//
// The host counts (layout.rs) and gives MATRIX_ELEMENTS, BIASES, OBS_ROW, POLICY_ROW and VALUE_ROW (numbers of a row), FLAT_LOG_STD (the first
// parameter that is not of a layer) and BLOCKS: of each block of parameters, in their order, {parameters, columns, row stride, column stride,
// place}. Parameter (r, c) of a block is at place + r row stride + c column stride, among all matrices and then all biases.
//
// Worked example, 4-512-512-(2+1): matrices of 512 x 8, 512 x 512 and 8 x 512 elements at 0, 4,096 and 266,240; 270,336 in all,
// and 1,088 biases. Its first block is {2048, 4, 8, 1, 0}.
#pragma once

#include "gemm/element.cuh"

// Numbers of a row are a multiple of this: 16 bytes in bf16.
constexpr unsigned PAD = 8u;

// The offset of parameter `index` of the flat vector: in the matrices, or after them in the biases.
__device__ inline unsigned gemm_place(unsigned index) {
    static constexpr unsigned blocks[][5] = BLOCKS;
    constexpr unsigned COUNT = sizeof(blocks) / sizeof(blocks[0]);
    // Unrolled, so that the shapes of blocks are constants and not a table in memory.
#pragma unroll
    for (unsigned block = 0u; block < COUNT; ++block) {
        const unsigned size = blocks[block][0], columns = blocks[block][1];
        if (index < size) return blocks[block][4] + index / columns * blocks[block][2] + index % columns * blocks[block][3];
        index -= size;
    }
    return MATRIX_ELEMENTS + BIASES;
}

// Writes a parameter to its place for the products; parameters after the layers are read from the flat vector.
__device__ inline void pack_parameter(unsigned index, float value, const GemmWeights& weights) {
    const unsigned place = gemm_place(index);
    if (place < MATRIX_ELEMENTS) {
        ((Element*)weights.matrices)[place] = to_element(value);
    } else if (place < MATRIX_ELEMENTS + BIASES) {
        weights.biases[place - MATRIX_ELEMENTS] = value;
    }
}

#if INDICES
// The rows of tables that an observation's INDICES items look up; `obs` are ENV_OBS_WORDS words.
__device__ __forceinline__ void write_indices(unsigned* to, const float* obs) {
    for (unsigned i = 0u; i < INDICES; ++i) to[i] = env_index(obs, i);
}
#endif

// A number of an observation for the first product; with tables, only of features that are not indices. PASSED are its runs, {first feature, count}.
__device__ __forceinline__ float feature(const float* obs, unsigned k) {
#if INDICES
    static constexpr unsigned runs[][2] = PASSED;
    constexpr unsigned COUNT = sizeof(runs) / sizeof(runs[0]);
#pragma unroll
    for (unsigned run = 0u; run < COUNT; ++run) {
        if (k < runs[run][1]) return env_feature(obs, runs[run][0] + k);
        k -= runs[run][1];
    }
    return 0.0f;
#endif
    if (k >= width(0u)) return 0.0f;
#if ENV_PACKED
    return env_feature(obs, k);
#endif
    if (OBS_BITS) return __float_as_uint(obs[k / 32u]) >> k % 32u & 1u ? 1.0f : 0.0f;
    return obs[k];
}

#if RECOMPUTES
// What advantages are computed from again, besides values: after the samples and the states of sequences, (T, N, 2) rewards and 1 where the episode
// goes on, then (N) values of the observations after the last step.
template <typename Word>
__device__ __forceinline__ Word* outcomes_of(Word* samples, u64 num_samples, unsigned num_envs) {
    return samples + num_samples * SAMPLE_STRIDE + (u64)num_envs * SEQUENCES * STATES;
}
#endif
