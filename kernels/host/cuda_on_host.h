// Definitions for compiling a kernel's text as C++17 for the host: the CUDA names beyond intrinsics.h, and the host versions of
// the macros of kernels/common/common.cuh. The stand-in for NVRTC includes it before every kernel (-include); engine.cpp runs the
// result, every thread a fiber.
#pragma once
#define OPERANT_HOST 1

#include <cstddef>
#include <cstdint>
#include <cstdio>

#include "engine.h"
#include "intrinsics.h"

#define __global__
#define __host__
#define __grid_constant__
#define __launch_bounds__(...)
#define __align__(n) alignas(n)

namespace operant_host {

inline const Engine* engine = nullptr;
inline thread_local Lane* current = nullptr;

// A fiber stays on its host thread and finds its own lane here for its whole life: hence `const`.
__attribute__((const, noinline)) inline Lane* lane() { return current; }

}  // namespace operant_host

extern "C" {
extern const operant_host::Module operant_host_module;
const operant_host::Module operant_host_module = {
    operant_host::ENGINE_VERSION,
#ifdef __SANITIZE_ADDRESS__
    true,
#else
    false,
#endif
    [](const operant_host::Engine* engine) { operant_host::engine = engine; },
    [] { return &operant_host::current; },
    OPERANT_HOST_COMPILER,
};
}

#define threadIdx (operant_host::lane()->index)
#define blockIdx (operant_host::lane()->block->index)
#define blockDim (operant_host::lane()->block->dim)
#define gridDim (operant_host::lane()->block->grid)

// A kernel: a function of one struct, passed by value.
#define KERNEL(NAME, PARAMS, THREADS, BLOCKS)                                                                   \
    static void NAME##_body(const PARAMS& params);                                                              \
    extern "C" {                                                                                                \
    extern const size_t NAME##_params;                                                                          \
    const size_t NAME##_params = sizeof(PARAMS);                                                                \
    void NAME(const void* params) { NAME##_body(*static_cast<const PARAMS*>(params)); }                         \
    extern const operant_host::Kernel NAME##_host;                                                              \
    const operant_host::Kernel NAME##_host = {NAME, sizeof(PARAMS), alignof(PARAMS), (THREADS)};                \
    }                                                                                                           \
    static_assert((THREADS) % 32 == 0 && (THREADS) <= 1024 && (BLOCKS) >= 1, "the launch bounds of " #NAME);    \
    static void NAME##_body([[maybe_unused]] const PARAMS& params)

// The block's dynamic shared memory, the only way to shared memory.
#define SHARED_ARENA(name) unsigned char* const name = operant_host::lane()->block->arena

// A barrier of all threads of the grid; cooperative launches only. On a GPU, work between the halves runs before, while or after other blocks pass the
// barrier. Here all blocks meet in the second half of one barrier and in the first half of the next, after which odd blocks are a step behind.
#define GRID_SYNC() \
    (operant_host::engine->sync_grid(operant_host::lane(), {operant_host::SyncPoint::GridBarrier, __LINE__, __FILE__}))
#define GRID_ARRIVE(state, passed) \
    ((void)(state), (passed) % 2u == 0u ? __syncthreads() : (GRID_SYNC(), blockIdx.x % 2u == 0u ? (void)0 : __syncthreads()))
#define GRID_WAIT(state, passed) ((void)(state), (passed)++ % 2u == 0u ? GRID_SYNC() : __syncthreads())
#define GRID_BARRIER(state, passed) (GRID_ARRIVE(state, passed), GRID_WAIT(state, passed))

#include "cuda_collectives.h"
#include "cuda_scalars.h"
