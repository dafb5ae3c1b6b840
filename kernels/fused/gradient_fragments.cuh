// The gradient of a minibatch's loss on tensor cores: bf16 or tf32 operands, fp32 sums.
//
// A warp runs 16 samples forward and backward; the accumulators of each product are the operands of the next, as in the
// rollout. On the way it leaves every activation and delta in shared memory, [feature][sample], where the block's warps then form
// the weight gradients of all their samples: dW = delta^T x, every warp some tiles of 16 outputs x 8 inputs.
//
// Worked example, 4-64-64-(2+1) in bf16, blocks of 4 warps: 64 samples, rows of 64 numbers in 144 bytes; the second layer's
// gradient is 4 x 8 tiles, 8 a warp, of 4 products each; all layers together are 11 tiles a warp, held in 44 registers over the
// block's samples.
#pragma once

constexpr unsigned BLOCK_WARPS = THREADS / WARP;
constexpr unsigned BLOCK_SAMPLES = BLOCK_WARPS * TILE;
// Words of a feature's row: two samples to a word in bf16. 4 words more put neighbouring rows into other banks.
constexpr unsigned ROW_WORDS = BLOCK_SAMPLES / (PRECISION == BF16 ? 2u : 1u) + 4u;

// Rows of the block's shared memory, in features: observations, then activations and deltas of each layer of each chain.
__device__ __forceinline__ constexpr unsigned delta_rows(unsigned chain, unsigned layer) {
    return round_up(outputs(chain, layer), layer < LAYERS ? 32u : 16u);
}
constexpr unsigned OBS_FEATURES = OBS_BITS ? 0u : round_up(width(0u), 16u);
__device__ __forceinline__ constexpr unsigned activation_at(unsigned chain, unsigned layer) {
    return OBS_FEATURES + chain * hidden_row(LAYERS) + hidden_row(layer);
}
__device__ __forceinline__ constexpr unsigned delta_at(unsigned chain, unsigned layer) {
    unsigned rows = OBS_FEATURES + CHAINS * hidden_row(LAYERS);
    for (unsigned c = 0u; c <= chain; ++c)
        for (unsigned l = 0u; l < (c < chain ? LAYERS + 1u : layer); ++l) rows += delta_rows(c, l);
    return rows;
}
constexpr unsigned FEATURES = delta_at(CHAINS - 1u, LAYERS + 1u);
constexpr unsigned FEATURE_WORDS = FEATURES * ROW_WORDS;

// A warp's rows in fp32, [feature][ROW]: what it reads, the activations of a first layer over bits, and outputs.
constexpr unsigned READ_ROWS = OBS_BITS ? (width(0u) + 31u) / 32u : padded_inputs(0u);
constexpr unsigned BAG_ROWS = OBS_BITS && LAYERS > 0u ? round_up(width(1u), 32u) : 0u;
constexpr unsigned OUTPUTS_AT = READ_ROWS + BAG_ROWS;
__device__ __forceinline__ constexpr unsigned output_row(unsigned chain) { return chain == 0u ? 0u : round_up(OUTPUTS, 8u); }
constexpr unsigned VALUE_ROW = CHAINS == 1u ? OUTPUTS : output_row(1u);
constexpr unsigned DELTA_ROWS = output_row(CHAINS - 1u) + round_up(outputs(CHAINS - 1u, LAYERS), 8u);
constexpr unsigned WARP_ROWS = OUTPUTS_AT + DELTA_ROWS;

// Words of the transposed fragments, k over outputs and n over inputs, of every layer but the first.
__device__ __forceinline__ constexpr unsigned transposed_words(unsigned chain, unsigned layer) {
    return round_up(outputs(chain, layer), layer < LAYERS ? 32u : K_TILE) / K_TILE * (padded_inputs(layer) / 8u) * 2u * WARP;
}
__device__ __forceinline__ constexpr unsigned transposed_offset(unsigned chain, unsigned layer) {
    unsigned words = 0u;
    for (unsigned c = 0u; c <= chain; ++c)
        for (unsigned l = 1u; l < (c < chain ? LAYERS + 1u : layer); ++l) words += transposed_words(c, l);
    return words;
}
constexpr unsigned TRANSPOSED_WORDS = transposed_offset(CHAINS - 1u, LAYERS + 1u);

// Tiles of outputs whose accumulators are live at once. tf32 operands take twice the registers, and so do loads from global memory.
__device__ __forceinline__ constexpr unsigned tiles_now(unsigned tiles) {
    return tiles % 8u == 0u && PRECISION == BF16 && WEIGHTS_AT != GLOBAL ? 8u : 4u;
}

