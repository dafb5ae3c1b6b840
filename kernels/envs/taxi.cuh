// taxi: take a passenger to its destination; +20 for the drop-off, -1 per step, -10 for an illegal pick-up or drop-off.
// Emitted from the environment's rules by `operant emit`; do not edit.
#pragma once

constexpr unsigned ENV_TIME_LIMIT = 200u;
constexpr unsigned ENV_OBS = 500u;         // numbers the policy sees
constexpr unsigned ENV_OBS_WORDS = 1u;   // words they are stored in
constexpr unsigned ENV_STATE_WORDS = 4u;   // words of a state
constexpr unsigned ENV_ACTIONS = 6u;   // logits
constexpr unsigned ENV_COMPONENTS = 1u;   // numbers that name an action
#define ENV_DISCRETE 1   // choices, or real numbers between bounds
#define ENV_MASKED 1   // whether env_legal forbids choices
using EnvAction = unsigned;
__device__ __forceinline__ constexpr unsigned env_choices(unsigned) { return 6u; }

struct EnvState {
    unsigned cell;
    unsigned passenger;
    unsigned destination;
    bool fickle;
};

__device__ __forceinline__ void env_load(const unsigned* words, unsigned stride, EnvState& state) {
    state.cell = words[0];
    state.passenger = words[1u * stride];
    state.destination = words[2u * stride];
    state.fickle = words[3u * stride] != 0u;
}

__device__ __forceinline__ void env_store(const EnvState& state, unsigned* words, unsigned stride) {
    words[0] = state.cell;
    words[1u * stride] = state.passenger;
    words[2u * stride] = state.destination;
    words[3u * stride] = state.fickle ? 1u : 0u;
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
    const unsigned t1 = __umulhi(v0_0, 4u);
    const unsigned t2 = __umulhi(v0_1, 3u);
    next.cell = __umulhi(v0_2, 25u);
    next.passenger = t1;
    next.destination = (t2 < t1) ? t2 : (t2 + 1u);
    next.fickle = false;
}

__device__ __forceinline__ void env_step(
    const EnvState& state, const unsigned* action,
    unsigned seed_low, unsigned seed_high, unsigned environment, unsigned step_low, unsigned step_high, unsigned purpose,
    EnvState& next, float& reward, bool& terminated) {
    const bool t1 = state.passenger == 4u;
    const bool t2 = state.cell == 0u;
    const bool t3 = state.cell == 4u;
    const bool t4 = state.cell == 20u;
    const unsigned t5 = state.cell - (5u * ((state.cell * 13u) >> 6u));
    const bool t6 = ((action[0] == 2u) && (t5 < 4u)) && (!(((0x00528042u >> (state.cell & 31u)) & 1u) == 1u));
    const unsigned t7 = state.cell - 1u;
    const unsigned t8 = (((action[0] == 3u) && (!(t5 == 0u))) && (!(((0x00528042u >> (t7 & 31u)) & 1u) == 1u))) ? t7 : state.cell;
    const unsigned t9 = ((action[0] == 1u) && (!(state.cell < 5u))) ? (state.cell - 5u) : (t6 ? (state.cell + 1u) : t8);
    const unsigned moved = ((action[0] == 0u) && (state.cell < 20u)) ? (state.cell + 5u) : t9;
    const bool picks_up = (action[0] == 4u) && ((!t1) && (state.cell == ((0x17140400u >> ((state.passenger << 3u) & 31u)) & 255u)));
    const bool drops_off = (action[0] == 5u) && (t1 && ((((false || t2) || t3) || t4) || (state.cell == 23u)));
    const unsigned t10 = t4 ? 2u : (t3 ? 1u : (t2 ? 0u : 3u));
    const unsigned passenger = picks_up ? 4u : (drops_off ? t10 : state.passenger);
    const bool arrived = drops_off && (t10 == state.destination);
    const float t11 = arrived ? 20.0f : (((!(action[0] < 4u)) && (!(picks_up || drops_off))) ? (-10.0f) : (-1.0f));
    next.cell = moved;
    next.passenger = passenger;
    next.destination = state.destination;
    next.fickle = state.fickle;
    reward = t11;
    terminated = arrived;
}

