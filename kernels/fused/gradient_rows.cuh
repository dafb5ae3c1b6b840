// The gradient of a minibatch's loss, tile by tile: forward, loss, backward. fp32.
//
// in   packed samples; weights packed twice: as forward products read them (packing.cuh), and transposed for the gradient of
//      the inputs (adam.cuh)
// out  per block, the sum over its tiles of the gradient of every parameter, in the order of the flat parameters
//
// A warp runs 16 samples forward and backward through rows in shared memory, [feature][ROW]; the block's warps together form
// the weight gradients of their samples, every thread a rectangle of k x n. Deltas replace activations in place.
//
// Worked example, 4-64-64-(2+1), blocks of 4 warps: a tile is 64 samples; the second layer's gradient is 64 x 64 numbers, 4 x 8
// of them a thread; a block's partial gradient is 4,675 numbers in global memory, which stay in the L2 cache.
#pragma once

constexpr unsigned HIDDEN_ROWS = hidden_row(LAYERS);
// The offsets of a chain's outputs and of the value.
__device__ __forceinline__ constexpr unsigned output_row(unsigned chain) { return chain == 0u ? 0u : padded_outputs(0u, LAYERS); }
constexpr unsigned VALUE_ROW = CHAINS == 1u ? OUTPUTS : output_row(1u);
constexpr unsigned DELTA_ROWS = output_row(CHAINS - 1u) + padded_outputs(CHAINS - 1u, LAYERS);
constexpr unsigned OBS_ROWS_F32 = OBS_BITS ? (width(0u) + 31u) / 32u : width(0u);

// Rows of a warp's shared memory: observations, hidden activations of every chain, outputs.
constexpr unsigned ACTIVATIONS_AT = OBS_ROWS_F32;
constexpr unsigned OUTPUTS_AT = ACTIVATIONS_AT + CHAINS * HIDDEN_ROWS;
constexpr unsigned WARP_ROWS = OUTPUTS_AT + DELTA_ROWS;

// Words of the transposed matrices, [n][k], of every layer but the first.
__device__ __forceinline__ constexpr unsigned transposed_offset(unsigned chain, unsigned layer) {
    unsigned words = 0u;
    for (unsigned c = 0u; c <= chain; ++c)
        for (unsigned l = 1u; l < (c < chain ? LAYERS + 1u : layer); ++l) words += padded_outputs(c, l) * padded_inputs(l);
    return words;
}

constexpr unsigned TRANSPOSED_WORDS = transposed_offset(CHAINS - 1u, LAYERS + 1u);

// Shared memory of the block in addition to its warps' rows: none.
constexpr unsigned FEATURE_WORDS = 0u;

// Layers LAYER .. of a chain, every activation kept.
template <unsigned CHAIN, unsigned LAYER>
__device__ __forceinline__ void forward_kept(const float* weights, const float* x, float* rows, unsigned lane) {
    const float* layer = weights + packed_offset(CHAIN, LAYER);
    constexpr unsigned COLUMNS = padded_outputs(CHAIN, LAYER), COUNT = outputs(CHAIN, LAYER);
    float* out = rows + (OUTPUTS_AT + output_row(CHAIN)) * ROW;
    if constexpr (LAYER < LAYERS) {
        float* y = rows + (ACTIVATIONS_AT + CHAIN * HIDDEN_ROWS + hidden_row(LAYER)) * ROW;
        if constexpr (is_bag(LAYER)) {
            bag<COLUMNS, true>(layer, x, y, COUNT, lane);
        } else {
            dense_rows<padded_inputs(LAYER), COLUMNS>(layer, x, y, lane);
        }
        forward_kept<CHAIN, LAYER + 1u>(weights, y, rows, lane);
    } else if constexpr (is_bag(LAYER)) {
        bag<COLUMNS, false>(layer, x, out, COUNT, lane);
    } else {
        head_rows<padded_inputs(LAYER), COUNT, COLUMNS>(layer, x, out, lane);
    }
}

// Replaces activations y, [k][ROW], by the gradient before the nonlinearity: (W^T delta) times its slope.
template <unsigned ROWS_IN, unsigned COLUMNS>
__device__ __forceinline__ void input_gradient(const float* transposed, const float* delta, float* y, unsigned lane) {
    constexpr unsigned GROUPS = groups_of(COLUMNS);
    const unsigned sample = lane % 4u * 4u;
#pragma unroll 1
    for (unsigned column = lane / 4u * 4u; column < COLUMNS; column += 32u * GROUPS) {
        LaneSums<GROUPS> sum = {};
        add_product<ROWS_IN, COLUMNS, GROUPS>(transposed, delta, column, sample, sum);
#pragma unroll
        for (unsigned group = 0u; group < GROUPS; ++group) {
#pragma unroll
            for (unsigned n = 0u; n < 4u; ++n) {
                float4* place = (float4*)(y + (column + group * 32u + n) * ROW + sample);
                float4 out = *place;
                out.x = sum.at[group][n][0] * slope(out.x);
                out.y = sum.at[group][n][1] * slope(out.y);
                out.z = sum.at[group][n][2] * slope(out.z);
                out.w = sum.at[group][n][3] * slope(out.w);
                *place = out;
            }
        }
    }
}