// Puts a number into its feature's row.
__device__ __forceinline__ void put_feature(unsigned* rows, unsigned feature, unsigned sample, float value) {
    if (PRECISION == BF16) {
        ((unsigned short*)(rows + feature * ROW_WORDS))[sample] = (unsigned short)pack_bf16(value, 0.0f);
    } else {
        rows[feature * ROW_WORDS + sample] = to_tf32(value);
    }
}

__device__ __forceinline__ float get_feature(const unsigned* rows, unsigned feature, unsigned sample) {
    if (PRECISION == BF16) return __uint_as_float((unsigned)((const unsigned short*)(rows + feature * ROW_WORDS))[sample] << 16u);
    return __uint_as_float(rows[feature * ROW_WORDS + sample]);
}

// An accumulator tile of the warp, 16 samples x 8 features from `feature` on.
__device__ __forceinline__ void put_tile(unsigned* rows, unsigned feature, unsigned first_sample, unsigned lane, const float (&c)[4]) {
#pragma unroll
    for (unsigned i = 0u; i < 4u; ++i) put_feature(rows, feature + lane % 4u * 2u + i % 2u, first_sample + lane / 4u + i / 2u * 8u, c[i]);
}

// Layers LAYER .. of a chain over operands in registers; every activation goes to the block's rows.
template <unsigned CHAIN, unsigned LAYER>
__device__ __forceinline__ void forward_kept(const Weights& weights, const unsigned* a, float* out, unsigned* features, unsigned sample, unsigned lane) {
    constexpr unsigned TILES = padded_outputs(CHAIN, LAYER) / 8u;
    if constexpr (LAYER < LAYERS) {
        constexpr unsigned TILES_NOW = tiles_now(TILES);
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
                put_tile(features, activation_at(CHAIN, LAYER) + (first + tile) * 8u, sample, lane, c[tile]);
            }
        }
        forward_kept<CHAIN, LAYER + 1u>(weights, next, out, features, sample, lane);
    } else {
        layers_of_fragments<CHAIN, LAYER>(weights, a, out, lane);
    }
}

// A chain from the warp's rows on. The first layer is a parameter because only what depends on one is left out when a branch is not taken.
template <unsigned CHAIN, unsigned FIRST = 0u>
__device__ __forceinline__ void forward_chain(const Weights& weights, float* rows, unsigned* features, unsigned sample, unsigned lane) {
    float* out = rows + (OUTPUTS_AT + output_row(CHAIN)) * ROW;
    if constexpr (!is_bag(FIRST)) {
        unsigned a[padded_inputs(FIRST) / 8u * A_WORDS];
        load_operands<padded_inputs(FIRST)>(rows, lane, a);
        forward_kept<CHAIN, FIRST>(weights, a, out, features, sample, lane);
    } else if constexpr (LAYERS > 0u) {
        constexpr unsigned COLUMNS = padded_outputs(CHAIN, 0u);
        float* y = rows + READ_ROWS * ROW;
        bag<COLUMNS, true>(weights.packed + packed_offset(CHAIN, 0u), rows, y, COLUMNS, lane);
        unsigned a[COLUMNS / 8u * A_WORDS];
        load_operands<COLUMNS>(y, lane, a);
#pragma unroll 1
        for (unsigned place = lane; place < COLUMNS * TILE; place += WARP)
            put_feature(features, activation_at(CHAIN, 0u) + place / TILE, sample + place % TILE, y[place / TILE * ROW + place % TILE]);
        __syncwarp();
        forward_kept<CHAIN, 1u>(weights, a, out, features, sample, lane);
    } else {
        constexpr unsigned COLUMNS = padded_outputs(CHAIN, 0u);
        bag<COLUMNS, false>(weights.packed + packed_offset(CHAIN, 0u), rows, out, outputs(CHAIN, 0u), lane);
    }
}

