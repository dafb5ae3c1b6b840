// Operations of a single CUDA thread that kernels use, on the host: vector types, atomics and the functions that are not in
// intrinsics.h (which has what emitted environments use). Part of cuda_on_host.h.
#pragma once
#include <cmath>
#include <cstdint>
#include <cstring>

struct alignas(8) float2 { float x, y; };
struct alignas(16) float4 { float x, y, z, w; };
struct alignas(8) uint2 { unsigned x, y; };
struct alignas(16) uint4 { unsigned x, y, z, w; };
struct alignas(16) double2 { double x, y; };
struct alignas(16) ulonglong2 { unsigned long long x, y; };
inline float2 make_float2(float x, float y) { return {x, y}; }
inline float4 make_float4(float x, float y, float z, float w) { return {x, y, z, w}; }
inline uint2 make_uint2(unsigned x, unsigned y) { return {x, y}; }
inline uint4 make_uint4(unsigned x, unsigned y, unsigned z, unsigned w) { return {x, y, z, w}; }
inline double2 make_double2(double x, double y) { return {x, y}; }

// Atomics are real ones: two streams may run at once, on two host threads. All return the old value.
template <class T>
inline T atomicAdd(T* at, T value) {
    static_assert(sizeof(T) == 4 || sizeof(T) == 8, "atomicAdd of four or eight bytes");
    T old, sum;
    __atomic_load(at, &old, __ATOMIC_RELAXED);
    do sum = old + value;
    while (!__atomic_compare_exchange(at, &old, &sum, true, __ATOMIC_RELAXED, __ATOMIC_RELAXED));
    return old;
}
template <> inline unsigned atomicAdd(unsigned* at, unsigned value) { return __atomic_fetch_add(at, value, __ATOMIC_RELAXED); }
template <> inline int atomicAdd(int* at, int value) { return __atomic_fetch_add(at, value, __ATOMIC_RELAXED); }
template <> inline unsigned long long atomicAdd(unsigned long long* at, unsigned long long value) {
    return __atomic_fetch_add(at, value, __ATOMIC_RELAXED);
}

#define OPERANT_ATOMIC(NAME, TYPE, STEP)                                                                       \
    inline TYPE NAME(TYPE* at, TYPE b) {                                                                       \
        TYPE a = __atomic_load_n(at, __ATOMIC_RELAXED);                                                        \
        while (!__atomic_compare_exchange_n(at, &a, (STEP), true, __ATOMIC_RELAXED, __ATOMIC_RELAXED)) {}      \
        return a;                                                                                              \
    }
#define OPERANT_ATOMICS(TYPE)                      \
    OPERANT_ATOMIC(atomicMin, TYPE, a < b ? a : b) \
    OPERANT_ATOMIC(atomicMax, TYPE, a > b ? a : b)
OPERANT_ATOMICS(unsigned)
OPERANT_ATOMICS(int)
OPERANT_ATOMICS(unsigned long long)
#undef OPERANT_ATOMICS
#undef OPERANT_ATOMIC

inline void __threadfence() { __atomic_thread_fence(__ATOMIC_SEQ_CST); }

inline unsigned max(unsigned a, unsigned b) { return a > b ? a : b; }
inline int min(int a, int b) { return a < b ? a : b; }
inline int max(int a, int b) { return a > b ? a : b; }
inline unsigned min(int a, unsigned b) { return min((unsigned)a, b); }
inline unsigned min(unsigned a, int b) { return min(a, (unsigned)b); }
inline unsigned max(int a, unsigned b) { return max((unsigned)a, b); }
inline unsigned max(unsigned a, int b) { return max(a, (unsigned)b); }
inline unsigned long long min(unsigned long long a, unsigned long long b) { return a < b ? a : b; }
inline unsigned long long max(unsigned long long a, unsigned long long b) { return a > b ? a : b; }
inline float min(float a, float b) { return fminf(a, b); }
inline float max(float a, float b) { return fmaxf(a, b); }
inline double min(double a, double b) { return fmin(a, b); }
inline double max(double a, double b) { return fmax(a, b); }
inline double __dadd_rn(double a, double b) { return a + b; }
inline double __dmul_rn(double a, double b) { return a * b; }

inline int __clz(int a) { return a ? __builtin_clz((unsigned)a) : 32; }
inline int __ffs(int a) { return __builtin_ffs(a); }

// The sine and cosine of pi a.
inline void sincospif(float a, float* sine, float* cosine) {
    *sine = (float)std::sin(3.14159265358979323846 * a);
    *cosine = (float)std::cos(3.14159265358979323846 * a);
}
