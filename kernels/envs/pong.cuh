// pong: beat a scripted opponent to 21 points; +1 per point scored, -1 per point conceded.
// Emitted from the environment's rules by `operant emit`; do not edit.
#pragma once

constexpr unsigned ENV_TIME_LIMIT = 10000u;
constexpr unsigned ENV_OBS = 11u;         // numbers the policy sees
constexpr unsigned ENV_OBS_WORDS = 11u;   // words they are stored in
constexpr unsigned ENV_STATE_WORDS = 12u;   // words of a state
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
    float spin;
    float player;
    float player_dy;
    float opponent;
    float opponent_dy;
    float aim;
    unsigned points;
    unsigned opponent_points;
};

__device__ __forceinline__ void env_load(const unsigned* words, unsigned stride, EnvState& state) {
    state.x = __uint_as_float(words[0]);
    state.y = __uint_as_float(words[1u * stride]);
    state.dx = __uint_as_float(words[2u * stride]);
    state.dy = __uint_as_float(words[3u * stride]);
    state.spin = __uint_as_float(words[4u * stride]);
    state.player = __uint_as_float(words[5u * stride]);
    state.player_dy = __uint_as_float(words[6u * stride]);
    state.opponent = __uint_as_float(words[7u * stride]);
    state.opponent_dy = __uint_as_float(words[8u * stride]);
    state.aim = __uint_as_float(words[9u * stride]);
    state.points = words[10u * stride];
    state.opponent_points = words[11u * stride];
}

__device__ __forceinline__ void env_store(const EnvState& state, unsigned* words, unsigned stride) {
    words[0] = __float_as_uint(state.x);
    words[1u * stride] = __float_as_uint(state.y);
    words[2u * stride] = __float_as_uint(state.dx);
    words[3u * stride] = __float_as_uint(state.dy);
    words[4u * stride] = __float_as_uint(state.spin);
    words[5u * stride] = __float_as_uint(state.player);
    words[6u * stride] = __float_as_uint(state.player_dy);
    words[7u * stride] = __float_as_uint(state.opponent);
    words[8u * stride] = __float_as_uint(state.opponent_dy);
    words[9u * stride] = __float_as_uint(state.aim);
    words[10u * stride] = state.points;
    words[11u * stride] = state.opponent_points;
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
    const float serve_y = __fmaf_rn(__fmul_rn(__int2float_rn((int)(v0_0 >> 8u)), 5.9604645e-8f), 1.0f, -0.5f);
    const float serve_dy = __fmaf_rn(__fmul_rn(__int2float_rn((int)(v0_1 >> 8u)), 5.9604645e-8f), 0.02f, -0.01f);
    next.x = 0.0f;
    next.y = serve_y;
    next.dx = (__fmul_rn(__int2float_rn((int)(v0_2 >> 8u)), 5.9604645e-8f) < 0.5f) ? (-0.02f) : 0.02f;
    next.dy = serve_dy;
    next.spin = 0.0f;
    next.player = 0.0f;
    next.player_dy = 0.0f;
    next.opponent = 0.0f;
    next.opponent_dy = 0.0f;
    next.aim = __fmaf_rn(__fmul_rn(__int2float_rn((int)(v0_3 >> 8u)), 5.9604645e-8f), 1.6f, -0.8f);
    next.points = 0u;
    next.opponent_points = 0u;
}