__device__ __forceinline__ float dot(const float4& a, const float4& b, float sum) {
    return fmaf(a.w, b.w, fmaf(a.z, b.z, fmaf(a.y, b.y, fmaf(a.x, b.x, sum))));
}

// K x N numbers per thread, so that a block of THREADS has as many rectangles as threads where the layer is large enough.
__device__ __forceinline__ constexpr unsigned rectangle_k(unsigned ins, unsigned outs) {
    return ins % 4u == 0u && ins / 4u * (outs / 4u) >= THREADS ? 4u : ins % 2u == 0u && ins / 2u * (outs / 4u) >= THREADS ? 2u : 1u;
}
__device__ __forceinline__ constexpr unsigned rectangle_n(unsigned ins, unsigned outs) {
    const unsigned across = ins / rectangle_k(ins, outs);
    return outs % 8u == 0u && across * (outs / 8u) >= THREADS ? 8u : outs % 4u == 0u && across * (outs / 4u) >= THREADS ? 4u : 2u;
}

// Adds the sum of delta over the block's samples to the partial gradient of b, which follows W.
template <unsigned INPUTS, unsigned COUNT>
__device__ __forceinline__ void bias_gradient(const float* delta, float* partial, bool first) {
    for (unsigned n = threadIdx.x; n < COUNT; n += blockDim.x) {
        float sum = 0.0f;
        for (unsigned warp = 0u; warp < blockDim.x / WARP; ++warp) {
#pragma unroll
            for (unsigned sample = 0u; sample < TILE; sample += 4u) {
                const float4 d = load4(delta + (warp * WARP_ROWS + n) * ROW + sample);
                sum += (d.x + d.y) + (d.z + d.w);
            }
        }
        put(partial + INPUTS * COUNT + n, first, sum);
    }
}

// Adds x delta^T over the block's samples to the partial gradient of W, and the sum of delta to the partial gradient of b. All threads; `x` and
// `delta` are the first warp's rows, WARP_ROWS rows from one warp to the next.
template <unsigned INPUTS, unsigned ROWS_IN, unsigned COUNT, unsigned COLUMNS>
__device__ __forceinline__ void weight_gradient(const float* x, const float* delta, float* partial, bool first) {
    constexpr unsigned K = rectangle_k(ROWS_IN, COLUMNS), N = rectangle_n(ROWS_IN, COLUMNS);
    constexpr unsigned ACROSS = ROWS_IN / K, RECTANGLES = ACROSS * (COLUMNS / N);
    const unsigned warps = blockDim.x / WARP;
#pragma unroll 1
    for (unsigned rectangle = threadIdx.x; rectangle < RECTANGLES; rectangle += blockDim.x) {
        const unsigned k = rectangle % ACROSS, n = rectangle / ACROSS * N;
        float sum[K][N] = {};
        if (!first) {
#pragma unroll
            for (unsigned j = 0u; j < N; ++j) {
#pragma unroll
                for (unsigned i = 0u; i < K; ++i)
                    if (n + j < COUNT && k + i * ACROSS < INPUTS) sum[i][j] = partial[(n + j) * INPUTS + k + i * ACROSS];
            }
        }
#pragma unroll 1
        for (unsigned warp = 0u; warp < warps; ++warp) {
            const float* xs = x + (warp * WARP_ROWS + k) * ROW;
            const float* ds = delta + (warp * WARP_ROWS + n) * ROW;
#pragma unroll
            for (unsigned sample = 0u; sample < TILE; sample += 4u) {
                float4 of_x[K];
#pragma unroll
                for (unsigned i = 0u; i < K; ++i) of_x[i] = load4(xs + i * ACROSS * ROW + sample);
#pragma unroll
                for (unsigned j = 0u; j < N; ++j) {
                    const float4 of_delta = load4(ds + j * ROW + sample);
#pragma unroll
                    for (unsigned i = 0u; i < K; ++i) sum[i][j] = dot(of_x[i], of_delta, sum[i][j]);
                }
            }
        }
#pragma unroll
        for (unsigned j = 0u; j < N; ++j) {
#pragma unroll
            for (unsigned i = 0u; i < K; ++i)
                if (n + j < COUNT && k + i * ACROSS < INPUTS) partial[(n + j) * INPUTS + k + i * ACROSS] = sum[i][j];
        }
    }
    bias_gradient<INPUTS, COUNT>(delta, partial, first);
}

