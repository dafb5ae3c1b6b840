// Code that both gradient kernels share: where parameters and activations are stored, the nonlinearity's slope, and how blocks add
// up their tiles.
#pragma once

// Rows of one chain's hidden activations before layer `layer`, layer after layer.
__device__ __forceinline__ constexpr unsigned hidden_row(unsigned layer) {
    unsigned rows = 0u;
    for (unsigned l = 0u; l < layer; ++l) rows += round_up(width(l + 1u), 32u);
    return rows;
}

// Total number of parameters; log_std follows the layers.
constexpr unsigned LOG_STD_AT = param_offset(CHAINS - 1u, LAYERS + 1u);
constexpr unsigned PARAMETERS = LOG_STD_AT + (ENV_DISCRETE ? 0u : ENV_ACTIONS);
// Numbers of a block's partial gradient, in which T and W are replaced by C (tables.cuh); a multiple of four.
constexpr unsigned PARTIAL_LOG_STD_AT = flat_offset(CHAINS - 1u, LAYERS + 1u);
constexpr unsigned PARTIAL = round_up(PARTIAL_LOG_STD_AT + (ENV_DISCRETE ? 0u : ENV_ACTIONS), 4u);

// Adds to an element of the block's partial gradient, or sets it on the block's first tile.
__device__ __forceinline__ void put(float* partial, bool first, float value) { *partial = first ? value : *partial + value; }
