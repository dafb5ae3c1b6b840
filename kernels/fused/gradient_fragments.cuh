// The gradient of a minibatch's loss on tensor cores: bf16 or tf32 operands, fp32 sums.
//
// A warp runs 16 samples forward and backward; the accumulators of each product are the operands of the next, as in the
// rollout. On the way it leaves every activation and delta in shared memory, [feature][sample], where the block's warps then form
// the weight gradients of all their samples: dW = delta^T x, every warp some tiles of 16 outputs x 8 inputs. Biases are weights of an
// input that is always 1.
//
// Worked example, 4-64-64-(2+1) in bf16, blocks of 8 warps: 128 samples, rows of 128 numbers in 272 bytes; the second layer's
// gradient is 4 x 8 tiles and 4 for the biases, 5 per warp, of 8 products each; all layers together are 8 tiles per warp, held in 32
// registers over the block's samples.
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

// A warp's rows in fp32, [feature][ROW]: inputs, the activations of a first layer over bits, and outputs.
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

// Copies COUNT of a warp's rows in fp32 into rows of features from `feature` on; those up to PADDED are zero.
template <unsigned COUNT, unsigned PADDED>
__device__ __forceinline__ void put_rows(unsigned* rows, unsigned feature, unsigned first_sample, unsigned lane, const float* from) {
    constexpr unsigned PACKED = PRECISION == BF16 ? 2u : 1u, WORDS = TILE / PACKED;
#pragma unroll 4
    for (unsigned place = lane; place < PADDED * WORDS; place += WARP) {
        const unsigned n = place / WORDS, sample = place % WORDS * PACKED;
        const float* at = from + n * ROW + sample;
        const float low = n < COUNT ? at[0] : 0.0f, high = n < COUNT ? at[PACKED - 1u] : 0.0f;
        rows[(feature + n) * ROW_WORDS + (first_sample + sample) / PACKED] = PRECISION == BF16 ? pack_bf16(low, high) : to_tf32(low);
    }
}

#if defined(OPERANT_HOST) || __CUDA_ARCH__ >= 900
constexpr bool STORES_MATRICES = PRECISION == BF16;
#else
constexpr bool STORES_MATRICES = false;
#endif

// Two accumulator tiles of the warp, 16 samples x 16 features from `feature` on, also converted to operands.
__device__ __forceinline__ void put_tiles(unsigned* rows, unsigned feature, unsigned first_sample, unsigned lane, const float (&c)[2][4], const unsigned* a) {
    if constexpr (STORES_MATRICES) {
        const unsigned words[4] = {a[0], a[1], a[2], a[3]};
        store_transposed(rows + (feature + lane / 16u * 8u + lane % 8u) * ROW_WORDS + first_sample / 2u + lane / 8u % 2u * 4u, words);
        return;
    }
#pragma unroll
    for (unsigned i = 0u; i < 8u; ++i) {
        unsigned* row = rows + (feature + i / 4u * 8u + lane % 4u * 2u + i % 2u) * ROW_WORDS;
        const unsigned sample = first_sample + lane / 4u + i / 2u % 2u * 8u;
        if (PRECISION == BF16) {
            ((unsigned short*)row)[sample] = (unsigned short)(a[i / 2u] >> 16u * (i % 2u));
        } else {
            row[sample] = to_tf32(c[i / 4u][i % 4u]);
        }
    }
}

