// Operations of a single CUDA thread, for a kernel on the host: vector types, atomics, cache hints and the functions that are
// not in intrinsics.h (which has what emitted environments use). Part of cuda_on_host.h.
#pragma once
#include <cmath>
#include <cstdint>
#include <cstring>

#define OPERANT_VECTOR(T, NAME, ALIGN2, ALIGN4)                                     \
    struct alignas(ALIGN2) NAME##2 { T x, y; };                                     \
    struct NAME##3 { T x, y, z; };                                                  \
    struct alignas(ALIGN4) NAME##4 { T x, y, z, w; };                               \
    inline NAME##2 make_##NAME##2(T x, T y) { return {x, y}; }                      \
    inline NAME##3 make_##NAME##3(T x, T y, T z) { return {x, y, z}; }              \
    inline NAME##4 make_##NAME##4(T x, T y, T z, T w) { return {x, y, z, w}; }
OPERANT_VECTOR(float, float, 8, 16)
OPERANT_VECTOR(int, int, 8, 16)
OPERANT_VECTOR(unsigned, uint, 8, 16)
OPERANT_VECTOR(unsigned char, uchar, 2, 4)
OPERANT_VECTOR(unsigned short, ushort, 4, 8)
#undef OPERANT_VECTOR
struct alignas(16) double2 { double x, y; };
struct alignas(16) ulonglong2 { unsigned long long x, y; };
inline double2 make_double2(double x, double y) { return {x, y}; }
inline ulonglong2 make_ulonglong2(unsigned long long x, unsigned long long y) { return {x, y}; }

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
#define OPERANT_ATOMICS(TYPE)                    \
    OPERANT_ATOMIC(atomicSub, TYPE, a - b)       \
    OPERANT_ATOMIC(atomicMin, TYPE, a < b ? a : b) \
    OPERANT_ATOMIC(atomicMax, TYPE, a > b ? a : b) \
    OPERANT_ATOMIC(atomicAnd, TYPE, a & b)       \
    OPERANT_ATOMIC(atomicOr, TYPE, a | b)        \
    OPERANT_ATOMIC(atomicXor, TYPE, a ^ b)       \
    OPERANT_ATOMIC(atomicExch, TYPE, b)          \
    inline TYPE atomicCAS(TYPE* at, TYPE compare, TYPE value) {                                                \
        __atomic_compare_exchange_n(at, &compare, value, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED);           \
        return compare;                                                                                        \
    }
OPERANT_ATOMICS(unsigned)
OPERANT_ATOMICS(int)
OPERANT_ATOMICS(unsigned long long)
#undef OPERANT_ATOMICS
#undef OPERANT_ATOMIC

inline void __threadfence() { __atomic_thread_fence(__ATOMIC_SEQ_CST); }
inline void __threadfence_block() { __atomic_thread_fence(__ATOMIC_SEQ_CST); }
inline void __threadfence_system() { __atomic_thread_fence(__ATOMIC_SEQ_CST); }
inline void __nanosleep(unsigned) {}
[[noreturn]] inline void __trap(const char* file = __builtin_FILE(), int line = __builtin_LINE()) {
    operant_host::engine->fail(operant_host::lane(), "__trap", {operant_host::SyncPoint::None, line, file});
}

// Loads and stores with a hint for the cache.
template <class T> inline T __ldg(const T* at) { return *at; }
template <class T> inline T __ldca(const T* at) { return *at; }
template <class T> inline T __ldcg(const T* at) { return *at; }
template <class T> inline T __ldcs(const T* at) { return *at; }
template <class T> inline T __ldlu(const T* at) { return *at; }
template <class T> inline T __ldcv(const T* at) { return *(const volatile T*)at; }
template <class T> inline void __stwb(T* at, T value) { *at = value; }
template <class T> inline void __stcg(T* at, T value) { *at = value; }
template <class T> inline void __stcs(T* at, T value) { *at = value; }
template <class T> inline void __stwt(T* at, T value) { *at = value; }

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

