// The tensor cores and the approximations, each a wrapper of one instruction, with a twin for hosts.
//
// A tile is 16 samples x 8 outputs. Lane l of the warp holds, with g = l / 4 and q = l % 4:
//
//   accumulator c[4]   (g, 2q) (g, 2q+1) (g+8, 2q) (g+8, 2q+1)          row = sample, column = output
//   bf16, k = 16       a[4]: (g, 2q..2q+1) (g+8, 2q..) (g, 2q+8..) (g+8, 2q+8..)    b[2]: (2q..2q+1, g) (2q+8.., g)
//   tf32, k = 8        a[4]: (g, q) (g+8, q) (g, q+4) (g+8, q+4)                    b[2]: (q, g) (q+4, g)
//
// So the accumulators of two neighbouring bf16 tiles, packed, are the A fragment of the next layer. With tf32 they are, too,
// if the four columns q and the four columns q + 4 of a tile represent features 2q and 2q + 1: the weights are packed accordingly.
#pragma once

// Values of PRECISION.
constexpr unsigned F32 = 0u, TF32 = 1u, BF16 = 2u;

#ifdef OPERANT_HOST
struct MmaOperands {
    float c[4];
    unsigned a[4], b[2];
};

inline float bf16_value(unsigned bits) { return __uint_as_float(bits << 16u); }

// The product of a warp; PACKED numbers to a word: 2 in bf16, 1 in tf32.
template <unsigned PACKED>
inline void mma_on_host(const void* const* in, void* const* out) {
    auto number = [](unsigned word, unsigned k) {
        return PACKED == 2u ? bf16_value(word >> 16 * (k % 2) & 0xffffu) : __uint_as_float(word);
    };
    for (unsigned lane = 0; lane < WARP; ++lane) {
        const MmaOperands& mine = *(const MmaOperands*)in[lane];
        float* c = (float*)out[lane];
        for (unsigned i = 0; i < 4; ++i) {
            const unsigned row = lane / 4 + 8 * (i / 2), column = lane % 4 * 2 + i % 2;
            float sum = 0.0f;
            for (unsigned k = 0; k < 8 * PACKED; ++k) {
                const unsigned holder = k / PACKED % 4, half = k / (4 * PACKED);
                const unsigned a = ((const MmaOperands*)in[row % 8 * 4 + holder])->a[row / 8 + 2 * half];
                const unsigned b = ((const MmaOperands*)in[column * 4 + holder])->b[half];
                sum += number(a, k) * number(b, k);
            }
            c[i] = mine.c[i] + sum;
        }
    }
}
#endif

// c += A B, all lanes of the warp together.
__device__ __forceinline__ void mma_bf16(float (&c)[4], const unsigned (&a)[4], unsigned b0, unsigned b1) {
#ifdef OPERANT_HOST
    const MmaOperands operands = {{c[0], c[1], c[2], c[3]}, {a[0], a[1], a[2], a[3]}, {b0, b1}};
    host_warp(&operands, sizeof operands, c, sizeof c, mma_on_host<2u>);
#else
    // volatile: all lanes must execute it, also where only some use the result.
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
        : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
#endif
}

__device__ __forceinline__ void mma_tf32(float (&c)[4], const unsigned (&a)[4], unsigned b0, unsigned b1) {
#ifdef OPERANT_HOST
    const MmaOperands operands = {{c[0], c[1], c[2], c[3]}, {a[0], a[1], a[2], a[3]}, {b0, b1}};
    host_warp(&operands, sizeof operands, c, sizeof c, mma_on_host<1u>);
#else
    // volatile: all lanes must execute it, also where only some use the result.
    asm volatile("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
        : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
#endif
}

// Matrices of 8 rows of 16 bytes in shared memory, which the lanes of a warp name: lane l row l % 8 of matrix l / 8. Of each matrix a lane
// has a word: with g = l / 4 and q = l % 4 word q of row g, or transposed, of 16-bit numbers, number g of rows 2q and 2q + 1.

#ifdef OPERANT_HOST
template <unsigned COUNT, bool TRANSPOSED>
inline void load_on_host(const void* const* in, void* const* out) {
    auto row = [&](unsigned matrix, unsigned row) { return *(const unsigned* const*)in[matrix * 8u + row]; };
    auto half = [](const unsigned* row, unsigned i) { return row[i / 2u] >> 16u * (i % 2u) & 0xffffu; };
    for (unsigned lane = 0; lane < WARP; ++lane) {
        const unsigned g = lane / 4u, q = lane % 4u;
        for (unsigned i = 0; i < COUNT; ++i)
            ((unsigned*)out[lane])[i] = TRANSPOSED ? half(row(i, 2u * q), g) | half(row(i, 2u * q + 1u), g) << 16u : row(i, g)[q];
    }
}

struct StoredMatrices {
    unsigned* row;
    unsigned words[4];
};

inline void store_on_host(const void* const* in, void* const*) {
    for (unsigned lane = 0; lane < WARP; ++lane) {
        for (unsigned i = 0; i < 8; ++i) {
            const unsigned word = ((const StoredMatrices*)in[i * 4u + lane % 8u / 2u])->words[lane / 8u];
            ((unsigned short*)((const StoredMatrices*)in[lane])->row)[i] = (unsigned short)(word >> 16u * (lane % 2u));
        }
    }
}
#else
__device__ __forceinline__ unsigned shared_address(const void* from) { return (unsigned)__cvta_generic_to_shared(from); }
#endif

// Loads COUNT matrices, 2 or 4; `row` is the lane's.
template <unsigned COUNT, bool TRANSPOSED = false>
__device__ __forceinline__ void load_matrices(const unsigned* row, unsigned (&words)[COUNT]) {
#ifdef OPERANT_HOST
    host_warp(&row, sizeof row, words, sizeof words, load_on_host<COUNT, TRANSPOSED>);
#else
    if constexpr (COUNT == 2u) {
        asm volatile("ldmatrix.sync.aligned.m8n8.x2.shared.b16 {%0,%1}, [%2];" : "=r"(words[0]), "=r"(words[1]) : "r"(shared_address(row)) : "memory");
    } else if constexpr (TRANSPOSED) {
        asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];"
            : "=r"(words[0]), "=r"(words[1]), "=r"(words[2]), "=r"(words[3]) : "r"(shared_address(row)) : "memory");
    } else {
        asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
            : "=r"(words[0]), "=r"(words[1]), "=r"(words[2]), "=r"(words[3]) : "r"(shared_address(row)) : "memory");
    }