__device__ __forceinline__ void env_step(
    const EnvState& state, const unsigned* action,
    unsigned seed_low, unsigned seed_high, unsigned environment, unsigned step_low, unsigned step_high, unsigned purpose,
    EnvState& next, float& reward, bool& terminated) {
    const unsigned t1 = purpose << 24u;
    const float push = (action[0] == 1u) ? 0.03f : ((action[0] == 2u) ? (-0.03f) : 0.0f);
    float v0_x = state.x;
    float v0_y = state.y;
    float v0_dx = state.dx;
    float v0_dy = state.dy;
    float v0_spin = state.spin;
    float v0_player = state.player;
    float v0_player_dy = state.player_dy;
    float v0_opponent = state.opponent;
    float v0_opponent_dy = state.opponent_dy;
    float v0_aim = state.aim;
    unsigned v0_points = state.points;
    unsigned v0_opponent_points = state.opponent_points;
    int v1 = 0;
    #pragma unroll
    for (unsigned i = 0u; i < 4u; ++i) {
        const float v0_x_before = v0_x;
        const float v0_y_before = v0_y;
        const float v0_dx_before = v0_dx;
        const float v0_dy_before = v0_dy;
        const float v0_spin_before = v0_spin;
        const float v0_player_before = v0_player;
        const float v0_player_dy_before = v0_player_dy;
        const float v0_opponent_before = v0_opponent;
        const float v0_opponent_dy_before = v0_opponent_dy;
        const float v0_aim_before = v0_aim;
        const unsigned v0_points_before = v0_points;
        const unsigned v0_opponent_points_before = v0_opponent_points;
        const int v1_before = v1;
        const bool runs = v1_before == 0;
        const float t2 = __fadd_rn(v0_player_before, push);
        const float t3 = (t2 < (-0.63f)) ? (-0.63f) : t2;
        const float player = (0.63f < t3) ? 0.63f : t3;
        const float target = (v0_dx_before < 0.0f) ? __fmaf_rn(v0_aim_before, -0.14f, v0_y_before) : 0.0f;
        const float t4 = __fsub_rn(target, v0_opponent_before);
        const float t5 = (t4 < (-0.01f)) ? (-0.01f) : t4;
        const float t6 = __fadd_rn(v0_opponent_before, (0.01f < t5) ? 0.01f : t5);
        const float t7 = (t6 < (-0.63f)) ? (-0.63f) : t6;
        const float opponent = (0.63f < t7) ? 0.63f : t7;
        const float t8 = __fsub_rn(player, v0_player_before);
        const float t9 = __fsub_rn(opponent, v0_opponent_before);
        const float dy = __fadd_rn(v0_dy_before, v0_spin_before);
        const float x = __fadd_rn(v0_x_before, v0_dx_before);
        const float y = __fadd_rn(v0_y_before, dy);
        const bool t10 = 0.73f < y;
        const bool t11 = y < (-0.73f);
        const float y_2 = t10 ? __fsub_rn(1.46f, y) : (t11 ? __fsub_rn(-1.46f, y) : y);
        const bool bounced = t10 || t11;
        const bool t12 = 0.0f < x;
        const float place = __fmul_rn(__fsub_rn(y_2, t12 ? player : opponent), 7.142857f);
        const float t13 = fabsf(place);
        const bool hit = ((fabsf(v0_x_before) < 0.9f) && (0.9f <= fabsf(x))) && (t13 <= 1.0f);
        const float t14 = __fmul_rn(fabsf(v0_dx_before), __fmaf_rn(t13, 0.07f, 1.03f));
        const float pace = (t14 < 0.05f) ? t14 : 0.05f;
        const float t15 = hit ? __fsub_rn(t12 ? 1.8f : (-1.8f), x) : x;
        const int scored = (1.0f < fabsf(t15)) ? (t12 ? (-1) : 1) : 0;
        const float t16 = runs ? (hit ? __fmul_rn(__fmul_rn(place, 0.9f), pace) : (bounced ? (-dy) : dy)) : v0_dy_before;
        const float t17 = runs ? (hit ? __fmul_rn(t12 ? t8 : t9, 0.01f) : (bounced ? 0.0f : v0_spin_before)) : v0_spin_before;
        v0_x = runs ? t15 : v0_x_before;
        v0_y = runs ? y_2 : v0_y_before;
        v0_dx = runs ? (hit ? (t12 ? (-pace) : pace) : v0_dx_before) : v0_dx_before;
        v0_dy = t16;
        v0_spin = t17;
        v0_player = runs ? player : v0_player_before;
        v0_player_dy = runs ? t8 : v0_player_dy_before;
        v0_opponent = runs ? opponent : v0_opponent_before;
        v0_opponent_dy = runs ? t9 : v0_opponent_dy_before;
        v0_aim = v0_aim_before;
        v0_points = v0_points_before;
        v0_opponent_points = v0_opponent_points_before;
        v1 = runs ? scored : v1_before;
    }
    const bool won = 0 < v1;
    const bool lost = v1 < 0;
    const unsigned t18 = v0_points + (won ? 1u : 0u);
    const unsigned t19 = v0_opponent_points + (lost ? 1u : 0u);
    const bool t20 = won || lost;
    float x_2 = v0_x;
    float y_3 = v0_y;
    float dx = v0_dx;
    float dy_2 = v0_dy;
    float spin = v0_spin;
    float player_2 = v0_player;
    float player_dy = v0_player_dy;
    float opponent_2 = v0_opponent;
    float opponent_dy = v0_opponent_dy;
    float aim = v0_aim;
    if (t20) {
        unsigned v0_0 = environment;
        unsigned v0_1 = step_low;
        unsigned v0_2 = step_high;
        unsigned v0_3 = t1 | 0u;
        unsigned v1_0 = seed_low;
        unsigned v1_1 = seed_high;
        #pragma unroll
        for (unsigned i_2 = 0u; i_2 < 10u; ++i_2) {
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
        const float serve_y = __fmaf_rn(__fmul_rn(__int2float_rn((int)(v0_0 >> 8u)), 5.9604645e-8f), 1.0f, -0.5f);
        const float serve_dy = __fmaf_rn(__fmul_rn(__int2float_rn((int)(v0_1 >> 8u)), 5.9604645e-8f), 0.02f, -0.01f);
        x_2 = 0.0f;
        y_3 = serve_y;
        dx = (__fmul_rn(__int2float_rn((int)(v0_2 >> 8u)), 5.9604645e-8f) < 0.5f) ? (-0.02f) : 0.02f;
        dy_2 = serve_dy;
        spin = 0.0f;
        player_2 = v0_player;
        player_dy = v0_player_dy;
        opponent_2 = v0_opponent;
        opponent_dy = v0_opponent_dy;
        aim = __fmaf_rn(__fmul_rn(__int2float_rn((int)(v0_3 >> 8u)), 5.9604645e-8f), 1.6f, -0.8f);
    }
    next.x = x_2;
    next.y = y_3;
    next.dx = dx;
    next.dy = dy_2;
    next.spin = spin;
    next.player = player_2;
    next.player_dy = player_dy;
    next.opponent = opponent_2;
    next.opponent_dy = opponent_dy;
    next.aim = aim;
    next.points = t18;
    next.opponent_points = t19;
    reward = won ? 1.0f : (lost ? (-1.0f) : 0.0f);
    terminated = (t18 == 21u) || (t19 == 21u);
}

__device__ __forceinline__ void env_observe(
    const EnvState& state, float* obs) {
    obs[0] = state.x;
    obs[1] = __fmul_rn(state.y, 1.3333334f);
    obs[2] = __fmul_rn(state.dx, 20.0f);
    obs[3] = __fmul_rn(state.dy, 20.0f);
    obs[4] = __fmul_rn(state.spin, 3333.3333f);
    obs[5] = __fmul_rn(state.player, 1.3333334f);
    obs[6] = __fmul_rn(state.player_dy, 33.333332f);
    obs[7] = __fmul_rn(state.opponent, 1.3333334f);
    obs[8] = __fmul_rn(state.opponent_dy, 100.0f);
    obs[9] = __fmul_rn(__uint2float_rn(state.points), 0.04761905f);
    obs[10] = __fmul_rn(__uint2float_rn(state.opponent_points), 0.04761905f);
}