inline int __popc(unsigned a) { return __builtin_popcount(a); }
inline int __popcll(unsigned long long a) { return __builtin_popcountll(a); }
inline int __clz(int a) { return a ? __builtin_clz((unsigned)a) : 32; }
inline int __clzll(long long a) { return a ? __builtin_clzll((unsigned long long)a) : 64; }
inline int __ffs(int a) { return __builtin_ffs(a); }
inline int __ffsll(long long a) { return __builtin_ffsll(a); }
inline unsigned __brev(unsigned a) {
    unsigned b = 0;
    for (int i = 0; i < 32; ++i) b |= ((a >> i) & 1u) << (31 - i);
    return b;
}
inline unsigned long long __umul64hi(unsigned long long a, unsigned long long b) {
    return (unsigned long long)(((unsigned __int128)a * b) >> 64);
}
// Shifts of 32 and more are taken modulo 32, as shf.l.wrap does.
inline unsigned __funnelshift_l(unsigned low, unsigned high, unsigned by) {
    return (unsigned)(((((uint64_t)high << 32) | low) << (by & 31u)) >> 32);
}
inline unsigned __funnelshift_r(unsigned low, unsigned high, unsigned by) {
    return (unsigned)((((uint64_t)high << 32) | low) >> (by & 31u));
}

inline int __float_as_int(float a) { return (int)__float_as_uint(a); }
inline float __int_as_float(int a) { return __uint_as_float((unsigned)a); }
inline long long __double_as_longlong(double a) {
    long long b;
    std::memcpy(&b, &a, sizeof b);
    return b;
}
inline double __longlong_as_double(long long a) {
    double b;
    std::memcpy(&b, &a, sizeof b);
    return b;
}
// Saturates, and gives 0 for NaN, as cvt.rzi.u32.f32 does.
inline unsigned __float2uint_rz(float a) {
    if (!(a > 0.0f)) return 0u;
    return a >= 4294967296.0f ? 0xffffffffu : (unsigned)a;
}
// To nearest, ties to even.
inline int __float2int_rn(float a) { return __float2int_rz(rintf(a)); }
inline unsigned __float2uint_rn(float a) { return __float2uint_rz(rintf(a)); }
inline int __float2int_rd(float a) { return __float2int_rz(floorf(a)); }
inline float __double2float_rn(double a) { return (float)a; }
inline float __ull2float_rn(unsigned long long a) { return (float)a; }
inline double __dadd_rn(double a, double b) { return a + b; }
inline double __dmul_rn(double a, double b) { return a * b; }
inline double __ddiv_rn(double a, double b) { return a / b; }
inline double __fma_rn(double a, double b, double c) { return fma(a, b, c); }
inline float __frcp_rn(float a) { return 1.0f / a; }
inline float __frsqrt_rn(float a) { return (float)(1.0 / sqrt((double)a)); }
inline float rsqrtf(float a) { return (float)(1.0 / sqrt((double)a)); }
inline float __saturatef(float a) { return fminf(fmaxf(a, 0.0f), 1.0f); }

// The approximations of the device have no bits of their own to copy: the host computes the function.
inline float __fdividef(float a, float b) { return a / b; }
inline float __expf(float a) { return expf(a); }
inline float __logf(float a) { return logf(a); }
inline float __log2f(float a) { return log2f(a); }
inline float __sinf(float a) { return sinf(a); }
inline float __cosf(float a) { return cosf(a); }
inline void __sincosf(float a, float* sine, float* cosine) { sincosf(a, sine, cosine); }
// The sine and cosine of pi a.
inline void sincospif(float a, float* sine, float* cosine) {
    *sine = (float)std::sin(3.14159265358979323846 * a);
    *cosine = (float)std::cos(3.14159265358979323846 * a);
}
inline float __powf(float a, float b) { return powf(a, b); }
inline float __tanhf(float a) { return tanhf(a); }