// Reads the numbers back from the rows.
__device__ __forceinline__ void get_tiles(const unsigned* rows, unsigned feature, unsigned first_sample, unsigned lane, float (&c)[2][4]) {
    if constexpr (PRECISION == BF16) {
        unsigned words[4];
        load_matrices<4u, true>(rows + (feature + lane / 16u * 8u + lane % 8u) * ROW_WORDS + first_sample / 2u + lane / 8u % 2u * 4u, words);
#pragma unroll
        for (unsigned i = 0u; i < 8u; ++i) c[i / 4u][i % 4u] = __uint_as_float(i % 2u == 0u ? words[i / 2u] << 16u : words[i / 2u] & 0xffff0000u);
        return;
    }
#pragma unroll
    for (unsigned i = 0u; i < 8u; ++i)
        c[i / 4u][i % 4u] = get_feature(rows, feature + i / 4u * 8u + lane % 4u * 2u + i % 2u, first_sample + lane / 4u + i / 2u % 2u * 8u);
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
            for (unsigned tile = 0u; tile < TILES_NOW; tile += 2u) {
                unsigned* a = next + (first + tile) * A_WORDS;
#pragma unroll
                for (unsigned i = 0u; i < 8u; ++i) c[tile + i / 4u][i % 4u] = activation(c[tile + i / 4u][i % 4u]);
                const float pair[2][4] = {{c[tile][0], c[tile][1], c[tile][2], c[tile][3]}, {c[tile + 1u][0], c[tile + 1u][1], c[tile + 1u][2], c[tile + 1u][3]}};
                to_operands(pair[0], a);
                to_operands(pair[1], a + A_WORDS);
                put_tiles(features, activation_at(CHAIN, LAYER) + (first + tile) * 8u, sample, lane, pair, a);
            }
        }
        forward_kept<CHAIN, LAYER + 1u>(weights, next, out, features, sample, lane);
    } else {
        layers_of_fragments<CHAIN, LAYER>(weights, a, out, lane);
    }
}

// A chain from the warp's rows on. The first layer is a template parameter because the compiler drops an untaken branch only if it depends on one.
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

// Computes the deltas of all layers before LAYER from its delta, which is given as operands.
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
            for (unsigned tile = 0u; tile < TILES_NOW; tile += 2u) {
                const unsigned feature = (first + tile) * 8u;
                unsigned* a = next + (first + tile) * A_WORDS;
                float pair[2][4];
                get_tiles(features, activation_at(CHAIN, LAYER - 1u) + feature, sample, lane, pair);
#pragma unroll
                for (unsigned i = 0u; i < 8u; ++i) pair[i / 4u][i % 4u] = c[tile + i / 4u][i % 4u] * slope(pair[i / 4u][i % 4u]);
                to_operands(pair[0], a);
                to_operands(pair[1], a + A_WORDS);
                put_tiles(features, delta_at(CHAIN, LAYER - 1u) + feature, sample, lane, pair, a);
            }
        }
        backward_kept<CHAIN, LAYER - 1u>(transposed, next, features, sample, lane);
    }
}

// Reads the delta of a chain's outputs from the warp's rows and computes the deltas of all its layers.
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
    put_rows<COUNT, delta_rows(CHAIN, LAYERS)>(features, delta_at(CHAIN, LAYERS), sample, lane, out);
    backward_kept<CHAIN, LAYERS>(transposed, delta, features, sample, lane);
}

// ---- weight gradients, by all warps of the block --------------------------------------------------------------------

// Tiles of 16 outputs x 8 inputs of a layer's gradient, `down` tiles per column; the last column of tiles is for the
// biases, whose inputs are 1. A first layer over bits has only that.
__device__ __forceinline__ constexpr unsigned down(unsigned chain, unsigned layer) { return delta_rows(chain, layer) / 16u; }
__device__ __forceinline__ constexpr unsigned across(unsigned layer) { return is_bag(layer) ? 0u : round_up(inputs(layer), 8u) / 8u; }
__device__ __forceinline__ constexpr unsigned gradient_tiles(unsigned chain, unsigned layer) { return down(chain, layer) * (across(layer) + 1u); }
// Tiles per warp: a warp takes every BLOCK_WARPSth.
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
constexpr unsigned HELD_TILES = HELD ? TILES_A_WARP : 1u;

