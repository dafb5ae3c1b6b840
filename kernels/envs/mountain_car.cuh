// mountain_car: rock a weak car up a hill; -1 per step.
// Emitted from the environment's rules by `operant emit`; do not edit.
#pragma once

constexpr unsigned ENV_TIME_LIMIT = 200u;
constexpr unsigned ENV_OBS = 2u;         // numbers the policy sees
constexpr unsigned ENV_OBS_WORDS = 2u;   // words they are stored in
constexpr unsigned ENV_STATE_WORDS = 2u;   // words of a state
constexpr unsigned ENV_ACTIONS = 3u;   // logits
constexpr unsigned ENV_COMPONENTS = 1u;   // numbers that name an action
#define ENV_DISCRETE 1   // choices, or real numbers between bounds
#define ENV_MASKED 0   // whether env_legal forbids choices
using EnvAction = unsigned;
__device__ __forceinline__ constexpr unsigned env_choices(unsigned) { return 3u; }

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
    const EnvState& state, const unsigned* action,
    unsigned seed_low, unsigned seed_high, unsigned environment, unsigned step_low, unsigned step_high, unsigned purpose,
    EnvState& next, float& reward, bool& terminated) {
    const float direction = __int2float_rn((int)((unsigned)((int)action[0]) - (unsigned)1));
    const float t1 = __fmul_rn(state.position, 3.0f);
    const float t2 = rintf(__fmul_rn(t1, 0.63661975f));
    const float t3 = __fmaf_rn(t2, 1.7151245e-15f, __fmaf_rn(t2, 4.371139e-8f, __fmaf_rn(t2, -1.5707964f, t1)));
    const float t4 = __fmul_rn(t3, t3);
    const float t5 = __fmaf_rn(__fmul_rn(t3, t4), __fmaf_rn(__fmaf_rn(-0.00019515296f, t4, 0.008332161f), t4, -0.16666655f), t3);
    const float t6 = __fmaf_rn(__fmul_rn(t4, t4), __fmaf_rn(__fmaf_rn(2.4433157e-5f, t4, -0.0013887316f), t4, 0.041666646f), __fmaf_rn(t4, -0.5f, 1.0f));
    const int t7 = __float2int_rz(t2);
    const float t8 = (!((t7 & 1) == 0)) ? t5 : t6;
    const float slope = (!((((int)((unsigned)t7 + (unsigned)1)) & 2) == 0)) ? (-t8) : t8;
    const float t9 = __fmaf_rn(slope, -0.0025f, __fadd_rn(state.velocity, __fmul_rn(direction, 0.001f)));
    const float t10 = (t9 < (-0.07f)) ? (-0.07f) : t9;
    const float t11 = (0.07f < t10) ? 0.07f : t10;
    const float t12 = __fadd_rn(state.position, t11);
    const float t13 = (t12 < (-1.2f)) ? (-1.2f) : t12;
    const float position = (0.6f < t13) ? 0.6f : t13;
    const float velocity = ((position == (-1.2f)) && (t11 < 0.0f)) ? 0.0f : t11;
    next.position = position;
    next.velocity = velocity;
    reward = -1.0f;
    terminated = (0.5f <= position) && (0.0f <= velocity);
}

__device__ __forceinline__ void env_observe(
    const EnvState& state, float* obs) {
    obs[0] = state.position;
    obs[1] = state.velocity;
}
