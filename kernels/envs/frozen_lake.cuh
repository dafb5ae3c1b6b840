// frozen_lake: cross 4 x 4 cells of ice with holes; +1 at the goal.
// Emitted from the environment's rules by `operant emit`; do not edit.
#pragma once

constexpr unsigned ENV_TIME_LIMIT = 100u;
constexpr unsigned ENV_OBS = 16u;         // numbers the policy sees
constexpr unsigned ENV_OBS_WORDS = 1u;   // words they are stored in
constexpr unsigned ENV_STATE_WORDS = 1u;   // words of a state
constexpr unsigned ENV_ACTIONS = 4u;   // logits
constexpr unsigned ENV_COMPONENTS = 1u;   // numbers that name an action
#define ENV_DISCRETE 1   // choices, or real numbers between bounds
#define ENV_MASKED 0   // whether env_legal forbids choices
using EnvAction = unsigned;
__device__ __forceinline__ constexpr unsigned env_choices(unsigned) { return 4u; }

struct EnvState {
    unsigned cell;
};

__device__ __forceinline__ void env_load(const unsigned* words, unsigned, EnvState& state) {
    state.cell = words[0];
}

__device__ __forceinline__ void env_store(const EnvState& state, unsigned* words, unsigned) {
    words[0] = state.cell;
}

__device__ __forceinline__ void env_reset(
    unsigned seed_low, unsigned seed_high, unsigned environment, unsigned step_low, unsigned step_high, unsigned purpose,
    EnvState& next) {
    next.cell = 0u;
}

__constant__ unsigned env_step_table_0[64] = {0u, 4u, 1u, 0u, 0u, 0x00010005u, 2u, 1u, 1u, 6u, 3u, 2u, 2u, 0x00010007u, 3u, 3u, 4u, 8u, 0x00010005u, 0u, 4u, 9u, 6u, 1u, 0x00010005u, 10u, 0x00010007u, 2u, 6u, 0x0001000bu, 0x00010007u, 3u, 8u, 0x0001000cu, 9u, 4u, 8u, 13u, 10u, 0x00010005u, 9u, 14u, 0x0001000bu, 6u, 10u, 0x0002000fu, 0x0001000bu, 0x00010007u, 0x0001000cu, 0x0001000cu, 13u, 8u, 0x0001000cu, 13u, 14u, 9u, 13u, 14u, 0x0002000fu, 10u, 14u, 0x0002000fu, 0x0002000fu, 0x0001000bu};
__device__ __forceinline__ void env_step(
    const EnvState& state, const unsigned* action,
    unsigned seed_low, unsigned seed_high, unsigned environment, unsigned step_low, unsigned step_high, unsigned purpose,
    EnvState& next, float& reward, bool& terminated) {
    unsigned v0_0 = environment;
    unsigned v0_1 = step_low;
    unsigned v0_2 = step_high;
    unsigned v0_3 = (purpose << 24u) | 0u;
    unsigned v1_0 = seed_low;
    unsigned v1_1 = seed_high;
    #pragma unroll
    for (unsigned i = 0u; i < 10u; ++i) {
        const unsigned v0_0_before = v0_0;
        const unsigned v0_1_before = v0_1;
        const unsigned v0_2_before = v0_2;
        const unsigned v0_3_before = v0_3;
        const unsigned v1_0_before = v1_0;
        const unsigned v1_1_before = v1_1;
        v0_0 = (__umulhi(0xcd9e8d57u, v0_2_before) ^ v0_1_before) ^ v1_0_before;
        v0_1 = 0xcd9e8d57u * v0_2_before;
        v0_2 = (__umulhi(0xd2511f53u, v0_0_before) ^ v0_3_before) ^ v1_1_before;
        v0_3 = 0xd2511f53u * v0_0_before;
        v1_0 = v1_0_before + 0x9e3779b9u;
        v1_1 = v1_1_before + 0xbb67ae85u;
    }
    const float t1 = __fmul_rn(__int2float_rn((int)(v0_0 >> 8u)), 5.9604645e-8f);
    const unsigned moved = (action[0] + ((t1 < 0.33333334f) ? 3u : ((t1 < 0.6666667f) ? 0u : 1u))) & 3u;
    const unsigned entry = env_step_table_0[min((state.cell << 2u) + moved, 63u)];
    const unsigned next_2 = entry & 65535u;
    const unsigned t2 = entry >> 16u;
    next.cell = next_2;
    reward = (t2 == 2u) ? 1.0f : 0.0f;
    terminated = !(t2 == 0u);
}

__device__ __forceinline__ void env_observe(
    const EnvState& state, unsigned* obs) {
    obs[0] = state.cell;
}

#define ENV_PACKED 1   // env_input computes the network input
#define ENV_INPUT_BITS 1   // bits, or floats by their bits
constexpr unsigned ENV_INPUT_WORDS = 1u;
__device__ __forceinline__ void env_input(const unsigned* obs, unsigned* input) {
    #pragma unroll
    for (unsigned k = 0u; k < ENV_INPUT_WORDS; ++k) input[k] = 0u;
    #pragma unroll
    for (unsigned i = 0u; i < 1u; ++i) {
        const unsigned value = obs[0u + i / 4u] >> i % 4u * 8u & 0xffu;
        const unsigned first = 0u + i * 16u;
        const unsigned bit = first + value;
        input[bit / 32u] |= 1u << bit % 32u;
    }
}

__device__ __forceinline__ float env_feature(const float* obs, unsigned k) {
    if (k < 16u) {
        const unsigned item = (k - 0u) / 16u;
        const unsigned value = __float_as_uint(obs[0u + item / 4u]) >> item % 4u * 8u & 0xffu;
        return value == k - (0u + item * 16u) ? 1.0f : 0.0f;
    }
    return 0.0f;
}

__device__ __forceinline__ unsigned env_index(const float* obs, unsigned i) {
    if (i < 1u) {
        const unsigned item = i - 0u;
        return (__float_as_uint(obs[0u + item / 4u]) >> item % 4u * 8u & 0xffu);
    }
    return 0u;
}
