// The layout of a network's weights in memory for the fused kernels: layer by layer, each in the form that its product
// reads, then its biases.
//
// Specialised by WIDTHS (features, then widths of the hidden layers, "{4u, 64u, 64u}"), LAYERS (hidden layers), OUTPUTS (A,
// policy outputs), CHAINS (1: a shared trunk ending in A + 1 outputs; 2: actor and critic), OBS_BITS (1: features are packed
// bits) and PRECISION. Widths are padded with zeros: hidden layers to 32, outputs to 4 (fp32) or 8.
//
//   rows       fp32, and the first layer over bits: word [k][n] is W[n][k]
//   fragments  bf16 and tf32: [k tile][n tiles][lane][2 or 4] words, the B operands of mma.cuh; two tiles of 8 outputs are
//              adjacent if their number is even, so that a lane reads 16 bytes at once
//
// Worked example, 4-64-64-(2+1) in bf16: layer 0 has 1 x 8 tiles = 512 words and 64 biases, layer 1 4 x 8 tiles = 2,048 and
// 64, the head 4 x 1 tiles = 256 and 8; 2,952 words in all.
#pragma once

// k of one tensor core tile.
constexpr unsigned K_TILE = PRECISION == BF16 ? 16u : 8u;

__device__ __forceinline__ constexpr unsigned width(unsigned layer) {
    constexpr unsigned widths[] = WIDTHS;
    return widths[layer];
}

// Whether a layer sums the weights of set bits.
__device__ __forceinline__ constexpr bool is_bag(unsigned layer) { return OBS_BITS && layer == 0u; }

__device__ __forceinline__ constexpr bool is_fragments(unsigned layer) { return PRECISION != F32 && !is_bag(layer); }

__device__ __forceinline__ constexpr unsigned inputs(unsigned layer) { return width(layer); }

__device__ __forceinline__ constexpr unsigned outputs(unsigned chain, unsigned layer) {
    return layer < LAYERS ? width(layer + 1u) : CHAINS == 1u ? OUTPUTS + 1u : chain == 0u ? OUTPUTS : 1u;
}

__device__ __forceinline__ constexpr unsigned padded_outputs(unsigned chain, unsigned layer) {
    return round_up(outputs(chain, layer), layer < LAYERS ? 32u : is_fragments(layer) ? 8u : 4u);
}

__device__ __forceinline__ constexpr unsigned padded_inputs(unsigned layer) {
    return layer > 0u ? round_up(width(layer), 32u) : is_fragments(0u) ? round_up(width(0u), K_TILE) : width(0u);
}

// Words of a layer's matrix, and of the layer.
__device__ __forceinline__ constexpr unsigned matrix_words(unsigned chain, unsigned layer) {
    return is_fragments(layer) ? padded_inputs(layer) / K_TILE * (padded_outputs(chain, layer) / 8u) * 2u * WARP
                               : padded_inputs(layer) * padded_outputs(chain, layer);
}

__device__ __forceinline__ constexpr unsigned layer_words(unsigned chain, unsigned layer) {
    return matrix_words(chain, layer) + padded_outputs(chain, layer);
}

// The offset of a layer in the packed words; layer LAYERS + 1 is the end of the chain.
__device__ __forceinline__ constexpr unsigned packed_offset(unsigned chain, unsigned layer) {
    unsigned words = 0u;
    for (unsigned c = 0u; c <= chain; ++c)
        for (unsigned l = 0u; l < (c < chain ? LAYERS + 1u : layer); ++l) words += layer_words(c, l);
    return words;
}

constexpr unsigned PACKED_WORDS = packed_offset(CHAINS - 1u, LAYERS + 1u);

// The offset of a layer in a gradient, and in the flat parameters of a network without tables: W, row-major (outputs, inputs), then b.
__device__ __forceinline__ constexpr unsigned flat_offset(unsigned chain, unsigned layer) {
    unsigned words = 0u;
    for (unsigned c = 0u; c <= chain; ++c)
        for (unsigned l = 0u; l < (c < chain ? LAYERS + 1u : layer); ++l) words += (inputs(l) + 1u) * outputs(c, l);
    return words;
}