// From the delta of layer LAYER, as operands, to those of all layers before it.
template <unsigned CHAIN, unsigned LAYER>
__device__ __forceinline__ void backward_kept(const float* transposed, const unsigned* delta, unsigned* features, unsigned sample, unsigned lane) {
    if constexpr (LAYER > 0u) {
        constexpr unsigned TILES = padded_inputs(LAYER) / 8u, TILES_NOW = tiles_now(TILES);
        constexpr unsigned STEPS = round_up(outputs(CHAIN, LAYER), LAYER < LAYERS ? 32u : K_TILE) / K_TILE;
        const float* fragments = transposed + transposed_offset(CHAIN, LAYER);
        unsigned next[TILES * A_WORDS];
#pragma unroll
        for (unsigned first = 0u; first < TILES; first += TILES_NOW) {
            float c[TILES_NOW][4] = {};
#pragma unroll
            for (unsigned k = 0u; k < STEPS; ++k) {
                const unsigned operand[4] = {delta[4u * k], delta[4u * k + 1u], delta[4u * k + 2u], delta[4u * k + 3u]};
#pragma unroll
                for (unsigned tile = 0u; tile < TILES_NOW; tile += 2u) {
                    const uint4 b = *(const uint4*)(fragments + ((k * (TILES / 2u) + (first + tile) / 2u) * WARP + lane) * 4u);
                    if (PRECISION == BF16) {
                        mma_bf16(c[tile], operand, b.x, b.y);
                        mma_bf16(c[tile + 1u], operand, b.z, b.w);
                    } else {
                        mma_tf32(c[tile], operand, b.x, b.y);
                        mma_tf32(c[tile + 1u], operand, b.z, b.w);
                    }
                }
            }
#pragma unroll
            for (unsigned tile = 0u; tile < TILES_NOW; ++tile) {
                const unsigned feature = (first + tile) * 8u;
#pragma unroll
                for (unsigned i = 0u; i < 4u; ++i)
                    c[tile][i] *= slope(get_feature(features, activation_at(CHAIN, LAYER - 1u) + feature + lane % 4u * 2u + i % 2u,
                                                    sample + lane / 4u + i / 2u * 8u));
                to_operands(c[tile], next + (first + tile) * A_WORDS);
                put_tile(features, delta_at(CHAIN, LAYER - 1u) + feature, sample, lane, c[tile]);
            }
        }
        backward_kept<CHAIN, LAYER - 1u>(transposed, next, features, sample, lane);
    }
}

// The delta of a chain's outputs, from the warp's rows, and with it those of all its layers.
template <unsigned CHAIN>
__device__ __forceinline__ void backward_chain(const float* transposed, const float* rows, unsigned* features, unsigned sample, unsigned lane) {
    constexpr unsigned COUNT = round_up(outputs(CHAIN, LAYERS), 8u), STEPS = round_up(COUNT, K_TILE) / 8u;
    const float* out = rows + (OUTPUTS_AT + output_row(CHAIN)) * ROW;
    unsigned delta[STEPS * A_WORDS] = {};
    unsigned loaded[COUNT / 8u * A_WORDS];
    load_operands<COUNT>(out, lane, loaded);
#pragma unroll
    for (unsigned i = 0u; i < COUNT / 8u * A_WORDS; ++i) delta[i] = loaded[i];
    // Rows that only pad the tiles of outputs are zero, too.
#pragma unroll 1
    for (unsigned place = lane; place < delta_rows(CHAIN, LAYERS) * TILE; place += WARP) {
        const unsigned n = place / TILE;
        put_feature(features, delta_at(CHAIN, LAYERS) + n, sample + place % TILE, n < COUNT ? out[n * ROW + place % TILE] : 0.0f);
    }
    backward_kept<CHAIN, LAYERS>(transposed, delta, features, sample, lane);
}

// ---- weight gradients, by all warps of the block --------------------------------------------------------------------

// Tiles of 16 outputs x 8 inputs of a layer's gradient, and how many of them a warp takes.
__device__ __forceinline__ constexpr unsigned gradient_tiles(unsigned chain, unsigned layer) {
    return is_bag(layer) ? 0u : delta_rows(chain, layer) / 16u * (round_up(inputs(layer), 8u) / 8u);
}
__device__ __forceinline__ constexpr unsigned tiles_a_warp(unsigned chain, unsigned layer) {
    return (gradient_tiles(chain, layer) + BLOCK_WARPS - 1u) / BLOCK_WARPS;
}
__device__ __forceinline__ constexpr unsigned tiles_before(unsigned chain, unsigned layer) {
    unsigned tiles = 0u;
    for (unsigned c = 0u; c <= chain; ++c)
        for (unsigned l = 0u; l < (c < chain ? LAYERS + 1u : layer); ++l) tiles += tiles_a_warp(c, l);
    return tiles;
}
constexpr unsigned TILES_A_WARP = tiles_before(CHAINS - 1u, LAYERS + 1u);
// Gradients of small networks stay in registers over all tiles of a block; others are accumulated in memory. tf32 operands leave
// too few registers for them.
constexpr bool HELD = PRECISION == BF16 && TILES_A_WARP <= 16u;
// At least one: an array has an element.
constexpr unsigned HELD_TILES = HELD && TILES_A_WARP > 0u ? TILES_A_WARP : 1u;

