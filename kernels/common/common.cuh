// Definitions that every kernel uses: declaration of kernels, shared memory, the grid barrier, and a few warp
// reductions. No toolkit header is included: NVRTC brings none.
//
// A kernel takes one struct by value. Tests compile the same text with a C++ compiler, which defines OPERANT_HOST and its
// own versions of the macros below (kernels/host/cuda_on_host.h).
#pragma once

// Loops with zero iterations in this program: over masks, statistics, further draws.
#pragma nv_diag_suppress 128, 186

#ifndef OPERANT_HOST
// KERNEL(name, Params, threads per block, minimum blocks per multiprocessor) { body that reads `params` }
#define KERNEL(NAME, PARAMS, THREADS_A_BLOCK, BLOCKS_AT_LEAST) \
    extern "C" __global__ void __launch_bounds__(THREADS_A_BLOCK, BLOCKS_AT_LEAST) NAME(const __grid_constant__ PARAMS params)
// Names the block's dynamic shared memory; there is no other. It is declared here alone: a second declaration in another function
// would be one of another alignment to the compiler (its warning 1556-D).
extern __shared__ __align__(16) unsigned char dynamic_shared[];
#define SHARED_ARENA(NAME) unsigned char* const NAME = dynamic_shared
// A barrier of all threads of a cooperative launch, in two halves. GRID_ARRIVE synchronises the block and counts it as arrived; GRID_WAIT
// waits until all blocks have arrived. In between, a block may do work whose results other blocks read only after a later barrier. STATE is
// a counter in global memory, which the host sets to zero before the launch; PASSED counts the barriers in each thread, from 0.
#define GRID_ARRIVE(STATE, PASSED) grid_arrive(STATE)
#define GRID_WAIT(STATE, PASSED) grid_wait(STATE, ++PASSED)
#define GRID_BARRIER(STATE, PASSED) (GRID_ARRIVE(STATE, PASSED), GRID_WAIT(STATE, PASSED))

__device__ __forceinline__ void grid_arrive(unsigned* state) {
    __syncthreads();
    // Earlier writes of the block are visible to all threads that observe its arrival.
    if (threadIdx.x == 0u) asm volatile("red.release.gpu.global.add.u32 [%0], 1;" ::"l"(state) : "memory");
}

__device__ __forceinline__ void grid_wait(unsigned* state, unsigned passed) {
    if (threadIdx.x == 0u) {
        // Nothing after is read earlier.
        unsigned arrived;
        do asm volatile("ld.acquire.gpu.global.u32 %0, [%1];" : "=r"(arrived) : "l"(state) : "memory");
        while (arrived < passed * gridDim.x);
    }
    __syncthreads();
}
#endif

typedef unsigned long long u64;

constexpr unsigned WARP = 32u;
constexpr unsigned ALL_LANES = 0xffffffffu;

// Environments of one warp: the rows of a tensor core's tile.
constexpr unsigned TILE = 16u;
// Words from one number of a sample to the next. In shared memory a tile's samples are contiguous, and 16 would put rows 2 apart
// into the same banks; a thread that has a sample for itself keeps its numbers together.
#ifndef ONE_SAMPLE_A_THREAD
constexpr unsigned ROW = 20u;
#else
constexpr unsigned ROW = 1u;
#endif

__device__ __forceinline__ constexpr unsigned round_up(unsigned count, unsigned multiple) {
    return (count + multiple - 1u) / multiple * multiple;
}

// A sum over the warp's lanes in a fixed order; every lane gets it.
template <class T>
__device__ __forceinline__ T warp_sum(T value) {
#pragma unroll
    for (unsigned distance = WARP / 2u; distance > 0u; distance /= 2u) value += __shfl_xor_sync(ALL_LANES, value, distance);
    return value;
}

// The sum of COUNT numbers per thread over the block, in the order of lanes and warps, into `out`, which all threads see after.
template <unsigned COUNT>
__device__ __forceinline__ void block_sum(const double (&mine)[COUNT], double* room, double (&out)[COUNT]) {
#pragma unroll
    for (unsigned i = 0u; i < COUNT; ++i) {
        const double sum = warp_sum(mine[i]);
        if (threadIdx.x % WARP == 0u) room[threadIdx.x / WARP * COUNT + i] = sum;
    }
    __syncthreads();
#pragma unroll
    for (unsigned i = 0u; i < COUNT; ++i) {
        out[i] = 0.0;
        for (unsigned warp = 0u; warp < blockDim.x / WARP; ++warp) out[i] += room[warp * COUNT + i];
    }
    __syncthreads();
}

__device__ __forceinline__ float warp_min(float value) {
#pragma unroll
    for (unsigned distance = WARP / 2u; distance > 0u; distance /= 2u) value = fminf(value, __shfl_xor_sync(ALL_LANES, value, distance));
    return value;
}

__device__ __forceinline__ float warp_max(float value) {
#pragma unroll
    for (unsigned distance = WARP / 2u; distance > 0u; distance /= 2u) value = fmaxf(value, __shfl_xor_sync(ALL_LANES, value, distance));
    return value;
}

// Clamped between bounds; NaN stays NaN, so that a broken network is seen.
__device__ __forceinline__ float clamp(float x, float low, float high) {
    return x < low ? low : x > high ? high : x;
}

// Lets the last block of a launch find out that it is the last: every block calls this once, by all of its threads, after
// its results are stored. `ticket` is zero before the launch and after it.
__device__ __forceinline__ bool is_last_block(unsigned* ticket, unsigned* shared_flag) {
    __threadfence();
    __syncthreads();
    if (threadIdx.x == 0u) {
        const bool last = atomicAdd(ticket, 1u) == gridDim.x - 1u;
        if (last) *ticket = 0u;
        *shared_flag = last ? 1u : 0u;
    }
    __syncthreads();
    const bool last = *shared_flag != 0u;
    __threadfence();
    return last;
}
