// Philox4x32-10 and the draws of actions: the same words as operant-lane's `philox` and `ActionDraws`.
//
// Key = seed (low, high), counter = (environment, step low, step high, purpose << 24 | block). A policy with one random
// number a step takes the four words of a block in four consecutive steps: with seed 0, environment 5, step 6 it is word 2 of
// counter (5, 1, 0, 3 << 24).
#pragma once

constexpr unsigned PURPOSE_INIT = 0u, PURPOSE_RESET = 1u, PURPOSE_STEP = 2u, PURPOSE_ACTION = 3u, PURPOSE_RANDOM_ACTION = 4u, PURPOSE_SHUFFLE = 5u,
                   PURPOSE_MEAN_NOISE = 7u, PURPOSE_REPLAY = 12u, PURPOSE_UPDATE_ACTION = 13u;

struct Words {
    unsigned word[4];
};

__device__ __forceinline__ Words philox(unsigned c0, unsigned c1, unsigned c2, unsigned c3, unsigned k0, unsigned k1) {
#pragma unroll
    for (unsigned round = 0u; round < 10u; ++round) {
        const unsigned high0 = __umulhi(0xd2511f53u, c0), low0 = 0xd2511f53u * c0;
        const unsigned high1 = __umulhi(0xcd9e8d57u, c2), low1 = 0xcd9e8d57u * c2;
        c0 = high1 ^ c1 ^ k0;
        c1 = low1;
        c2 = high0 ^ c3 ^ k1;
        c3 = low0;
        k0 += 0x9e3779b9u;
        k1 += 0xbb67ae85u;
    }
    return {{c0, c1, c2, c3}};
}

// Uniform in [0, 1), in steps of 2^-24.
__device__ __forceinline__ float unit(unsigned bits) {
    return __fmul_rn(__int2float_rn((int)(bits >> 8u)), 5.9604645e-8f);
}

// COUNT words a step for one environment.
template <unsigned COUNT>
struct ActionDraws {
    unsigned words[(COUNT + 3u) / 4u * 4u];

    // Draws the words of global step `step`; `fresh` where no earlier call for this environment was made.
    __device__ __forceinline__ void draw(Seed seed, unsigned environment, u64 step, unsigned purpose, bool fresh) {
        if (COUNT == 1u) {
            if (fresh || step % 4u == 0u) block(0u, seed, environment, step / 4u, purpose);
            return;
        }
#pragma unroll
        for (unsigned first = 0u; first < COUNT; first += 4u) block(first, seed, environment, step, purpose);
    }

    // The word of `component` at the step last drawn.
    __device__ __forceinline__ unsigned get(u64 step, unsigned component) const {
        if (COUNT > 1u) return words[component];
        const unsigned place = (unsigned)step % 4u;
        return place < 2u ? (place == 0u ? words[0] : words[1]) : (place == 2u ? words[2] : words[3]);
    }

  private:
    __device__ __forceinline__ void block(unsigned first, Seed seed, unsigned environment, u64 counter, unsigned purpose) {
        const unsigned tag = (purpose << 24u) | (first / 4u);
        const Words drawn = philox(environment, (unsigned)counter, (unsigned)(counter >> 32u), tag, seed.low, seed.high);
#pragma unroll
        for (unsigned i = 0u; i < 4u; ++i) words[first + i] = drawn.word[i];
    }
};
