// Element-wise operations between matrix products: nonlinearities, their slopes, and biases that are not fused.
//
// in, out  matrices of `count` = rows x columns numbers, row-major, columns a multiple of 8; f32, or bf16 for inputs of products with
//          PRECISION BF16
//
// gemm_norm and gemm_norm_back normalise the features of each item of a row, one warp per item; gemm_scores and the kernels after it are a pointer head.
// gemm_map gathers and sums elements by index tables: im2col, col2im and the steps around them.
//
// One thread per number in blocks of 256, looping if the grid is smaller: 32,768 samples of 512 numbers are 16,777,216, of which
// 1,056 blocks take 62 each thread. gemm_bias_sums takes a block for 32 columns.
#include "common/common.cuh"
#include "params.cuh"
#include "common/mma.cuh"
#include "common/activation.cuh"
#include "gemm/element.cuh"

__device__ __forceinline__ bool has_slope(const GemmMathParams& params, u64 at) {
    return params.active == params.columns || at % params.columns < params.active;
}

// out = activation(in + bias + skipped) of f32 `in`; of an output layer, in + bias in f32.
KERNEL(gemm_activate, GemmMathParams, 256, 1) {
    const u64 count = params.rows * params.columns;
    for (u64 at = (u64)blockIdx.x * blockDim.x + threadIdx.x; at < count; at += (u64)gridDim.x * blockDim.x) {
        float x = (params.input)[at];
        if (params.bias) x += params.bias[at % params.columns];
        if (params.hidden) {
            if (params.skipped) x += read_element(params.skipped, at);
            write_element(params.out, at, has_slope(params, at) ? activation(x) : x);
        } else {
            ((float*)params.out)[at] = x;
        }
    }
}

// out = (in + added) x slope(activated): the gradient of a hidden layer before its nonlinearity, which columns from `active` on do not have.
KERNEL(gemm_slope, GemmMathParams, 256, 1) {
    const u64 count = params.rows * params.columns;
    for (u64 at = (u64)blockIdx.x * blockDim.x + threadIdx.x; at < count; at += (u64)gridDim.x * blockDim.x)
        write_element(params.out, at, (params.input[at] + (params.added ? params.added[at] : 0.0f)) * (has_slope(params, at) ? slope(read_element(params.activated, at)) : 1.0f));
}

// The other number of a column: none, or a bias if it has this bit. Twins of gemm/maps.rs.
constexpr unsigned NONE = ~0u, BIAS_BIT = 1u << 31u;

// Column j of a row of `columns` numbers of `out`: the sum of the numbers uses[starts[j]] .. of the same row of `input`, plus a bias or a number of `second`; then, below column `active`, the nonlinearity, or, backward, its slope by `activated`.
KERNEL(gemm_map, GemmMapParams, 256, 1) {
    const u64 count = params.rows * params.columns;
    for (u64 at = (u64)blockIdx.x * blockDim.x + threadIdx.x; at < count; at += (u64)gridDim.x * blockDim.x) {
        const u64 row = at / params.columns;
        const unsigned j = (unsigned)(at % params.columns), other = params.others[j];
        const u64 from = row * params.input_row, to = row * params.out_row + j;
        float x = 0.0f;
        for (unsigned use = params.starts[j]; use < params.starts[j + 1u]; ++use) {
            const u64 of_input = from + params.uses[use];
            x += params.wide_input ? ((const float*)params.input)[of_input] : read_element(params.input, of_input);
        }
        if (other != NONE) x += other & BIAS_BIT ? params.bias[other ^ BIAS_BIT] : read_element(params.second, row * params.second_row + other);
        if (j < params.active) x = params.activated ? x * slope(read_element(params.activated, to)) : activation(x);
        write_element(params.out, to, x);
    }
}

// out (columns) = the sums of `in` over rows, in an order that the launch's size decides.
KERNEL(gemm_bias_sums, GemmMathParams, 256, 1) {
    SHARED_ARENA(arena);
    float* sums = (float*)arena;
    const unsigned own = threadIdx.x % WARP, part = threadIdx.x / WARP, parts = blockDim.x / WARP, column = blockIdx.x * WARP + own;
    float sum = 0.0f;
    if (column < params.columns)
        for (u64 row = part; row < params.rows; row += parts) {
            const u64 at = row * params.columns + column;
            sum += params.wide ? (params.input)[at] : read_element(params.input, at);
        }
    sums[part * WARP + own] = sum;
    __syncthreads();
    if (part != 0u || column >= params.columns) return;
    for (unsigned p = 1u; p < parts; ++p) sum += sums[p * WARP + own];
    ((float*)params.out)[column] = sum;
}

// Calls `f` with the row, the item and the lane of a warp.
template <typename F>
__device__ __forceinline__ void each_item(const GemmNormParams& params, F f) {
    const u64 warps = (u64)gridDim.x * (blockDim.x / WARP), count = params.rows * params.items;
    const u64 own = (u64)blockIdx.x * (blockDim.x / WARP) + threadIdx.x / WARP;
    for (u64 at = own; at < count; at += warps) f(at / params.items, (unsigned)(at % params.items), threadIdx.x % WARP);
}

struct Moments {
    float mean, root;
};

// Mean and reciprocal deviation of an item's features, the same in all lanes.
__device__ __forceinline__ Moments moments(const GemmNormParams& params, u64 from, unsigned lane) {
    float sum = 0.0f, squares = 0.0f;
    for (unsigned k = lane; k < params.width; k += WARP) sum += read_element(params.input, from + k);
    const float mean = warp_sum(sum) / (float)params.width;
    for (unsigned k = lane; k < params.width; k += WARP) {
        const float distance = read_element(params.input, from + k) - mean;
        squares = fmaf(distance, distance, squares);
    }
    return {mean, 1.0f / sqrtf(warp_sum(squares) / (float)params.width + 1e-5f)};
}

