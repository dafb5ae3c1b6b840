// The actor-critic's forward pass for 16 environments by one warp: policy outputs and value from observations.
//
// in   the tile's observations in shared memory, [feature][ROW] f32 or [word][ROW] bits; packed weights (packing.cuh)
// out  [output][ROW] f32 in shared memory: A policy outputs, then the value
//
// fp32: a lane sums 4 environments x 8 outputs; inputs and weights come from shared memory, 16 bytes at a time. bf16 and
// tf32: tensor cores; the accumulators of a layer, after the nonlinearity, are the operands of the next (mma.cuh), so hidden
// layers touch no memory except weights, and not even for them where they fit into registers (WEIGHTS_AT).
#pragma once

constexpr unsigned GLOBAL = 0u, SHARED = 1u, REGISTERS = 2u;

__device__ __forceinline__ constexpr unsigned widest_hidden() {
    unsigned widest = 0u;
    for (unsigned layer = 0u; layer < LAYERS; ++layer)
        if (round_up(width(layer + 1u), 32u) > widest) widest = round_up(width(layer + 1u), 32u);
    return widest;
}

// Rows of one tile's observations as they are staged; features of a tensor core's tile are padded with zeros.
constexpr unsigned OBS_ROWS = OBS_BITS ? (width(0u) + 31u) / 32u : padded_inputs(0u);
// Rows of hidden activations in shared memory: none where they stay in registers.
constexpr unsigned ACTIVATION_ROWS = PRECISION == F32 ? 2u * widest_hidden() : OBS_BITS && LAYERS > 0u ? round_up(width(1u), 32u) : 0u;
constexpr unsigned OUTPUT_ROWS = round_up(OUTPUTS + 1u, 8u);

// A warp's shared memory.
struct TileMemory {
    float obs[OBS_ROWS * ROW];
    float final_obs[OBS_ROWS * ROW];
    float activations[(ACTIVATION_ROWS > 0u ? ACTIVATION_ROWS : 1u) * ROW];
    float outputs[OUTPUT_ROWS * ROW];
};

__device__ __forceinline__ float4 load4(const float* from) { return *(const float4*)from; }
__device__ __forceinline__ float4 add4(const float4& a, const float4& b) { return make_float4(a.x + b.x, a.y + b.y, a.z + b.z, a.w + b.w); }

// ---- layers over rows: fp32, and the first layer over bits ----------------------------------------------------------

// Outputs of a lane: 4 environments x 4 neighbouring outputs in each of GROUPS groups of 32.
template <unsigned GROUPS>
struct LaneSums {
    float at[GROUPS][4][4];  // [group][output][environment]
};

// Adds W x to a lane's sums; x is [k][ROW], W is [k][COLUMNS], and `column` the lane's first output.
template <unsigned INPUTS, unsigned COLUMNS, unsigned GROUPS>
__device__ __forceinline__ void add_product(
    const float* weights, const float* x, unsigned column, unsigned environment, LaneSums<GROUPS>& sum) {
#pragma unroll 4
    for (unsigned k = 0u; k < INPUTS; ++k) {
        const float4 in = load4(x + k * ROW + environment);
        const float at[4] = {in.x, in.y, in.z, in.w};
#pragma unroll
        for (unsigned group = 0u; group < GROUPS; ++group) {
            const float4 w = load4(weights + k * COLUMNS + group * 32u + column);
#pragma unroll
            for (unsigned e = 0u; e < 4u; ++e) {
                sum.at[group][0][e] = fmaf(w.x, at[e], sum.at[group][0][e]);
                sum.at[group][1][e] = fmaf(w.y, at[e], sum.at[group][1][e]);
                sum.at[group][2][e] = fmaf(w.z, at[e], sum.at[group][2][e]);
                sum.at[group][3][e] = fmaf(w.w, at[e], sum.at[group][3][e]);
            }
        }
    }
}

