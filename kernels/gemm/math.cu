// Element-wise operations between matrix products: nonlinearities, their slopes, and biases that are not fused.
//
// in, out  matrices of `count` = rows x columns numbers, row-major, columns a multiple of 8; f32, or bf16 for what products read with
//          PRECISION BF16
//
// One thread a number in blocks of 256, in turns where the grid is smaller: 32,768 samples of 512 numbers are 16,777,216, of which
// 1,056 blocks take 62 each thread. gemm_bias_sums takes a block for 32 columns.
#include "common/common.cuh"
#include "params.cuh"
#include "common/mma.cuh"
#include "common/activation.cuh"

__device__ __forceinline__ float read_element(const void* from, u64 at) {
    return PRECISION == BF16 ? __uint_as_float((unsigned)((const unsigned short*)from)[at] << 16u) : ((const float*)from)[at];
}

__device__ __forceinline__ void write_element(void* to, u64 at, float value) {
    if (PRECISION == BF16) {
        ((unsigned short*)to)[at] = (unsigned short)pack_bf16(value, 0.0f);
    } else {
        ((float*)to)[at] = value;
    }
}

// out = activation(in + bias) of f32 `in`; of an output layer, in + bias in f32.
KERNEL(gemm_activate, GemmMathParams, 256, 1) {
    const u64 count = params.rows * params.columns;
    for (u64 at = (u64)blockIdx.x * blockDim.x + threadIdx.x; at < count; at += (u64)gridDim.x * blockDim.x) {
        float x = (params.input)[at];
        if (params.bias) x += params.bias[at % params.columns];
        if (params.hidden) {
            write_element(params.out, at, activation(x));
        } else {
            ((float*)params.out)[at] = x;
        }
    }
}

// out = in x slope(activated): the gradient of a hidden layer before its nonlinearity.
KERNEL(gemm_slope, GemmMathParams, 256, 1) {
    const u64 count = params.rows * params.columns;
    for (u64 at = (u64)blockIdx.x * blockDim.x + threadIdx.x; at < count; at += (u64)gridDim.x * blockDim.x)
        write_element(params.out, at, (params.input)[at] * slope(read_element(params.activated, at)));
}

// out (columns) = the sums of `in` over rows, in an order that the launch's size decides.
KERNEL(gemm_bias_sums, GemmMathParams, 256, 1) {
    SHARED_ARENA(arena);
    float* sums = (float*)arena;
    const unsigned own = threadIdx.x % WARP, part = threadIdx.x / WARP, parts = blockDim.x / WARP, column = blockIdx.x * WARP + own;
    float sum = 0.0f;
    if (column < params.columns)
        for (u64 row = part; row < params.rows; row += parts) sum += read_element(params.input, row * params.columns + column);
    sums[part * WARP + own] = sum;
    __syncthreads();
    if (part != 0u || column >= params.columns) return;
    for (unsigned p = 1u; p < parts; ++p) sum += sums[p * WARP + own];
    ((float*)params.out)[column] = sum;
}