// The same for a first layer over bits: a thread takes 32 features of one output.
template <unsigned INPUTS, unsigned COUNT>
__device__ __forceinline__ void bits_gradient(const float* x, const float* delta, float* partial, bool first) {
    constexpr unsigned WORDS = (INPUTS + 31u) / 32u;
    const unsigned* bits = (const unsigned*)x;
#pragma unroll 1
    for (unsigned part = threadIdx.x; part < WORDS * COUNT; part += blockDim.x) {
        const unsigned word = part / COUNT, n = part % COUNT;
        float sum[32] = {};
#pragma unroll 1
        for (unsigned sample = 0u; sample < blockDim.x / WARP * TILE; ++sample) {
            const unsigned place = (sample / TILE * WARP_ROWS) * ROW + sample % TILE;
            const unsigned set = bits[place + word * ROW];
            const float d = delta[place + n * ROW];
#pragma unroll
            for (unsigned bit = 0u; bit < 32u; ++bit) sum[bit] += (set >> bit & 1u) != 0u ? d : 0.0f;
        }
#pragma unroll
        for (unsigned bit = 0u; bit < 32u; ++bit)
            if (word * 32u + bit < INPUTS) put(partial + n * INPUTS + word * 32u + bit, first, sum[bit]);
    }
    bias_gradient<INPUTS, COUNT>(delta, partial, first);
}

// Layer LAYER of a chain and all before it. `rows` are the first warp's; all threads of the block.
template <unsigned CHAIN, unsigned LAYER>
__device__ __forceinline__ void backward(const float* transposed, float* rows, float* partial, bool first) {
    constexpr unsigned COUNT = outputs(CHAIN, LAYER), COLUMNS = padded_outputs(CHAIN, LAYER);
    constexpr unsigned HIDDEN_AT = ACTIVATIONS_AT + CHAIN * HIDDEN_ROWS;
    constexpr unsigned DELTA_AT = LAYER == LAYERS ? OUTPUTS_AT + output_row(CHAIN) : HIDDEN_AT + hidden_row(LAYER);
    const float* delta = rows + DELTA_AT * ROW;
    float* of_layer = partial + flat_offset(CHAIN, LAYER);
    __syncthreads();
    if constexpr (is_bag(LAYER)) {
        bits_gradient<inputs(LAYER), COUNT>(rows, delta, of_layer, first);
    } else if constexpr (LAYER == 0u) {
        weight_gradient<inputs(LAYER), inputs(LAYER), COUNT, COLUMNS>(rows, delta, of_layer, first);
    } else {
        constexpr unsigned X_AT = HIDDEN_AT + hidden_row(LAYER - 1u);
        weight_gradient<inputs(LAYER), padded_inputs(LAYER), COUNT, COLUMNS>(rows + X_AT * ROW, delta, of_layer, first);
        // Every thread has read the activations that deltas replace.
        __syncthreads();
        const unsigned own = threadIdx.x / WARP * WARP_ROWS * ROW;
        input_gradient<COLUMNS, padded_inputs(LAYER)>(
            transposed + transposed_offset(CHAIN, LAYER), delta + own, rows + X_AT * ROW + own, threadIdx.x % WARP);
        backward<CHAIN, LAYER - 1u>(transposed, rows, partial, first);
    }
}

// A block's work on its tiles of a minibatch.
struct BlockGradient {
    const float* packed;
    const float* transposed;
    float* rows;
    float* partial;

    __device__ __forceinline__ void begin() {}

    // Outputs of the warp's samples from their observations.
    __device__ __forceinline__ void forward(float* own_rows, unsigned lane) {
        forward_kept<0u, 0u>(packed, own_rows, own_rows, lane);
        if constexpr (CHAINS == 2u) forward_kept<1u, 0u>(packed, own_rows, own_rows, lane);
    }

    // Gradients from the outputs' deltas; all threads.
    __device__ __forceinline__ void backward(float*, unsigned, bool first) {
        ::backward<0u, LAYERS>(transposed, rows, partial, first);
        if constexpr (CHAINS == 2u) ::backward<1u, LAYERS>(transposed, rows, partial, first);
    }

    __device__ __forceinline__ void end() {}
};
