// What both ways of forming a gradient share: where parameters and activations lie, the nonlinearity's slope, and how blocks add
// up their tiles.
#pragma once

// Rows of one chain's hidden activations before layer `layer`, layer after layer.
__device__ __forceinline__ constexpr unsigned hidden_row(unsigned layer) {
    unsigned rows = 0u;
    for (unsigned l = 0u; l < layer; ++l) rows += round_up(width(l + 1u), 32u);
    return rows;
}

// Parameters in all; log_std lies behind the layers.
constexpr unsigned LOG_STD_AT = flat_offset(CHAINS - 1u, LAYERS + 1u);
constexpr unsigned PARAMETERS = LOG_STD_AT + (ENV_DISCRETE ? 0u : ENV_ACTIONS);

// Adds to, or on a block's first tile sets, a number of its partial gradient.
__device__ __forceinline__ void put(float* partial, bool first, float value) { *partial = first ? value : *partial + value; }
