// mountain_car_continuous: rock a weak car up a hill with little fuel; +100 at the flag.
// Emitted from the environment's rules by `operant emit`; do not edit.
#pragma once

constexpr unsigned ENV_TIME_LIMIT = 999u;
constexpr unsigned ENV_OBS = 2u;         // numbers the policy sees
constexpr unsigned ENV_OBS_WORDS = 2u;   // words they are stored in
constexpr unsigned ENV_STATE_WORDS = 2u;   // words of a state
constexpr unsigned ENV_ACTIONS = 1u;   // means
constexpr unsigned ENV_COMPONENTS = 1u;   // numbers that name an action
#define ENV_DISCRETE 0   // choices, or real numbers between bounds
#define ENV_MASKED 0   // whether env_legal forbids choices
using EnvAction = float;
__device__ __forceinline__ constexpr float env_low(unsigned) { return -1.0f; }
__device__ __forceinline__ constexpr float env_high(unsigned) { return 1.0f; }

struct EnvState {
    float position;
    float velocity;
};

__device__ __forceinline__ void env_load(const unsigned* words, unsigned stride, EnvState& state) {
    state.position = __uint_as_float(words[0]);
    state.velocity = __uint_as_float(words[1u * stride]);
}

__device__ __forceinline__ void env_store(const EnvState& state, unsigned* words, unsigned stride) {
    words[0] = __float_as_uint(state.position);
    words[1u * stride] = __float_as_uint(state.velocity);
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
    next.position = __fmaf_rn(__fmul_rn(__int2float_rn((int)(v0_0 >> 8u)), 5.9604645e-8f), 0.2f, -0.6f);
    next.velocity = 0.0f;
}

__device__ __forceinline__ void env_step(
    const EnvState& state, const float* action,
    unsigned seed_low, unsigned seed_high, unsigned environment, unsigned step_low, unsigned step_high, unsigned purpose,
    EnvState& next, float& reward, bool& terminated) {
    const float t1 = (action[0] < (-1.0f)) ? (-1.0f) : action[0];
    const float force = (1.0f < t1) ? 1.0f : t1;
    const float t2 = __fmul_rn(state.position, 3.0f);
    const float t3 = rintf(__fmul_rn(t2, 0.63661975f));
    const float t4 = __fmaf_rn(t3, 1.7151245e-15f, __fmaf_rn(t3, 4.371139e-8f, __fmaf_rn(t3, -1.5707964f, t2)));
    const float t5 = __fmul_rn(t4, t4);
    const float t6 = __fmaf_rn(__fmul_rn(t4, t5), __fmaf_rn(__fmaf_rn(-0.00019515296f, t5, 0.008332161f), t5, -0.16666655f), t4);
    const float t7 = __fmaf_rn(__fmul_rn(t5, t5), __fmaf_rn(__fmaf_rn(2.4433157e-5f, t5, -0.0013887316f), t5, 0.041666646f), __fmaf_rn(t5, -0.5f, 1.0f));
    const int t8 = __float2int_rz(t3);
    const float t9 = (!((t8 & 1) == 0)) ? t6 : t7;
    const float slope = (!((((int)((unsigned)t8 + (unsigned)1)) & 2) == 0)) ? (-t9) : t9;
    const float t10 = __fmaf_rn(slope, -0.0025f, __fadd_rn(state.velocity, __fmul_rn(force, 0.0015f)));
    const float t11 = (t10 < (-0.07f)) ? (-0.07f) : t10;
    const float t12 = (0.07f < t11) ? 0.07f : t11;
    const float t13 = __fadd_rn(state.position, t12);
    const float t14 = (t13 < (-1.2f)) ? (-1.2f) : t13;
    const float position = (0.6f < t14) ? 0.6f : t14;
    const float velocity = ((position == (-1.2f)) && (t12 < 0.0f)) ? 0.0f : t12;
    const bool arrived = (0.45f <= position) && (0.0f <= velocity);
    next.position = position;
    next.velocity = velocity;
    reward = __fmaf_rn(__fmul_rn(action[0], action[0]), -0.1f, arrived ? 100.0f : 0.0f);
    terminated = arrived;
}

__device__ __forceinline__ void env_observe(
    const EnvState& state, float* obs) {
    obs[0] = state.position;
    obs[1] = state.velocity;
}
