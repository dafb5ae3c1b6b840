// The order of samples in an epoch: a keyed bijection of 0 .. B, computed on demand and never stored. Twin of
// operant-learn's `Shuffle`: an alternating Feistel network over the smallest power of two that holds B, walked again by
// numbers that land outside.
#pragma once

constexpr unsigned FEISTEL_ROUNDS = 6u;

struct Shuffle {
    unsigned length, low_bits, low_mask, high_mask;
    unsigned keys[FEISTEL_ROUNDS];

    __device__ __forceinline__ Shuffle(Seed seed, u64 update, unsigned epoch, unsigned samples) {
        const unsigned bits = samples > 1u ? 32u - (unsigned)__clz((int)(samples - 1u)) : 0u;
        length = samples;
        low_bits = bits / 2u;
        low_mask = (1u << low_bits) - 1u;
        high_mask = (1u << (bits - low_bits)) - 1u;
#pragma unroll
        for (unsigned block = 0u; block < 2u; ++block) {
            const Words words = philox(epoch, (unsigned)update, (unsigned)(update >> 32u), (PURPOSE_SHUFFLE << 24u) | block, seed.low, seed.high);
#pragma unroll
            for (unsigned i = 0u; i < 4u; ++i)
                if (block * 4u + i < FEISTEL_ROUNDS) keys[block * 4u + i] = words.word[i];
        }
    }

    // The sample at `position` < B.
    __device__ __forceinline__ unsigned index(unsigned position) const {
        unsigned value = position;
        do value = permute(value);
        while (value >= length);
        return value;
    }

    // A number in [0, 1) of the same epoch, independent of the order: the next of its random words.
    static __device__ __forceinline__ double fraction(Seed seed, u64 update, unsigned epoch) {
        const Words words = philox(epoch, (unsigned)update, (unsigned)(update >> 32u), (PURPOSE_SHUFFLE << 24u) | FEISTEL_ROUNDS / 4u, seed.low, seed.high);
        return (double)words.word[FEISTEL_ROUNDS % 4u] / 4294967296.0;
    }

  private:
    static __device__ __forceinline__ unsigned mix(unsigned value, unsigned key) {
        unsigned x = value + key;
        x = (x ^ (x >> 16u)) * 0x7feb352du;
        x = (x ^ (x >> 15u)) * 0x846ca68bu;
        return x ^ (x >> 16u);
    }

    __device__ __forceinline__ unsigned permute(unsigned value) const {
        unsigned low = value & low_mask, high = value >> low_bits;
#pragma unroll
        for (unsigned round = 0u; round < FEISTEL_ROUNDS; round += 2u) {
            high ^= mix(low, keys[round]) & high_mask;
            low ^= mix(high, keys[round + 1u]) & low_mask;
        }
        return (high << low_bits) | low;
    }
};
