// pendulum: swing a pendulum up with a weak motor; at most 0 per step.
// Emitted from the environment's rules by `operant emit`; do not edit.
#pragma once

constexpr unsigned ENV_TIME_LIMIT = 200u;
constexpr unsigned ENV_OBS = 3u;         // numbers the policy sees
constexpr unsigned ENV_OBS_WORDS = 3u;   // words they are stored in
constexpr unsigned ENV_STATE_WORDS = 2u;   // words of a state
constexpr unsigned ENV_ACTIONS = 1u;   // means
constexpr unsigned ENV_COMPONENTS = 1u;   // numbers that name an action
#define ENV_DISCRETE 0   // choices, or real numbers between bounds
#define ENV_MASKED 0   // whether env_legal forbids choices
using EnvAction = float;
__device__ __forceinline__ constexpr float env_low(unsigned) { return -2.0f; }
__device__ __forceinline__ constexpr float env_high(unsigned) { return 2.0f; }

struct EnvState {
    float theta;
    float theta_dot;
};

__device__ __forceinline__ void env_load(const unsigned* words, unsigned stride, EnvState& state) {
    state.theta = __uint_as_float(words[0]);
    state.theta_dot = __uint_as_float(words[1u * stride]);
}

__device__ __forceinline__ void env_store(const EnvState& state, unsigned* words, unsigned stride) {
    words[0] = __float_as_uint(state.theta);
    words[1u * stride] = __float_as_uint(state.theta_dot);
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
    const float t1 = __fmaf_rn(__fmul_rn(__int2float_rn((int)(v0_0 >> 8u)), 5.9604645e-8f), 6.2831855f, -3.1415927f);
    next.theta = t1;
    next.theta_dot = __fmaf_rn(__fmul_rn(__int2float_rn((int)(v0_1 >> 8u)), 5.9604645e-8f), 2.0f, -1.0f);
}

__device__ __forceinline__ void env_step(
    const EnvState& state, const float* action,
    unsigned seed_low, unsigned seed_high, unsigned environment, unsigned step_low, unsigned step_high, unsigned purpose,
    EnvState& next, float& reward, bool& terminated) {
    const float t1 = (action[0] < (-2.0f)) ? (-2.0f) : action[0];
    const float u = (2.0f < t1) ? 2.0f : t1;
    const float angle = __fmaf_rn(floorf(__fmul_rn(__fadd_rn(state.theta, 3.1415927f), 0.15915494f)), -6.2831855f, state.theta);
    const float cost = __fmaf_rn(__fmul_rn(u, u), 0.001f, __fmaf_rn(__fmul_rn(state.theta_dot, state.theta_dot), 0.1f, __fmul_rn(angle, angle)));
    const float t2 = (fabsf(state.theta) <= 1048576.0f) ? state.theta : __uint_as_float(0x7fc00000u);
    const float t3 = rintf(__fmul_rn(t2, 0.63661975f));
    const float t4 = __fmaf_rn(t3, 1.7151245e-15f, __fmaf_rn(t3, 4.371139e-8f, __fmaf_rn(t3, -1.5707964f, t2)));
    const float t5 = __fmul_rn(t4, t4);
    const float t6 = __fmaf_rn(__fmul_rn(t4, t5), __fmaf_rn(__fmaf_rn(-0.00019515296f, t5, 0.008332161f), t5, -0.16666655f), t4);
    const float t7 = __fmaf_rn(__fmul_rn(t5, t5), __fmaf_rn(__fmaf_rn(2.4433157e-5f, t5, -0.0013887316f), t5, 0.041666646f), __fmaf_rn(t5, -0.5f, 1.0f));
    const int t8 = __float2int_rz(t3);
    const float t9 = (!((t8 & 1) == 0)) ? t7 : t6;
    const float t10 = __fmaf_rn(__fmaf_rn(u, 3.0f, __fmul_rn((!((t8 & 2) == 0)) ? (-t9) : t9, 15.0f)), 0.05f, state.theta_dot);
    const float t11 = (t10 < (-8.0f)) ? (-8.0f) : t10;
    const float theta_dot = (8.0f < t11) ? 8.0f : t11;
    next.theta = __fmaf_rn(theta_dot, 0.05f, state.theta);
    next.theta_dot = theta_dot;
    reward = -cost;
    terminated = false;
}

__device__ __forceinline__ void env_observe(
    const EnvState& state, float* obs) {
    const float t1 = (fabsf(state.theta) <= 1048576.0f) ? state.theta : __uint_as_float(0x7fc00000u);
    const float t2 = rintf(__fmul_rn(t1, 0.63661975f));
    const float t3 = __fmaf_rn(t2, 1.7151245e-15f, __fmaf_rn(t2, 4.371139e-8f, __fmaf_rn(t2, -1.5707964f, t1)));
    const float t4 = __fmul_rn(t3, t3);
    const float t5 = __fmaf_rn(__fmul_rn(t3, t4), __fmaf_rn(__fmaf_rn(-0.00019515296f, t4, 0.008332161f), t4, -0.16666655f), t3);
    const float t6 = __fmaf_rn(__fmul_rn(t4, t4), __fmaf_rn(__fmaf_rn(2.4433157e-5f, t4, -0.0013887316f), t4, 0.041666646f), __fmaf_rn(t4, -0.5f, 1.0f));
    const int t7 = __float2int_rz(t2);
    const bool t8 = !((t7 & 1) == 0);
    const float t9 = t8 ? t6 : t5;
    const float t10 = t8 ? t5 : t6;
    obs[0] = (!((((int)((unsigned)t7 + (unsigned)1)) & 2) == 0)) ? (-t10) : t10;
    obs[1] = (!((t7 & 2) == 0)) ? (-t9) : t9;
    obs[2] = state.theta_dot;
}