// Outputs that a lane sums at a time, of COLUMNS.
__device__ __forceinline__ constexpr unsigned groups_of(unsigned columns) { return columns % 64u == 0u ? 2u : 1u; }

// y = activation(W x + b) for a hidden layer; x is [k][ROW], y is [n][ROW].
template <unsigned INPUTS, unsigned COLUMNS>
__device__ __forceinline__ void dense_rows(const float* weights, const float* x, float* y, unsigned lane) {
    constexpr unsigned GROUPS = groups_of(COLUMNS);
    const unsigned environment = lane % 4u * 4u;
#pragma unroll 1
    for (unsigned column = lane / 4u * 4u; column < COLUMNS; column += 32u * GROUPS) {
        LaneSums<GROUPS> sum;
#pragma unroll
        for (unsigned group = 0u; group < GROUPS; ++group) {
            const float4 bias = load4(weights + INPUTS * COLUMNS + group * 32u + column);
#pragma unroll
            for (unsigned e = 0u; e < 4u; ++e) {
                sum.at[group][0][e] = bias.x;
                sum.at[group][1][e] = bias.y;
                sum.at[group][2][e] = bias.z;
                sum.at[group][3][e] = bias.w;
            }
        }
        add_product<INPUTS, COLUMNS, GROUPS>(weights, x, column, environment, sum);
#pragma unroll
        for (unsigned group = 0u; group < GROUPS; ++group) {
#pragma unroll
            for (unsigned n = 0u; n < 4u; ++n) {
                float4 out;
                out.x = activation(sum.at[group][n][0]);
                out.y = activation(sum.at[group][n][1]);
                out.z = activation(sum.at[group][n][2]);
                out.w = activation(sum.at[group][n][3]);
                *(float4*)(y + (column + group * 32u + n) * ROW + environment) = out;
            }
        }
    }
    __syncwarp();
}

// y = W x + b for the last layer: a lane sums every second k of one environment, then pairs of lanes add up.
template <unsigned INPUTS, unsigned COUNT, unsigned COLUMNS>
__device__ __forceinline__ void head_rows(const float* weights, const float* x, float* y, unsigned lane) {
    const unsigned environment = lane % TILE, half = lane / TILE;
    float sum[COLUMNS];
#pragma unroll
    for (unsigned n = 0u; n < COLUMNS; ++n) sum[n] = half == 0u ? weights[INPUTS * COLUMNS + n] : 0.0f;
#pragma unroll 4
    for (unsigned k = half; k < INPUTS; k += 2u) {
        const float in = x[k * ROW + environment];
#pragma unroll
        for (unsigned n = 0u; n < COLUMNS; n += 4u) {
            const float4 w = load4(weights + k * COLUMNS + n);
            sum[n] = fmaf(w.x, in, sum[n]);
            sum[n + 1u] = fmaf(w.y, in, sum[n + 1u]);
            sum[n + 2u] = fmaf(w.z, in, sum[n + 2u]);
            sum[n + 3u] = fmaf(w.w, in, sum[n + 3u]);
        }
    }
#pragma unroll
    for (unsigned n = 0u; n < COUNT; ++n) {
        sum[n] += __shfl_xor_sync(ALL_LANES, sum[n], TILE);
        if (half == 0u) y[n * ROW + environment] = sum[n];
    }
    __syncwarp();
}

