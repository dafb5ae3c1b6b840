// breakout_large: break two walls of 108 bricks with five balls; 864 points.
// Emitted from the environment's rules by `operant emit`; do not edit.
#pragma once

constexpr unsigned ENV_TIME_LIMIT = 10000u;
constexpr unsigned ENV_OBS = 115u;         // numbers the policy sees
constexpr unsigned ENV_OBS_WORDS = 11u;   // words they are stored in
constexpr unsigned ENV_STATE_WORDS = 13u;   // words of a state
constexpr unsigned ENV_ACTIONS = 3u;   // logits
constexpr unsigned ENV_COMPONENTS = 1u;   // numbers that name an action
#define ENV_DISCRETE 1   // choices, or real numbers between bounds
#define ENV_MASKED 0   // whether env_legal forbids choices
using EnvAction = unsigned;
__device__ __forceinline__ constexpr unsigned env_choices(unsigned) { return 3u; }

struct EnvState {
    float x;
    float y;
    float dx;
    float dy;
    float paddle;
    unsigned hits;
    unsigned deep;
    unsigned balls;
    unsigned wall;
    unsigned bricks[4];
};

__device__ __forceinline__ void env_load(const unsigned* words, unsigned stride, EnvState& state) {
    state.x = __uint_as_float(words[0]);
    state.y = __uint_as_float(words[1u * stride]);
    state.dx = __uint_as_float(words[2u * stride]);
    state.dy = __uint_as_float(words[3u * stride]);
    state.paddle = __uint_as_float(words[4u * stride]);
    state.hits = words[5u * stride];
    state.deep = words[6u * stride];
    state.balls = words[7u * stride];
    state.wall = words[8u * stride];
    state.bricks[0] = words[9u * stride];
    state.bricks[1] = words[10u * stride];
    state.bricks[2] = words[11u * stride];
    state.bricks[3] = words[12u * stride];
}