__device__ __forceinline__ void env_observe(
    const EnvState& state, unsigned* obs) {
    obs[0] = (((state.cell * 5u) + state.passenger) * 4u) + state.destination;
}

#define ENV_PACKED 1   // env_input computes the network input
#define ENV_INPUT_BITS 1   // bits, or floats by their bits
constexpr unsigned ENV_INPUT_WORDS = 16u;
__device__ __forceinline__ void env_input(const unsigned* obs, unsigned* input) {
    #pragma unroll
    for (unsigned k = 0u; k < ENV_INPUT_WORDS; ++k) input[k] = 0u;
    #pragma unroll
    for (unsigned i = 0u; i < 1u; ++i) {
        const unsigned value = obs[0u + i / 2u] >> i % 2u * 16u & 0xffffu;
        const unsigned first = 0u + i * 500u;
        const unsigned bit = first + value;
        input[bit / 32u] |= 1u << bit % 32u;
    }
}

__device__ __forceinline__ float env_feature(const float* obs, unsigned k) {
    if (k < 500u) {
        const unsigned item = (k - 0u) / 500u;
        const unsigned value = __float_as_uint(obs[0u + item / 2u]) >> item % 2u * 16u & 0xffffu;
        return value == k - (0u + item * 500u) ? 1.0f : 0.0f;
    }
    return 0.0f;
}

__device__ __forceinline__ unsigned env_index(const float* obs, unsigned i) {
    if (i < 1u) {
        const unsigned item = i - 0u;
        return (__float_as_uint(obs[0u + item / 2u]) >> item % 2u * 16u & 0xffffu);
    }
    return 0u;
}

__device__ __forceinline__ void env_legal(
    const EnvState& state, bool* legal) {
    const unsigned t1 = state.cell - (5u * ((state.cell * 13u) >> 6u));
    const bool t2 = state.cell < 20u;
    const bool t3 = !(state.cell < 5u);
    const bool t4 = false && t3;
    const bool t5 = t1 < 4u;
    const bool t6 = !(((0x00528042u >> (state.cell & 31u)) & 1u) == 1u);
    const bool t7 = (false && t5) && t6;
    const bool t8 = !(t1 == 0u);
    const unsigned t9 = state.cell - 1u;
    const bool t10 = !(((0x00528042u >> (t9 & 31u)) & 1u) == 1u);
    const unsigned t11 = state.cell + 1u;
    const unsigned t12 = ((false && t8) && t10) ? t9 : state.cell;
    const unsigned t13 = t7 ? t11 : t12;
    const unsigned t14 = state.cell + 5u;
    const unsigned t15 = state.cell - 5u;
    const unsigned moved = (true && t2) ? t14 : (t4 ? t15 : t13);
    const bool t16 = false && t2;
    const unsigned moved_2 = t16 ? t14 : ((true && t3) ? t15 : t13);
    const unsigned moved_3 = t16 ? t14 : (t4 ? t15 : (((true && t5) && t6) ? t11 : t12));
    const unsigned moved_4 = t16 ? t14 : (t4 ? t15 : (t7 ? t11 : (((true && t8) && t10) ? t9 : state.cell)));
    const bool t17 = state.passenger == 4u;
    const bool t18 = (((false || (state.cell == 0u)) || (state.cell == 4u)) || (state.cell == 20u)) || (state.cell == 23u);
    legal[0] = !(moved == state.cell);
    legal[1] = !(moved_2 == state.cell);
    legal[2] = !(moved_3 == state.cell);
    legal[3] = !(moved_4 == state.cell);
    legal[4] = (!t17) && (state.cell == ((0x17140400u >> ((state.passenger << 3u) & 31u)) & 255u));
    legal[5] = t17 && t18;
}