// The first layer over packed bits: each output is its bias plus the weights of the set bits. The warp takes the environments
// one after another, so that all lanes follow the same bits.
template <unsigned COLUMNS, bool HIDDEN>
__device__ __forceinline__ void bag(const float* weights, const float* x, float* y, unsigned count, unsigned lane) {
    constexpr unsigned WORDS = (width(0u) + 31u) / 32u, OWN = (COLUMNS + WARP - 1u) / WARP;
    const unsigned* bits = (const unsigned*)x;
#pragma unroll 1
    for (unsigned environment = 0u; environment < TILE; ++environment) {
        float sum[OWN];
#pragma unroll
        for (unsigned n = 0u; n < OWN; ++n) sum[n] = n * WARP + lane < COLUMNS ? weights[width(0u) * COLUMNS + n * WARP + lane] : 0.0f;
#pragma unroll 1
        for (unsigned word = 0u; word < WORDS; ++word) {
            unsigned left = bits[word * ROW + environment];
            while (left != 0u) {
                const unsigned feature = word * 32u + (unsigned)__ffs((int)left) - 1u;
                left &= left - 1u;
#pragma unroll
                for (unsigned n = 0u; n < OWN; ++n)
                    if (n * WARP + lane < COLUMNS) sum[n] += weights[feature * COLUMNS + n * WARP + lane];
            }
        }
#pragma unroll
        for (unsigned n = 0u; n < OWN; ++n)
            if (n * WARP + lane < (HIDDEN ? COLUMNS : count)) y[(n * WARP + lane) * ROW + environment] = HIDDEN ? activation(sum[n]) : sum[n];
    }
    __syncwarp();
}

// ---- layers of fragments: bf16 and tf32 -----------------------------------------------------------------------------

__device__ __forceinline__ constexpr unsigned fragment_words(unsigned chain, unsigned layer) {
    return is_fragments(layer) ? matrix_words(chain, layer) / WARP : 0u;
}

__device__ __forceinline__ constexpr unsigned fragment_offset(unsigned chain, unsigned layer) {
    unsigned words = 0u;
    for (unsigned c = 0u; c <= chain; ++c)
        for (unsigned l = 0u; l < (c < chain ? LAYERS + 1u : layer); ++l) words += fragment_words(c, l);
    return words;
}

// Words of weights that each lane holds in registers.
constexpr unsigned ALL_FRAGMENTS = fragment_offset(CHAINS - 1u, LAYERS + 1u);
// At least one: an array has an element.
constexpr unsigned HELD_WORDS = WEIGHTS_AT == REGISTERS && ALL_FRAGMENTS > 0u ? ALL_FRAGMENTS : 1u;

// The location of the weights: all of them in memory, and each lane's fragments in registers if they fit.
struct Weights {
    const float* packed;
    unsigned held[HELD_WORDS];
};

// The B operands of the tiles (k_tile, first n_tile ..), two or four words.
template <unsigned CHAIN, unsigned LAYER>
__device__ __forceinline__ void fragment(const Weights& weights, unsigned k_tile, unsigned block, unsigned lane, unsigned (&b)[4]) {
    constexpr unsigned TILES = padded_outputs(CHAIN, LAYER) / 8u, TOGETHER = TILES % 2u == 0u ? 2u : 1u, WORDS = 2u * TOGETHER;
    const unsigned place = k_tile * (TILES / TOGETHER) + block;
    if (WEIGHTS_AT == REGISTERS) {
#pragma unroll
        for (unsigned i = 0u; i < WORDS; ++i) b[i] = weights.held[(fragment_offset(CHAIN, LAYER) + place * WORDS + i) % HELD_WORDS];
        return;
    }
    const float* from = weights.packed + packed_offset(CHAIN, LAYER) + (place * WARP + lane) * WORDS;
    if (TOGETHER == 2u) {
        const uint4 words = *(const uint4*)from;
        b[0] = words.x;
        b[1] = words.y;
        b[2] = words.z;
        b[3] = words.w;
    } else {
        const uint2 words = *(const uint2*)from;
        b[0] = words.x;
        b[1] = words.y;
    }
}