// out = normalised input x weight + bias, through the nonlinearity if it is hidden.
KERNEL(gemm_norm, GemmNormParams, 256, 1) {
    each_item(params, [&](u64 row, unsigned item, unsigned lane) {
        const u64 from = row * params.row + item * params.width;
        const Moments of = moments(params, from, lane);
        for (unsigned k = lane; k < params.width; k += WARP) {
            const float normal = (read_element(params.input, from + k) - of.mean) * of.root;
            const float y = fmaf(normal, params.weight[k], params.bias[k]);
            write_element(params.out, from + k, params.hidden ? activation(y) : y);
        }
        if (item + 1u < params.items) return;
        for (unsigned k = params.items * params.width + lane; k < params.row; k += WARP) write_element(params.out, row * params.row + k, 0.0f);
    });
}

// From `delta`, the gradient before the nonlinearity: out = the gradient of the input, plus `added`, and rows of an item's share of the gradient of weights and
// of biases, (rows x items, share_row), for gemm_bias_sums to add up.
KERNEL(gemm_norm_back, GemmNormParams, 256, 1) {
    each_item(params, [&](u64 row, unsigned item, unsigned lane) {
        const u64 from = row * params.row + item * params.width, share = (row * params.items + item) * params.share_row;
        const Moments of = moments(params, from, lane);
        float level = 0.0f, along = 0.0f;
        for (unsigned k = lane; k < params.share_row; k += WARP) {
            const bool inside = k < params.width;
            const float delta = inside ? read_element(params.delta, from + k) : 0.0f;
            const float normal = inside ? (read_element(params.input, from + k) - of.mean) * of.root : 0.0f;
            params.weight_shares[share + k] = delta * normal;
            params.bias_shares[share + k] = delta;
            const float scaled = inside ? delta * params.weight[k] : 0.0f;
            level += scaled;
            along = fmaf(scaled, normal, along);
        }
        level = warp_sum(level) / (float)params.width;
        along = warp_sum(along) / (float)params.width;
        for (unsigned k = lane; k < params.width; k += WARP) {
            const float normal = (read_element(params.input, from + k) - of.mean) * of.root;
            const float scaled = read_element(params.delta, from + k) * params.weight[k];
            const float dx = fmaf(-normal, along, scaled - level) * of.root;
            write_element(params.out, from + k, params.added ? dx + read_element(params.added, from + k) : dx);
        }
        if (item + 1u < params.items) return;
        for (unsigned k = params.items * params.width + lane; k < params.row; k += WARP) write_element(params.out, row * params.row + k, 0.0f);
    });
}

// out (rows, out_row) = the scores of candidates, (query e_k) x scale, then the value, which follows the query.
KERNEL(gemm_scores, GemmPointerParams, 256, 1) {
    const u64 count = params.rows * params.out_row;
    for (u64 at = (u64)blockIdx.x * blockDim.x + threadIdx.x; at < count; at += (u64)gridDim.x * blockDim.x) {
        const u64 row = at / params.out_row, query = row * params.query_row;
        const unsigned k = (unsigned)(at % params.out_row), query_width = params.choices > 0u ? params.width : 0u;
        float x = 0.0f;
        if (k < params.choices) {
            const u64 candidate = row * params.row + (k + 1u) * params.width;
            for (unsigned d = 0u; d < params.width; ++d) x = fmaf(params.query[query + d], read_element(params.input, candidate + d), x);
            x *= params.scale;
        } else if (k < params.choices + params.values) {
            x = params.query[query + query_width];
        }
        params.scores[at] = x;
    }
}

// out (rows, query_row) = the gradient of the query and the value, from `delta` of scores and value.
KERNEL(gemm_query_back, GemmPointerParams, 256, 1) {
    const u64 count = params.rows * params.query_row;
    for (u64 at = (u64)blockIdx.x * blockDim.x + threadIdx.x; at < count; at += (u64)gridDim.x * blockDim.x) {
        const u64 row = at / params.query_row, delta = row * params.out_row;
        const unsigned d = (unsigned)(at % params.query_row), query_width = params.choices > 0u ? params.width : 0u;
        float x = 0.0f;
        if (d < query_width) {
            for (unsigned k = 0u; k < params.choices; ++k)
                x = fmaf(read_element(params.delta, delta + k), read_element(params.input, row * params.row + (k + 1u) * params.width + d), x);
            x *= params.scale;
        } else if (d < query_width + params.values) {
            x = read_element(params.delta, delta + params.choices);
        }
        write_element(params.out, at, x);
    }
}

// out (rows, row) = the gradient of the items before the nonlinearity of the first `active` numbers: `of_state` (rows, state_row) for the state.
KERNEL(gemm_items_back, GemmPointerParams, 256, 1) {
    const u64 count = params.rows * params.row;
    for (u64 at = (u64)blockIdx.x * blockDim.x + threadIdx.x; at < count; at += (u64)gridDim.x * blockDim.x) {
        const u64 row = at / params.row;
        const unsigned i = (unsigned)(at % params.row), item = i / params.width, d = i % params.width;
        float x = 0.0f;
        if (item == 0u) {
            x = params.of_state[row * params.state_row + d];
        } else if (item <= params.choices) {
            x = read_element(params.delta, row * params.out_row + item - 1u) * params.query[row * params.query_row + d] * params.scale;
        }
        write_element(params.out, at, i < params.active ? x * slope(read_element(params.input, at)) : x);
    }
}