__device__ __forceinline__ void env_store(const EnvState& state, unsigned* words, unsigned stride) {
    words[0] = __float_as_uint(state.x);
    words[1u * stride] = __float_as_uint(state.y);
    words[2u * stride] = __float_as_uint(state.dx);
    words[3u * stride] = __float_as_uint(state.dy);
    words[4u * stride] = __float_as_uint(state.paddle);
    words[5u * stride] = state.hits;
    words[6u * stride] = state.deep;
    words[7u * stride] = state.balls;
    words[8u * stride] = state.wall;
    words[9u * stride] = state.bricks[0];
    words[10u * stride] = state.bricks[1];
    words[11u * stride] = state.bricks[2];
    words[12u * stride] = state.bricks[3];
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
    const float serve_dx = __fmaf_rn(__fmul_rn(__int2float_rn((int)(v0_1 >> 8u)), 5.9604645e-8f), 1.4f, -0.7f);
    next.x = __fmaf_rn(__fmul_rn(__int2float_rn((int)(v0_0 >> 8u)), 5.9604645e-8f), 72.0f, 36.0f);
    next.y = 84.0f;
    next.dx = serve_dx;
    next.dy = __fsqrt_rn(__fmaf_rn(serve_dx, -serve_dx, 1.0f));
    next.paddle = 72.0f;
    next.hits = 0u;
    next.deep = 0u;
    next.balls = 5u;
    next.wall = 0u;
    next.bricks[0] = 0xffffffffu;
    next.bricks[1] = 0xffffffffu;
    next.bricks[2] = 0xffffffffu;
    next.bricks[3] = 4095u;
}

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
    const float deflection = __fmaf_rn(__fmul_rn(__int2float_rn((int)(v0_0 >> 8u)), 5.9604645e-8f), 0.08f, -0.04f);
    const float push = (action[0] == 1u) ? (-3.0f) : ((action[0] == 2u) ? 3.0f : 0.0f);
    float v0_x = state.x;
    float v0_y = state.y;
    float v0_dx = state.dx;
    float v0_dy = state.dy;
    float v0_paddle = state.paddle;
    unsigned v0_hits = state.hits;
    unsigned v0_deep = state.deep;
    unsigned v0_balls = state.balls;
    unsigned v0_wall = state.wall;
    unsigned v0_bricks_0 = state.bricks[0];
    unsigned v0_bricks_1 = state.bricks[1];
    unsigned v0_bricks_2 = state.bricks[2];
    unsigned v0_bricks_3 = state.bricks[3];
    unsigned v1_points = 0u;
    bool v1_lost = false;
    #pragma unroll
    for (unsigned i_2 = 0u; i_2 < 4u; ++i_2) {
        const float v0_x_before = v0_x;
        const float v0_y_before = v0_y;
        const float v0_dx_before = v0_dx;
        const float v0_dy_before = v0_dy;
        const float v0_paddle_before = v0_paddle;
        const unsigned v0_hits_before = v0_hits;
        const unsigned v0_deep_before = v0_deep;
        const unsigned v0_balls_before = v0_balls;
        const unsigned v0_wall_before = v0_wall;
        const unsigned v0_bricks_0_before = v0_bricks_0;
        const unsigned v0_bricks_1_before = v0_bricks_1;
        const unsigned v0_bricks_2_before = v0_bricks_2;
        const unsigned v0_bricks_3_before = v0_bricks_3;
        const unsigned v1_points_before = v1_points;
        const bool v1_lost_before = v1_lost;
        const unsigned t1 = (((!(v0_hits_before < 4u)) ? 1u : 0u) + ((!(v0_hits_before < 12u)) ? 1u : 0u)) + (v0_deep_before & 1u);
        const float speed = __fmaf_rn(__uint2float_rn(t1 + (v0_deep_before >> 1u)), 0.4f, 2.4f);
        const float t2 = __fadd_rn(v0_paddle_before, push);
        const float t3 = (t2 < 8.0f) ? 8.0f : t2;
        const float paddle = (136.0f < t3) ? 136.0f : t3;
        const float x = __fmaf_rn(v0_dx_before, speed, v0_x_before);
        const bool t4 = x < 0.0f;
        const bool t5 = 144.0f < x;
        const float x_2 = t4 ? (-x) : (t5 ? __fsub_rn(288.0f, x) : x);
        const int row = __float2int_rz(floorf(__fmul_rn(__fsub_rn(v0_y_before, 24.0f), 0.16666667f)));
        const int t6 = __float2int_rz(__fmul_rn(x_2, 0.125f));
        const int column = (t6 < 17) ? t6 : 17;
        const unsigned t7 = (unsigned)row;
        const unsigned cell = (t7 * 18u) + ((unsigned)column);
        const unsigned t8 = cell >> 5u;
        const bool t9 = t8 == 0u;
        const bool t10 = t8 == 1u;
        const bool t11 = t8 == 2u;
        const unsigned t12 = t11 ? v0_bricks_2_before : (t10 ? v0_bricks_1_before : (t9 ? v0_bricks_0_before : v0_bricks_3_before));
        const bool struck = ((!(row < 0)) && (row < 6)) && (!(((t12 >> (cell & 31u)) & 1u) == 0u));
        const unsigned t13 = 1u << (cell & 31u);
        const unsigned t14 = struck ? (v0_bricks_0_before & (~(t9 ? t13 : 0u))) : v0_bricks_0_before;
        const unsigned t15 = struck ? (v0_bricks_1_before & (~(t10 ? t13 : 0u))) : v0_bricks_1_before;
        const unsigned t16 = struck ? (v0_bricks_2_before & (~(t11 ? t13 : 0u))) : v0_bricks_2_before;
        const unsigned t17 = struck ? (v0_bricks_3_before & (~((t8 == 3u) ? t13 : 0u))) : v0_bricks_3_before;
        const bool t18 = t7 < 2u;
        const bool t19 = t7 < 4u;
        const float x_3 = struck ? v0_x_before : x_2;
        const float dx = ((t4 || t5) || struck) ? (-v0_dx_before) : v0_dx_before;
        const float y = __fmaf_rn(v0_dy_before, speed, v0_y_before);
        const bool t20 = y < 0.0f;
        const float t21 = t20 ? (-y) : y;
        const int row_2 = __float2int_rz(floorf(__fmul_rn(__fsub_rn(t21, 24.0f), 0.16666667f)));
        const int t22 = __float2int_rz(__fmul_rn(x_3, 0.125f));
        const int column_2 = (t22 < 17) ? t22 : 17;
        const unsigned t23 = (unsigned)row_2;
        const unsigned cell_2 = (t23 * 18u) + ((unsigned)column_2);
        const unsigned t24 = cell_2 >> 5u;
        const bool t25 = t24 == 0u;
        const bool t26 = t24 == 1u;
        const bool t27 = t24 == 2u;
        const bool struck_2 = ((!(row_2 < 0)) && (row_2 < 6)) && (!((((t27 ? t16 : (t26 ? t15 : (t25 ? t14 : t17))) >> (cell_2 & 31u)) & 1u) == 0u));
        const unsigned t28 = 1u << (cell_2 & 31u);
        const unsigned t29 = struck_2 ? (t14 & (~(t25 ? t28 : 0u))) : t14;
        const unsigned t30 = struck_2 ? (t15 & (~(t26 ? t28 : 0u))) : t15;
        const unsigned t31 = struck_2 ? (t16 & (~(t27 ? t28 : 0u))) : t16;
        const unsigned t32 = struck_2 ? (t17 & (~((t24 == 3u) ? t28 : 0u))) : t17;
        const bool t33 = t23 < 2u;
        const bool t34 = t23 < 4u;
        const unsigned t35 = (v0_deep_before | (struck ? (t18 ? 2u : (t19 ? 1u : 0u)) : 0u)) | (struck_2 ? (t33 ? 2u : (t34 ? 1u : 0u)) : 0u);
        const float y_2 = struck_2 ? v0_y_before : t21;
        const float dy = (t20 || struck_2) ? (-v0_dy_before) : v0_dy_before;
        const float place = __fmul_rn(__fsub_rn(x_3, paddle), 0.11111111f);
        const bool hit = ((v0_y_before < 156.0f) && (156.0f <= y_2)) && (fabsf(place) <= 1.0f);
        const float slant = __fmaf_rn(place, 0.85f, deflection);
        const bool lost = 168.0f < y_2;
        const bool comes = (hit && (v0_wall_before == 0u)) && ((((t29 | t30) | t31) | t32) == 0u);
        const unsigned t36 = (struck ? (t18 ? 7u : (t19 ? 4u : 1u)) : 0u) + (struck_2 ? (t33 ? 7u : (t34 ? 4u : 1u)) : 0u);
        const float t37 = v1_lost_before ? v0_dy_before : (hit ? (-__fsqrt_rn(__fmaf_rn(slant, -slant, 1.0f))) : dy);
        v0_x = v1_lost_before ? v0_x_before : x_3;
        v0_y = v1_lost_before ? v0_y_before : (hit ? __fsub_rn(312.0f, y_2) : y_2);
        v0_dx = v1_lost_before ? v0_dx_before : (hit ? slant : dx);
        v0_dy = t37;
        v0_paddle = v1_lost_before ? v0_paddle_before : paddle;
        v0_hits = v1_lost_before ? v0_hits_before : (hit ? (v0_hits_before + 1u) : v0_hits_before);
        v0_deep = v1_lost_before ? v0_deep_before : t35;
        v0_balls = v0_balls_before;
        v0_wall = v1_lost_before ? v0_wall_before : (comes ? 1u : v0_wall_before);
        v0_bricks_0 = v1_lost_before ? v0_bricks_0_before : (comes ? 0xffffffffu : t29);
        v0_bricks_1 = v1_lost_before ? v0_bricks_1_before : (comes ? 0xffffffffu : t30);
        v0_bricks_2 = v1_lost_before ? v0_bricks_2_before : (comes ? 0xffffffffu : t31);
        v0_bricks_3 = v1_lost_before ? v0_bricks_3_before : (comes ? 4095u : t32);
        v1_points = v1_lost_before ? v1_points_before : (v1_points_before + t36);
        v1_lost = v1_lost_before ? v1_lost_before : lost;
    }
    const bool t38 = (((v0_bricks_0 | v0_bricks_1) | v0_bricks_2) | v0_bricks_3) == 0u;
    const unsigned t39 = v0_balls - (v1_lost ? 1u : 0u);
    const float serve_dx = __fmaf_rn(__fmul_rn(__int2float_rn((int)(v0_2 >> 8u)), 5.9604645e-8f), 1.4f, -0.7f);
    const bool comes_2 = (v0_wall == 0u) && t38;
    const float t40 = v1_lost ? __fmaf_rn(__fmul_rn(__int2float_rn((int)(v0_1 >> 8u)), 5.9604645e-8f), 72.0f, 36.0f) : v0_x;
    next.x = t40;
    next.y = v1_lost ? 84.0f : v0_y;
    next.dx = v1_lost ? serve_dx : v0_dx;
    next.dy = v1_lost ? __fsqrt_rn(__fmaf_rn(serve_dx, -serve_dx, 1.0f)) : v0_dy;
    next.paddle = v0_paddle;
    next.hits = v1_lost ? 0u : v0_hits;
    next.deep = v1_lost ? 0u : v0_deep;
    next.balls = t39;
    next.wall = v1_lost ? (comes_2 ? 1u : v0_wall) : v0_wall;
    next.bricks[0] = v1_lost ? (comes_2 ? 0xffffffffu : v0_bricks_0) : v0_bricks_0;
    next.bricks[1] = v1_lost ? (comes_2 ? 0xffffffffu : v0_bricks_1) : v0_bricks_1;
    next.bricks[2] = v1_lost ? (comes_2 ? 0xffffffffu : v0_bricks_2) : v0_bricks_2;
    next.bricks[3] = v1_lost ? (comes_2 ? 4095u : v0_bricks_3) : v0_bricks_3;
    reward = __uint2float_rn(v1_points);
    terminated = ((v0_wall == 1u) && t38) || (t39 == 0u);
}