#endif
}

// Stores four matrices transposed. From sm_90 on.
__device__ __forceinline__ void store_transposed(unsigned* row, const unsigned (&words)[4]) {
#ifdef OPERANT_HOST
    const StoredMatrices stored = {row, {words[0], words[1], words[2], words[3]}};
    host_warp(&stored, sizeof stored, nullptr, 0, store_on_host);
#elif __CUDA_ARCH__ >= 900
    asm volatile("stmatrix.sync.aligned.m8n8.x4.trans.shared.b16 [%0], {%1,%2,%3,%4};" ::"r"(shared_address(row)), "r"(words[0]), "r"(words[1]),
        "r"(words[2]), "r"(words[3]) : "memory");
#endif
}

// Copies 16 bytes from global to shared memory while the thread continues, until await_copies.
__device__ __forceinline__ void copy_ahead(const float* from, float* to) {
#ifdef OPERANT_HOST
    for (unsigned i = 0; i < 4; ++i) to[i] = from[i];
#else
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(shared_address(to)), "l"(from) : "memory");
#endif
}

// Ends when the thread's copies are done; a barrier has to follow before other threads read them.
__device__ __forceinline__ void await_copies() {
#ifndef OPERANT_HOST
    asm volatile("cp.async.wait_all;" ::: "memory");
#endif
}

// Two numbers rounded to bf16 (to nearest, ties to even), the first in the low half.
__device__ __forceinline__ unsigned pack_bf16(float low, float high) {
#ifdef OPERANT_HOST
    auto rounded = [](float x) {
        const unsigned bits = __float_as_uint(x);
        return x != x ? 0x7fffu : (bits + 0x7fffu + (bits >> 16u & 1u)) >> 16u;
    };
    return rounded(low) | rounded(high) << 16u;
#else
    unsigned packed;
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(packed) : "f"(high), "f"(low));
    return packed;
#endif
}

// A number rounded to tf32's 10 bits of mantissa (to nearest, ties away from zero).
__device__ __forceinline__ unsigned to_tf32(float x) {
#ifdef OPERANT_HOST
    const unsigned bits = __float_as_uint(x);
    return x - x != 0.0f ? bits : (bits + 0x1000u) & ~0x1fffu;
#else
    unsigned bits;
    asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(bits) : "f"(x));
    return bits;
#endif
}

// Hyperbolic tangent with an error of about 2^-11, one instruction.
__device__ __forceinline__ float tanh_approximate(float x) {
#ifdef OPERANT_HOST
    return std::tanh(x);
#else
    float y;
    asm("tanh.approx.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
#endif
}

// The lesser and the greater of two numbers, NaN if either is.
__device__ __forceinline__ float min_nan(float x, float y) {
#ifdef OPERANT_HOST
    return x != x || x < y ? x : y;
#else
    float least;
    asm("min.NaN.f32 %0, %1, %2;" : "=f"(least) : "f"(x), "f"(y));
    return least;
#endif
}

__device__ __forceinline__ float max_nan(float x, float y) {
#ifdef OPERANT_HOST
    return x != x || x > y ? x : y;
#else
    float greatest;
    asm("max.NaN.f32 %0, %1, %2;" : "=f"(greatest) : "f"(x), "f"(y));
    return greatest;
#endif
}

// x / y within two units in the last place, for y in the normal range.
__device__ __forceinline__ float divide_approximate(float x, float y) {
#ifdef OPERANT_HOST
    return x / y;
#else
    float reciprocal;
    asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(reciprocal) : "f"(y));
    return x * reciprocal;
#endif
}

// Hyperbolic tangent to a few units in the last place: the rational function of operant-lane's `tanh`, divided fast.
__device__ __forceinline__ float tanh_rational(float x) {
    x = min_nan(max_nan(x, -7.9f), 7.9f);
    const float z = x * x;
    float p = fmaf(1.5428167451e-8f, z, 2.20233805911e-5f);
    p = fmaf(fmaf(fmaf(p, z, 3.57900010314e-3f), z, 0.134506273368f), z, 1.0f);
    float q = fmaf(8.59885816776e-7f, z, 3.42366386026e-4f);
    q = fmaf(fmaf(fmaf(q, z, 2.619226855460e-2f), z, 0.467839553389f), z, 1.0f);
    return divide_approximate(x * p, q);
}
