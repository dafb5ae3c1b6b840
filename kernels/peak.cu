// The device's peak throughput, for measurements that report a fraction of it: multiply-adds in f32, products on the tensor
// cores by the instructions that the other kernels use, and a copy through memory.
//
// peak_f32           every thread: CHAINS numbers x = x factor + addend, `rounds` times; 2 CHAINS operations a thread and round
// peak_tf32, _bf16   every warp: TILES products of 16 x 8 results, added up `rounds` times; 2 x 16 x 8 x k operations each, k = 8
//                    in tf32 and 16 in bf16. A is all ones, B all factor, so a result is its start + rounds k factor
// peak_copy          `to` becomes `from`, 16 bytes per thread and access
//
// out (threads) f32: the sum of the thread's numbers, so that nothing can be omitted.
//
// Worked example: 528 blocks of 256 threads and 4,096 rounds in f32 are 528 x 256 x 4,096 x 16 x 2 = 17.7 G operations.
#include "common/common.cuh"
#include "params.cuh"
#include "common/mma.cuh"

constexpr unsigned CHAINS = 16u;
constexpr unsigned TILES = 8u;

KERNEL(peak_f32, PeakParams, 256, 1) {
    float x[CHAINS];
#pragma unroll
    for (unsigned chain = 0u; chain < CHAINS; ++chain) x[chain] = (float)chain;
#pragma unroll 8
    for (unsigned round = 0u; round < params.rounds; ++round) {
#pragma unroll
        for (unsigned chain = 0u; chain < CHAINS; ++chain) x[chain] = __fmaf_rn(x[chain], params.factor, params.addend);
    }
    float sum = 0.0f;
#pragma unroll
    for (unsigned chain = 0u; chain < CHAINS; ++chain) sum += x[chain];
    params.out[blockIdx.x * blockDim.x + threadIdx.x] = sum;
}

template <bool IS_BF16>
__device__ __forceinline__ void products(const PeakParams& params) {
    const unsigned one = IS_BF16 ? pack_bf16(1.0f, 1.0f) : to_tf32(1.0f);
    const unsigned b = IS_BF16 ? pack_bf16(params.factor, params.factor) : to_tf32(params.factor);
    const unsigned a[4] = {one, one, one, one};
    float c[TILES][4];
#pragma unroll
    for (unsigned tile = 0u; tile < TILES; ++tile) {
#pragma unroll
        for (unsigned i = 0u; i < 4u; ++i) c[tile][i] = params.addend;
    }
#pragma unroll 4
    for (unsigned round = 0u; round < params.rounds; ++round) {
#pragma unroll
        for (unsigned tile = 0u; tile < TILES; ++tile) {
            if (IS_BF16) mma_bf16(c[tile], a, b, b);
            else mma_tf32(c[tile], a, b, b);
        }
    }
    float sum = 0.0f;
#pragma unroll
    for (unsigned tile = 0u; tile < TILES; ++tile) {
#pragma unroll
        for (unsigned i = 0u; i < 4u; ++i) sum += c[tile][i];
    }
    params.out[blockIdx.x * blockDim.x + threadIdx.x] = sum;
}

KERNEL(peak_tf32, PeakParams, 256, 1) { products<false>(params); }

KERNEL(peak_bf16, PeakParams, 256, 1) { products<true>(params); }

KERNEL(peak_copy, CopyParams, 256, 1) {
    const u64 threads = (u64)gridDim.x * blockDim.x;
    u64 i = (u64)blockIdx.x * blockDim.x + threadIdx.x;
    // Four on their way at once, since a store might change what is loaded next.
    for (; i + 3u * threads < params.count; i += 4u * threads) {
        ulonglong2 pairs[4];
#pragma unroll
        for (unsigned k = 0u; k < 4u; ++k) pairs[k] = params.from[i + k * threads];
#pragma unroll
        for (unsigned k = 0u; k < 4u; ++k) params.to[i + k * threads] = pairs[k];
    }
    for (; i < params.count; i += threads) params.to[i] = params.from[i];
}