__device__ __forceinline__ void env_observe(
    const EnvState& state, unsigned* obs) {
    const unsigned t1 = (((!(state.hits < 4u)) ? 1u : 0u) + ((!(state.hits < 12u)) ? 1u : 0u)) + (state.deep & 1u);
    const float speed = __fmaf_rn(__uint2float_rn(t1 + (state.deep >> 1u)), 0.4f, 2.4f);
    const float t2 = __fmul_rn(speed, 0.25f);
    obs[0] = __float_as_uint(__fmaf_rn(state.x, 0.013888889f, -1.0f));
    obs[1] = __float_as_uint(__fmaf_rn(state.y, 0.011904762f, -1.0f));
    obs[2] = __float_as_uint(__fmul_rn(state.dx, t2));
    obs[3] = __float_as_uint(__fmul_rn(state.dy, t2));
    obs[4] = __float_as_uint(__fmaf_rn(state.paddle, 0.013888889f, -1.0f));
    obs[5] = __float_as_uint(__fmul_rn(__uint2float_rn(state.balls), 0.2f));
    obs[6] = __float_as_uint(__uint2float_rn(state.wall));
    obs[7] = state.bricks[0];
    obs[8] = state.bricks[1];
    obs[9] = state.bricks[2];
    obs[10] = state.bricks[3];
}