// Adds delta^T x over the block's samples for tile (m, n).
__device__ __forceinline__ void add_tile(const unsigned* delta, const unsigned* x, unsigned m, unsigned n, unsigned lane, float (&c)[4]) {
    const unsigned* a_row = delta + (m * 16u + lane / 4u) * ROW_WORDS + lane % 4u;
    const unsigned* b_row = x + (n * 8u + lane / 4u) * ROW_WORDS + lane % 4u;
#pragma unroll
    for (unsigned k = 0u; k < BLOCK_SAMPLES / K_TILE; ++k) {
        const unsigned a[4] = {a_row[k * 8u], a_row[8u * ROW_WORDS + k * 8u], a_row[k * 8u + 4u], a_row[8u * ROW_WORDS + k * 8u + 4u]};
        if (PRECISION == BF16) {
            mma_bf16(c, a, b_row[k * 8u], b_row[k * 8u + 4u]);
        } else {
            mma_tf32(c, a, b_row[k * 8u], b_row[k * 8u + 4u]);
        }
    }
}

template <unsigned CHAIN, unsigned LAYER>
__device__ __forceinline__ void put_gradient(float* partial, bool first, unsigned m, unsigned n, unsigned lane, const float (&c)[4]) {
    constexpr unsigned INPUTS = inputs(LAYER), COUNT = outputs(CHAIN, LAYER);
#pragma unroll
    for (unsigned i = 0u; i < 4u; ++i) {
        const unsigned row = m * 16u + lane / 4u + i / 2u * 8u, column = n * 8u + lane % 4u * 2u + i % 2u;
        if (row < COUNT && column < INPUTS) put(partial + flat_offset(CHAIN, LAYER) + row * INPUTS + column, first, c[i]);
    }
}

// Loads the sums of the block's earlier tiles from `partial`, all at once.
template <unsigned CHAIN, unsigned LAYER>
__device__ __forceinline__ void get_gradient(const float* partial, unsigned m, unsigned n, unsigned lane, float (&c)[4]) {
    constexpr unsigned INPUTS = inputs(LAYER), COUNT = outputs(CHAIN, LAYER);
#pragma unroll
    for (unsigned i = 0u; i < 4u; ++i) {
        const unsigned row = m * 16u + lane / 4u + i / 2u * 8u, column = n * 8u + lane % 4u * 2u + i % 2u;
        if (row < COUNT && column < INPUTS) c[i] = partial[flat_offset(CHAIN, LAYER) + row * INPUTS + column];
    }
}

// The weight gradients of layers LAYER .. of the chain and of the chains after it. FLUSH writes what registers hold.
template <unsigned CHAIN, unsigned LAYER, bool FLUSH>
__device__ __forceinline__ void weight_gradients(const unsigned* features, float* partial, bool first, float (&held)[HELD_TILES][4]) {
    if constexpr (CHAIN < CHAINS) {
        const unsigned lane = threadIdx.x % WARP, warp = threadIdx.x / WARP;
        constexpr unsigned TILES = gradient_tiles(CHAIN, LAYER), DOWN = delta_rows(CHAIN, LAYER) / 16u;
        const unsigned* delta = features + delta_at(CHAIN, LAYER) * ROW_WORDS;
        const unsigned* x = features + (LAYER == 0u ? 0u : activation_at(CHAIN, LAYER - 1u)) * ROW_WORDS;
        if constexpr (HELD) {
#pragma unroll
            for (unsigned i = 0u; i < tiles_a_warp(CHAIN, LAYER); ++i) {
                const unsigned tile = warp + i * BLOCK_WARPS;
                float(&c)[4] = held[tiles_before(CHAIN, LAYER) + i];
                if (tile >= TILES) continue;
                if (FLUSH) {
                    put_gradient<CHAIN, LAYER>(partial, true, tile % DOWN, tile / DOWN, lane, c);
                } else {
                    add_tile(delta, x, tile % DOWN, tile / DOWN, lane, c);
                }
            }
        } else if constexpr (!FLUSH) {
#pragma unroll 1
            for (unsigned tile = warp; tile < TILES; tile += BLOCK_WARPS) {
                float c[4] = {};
                if (!first) get_gradient<CHAIN, LAYER>(partial, tile % DOWN, tile / DOWN, lane, c);
                add_tile(delta, x, tile % DOWN, tile / DOWN, lane, c);
                put_gradient<CHAIN, LAYER>(partial, true, tile % DOWN, tile / DOWN, lane, c);
            }
        }
        if constexpr (LAYER < LAYERS) {
            weight_gradients<CHAIN, LAYER + 1u, FLUSH>(features, partial, first, held);
        } else {
            weight_gradients<CHAIN + 1u, 0u, FLUSH>(features, partial, first, held);
        }
    }
}

