// repeat_previous: name the symbol shown k steps ago; maximum 64, random policy 16.
// Emitted from the environment's rules by `operant emit`; do not edit.
#pragma once

constexpr unsigned ENV_TIME_LIMIT = 128u;
constexpr unsigned ENV_OBS = 4u;         // numbers the policy sees
constexpr unsigned ENV_OBS_WORDS = 1u;   // words they are stored in
constexpr unsigned ENV_STATE_WORDS = 6u;   // words of a state
constexpr unsigned ENV_ACTIONS = 4u;   // logits
constexpr unsigned ENV_COMPONENTS = 1u;   // numbers that name an action
#define ENV_DISCRETE 1   // choices, or real numbers between bounds
#define ENV_MASKED 0   // whether env_legal forbids choices
using EnvAction = unsigned;
__device__ __forceinline__ constexpr unsigned env_choices(unsigned) { return 4u; }

struct EnvState {
    unsigned symbol;
    unsigned past[4];
    unsigned elapsed;
};

__device__ __forceinline__ void env_load(const unsigned* words, unsigned stride, EnvState& state) {
    state.symbol = words[0];
    state.past[0] = words[1u * stride];
    state.past[1] = words[2u * stride];
    state.past[2] = words[3u * stride];
    state.past[3] = words[4u * stride];
    state.elapsed = words[5u * stride];
}

__device__ __forceinline__ void env_store(const EnvState& state, unsigned* words, unsigned stride) {
    words[0] = state.symbol;
    words[1u * stride] = state.past[0];
    words[2u * stride] = state.past[1];
    words[3u * stride] = state.past[2];
    words[4u * stride] = state.past[3];
    words[5u * stride] = state.elapsed;
}

__device__ __forceinline__ void env_reset(
    unsigned seed_low, unsigned seed_high, unsigned environment, unsigned step_low, unsigned step_high, unsigned purpose,
    EnvState& next) {
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
    next.symbol = __umulhi(v0_0, 4u);
    next.past[0] = 0u;
    next.past[1] = 0u;
    next.past[2] = 0u;
    next.past[3] = 0u;
    next.elapsed = 0u;
}

__device__ __forceinline__ void env_step(
    const EnvState& state, const unsigned* action,
    unsigned seed_low, unsigned seed_high, unsigned environment, unsigned step_low, unsigned step_high, unsigned purpose,
    EnvState& next, float& reward, bool& terminated) {
    const bool asked = !(state.elapsed < 4u);
    const bool right = asked && (action[0] == ((state.past[0] >> 6u) & 3u));
    const unsigned elapsed = state.elapsed + 1u;
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
    next.symbol = __umulhi(v0_0, 4u);
    next.past[0] = (state.past[0] << 2u) | state.symbol;
    next.past[1] = (state.past[1] << 2u) | (state.past[0] >> 30u);
    next.past[2] = (state.past[2] << 2u) | (state.past[1] >> 30u);
    next.past[3] = (state.past[3] << 2u) | (state.past[2] >> 30u);
    next.elapsed = elapsed;
    reward = right ? 1.0f : 0.0f;
    terminated = !(elapsed < 68u);
}

__device__ __forceinline__ void env_observe(
    const EnvState& state, unsigned* obs) {
    obs[0] = state.symbol;
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
        const unsigned first = 0u + i * 4u;
        const unsigned bit = first + value;
        input[bit / 32u] |= 1u << bit % 32u;
    }
}

__device__ __forceinline__ float env_feature(const float* obs, unsigned k) {
    if (k < 4u) {
        const unsigned item = (k - 0u) / 4u;
        const unsigned value = __float_as_uint(obs[0u + item / 4u]) >> item % 4u * 8u & 0xffu;
        return value == k - (0u + item * 4u) ? 1.0f : 0.0f;
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
