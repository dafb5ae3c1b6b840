// cartpole: balance a pole on a cart; +1 per step.
// Emitted from the environment's rules by `operant emit`; do not edit.
#pragma once

constexpr unsigned ENV_TIME_LIMIT = 500u;
constexpr unsigned ENV_OBS = 4u;         // numbers the policy sees
constexpr unsigned ENV_OBS_WORDS = 4u;   // words they are stored in
constexpr unsigned ENV_STATE_WORDS = 4u;   // words of a state
constexpr unsigned ENV_ACTIONS = 2u;   // logits
constexpr unsigned ENV_COMPONENTS = 1u;   // numbers that name an action
#define ENV_DISCRETE 1   // choices, or real numbers between bounds
#define ENV_MASKED 0   // whether env_legal forbids choices
using EnvAction = unsigned;
__device__ __forceinline__ constexpr unsigned env_choices(unsigned) { return 2u; }

struct EnvState {
    float x;
    float x_dot;
    float theta;
    float theta_dot;
};

__device__ __forceinline__ void env_load(const unsigned* words, unsigned stride, EnvState& state) {
    state.x = __uint_as_float(words[0]);
    state.x_dot = __uint_as_float(words[1u * stride]);
    state.theta = __uint_as_float(words[2u * stride]);
    state.theta_dot = __uint_as_float(words[3u * stride]);
}

__device__ __forceinline__ void env_store(const EnvState& state, unsigned* words, unsigned stride) {
    words[0] = __float_as_uint(state.x);
    words[1u * stride] = __float_as_uint(state.x_dot);
    words[2u * stride] = __float_as_uint(state.theta);
    words[3u * stride] = __float_as_uint(state.theta_dot);
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
    next.x = __fmaf_rn(__fmul_rn(__int2float_rn((int)(v0_0 >> 8u)), 5.9604645e-8f), 0.1f, -0.05f);
    next.x_dot = __fmaf_rn(__fmul_rn(__int2float_rn((int)(v0_1 >> 8u)), 5.9604645e-8f), 0.1f, -0.05f);
    next.theta = __fmaf_rn(__fmul_rn(__int2float_rn((int)(v0_2 >> 8u)), 5.9604645e-8f), 0.1f, -0.05f);
    next.theta_dot = __fmaf_rn(__fmul_rn(__int2float_rn((int)(v0_3 >> 8u)), 5.9604645e-8f), 0.1f, -0.05f);
}

__device__ __forceinline__ void env_step(
    const EnvState& state, const unsigned* action,
    unsigned seed_low, unsigned seed_high, unsigned environment, unsigned step_low, unsigned step_high, unsigned purpose,
    EnvState& next, float& reward, bool& terminated) {
    const float force = (action[0] == 1u) ? 10.0f : (-10.0f);
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
    const float sin = (!((t7 & 2) == 0)) ? (-t9) : t9;
    const float cos = (!((((int)((unsigned)t7 + (unsigned)1)) & 2) == 0)) ? (-t10) : t10;
    const float temp = __fmul_rn(__fmaf_rn(__fmul_rn(__fmul_rn(state.theta_dot, state.theta_dot), 0.05f), sin, force), 0.90909094f);
    const float theta_acc = __fdiv_rn(__fmaf_rn(sin, 9.8f, -__fmul_rn(cos, temp)), __fmaf_rn(__fmul_rn(cos, cos), -0.045454547f, 0.6666667f));
    const float x_acc = __fmaf_rn(__fmul_rn(theta_acc, cos), -0.045454547f, temp);
    const float t11 = __fmaf_rn(state.x_dot, 0.02f, state.x);
    const float t12 = __fmaf_rn(state.theta_dot, 0.02f, state.theta);
    next.x = t11;
    next.x_dot = __fmaf_rn(x_acc, 0.02f, state.x_dot);
    next.theta = t12;
    next.theta_dot = __fmaf_rn(theta_acc, 0.02f, state.theta_dot);
    reward = 1.0f;
    terminated = (2.4f < fabsf(t11)) || (0.20943952f < fabsf(t12));
}

__device__ __forceinline__ void env_observe(
    const EnvState& state, float* obs) {
    obs[0] = state.x;
    obs[1] = state.x_dot;
    obs[2] = state.theta;
    obs[3] = state.theta_dot;
}