// Adds delta^T x over the block's samples to COUNT of a warp's tiles from number `first` on. Past the layer's last tile it repeats the last one.
// `first` is below FIRST + BLOCK_WARPS, so that the compiler knows which of the tiles can be those of biases.
template <unsigned CHAIN, unsigned LAYER, unsigned COUNT, unsigned FIRST>
__device__ __forceinline__ void add_tiles(const unsigned* features, unsigned first, unsigned lane, float (*c)[4]) {
    constexpr unsigned DOWN = down(CHAIN, LAYER), LAST = gradient_tiles(CHAIN, LAYER) - 1u, BIASES = DOWN * across(LAYER);
    // Whether all of a warp's tiles have the same outputs.
    constexpr bool SAME = BLOCK_WARPS % DOWN == 0u;
    const unsigned* delta = features + (delta_at(CHAIN, LAYER) + lane % 16u) * ROW_WORDS + lane / 16u * 4u;
    const unsigned* x = features + ((LAYER == 0u ? 0u : activation_at(CHAIN, LAYER - 1u)) + lane % 8u) * ROW_WORDS + lane / 8u % 2u * 4u;
    // A column of ones.
    const unsigned ones = lane >= 4u ? 0u : PRECISION == BF16 ? 0x3f803f80u : 0x3f800000u;
    const unsigned *deltas[COUNT], *xs[COUNT];
    bool is_bias[COUNT];
#pragma unroll
    for (unsigned i = 0u; i < COUNT; ++i) {
        const unsigned tile = first + i * BLOCK_WARPS < LAST ? first + i * BLOCK_WARPS : LAST;
        is_bias[i] = FIRST + (i + 1u) * BLOCK_WARPS > BIASES && tile >= BIASES;
        deltas[i] = delta + tile % DOWN * 16u * ROW_WORDS;
        xs[i] = x + (is_bias[i] ? 0u : tile / DOWN) * 8u * ROW_WORDS;
    }
#pragma unroll
    for (unsigned k = 0u; k < BLOCK_SAMPLES / K_TILE; ++k) {
        unsigned a[4];
#pragma unroll
        for (unsigned i = 0u; i < COUNT; ++i) {
            unsigned b[2];
            if (i == 0u || !SAME) load_matrices(deltas[i] + k * 8u, a);
            load_matrices(xs[i] + k * 8u, b);
            if (is_bias[i]) b[0] = b[1] = ones;
            if (PRECISION == BF16) {
                mma_bf16(c[i], a, b[0], b[1]);
            } else {
                mma_tf32(c[i], a, b[0], b[1]);
            }
        }
    }
}

// Calls `f(place, number, pair)` for the numbers of a tile that are gradients of parameters, with their places in the partial gradient;
// `pair` is true if the place is even and the next number belongs to the next place.
template <unsigned CHAIN, unsigned LAYER, typename F>
__device__ __forceinline__ void for_each_gradient(unsigned tile, unsigned lane, F f) {
    constexpr unsigned INPUTS = inputs(LAYER), COUNT = outputs(CHAIN, LAYER), DOWN = down(CHAIN, LAYER), AT = flat_offset(CHAIN, LAYER);
    constexpr bool PAIRS = INPUTS % 2u == 0u && AT % 2u == 0u;
    if (tile >= gradient_tiles(CHAIN, LAYER)) return;
    const bool is_bias = tile >= DOWN * across(LAYER);
#pragma unroll
    for (unsigned i = 0u; i < 4u; ++i) {
        const unsigned row = tile % DOWN * 16u + lane / 4u + i / 2u * 8u, column = lane % 4u * 2u + i % 2u, input = tile / DOWN * 8u + column;
        if (row >= COUNT) continue;
        if (is_bias) {
            if (column == 0u) f(AT + INPUTS * COUNT + row, i, false);
        } else if (input < INPUTS && (!PAIRS || i % 2u == 0u)) {
            f(AT + row * INPUTS + input, i, PAIRS);
        }
    }
}

__device__ __forceinline__ void put_numbers(float* place, const float (&c)[4], unsigned number, bool pair) {
    if (pair) {
        *(float2*)place = make_float2(c[number], c[(number + 1u) % 4u]);
    } else {
        *place = c[number];
    }
}