// Loads the fragments of every layer into registers.
template <unsigned CHAIN = 0u, unsigned LAYER = 0u>
__device__ __forceinline__ void hold(Weights& weights, unsigned lane) {
    if constexpr (WEIGHTS_AT == REGISTERS && CHAIN < CHAINS) {
        if constexpr (LAYER > LAYERS) {
            hold<CHAIN + 1u, 0u>(weights, lane);
        } else {
            if constexpr (is_fragments(LAYER)) {
                constexpr unsigned TILES = padded_outputs(CHAIN, LAYER) / 8u, WORDS = TILES % 2u == 0u ? 4u : 2u;
                const unsigned* from = (const unsigned*)weights.packed + packed_offset(CHAIN, LAYER) + lane * WORDS;
#pragma unroll
                for (unsigned i = 0u; i < fragment_words(CHAIN, LAYER); ++i)
                    weights.held[fragment_offset(CHAIN, LAYER) + i] = from[i / WORDS * WARP * WORDS + i % WORDS];
            }
            hold<CHAIN, LAYER + 1u>(weights, lane);
        }
    }
}

// Registers of an A operand for one tile of 8 features: two in bf16 (half a tile), four in tf32.
constexpr unsigned A_WORDS = PRECISION == BF16 ? 2u : 4u;

// Four numbers of a tile of 8 features, laid out as accumulators, as operands of the next product.
__device__ __forceinline__ void to_operands(const float (&c)[4], unsigned* a) {
    if (PRECISION == BF16) {
        a[0] = pack_bf16(c[0], c[1]);
        a[1] = pack_bf16(c[2], c[3]);
    } else {
        a[0] = to_tf32(c[0]);
        a[1] = to_tf32(c[2]);
        a[2] = to_tf32(c[1]);
        a[3] = to_tf32(c[3]);
    }
}

// The operands of rows in shared memory.
template <unsigned FEATURES>
__device__ __forceinline__ void load_operands(const float* x, unsigned lane, unsigned (&a)[FEATURES / 8u * A_WORDS]) {
    const unsigned row = lane / 4u;
#pragma unroll
    for (unsigned tile = 0u; tile < FEATURES / 8u; ++tile) {
        const float* pair = x + (tile * 8u + lane % 4u * 2u) * ROW;
        const float c[4] = {pair[row], pair[ROW + row], pair[row + 8u], pair[ROW + row + 8u]};
        to_operands(c, a + tile * A_WORDS);
    }
}

// TILES_NOW tiles of 8 outputs from tile FIRST on.
template <unsigned CHAIN, unsigned LAYER, unsigned TILES_NOW>
__device__ __forceinline__ void product(
    const Weights& weights, const unsigned* a, unsigned first, unsigned lane, float (&c)[TILES_NOW][4]) {
    constexpr unsigned TOGETHER = padded_outputs(CHAIN, LAYER) / 8u % 2u == 0u ? 2u : 1u;
    const float* bias = weights.packed + packed_offset(CHAIN, LAYER) + matrix_words(CHAIN, LAYER) + first * 8u + lane % 4u * 2u;
#pragma unroll
    for (unsigned tile = 0u; tile < TILES_NOW; ++tile) {
        const float2 pair = *(const float2*)(bias + tile * 8u);
        c[tile][0] = c[tile][2] = pair.x;
        c[tile][1] = c[tile][3] = pair.y;
    }
#pragma unroll
    for (unsigned k = 0u; k < padded_inputs(LAYER) / K_TILE; ++k) {
        const unsigned operand[4] = {a[4u * k], a[4u * k + 1u], a[4u * k + 2u], a[4u * k + 3u]};
#pragma unroll
        for (unsigned tile = 0u; tile < TILES_NOW; tile += TOGETHER) {
            unsigned b[4];
            fragment<CHAIN, LAYER>(weights, k, (first + tile) / TOGETHER, lane, b);
#pragma unroll
            for (unsigned i = 0u; i < TOGETHER; ++i) {
                if (PRECISION == BF16) {
                    mma_bf16(c[tile + i], operand, b[2u * i], b[2u * i + 1u]);
                } else {
                    mma_tf32(c[tile + i], operand, b[2u * i], b[2u * i + 1u]);
                }
            }
        }
    }
}

