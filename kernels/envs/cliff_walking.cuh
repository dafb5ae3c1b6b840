// cliff_walking: walk along a cliff; -1 per step, -100 for a fall.
// Emitted from the environment's rules by `operant emit`; do not edit.
#pragma once

constexpr unsigned ENV_TIME_LIMIT = 200u;
constexpr unsigned ENV_OBS = 48u;         // numbers the policy sees
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
    next.cell = 36u;
}

__constant__ unsigned env_step_table_0[192] = {0u, 1u, 12u, 0u, 1u, 2u, 13u, 0u, 2u, 3u, 14u, 1u, 3u, 4u, 15u, 2u, 4u, 5u, 16u, 3u, 5u, 6u, 17u, 4u, 6u, 7u, 18u, 5u, 7u, 8u, 19u, 6u, 8u, 9u, 20u, 7u, 9u, 10u, 21u, 8u, 10u, 11u, 22u, 9u, 11u, 11u, 23u, 10u, 0u, 13u, 24u, 12u, 1u, 14u, 25u, 12u, 2u, 15u, 26u, 13u, 3u, 16u, 27u, 14u, 4u, 17u, 28u, 15u, 5u, 18u, 29u, 16u, 6u, 19u, 30u, 17u, 7u, 20u, 31u, 18u, 8u, 21u, 32u, 19u, 9u, 22u, 33u, 20u, 10u, 23u, 34u, 21u, 11u, 23u, 35u, 22u, 12u, 25u, 36u, 24u, 13u, 26u, 0x00010024u, 24u, 14u, 27u, 0x00010024u, 25u, 15u, 28u, 0x00010024u, 26u, 16u, 29u, 0x00010024u, 27u, 17u, 30u, 0x00010024u, 28u, 18u, 31u, 0x00010024u, 29u, 19u, 32u, 0x00010024u, 30u, 20u, 33u, 0x00010024u, 31u, 21u, 34u, 0x00010024u, 32u, 22u, 35u, 0x00010024u, 33u, 23u, 35u, 0x0002002fu, 34u, 24u, 0x00010024u, 36u, 36u, 25u, 0x00010024u, 0x00010024u, 36u, 26u, 0x00010024u, 0x00010024u, 0x00010024u, 27u, 0x00010024u, 0x00010024u, 0x00010024u, 28u, 0x00010024u, 0x00010024u, 0x00010024u, 29u, 0x00010024u, 0x00010024u, 0x00010024u, 30u, 0x00010024u, 0x00010024u, 0x00010024u, 31u, 0x00010024u, 0x00010024u, 0x00010024u, 32u, 0x00010024u, 0x00010024u, 0x00010024u, 33u, 0x00010024u, 0x00010024u, 0x00010024u, 34u, 0x0002002fu, 0x00010024u, 0x00010024u, 35u, 0x0002002fu, 0x0002002fu, 0x00010024u};
__device__ __forceinline__ void env_step(
    const EnvState& state, const unsigned* action,
    unsigned seed_low, unsigned seed_high, unsigned environment, unsigned step_low, unsigned step_high, unsigned purpose,
    EnvState& next, float& reward, bool& terminated) {
    const unsigned entry = env_step_table_0[min((state.cell << 2u) + action[0], 191u)];
    const unsigned next_2 = entry & 65535u;
    const unsigned t1 = entry >> 16u;
    next.cell = next_2;
    reward = (t1 == 1u) ? (-100.0f) : (-1.0f);
    terminated = t1 == 2u;
}

__device__ __forceinline__ void env_observe(
    const EnvState& state, unsigned* obs) {
    obs[0] = state.cell;
}

#define ENV_PACKED 1   // env_input computes the network input
#define ENV_INPUT_BITS 1   // bits, or floats by their bits
constexpr unsigned ENV_INPUT_WORDS = 2u;
__device__ __forceinline__ void env_input(const unsigned* obs, unsigned* input) {
    #pragma unroll
    for (unsigned k = 0u; k < ENV_INPUT_WORDS; ++k) input[k] = 0u;
    #pragma unroll
    for (unsigned i = 0u; i < 1u; ++i) {
        const unsigned value = obs[0u + i / 4u] >> i % 4u * 8u & 0xffu;
        const unsigned first = 0u + i * 48u;
        const unsigned bit = first + value;
        input[bit / 32u] |= 1u << bit % 32u;
    }
}

__device__ __forceinline__ float env_feature(const float* obs, unsigned k) {
    if (k < 48u) {
        const unsigned item = (k - 0u) / 48u;
        const unsigned value = __float_as_uint(obs[0u + item / 4u]) >> item % 4u * 8u & 0xffu;
        return value == k - (0u + item * 48u) ? 1.0f : 0.0f;
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
