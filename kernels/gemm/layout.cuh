// The layout of a network's matrices on the GEMM path (cuBLASLt), layer by layer.
//
// A layer's matrix is row-major (outputs, inputs) with both padded by zeros to multiples of 8, and begins at a multiple of 128
// elements (256 bytes in bf16); elements are f32, or bf16 with PRECISION BF16. Biases are f32 and stored separately, each layer's at a multiple
// of 64. Gradients have the layout of matrices and biases, all in f32: matrices first, then biases. Activations are (samples, padded width).
//
// Worked example, 4-512-512-(2+1): matrices of 512 x 8, 512 x 512 and 8 x 512 elements at 0, 4,096 and 266,240; 270,336 in all,
// and 1,088 biases.
#pragma once

// Numbers of a row are a multiple of this: 16 bytes in bf16.
constexpr unsigned PAD = 8u;

__device__ __forceinline__ constexpr unsigned row_inputs(unsigned layer) { return round_up(inputs(layer), PAD); }

__device__ __forceinline__ constexpr unsigned row_outputs(unsigned chain, unsigned layer) { return round_up(outputs(chain, layer), PAD); }

// The offset of a layer's matrix; layer LAYERS + 1 is the end of the chain.
__device__ __forceinline__ constexpr unsigned matrix_at(unsigned chain, unsigned layer) {
    unsigned elements = 0u;
    for (unsigned c = 0u; c <= chain; ++c)
        for (unsigned l = 0u; l < (c < chain ? LAYERS + 1u : layer); ++l) elements += round_up(row_outputs(c, l) * row_inputs(l), 128u);
    return elements;
}

__device__ __forceinline__ constexpr unsigned bias_at(unsigned chain, unsigned layer) {
    unsigned elements = 0u;
    for (unsigned c = 0u; c <= chain; ++c)
        for (unsigned l = 0u; l < (c < chain ? LAYERS + 1u : layer); ++l) elements += round_up(row_outputs(c, l), 64u);
    return elements;
}

constexpr unsigned MATRIX_ELEMENTS = matrix_at(CHAINS - 1u, LAYERS + 1u);
constexpr unsigned BIASES = bias_at(CHAINS - 1u, LAYERS + 1u);
static_assert(MATRIX_ELEMENTS == EXPECTED_MATRIX_ELEMENTS && BIASES == EXPECTED_BIASES, "the host counts as the kernel does");

#if PRECISION == 2
typedef unsigned short Element;
#else
typedef float Element;
#endif

__device__ __forceinline__ Element to_element(float x) {
#if PRECISION == 2
    return (Element)pack_bf16(x, 0.0f);
#else
    return x;
#endif
}

__device__ __forceinline__ float from_element(Element x) {
#if PRECISION == 2
    return __uint_as_float((unsigned)x << 16u);
#else
    return x;
#endif
}

// The offset of parameter `index` of the flat vector: in the matrices, or after them in the biases.
__device__ inline unsigned gemm_place(unsigned index) {
    // Unrolled, so that the shapes of layers are constants and not a table in memory.
#pragma unroll
    for (unsigned chain = 0u; chain < CHAINS; ++chain) {
#pragma unroll
        for (unsigned layer = 0u; layer <= LAYERS; ++layer) {
            const unsigned ins = inputs(layer), outs = outputs(chain, layer), words = (ins + 1u) * outs;
            if (index < ins * outs) return matrix_at(chain, layer) + index / ins * row_inputs(layer) + index % ins;
            if (index < words) return MATRIX_ELEMENTS + bias_at(chain, layer) + index - ins * outs;
            index -= words;
        }
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

// A row of an observation as the first product reads it; `obs` are ENV_OBS_WORDS words.
__device__ __forceinline__ float feature(const float* obs, unsigned k) {
    if (k >= width(0u)) return 0.0f;
#if ENV_PACKED
    return env_feature(obs, k);
#endif
    if (OBS_BITS) return __float_as_uint(obs[k / 32u]) >> k % 32u & 1u ? 1.0f : 0.0f;
    return obs[k];
}