// Layers LAYER .. of a chain over operands in registers.
template <unsigned CHAIN, unsigned LAYER>
__device__ __forceinline__ void layers_of_fragments(const Weights& weights, const unsigned* a, float* out, unsigned lane) {
    constexpr unsigned TILES = padded_outputs(CHAIN, LAYER) / 8u;
    if constexpr (LAYER < LAYERS) {
        // 64 outputs at a time bound the accumulators that live at once.
        constexpr unsigned TILES_NOW = TILES % 8u == 0u ? 8u : 4u;
        unsigned next[TILES * A_WORDS];
#pragma unroll
        for (unsigned first = 0u; first < TILES; first += TILES_NOW) {
            float c[TILES_NOW][4];
            product<CHAIN, LAYER, TILES_NOW>(weights, a, first, lane, c);
#pragma unroll
            for (unsigned tile = 0u; tile < TILES_NOW; ++tile) {
#pragma unroll
                for (unsigned i = 0u; i < 4u; ++i) c[tile][i] = activation(c[tile][i]);
                to_operands(c[tile], next + (first + tile) * A_WORDS);
            }
        }
        layers_of_fragments<CHAIN, LAYER + 1u>(weights, next, out, lane);
    } else {
        float c[TILES][4];
        product<CHAIN, LAYER, TILES>(weights, a, 0u, lane, c);
        constexpr unsigned COUNT = outputs(CHAIN, LAYER);
#pragma unroll
        for (unsigned tile = 0u; tile < TILES; ++tile) {
#pragma unroll
            for (unsigned i = 0u; i < 4u; ++i) {
                const unsigned n = tile * 8u + lane % 4u * 2u + i % 2u;
                if (n < COUNT) out[n * ROW + lane / 4u + i / 2u * 8u] = c[tile][i];
            }
        }
        __syncwarp();
    }
}

// ---- the network ----------------------------------------------------------------------------------------------------

// Layers LAYER .. of a chain over rows; hidden activations alternate between the two halves of `memory`.
template <unsigned CHAIN, unsigned LAYER>
__device__ __forceinline__ void layers_of_rows(const Weights& weights, const float* x, float* memory, float* out, unsigned lane) {
    const float* layer = weights.packed + packed_offset(CHAIN, LAYER);
    constexpr unsigned COLUMNS = padded_outputs(CHAIN, LAYER), COUNT = outputs(CHAIN, LAYER);
    if constexpr (is_fragments(LAYER)) {
        unsigned a[padded_inputs(LAYER) / 8u * A_WORDS];
        load_operands<padded_inputs(LAYER)>(x, lane, a);
        layers_of_fragments<CHAIN, LAYER>(weights, a, out, lane);
    } else if constexpr (LAYER < LAYERS) {
        float* y = memory + (PRECISION == F32 ? LAYER % 2u * widest_hidden() * ROW : 0u);
        if constexpr (is_bag(LAYER)) {
            bag<COLUMNS, true>(layer, x, y, COUNT, lane);
        } else {
            dense_rows<padded_inputs(LAYER), COLUMNS>(layer, x, y, lane);
        }
        layers_of_rows<CHAIN, LAYER + 1u>(weights, y, memory, out, lane);
    } else if constexpr (is_bag(LAYER)) {
        bag<COLUMNS, false>(layer, x, out, COUNT, lane);
    } else {
        head_rows<padded_inputs(LAYER), COUNT, COLUMNS>(layer, x, out, lane);
    }
}

// Policy outputs and value of the tile's observations `x` into `memory.outputs`; all lanes, which see the outputs after.
__device__ __forceinline__ void forward(const Weights& weights, const float* x, TileMemory& memory, unsigned lane) {
    __syncwarp();
    layers_of_rows<0u, 0u>(weights, x, memory.activations, memory.outputs, lane);
    if constexpr (CHAINS == 2u) layers_of_rows<1u, 0u>(weights, x, memory.activations, memory.outputs + OUTPUTS * ROW, lane);
}