// The gradients of weights and biases of layers LAYER .. of the chain and of the chains after it. FLUSH writes the sums in registers.
template <unsigned CHAIN, unsigned LAYER, bool FLUSH>
__device__ __forceinline__ void layer_gradients(const unsigned* features, float* partial, bool first, float (&held)[HELD_TILES][4]) {
    if constexpr (CHAIN < CHAINS) {
        const unsigned lane = threadIdx.x % WARP, warp = threadIdx.x / WARP;
        constexpr unsigned COUNT = tiles_a_warp(CHAIN, LAYER), BEFORE = tiles_before(CHAIN, LAYER);
        if constexpr (HELD && FLUSH) {
#pragma unroll
            for (unsigned i = 0u; i < COUNT; ++i)
                for_each_gradient<CHAIN, LAYER>(warp + i * BLOCK_WARPS, lane, [&](unsigned place, unsigned number, bool pair) { put_numbers(partial + place, held[BEFORE + i], number, pair); });
        } else if constexpr (HELD) {
            add_tiles<CHAIN, LAYER, COUNT, 0u>(features, warp, lane, held + BEFORE);
        } else if constexpr (!FLUSH) {
            constexpr unsigned NOW = COUNT < 4u ? COUNT : 4u;
#pragma unroll 1
            for (unsigned tile = warp; tile < gradient_tiles(CHAIN, LAYER); tile += NOW * BLOCK_WARPS) {
                float c[NOW][4] = {};
                if (!first) {
#pragma unroll
                    for (unsigned i = 0u; i < NOW; ++i)
                        for_each_gradient<CHAIN, LAYER>(tile + i * BLOCK_WARPS, lane, [&](unsigned place, unsigned number, bool pair) {
                            c[i][number] = partial[place];
                            if (pair) c[i][(number + 1u) % 4u] = partial[place + 1u];
                        });
                }
                add_tiles<CHAIN, LAYER, NOW, ~0u / 2u>(features, tile, lane, c);
#pragma unroll
                for (unsigned i = 0u; i < NOW; ++i)
                    for_each_gradient<CHAIN, LAYER>(tile + i * BLOCK_WARPS, lane, [&](unsigned place, unsigned number, bool pair) { put_numbers(partial + place, c[i], number, pair); });
            }
        }
        if constexpr (LAYER < LAYERS) {
            layer_gradients<CHAIN, LAYER + 1u, FLUSH>(features, partial, first, held);
        } else {
            layer_gradients<CHAIN + 1u, 0u, FLUSH>(features, partial, first, held);
        }
    }
}

// The weight gradient of a first layer over bits, whose observations are in the warps' rows.
template <unsigned CHAIN>
__device__ __forceinline__ void bits_gradient(const unsigned* features, const float* rows, float* partial, bool first) {
    constexpr unsigned INPUTS = inputs(0u), COUNT = outputs(CHAIN, 0u), WORDS = (INPUTS + 31u) / 32u;
    const unsigned* bits = (const unsigned*)rows;
#pragma unroll 1
    for (unsigned part = threadIdx.x; part < WORDS * COUNT; part += blockDim.x) {
        const unsigned word = part / COUNT, n = part % COUNT;
        float sum[32] = {};
#pragma unroll 1
        for (unsigned sample = 0u; sample < BLOCK_SAMPLES; ++sample) {
            const unsigned set = bits[(sample / TILE * WARP_ROWS + word) * ROW + sample % TILE];
            const float d = get_feature(features, delta_at(CHAIN, 0u) + n, sample);
#pragma unroll
            for (unsigned bit = 0u; bit < 32u; ++bit) sum[bit] += (set >> bit & 1u) != 0u ? d : 0.0f;
        }
#pragma unroll
        for (unsigned bit = 0u; bit < 32u; ++bit)
            if (word * 32u + bit < INPUTS) put(partial + flat_offset(CHAIN, 0u) + n * INPUTS + word * 32u + bit, first, sum[bit]);
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
            put_rows<width(0u), OBS_FEATURES>(features(), 0u, sample, lane, own_rows);
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
        layer_gradients<0u, 0u, false>(features(), partial, first, held);
        if constexpr (is_bag(0u)) bits_gradient<0u>(features(), rows, partial, first);
        if constexpr (is_bag(0u) && CHAINS == 2u) bits_gradient<1u>(features(), rows, partial, first);
    }

    __device__ __forceinline__ void end() { layer_gradients<0u, 0u, true>(features(), partial, true, held); }
};
