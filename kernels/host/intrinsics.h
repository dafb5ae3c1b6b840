// The CUDA names that emitted code uses, for a host C++ compiler: tests compile the emitted text against this header
// and compare its results with the scalar f32 lane, bit for bit. Compile with -ffp-contract=off.
#pragma once
#include <cmath>
#include <cstdint>
#include <cstring>

#define __device__
#define __forceinline__ inline
#define __noinline__ __attribute__((noinline))
#define __constant__ static const

inline float __fadd_rn(float a, float b) { return a + b; }
inline float __fsub_rn(float a, float b) { return a - b; }
inline float __fmul_rn(float a, float b) { return a * b; }
inline float __fdiv_rn(float a, float b) { return a / b; }
inline float __fmaf_rn(float a, float b, float c) { return std::fmaf(a, b, c); }
inline float __fsqrt_rn(float a) { return std::sqrt(a); }
inline unsigned __umulhi(unsigned a, unsigned b) { return (unsigned)(((uint64_t)a * b) >> 32); }
inline float __int2float_rn(int a) { return (float)a; }
inline float __uint2float_rn(unsigned a) { return (float)a; }
inline unsigned min(unsigned a, unsigned b) { return a < b ? a : b; }

// Saturates, and gives 0 for NaN, as cvt.rzi.s32.f32 does.
inline int __float2int_rz(float a) {
    if (a != a) return 0;
    if (a >= 2147483648.0f) return 2147483647;
    if (a < -2147483648.0f) return -2147483647 - 1;
    return (int)a;
}

inline float __uint_as_float(unsigned a) {
    float b;
    std::memcpy(&b, &a, sizeof b);
    return b;
}
inline unsigned __float_as_uint(float a) {
    unsigned b;
    std::memcpy(&b, &a, sizeof b);
    return b;
}