// The bias gradients of all layers, and the weight gradient of a first layer over bits, whose observations stand in the warps'
// rows.
template <unsigned CHAIN, unsigned LAYER>
__device__ __forceinline__ void other_gradients(const unsigned* features, const float* rows, float* partial, bool first) {
    if constexpr (CHAIN < CHAINS) {
        constexpr unsigned INPUTS = inputs(LAYER), COUNT = outputs(CHAIN, LAYER);
        float* of_layer = partial + flat_offset(CHAIN, LAYER);
        for (unsigned n = threadIdx.x; n < COUNT; n += blockDim.x) {
            float sum = 0.0f;
#pragma unroll 8
            for (unsigned sample = 0u; sample < BLOCK_SAMPLES; ++sample) sum += get_feature(features, delta_at(CHAIN, LAYER) + n, sample);
            put(of_layer + INPUTS * COUNT + n, first, sum);
        }
        if constexpr (is_bag(LAYER)) {
            constexpr unsigned WORDS = (INPUTS + 31u) / 32u;
            const unsigned* bits = (const unsigned*)rows;
#pragma unroll 1
            for (unsigned part = threadIdx.x; part < WORDS * COUNT; part += blockDim.x) {
                const unsigned word = part / COUNT, n = part % COUNT;
                float sum[32] = {};
#pragma unroll 1
                for (unsigned sample = 0u; sample < BLOCK_SAMPLES; ++sample) {
                    const unsigned set = bits[(sample / TILE * WARP_ROWS + word) * ROW + sample % TILE];
                    const float d = get_feature(features, delta_at(CHAIN, LAYER) + n, sample);
#pragma unroll
                    for (unsigned bit = 0u; bit < 32u; ++bit) sum[bit] += (set >> bit & 1u) != 0u ? d : 0.0f;
                }
#pragma unroll
                for (unsigned bit = 0u; bit < 32u; ++bit)
                    if (word * 32u + bit < INPUTS) put(of_layer + n * INPUTS + word * 32u + bit, first, sum[bit]);
            }
        }
        if constexpr (LAYER < LAYERS) {
            other_gradients<CHAIN, LAYER + 1u>(features, rows, partial, first);
        } else {
            other_gradients<CHAIN + 1u, 0u>(features, rows, partial, first);
        }
    }
}

// A block's work on its tiles of a minibatch.
struct BlockGradient {
    const float* packed;
    const float* transposed;
    float* rows;
    float* partial;
    float held[HELD_TILES][4];

    __device__ __forceinline__ unsigned* features() const { return (unsigned*)rows - FEATURE_WORDS; }

    __device__ __forceinline__ void begin() {
#pragma unroll
        for (unsigned tile = 0u; tile < HELD_TILES; ++tile) held[tile][0] = held[tile][1] = held[tile][2] = held[tile][3] = 0.0f;
    }

    // Outputs of the warp's samples from their observations.
    __device__ __forceinline__ void forward(float* own_rows, unsigned lane) {
        const unsigned sample = threadIdx.x / WARP * TILE;
        // Rows that only pad a tile of features are zero.
        if (!OBS_BITS) {
            for (unsigned place = width(0u) * TILE + lane; place < READ_ROWS * TILE; place += WARP) own_rows[place / TILE * ROW + place % TILE] = 0.0f;
            __syncwarp();
#pragma unroll 1
            for (unsigned place = lane; place < OBS_FEATURES * TILE; place += WARP)
                put_feature(features(), place / TILE, sample + place % TILE, place / TILE < width(0u) ? own_rows[place / TILE * ROW + place % TILE] : 0.0f);
        }
        Weights weights;
        weights.packed = packed;
        forward_chain<0u>(weights, own_rows, features(), sample, lane);
        if constexpr (CHAINS == 2u) forward_chain<1u>(weights, own_rows, features(), sample, lane);
    }

    // Gradients from the outputs' deltas; all threads.
    __device__ __forceinline__ void backward(float* own_rows, unsigned lane, bool first) {
        const unsigned sample = threadIdx.x / WARP * TILE;
        __syncwarp();
        backward_chain<0u>(transposed, own_rows, features(), sample, lane);
        if constexpr (CHAINS == 2u) backward_chain<1u>(transposed, own_rows, features(), sample, lane);
        __syncthreads();
        weight_gradients<0u, 0u, false>(features(), partial, first, held);
        other_gradients<0u, 0u>(features(), rows, partial, first);
    }

    __device__ __forceinline__ void end() { weight_gradients<0u, 0u, true>(features(), partial, true, held); }
};