#define ENV_PACKED 1   // env_input computes the network input
#define ENV_INPUT_BITS 0   // bits, or floats by their bits
constexpr unsigned ENV_INPUT_WORDS = 115u;
__device__ __forceinline__ void env_input(const unsigned* obs, unsigned* input) {
    #pragma unroll
    for (unsigned i = 0u; i < 7u; ++i) {
        const unsigned value = obs[0u + i / 1u] >> i % 1u * 32u & 0xffffffffu;
        const unsigned first = 0u + i * 1u;
        input[first] = value;
    }
    #pragma unroll
    for (unsigned i = 0u; i < 108u; ++i) {
        const unsigned value = obs[7u + i / 32u] >> i % 32u * 1u & 0x1u;
        const unsigned first = 7u + i * 1u;
        input[first] = value ? 0x3f800000u : 0u;
    }
}

__device__ __forceinline__ float env_feature(const float* obs, unsigned k) {
    if (k < 7u) {
        const unsigned item = (k - 0u) / 1u;
        const unsigned value = __float_as_uint(obs[0u + item / 1u]) >> item % 1u * 32u & 0xffffffffu;
        return __uint_as_float(value);
    }
    if (k < 115u) {
        const unsigned item = (k - 7u) / 1u;
        const unsigned value = __float_as_uint(obs[7u + item / 32u]) >> item % 32u * 1u & 0x1u;
        return __uint2float_rn(value);
    }
    return 0.0f;
}
