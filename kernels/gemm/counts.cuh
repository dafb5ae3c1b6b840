// Rewards for exploring: how often the episode of an environment has shown its observation. Twin of operant-learn's cpu/rollout/counts.rs.
//
// in, out  counts (N, COUNTS): for each environment a table of COUNTS slots in buckets of BUCKET
//
// With COUNTS = 1,024 the hash 0xabcdef12 belongs to bucket 0x12 = 18, slots 288 to 303, under the name 0xabcdec00.
#pragma once

constexpr unsigned BUCKET = 16u, MOST_COUNTED = 0x3ffu;

__device__ __forceinline__ unsigned rotated(unsigned x, unsigned bits) {
    return x << bits | x >> (32u - bits);
}

// MurmurHash3 of an observation's words.
__device__ __forceinline__ unsigned hash_of(const float (&obs)[ENV_OBS_WORDS]) {
    unsigned hash = 0u;
    for (unsigned word = 0u; word < ENV_OBS_WORDS; ++word) {
        hash ^= rotated(__float_as_uint(obs[word]) * 0xcc9e2d51u, 15u) * 0x1b873593u;
        hash = rotated(hash, 13u) * 5u + 0xe6546b64u;
    }
    hash = (hash ^ hash >> 16u) * 0x85ebca6bu;
    hash = (hash ^ hash >> 13u) * 0xc2b2ae35u;
    return hash ^ hash >> 16u;
}

// Counts an observation in a table, and returns its number of times so far.
__device__ __forceinline__ unsigned count_observation(unsigned* table, const float (&obs)[ENV_OBS_WORDS]) {
    const unsigned hash = hash_of(obs), name = hash & ~MOST_COUNTED;
    unsigned* bucket = table + hash % (COUNTS / BUCKET) * BUCKET;
    unsigned slot = 0u;
    for (unsigned k = 0u; k < BUCKET; ++k) {
        const unsigned counted = bucket[k] & MOST_COUNTED;
        if (counted > 0u && (bucket[k] & ~MOST_COUNTED) == name) {
            slot = k;
            break;
        }
        if (counted < (bucket[slot] & MOST_COUNTED)) slot = k;
    }
    const unsigned n = min((bucket[slot] & MOST_COUNTED) + 1u, MOST_COUNTED);
    bucket[slot] = name | n;
    return n;
}

// The reward for arriving at an observation; none for the first of an episode, which begins where the previous one is `done`.
__device__ __forceinline__ float reward_for_exploring(unsigned* table, const float (&obs)[ENV_OBS_WORDS], bool done, float coef) {
    for (unsigned slot = 0u; done && slot < COUNTS; ++slot) table[slot] = 0u;
    const unsigned n = count_observation(table, obs);
    return done ? 0.0f : __fmul_rn(__fdiv_rn(1.0f, __fsqrt_rn((float)n)), coef);
}
