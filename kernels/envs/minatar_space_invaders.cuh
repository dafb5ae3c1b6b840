// minatar_space_invaders: shoot marching aliens on a 10x10 grid; +1 per alien.
// Emitted from the environment's rules by `operant emit`; do not edit.
#pragma once

constexpr unsigned ENV_TIME_LIMIT = 5000u;
constexpr unsigned ENV_OBS = 600u;         // numbers the policy sees
constexpr unsigned ENV_OBS_WORDS = 19u;   // words they are stored in
constexpr unsigned ENV_STATE_WORDS = 20u;   // words of a state
constexpr unsigned ENV_ACTIONS = 6u;   // logits
constexpr unsigned ENV_COMPONENTS = 1u;   // numbers that name an action
#define ENV_DISCRETE 1   // choices, or real numbers between bounds
#define ENV_MASKED 0   // whether env_legal forbids choices
using EnvAction = unsigned;
__device__ __forceinline__ constexpr unsigned env_choices(unsigned) { return 6u; }

struct EnvState {
    unsigned x;
    unsigned shot_timer;
    int direction;
    unsigned alien_move_timer;
    unsigned alien_shot_timer;
    unsigned move_interval;
    unsigned ramp_index;
    unsigned aliens[4];
    unsigned bullets[4];
    unsigned alien_bullets[4];
    unsigned last_action;
};

__device__ __forceinline__ void env_load(const unsigned* words, unsigned stride, EnvState& state) {
    state.x = words[0];
    state.shot_timer = words[1u * stride];
    state.direction = (int)words[2u * stride];
    state.alien_move_timer = words[3u * stride];
    state.alien_shot_timer = words[4u * stride];
    state.move_interval = words[5u * stride];
    state.ramp_index = words[6u * stride];
    state.aliens[0] = words[7u * stride];
    state.aliens[1] = words[8u * stride];
    state.aliens[2] = words[9u * stride];
    state.aliens[3] = words[10u * stride];
    state.bullets[0] = words[11u * stride];
    state.bullets[1] = words[12u * stride];
    state.bullets[2] = words[13u * stride];
    state.bullets[3] = words[14u * stride];
    state.alien_bullets[0] = words[15u * stride];
    state.alien_bullets[1] = words[16u * stride];
    state.alien_bullets[2] = words[17u * stride];
    state.alien_bullets[3] = words[18u * stride];
    state.last_action = words[19u * stride];
}

__device__ __forceinline__ void env_store(const EnvState& state, unsigned* words, unsigned stride) {
    words[0] = state.x;
    words[1u * stride] = state.shot_timer;
    words[2u * stride] = (unsigned)state.direction;
    words[3u * stride] = state.alien_move_timer;
    words[4u * stride] = state.alien_shot_timer;
    words[5u * stride] = state.move_interval;
    words[6u * stride] = state.ramp_index;
    words[7u * stride] = state.aliens[0];
    words[8u * stride] = state.aliens[1];
    words[9u * stride] = state.aliens[2];
    words[10u * stride] = state.aliens[3];
    words[11u * stride] = state.bullets[0];
    words[12u * stride] = state.bullets[1];
    words[13u * stride] = state.bullets[2];
    words[14u * stride] = state.bullets[3];
    words[15u * stride] = state.alien_bullets[0];
    words[16u * stride] = state.alien_bullets[1];
    words[17u * stride] = state.alien_bullets[2];
    words[18u * stride] = state.alien_bullets[3];
    words[19u * stride] = state.last_action;
}

__device__ __forceinline__ void env_reset(
    unsigned seed_low, unsigned seed_high, unsigned environment, unsigned step_low, unsigned step_high, unsigned purpose,
    EnvState& next) {
    next.x = 5u;
    next.shot_timer = 0u;
    next.direction = -1;
    next.alien_move_timer = 12u;
    next.alien_shot_timer = 10u;
    next.move_interval = 12u;
    next.ramp_index = 0u;
    next.aliens[0] = 0x0fc3f0fcu;
    next.aliens[1] = 252u;
    next.aliens[2] = 0u;
    next.aliens[3] = 0u;
    next.bullets[0] = 0u;
    next.bullets[1] = 0u;
    next.bullets[2] = 0u;
    next.bullets[3] = 0u;
    next.alien_bullets[0] = 0u;
    next.alien_bullets[1] = 0u;
    next.alien_bullets[2] = 0u;
    next.alien_bullets[3] = 0u;
    next.last_action = 0u;
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
    const unsigned executed = (__fmul_rn(__int2float_rn((int)(v0_0 >> 8u)), 5.9604645e-8f) < 0.1f) ? state.last_action : action[0];
    const bool fires = (executed == 5u) && (state.shot_timer == 0u);
    const unsigned t1 = fires ? 5u : state.shot_timer;
    const unsigned t2 = state.bullets[3] | (fires ? (1u << (state.x & 31u)) : 0u);
    const unsigned x = (state.x + (((executed == 3u) && (state.x < 9u)) ? 1u : 0u)) - (((executed == 1u) && (!(state.x == 0u))) ? 1u : 0u);
    const unsigned cannon = 1u << (x & 31u);
    const unsigned t3 = ((state.bullets[0] >> 10u) | (state.bullets[1] << 20u)) & 0x3fffffffu;
    const unsigned t4 = ((state.bullets[1] >> 10u) | (state.bullets[2] << 20u)) & 0x3fffffffu;
    const unsigned t5 = ((state.bullets[2] >> 10u) | (t2 << 20u)) & 0x3fffffffu;
    const unsigned t6 = ((t2 >> 10u) | 0u) & 0x3fffffffu;
    const unsigned t7 = ((state.alien_bullets[0] << 10u) | 0u) & 0x3fffffffu;
    const unsigned t8 = ((state.alien_bullets[1] << 10u) | (state.alien_bullets[0] >> 20u)) & 0x3fffffffu;
    const unsigned t9 = ((state.alien_bullets[2] << 10u) | (state.alien_bullets[1] >> 20u)) & 0x3fffffffu;
    const unsigned t10 = ((state.alien_bullets[3] << 10u) | (state.alien_bullets[2] >> 20u)) & 1023u;
    const bool hit = !(((t10 | state.aliens[3]) & cannon) == 0u);
    const bool moves = state.alien_move_timer == 0u;
    unsigned v0_0_2 = state.aliens[0];
    unsigned v0_1_2 = state.aliens[1];
    unsigned v0_2_2 = state.aliens[2];
    unsigned v0_3_2 = state.aliens[3];
    int v1 = state.direction;
    unsigned v2 = state.alien_move_timer;
    bool v3 = hit;
    if (moves) {
        const unsigned t11 = state.aliens[0] >> 1u;
        const unsigned t12 = state.aliens[0] - (t11 & 0x55555555u);
        const unsigned t13 = (t12 & 0x33333333u) + ((t12 >> 2u) & 0x33333333u);
        const unsigned t14 = state.aliens[1] >> 1u;
        const unsigned t15 = state.aliens[1] - (t14 & 0x55555555u);
        const unsigned t16 = (t15 & 0x33333333u) + ((t15 >> 2u) & 0x33333333u);
        const unsigned t17 = ((((t13 + (t13 >> 4u)) & 0x0f0f0f0fu) * 0x01010101u) >> 24u) + ((((t16 + (t16 >> 4u)) & 0x0f0f0f0fu) * 0x01010101u) >> 24u);
        const unsigned t18 = state.aliens[2] >> 1u;
        const unsigned t19 = state.aliens[2] - (t18 & 0x55555555u);
        const unsigned t20 = (t19 & 0x33333333u) + ((t19 >> 2u) & 0x33333333u);
        const unsigned t21 = state.aliens[3] >> 1u;
        const unsigned t22 = state.aliens[3] - (t21 & 0x55555555u);
        const unsigned t23 = (t22 & 0x33333333u) + ((t22 >> 2u) & 0x33333333u);
        const unsigned t24 = (t17 + ((((t20 + (t20 >> 4u)) & 0x0f0f0f0fu) * 0x01010101u) >> 24u)) + ((((t23 + (t23 >> 4u)) & 0x0f0f0f0fu) * 0x01010101u) >> 24u);
        const unsigned t25 = ((state.aliens[0] | state.aliens[1]) | state.aliens[2]) | state.aliens[3];
        const bool left = state.direction < 0;
        const bool turns = !(((((t25 | (t25 >> 10u)) | (t25 >> 20u)) & 1023u) & (left ? 1u : 512u)) == 0u);
        const unsigned t26 = turns ? ((((state.aliens[0] << 10u) | 0u) & 0x3fffffffu) | state.aliens[3]) : (left ? t11 : (state.aliens[0] << 1u));
        const unsigned t27 = turns ? (((state.aliens[1] << 10u) | (state.aliens[0] >> 20u)) & 0x3fffffffu) : (left ? t14 : (state.aliens[1] << 1u));
        const unsigned t28 = turns ? (((state.aliens[2] << 10u) | (state.aliens[1] >> 20u)) & 0x3fffffffu) : (left ? t18 : (state.aliens[2] << 1u));
        const unsigned t29 = turns ? (((state.aliens[3] << 10u) | (state.aliens[2] >> 20u)) & 1023u) : (left ? t21 : (state.aliens[3] << 1u));
        v0_0_2 = t26;
        v0_1_2 = t27;
        v0_2_2 = t28;
        v0_3_2 = t29;
        v1 = turns ? ((int)(0u - (unsigned)state.direction)) : state.direction;
        v2 = (t24 < state.move_interval) ? t24 : state.move_interval;
        v3 = (hit || (turns && (!(state.aliens[3] == 0u)))) || (!((t29 & cannon) == 0u));
    }
    const bool shoots = state.alien_shot_timer == 0u;
    unsigned _0 = t7;
    unsigned _1 = t8;
    unsigned _2 = t9;
    unsigned _3 = t10;
    if (shoots) {
        const unsigned t30 = ((v0_0_2 | v0_1_2) | v0_2_2) | v0_3_2;
        const unsigned t31 = ((t30 | (t30 >> 10u)) | (t30 >> 20u)) & 1023u;
        const unsigned t32 = t31 & ((2u << (x & 31u)) - 1u);
        const unsigned t33 = t32 | (t32 >> 1u);
        const unsigned t34 = t33 | (t33 >> 2u);
        const unsigned t35 = t34 | (t34 >> 4u);
        const unsigned smear = t35 | (t35 >> 8u);
        const unsigned t36 = smear >> 1u;
        const unsigned t37 = smear ^ t36;
        const unsigned t38 = t31 & (~(cannon - 1u));
        const unsigned t39 = t38 & (0u - t38);
        const unsigned t40 = smear - (t36 & 0x55555555u);
        const unsigned t41 = (t40 & 0x33333333u) + ((t40 >> 2u) & 0x33333333u);
        const unsigned t42 = t39 - 1u;
        const unsigned t43 = t42 - ((t42 >> 1u) & 0x55555555u);
        const unsigned t44 = (t43 & 0x33333333u) + ((t43 >> 2u) & 0x33333333u);
        const bool t45 = (((((t44 + (t44 >> 4u)) & 0x0f0f0f0fu) * 0x01010101u) >> 24u) - x) < (x - (((((t41 + (t41 >> 4u)) & 0x0f0f0f0fu) * 0x01010101u) >> 24u) - 1u));
        const unsigned column = (((!(t37 == 0u)) && ((t39 == 0u) || (!t45))) ? t37 : t39) * 0x00100401u;
        const unsigned t46 = v0_3_2 & column;
        const bool t47 = true && (t46 == 0u);
        const unsigned t48 = v0_2_2 & column;
        const bool t49 = t47 && (t48 == 0u);
        const unsigned t50 = v0_1_2 & column;
        const unsigned t51 = v0_0_2 & column;
        _0 = t7 | ((t49 && (t50 == 0u)) ? (t51 & (~((t51 >> 10u) | (t51 >> 20u)))) : 0u);
        _1 = t8 | (t49 ? (t50 & (~((t50 >> 10u) | (t50 >> 20u)))) : 0u);
        _2 = t9 | (t47 ? (t48 & (~((t48 >> 10u) | (t48 >> 20u)))) : 0u);
        _3 = t10 | (t46 & (~((t46 >> 10u) | (t46 >> 20u))));
    }
    const unsigned t52 = v0_0_2 & t3;
    const unsigned t53 = v0_1_2 & t4;
    const unsigned t54 = v0_2_2 & t5;
    const unsigned t55 = v0_3_2 & t6;
    unsigned value = 0u;
    if (!((((t52 | t53) | t54) | t55) == 0u)) {
        const unsigned t56 = t52 - ((t52 >> 1u) & 0x55555555u);
        const unsigned t57 = (t56 & 0x33333333u) + ((t56 >> 2u) & 0x33333333u);
        const unsigned t58 = t53 - ((t53 >> 1u) & 0x55555555u);
        const unsigned t59 = (t58 & 0x33333333u) + ((t58 >> 2u) & 0x33333333u);
        const unsigned t60 = ((((t57 + (t57 >> 4u)) & 0x0f0f0f0fu) * 0x01010101u) >> 24u) + ((((t59 + (t59 >> 4u)) & 0x0f0f0f0fu) * 0x01010101u) >> 24u);
        const unsigned t61 = t54 - ((t54 >> 1u) & 0x55555555u);
        const unsigned t62 = (t61 & 0x33333333u) + ((t61 >> 2u) & 0x33333333u);
        const unsigned t63 = t55 - ((t55 >> 1u) & 0x55555555u);
        const unsigned t64 = (t63 & 0x33333333u) + ((t63 >> 2u) & 0x33333333u);
        const unsigned t65 = (t60 + ((((t62 + (t62 >> 4u)) & 0x0f0f0f0fu) * 0x01010101u) >> 24u)) + ((((t64 + (t64 >> 4u)) & 0x0f0f0f0fu) * 0x01010101u) >> 24u);
        value = t65;
    }
    const unsigned t66 = ~t52;
    const unsigned t67 = v0_0_2 & t66;
    const unsigned t68 = ~t53;
    const unsigned t69 = v0_1_2 & t68;
    const unsigned t70 = ~t54;
    const unsigned t71 = v0_2_2 & t70;
    const unsigned t72 = ~t55;
    const unsigned t73 = v0_3_2 & t72;
    const bool cleared = (((t67 | t69) | t71) | t73) == 0u;
    const bool faster = cleared && (6u < state.move_interval);
    const unsigned t74 = faster ? 1u : 0u;
    next.x = x;
    next.shot_timer = ((1u < t1) ? t1 : 1u) - 1u;
    next.direction = v1;
    next.alien_move_timer = v2 - 1u;
    next.alien_shot_timer = (shoots ? 10u : state.alien_shot_timer) - 1u;
    next.move_interval = state.move_interval - t74;
    next.ramp_index = state.ramp_index + t74;
    next.aliens[0] = cleared ? 0x0fc3f0fcu : t67;
    next.aliens[1] = cleared ? 252u : t69;
    next.aliens[2] = cleared ? 0u : t71;
    next.aliens[3] = cleared ? 0u : t73;
    next.bullets[0] = t3 & t66;
    next.bullets[1] = t4 & t68;
    next.bullets[2] = t5 & t70;
    next.bullets[3] = t6 & t72;
    next.alien_bullets[0] = _0;
    next.alien_bullets[1] = _1;
    next.alien_bullets[2] = _2;
    next.alien_bullets[3] = _3;
    next.last_action = executed;
    reward = __uint2float_rn(value);
    terminated = v3;
}

__device__ __forceinline__ void env_observe(
    const EnvState& state, unsigned* obs) {
    const unsigned alien = (state.direction < 0) ? 6u : 10u;
    const unsigned t1 = 1u << (state.x & 31u);
    const unsigned t2 = (((((state.aliens[0] >> 0u) & 31u) * 0x00108421u) & 0x01041041u) * alien) | (((((state.bullets[0] >> 0u) & 31u) * 0x00108421u) & 0x01041041u) << 4u);
    const unsigned t3 = (t2 | (((((state.alien_bullets[0] >> 0u) & 31u) * 0x00108421u) & 0x01041041u) << 5u)) << 0u;
    const unsigned t4 = (((((state.aliens[0] >> 5u) & 31u) * 0x00108421u) & 0x01041041u) * alien) | (((((state.bullets[0] >> 5u) & 31u) * 0x00108421u) & 0x01041041u) << 4u);
    const unsigned t5 = t4 | (((((state.alien_bullets[0] >> 5u) & 31u) * 0x00108421u) & 0x01041041u) << 5u);
    const unsigned t6 = (((((state.aliens[0] >> 10u) & 31u) * 0x00108421u) & 0x01041041u) * alien) | (((((state.bullets[0] >> 10u) & 31u) * 0x00108421u) & 0x01041041u) << 4u);
    const unsigned t7 = t6 | (((((state.alien_bullets[0] >> 10u) & 31u) * 0x00108421u) & 0x01041041u) << 5u);
    const unsigned t8 = (((((state.aliens[0] >> 15u) & 31u) * 0x00108421u) & 0x01041041u) * alien) | (((((state.bullets[0] >> 15u) & 31u) * 0x00108421u) & 0x01041041u) << 4u);
    const unsigned t9 = t8 | (((((state.alien_bullets[0] >> 15u) & 31u) * 0x00108421u) & 0x01041041u) << 5u);
    const unsigned t10 = (((((state.aliens[0] >> 20u) & 31u) * 0x00108421u) & 0x01041041u) * alien) | (((((state.bullets[0] >> 20u) & 31u) * 0x00108421u) & 0x01041041u) << 4u);
    const unsigned t11 = t10 | (((((state.alien_bullets[0] >> 20u) & 31u) * 0x00108421u) & 0x01041041u) << 5u);
    const unsigned t12 = (((((state.aliens[0] >> 25u) & 31u) * 0x00108421u) & 0x01041041u) * alien) | (((((state.bullets[0] >> 25u) & 31u) * 0x00108421u) & 0x01041041u) << 4u);
    const unsigned t13 = t12 | (((((state.alien_bullets[0] >> 25u) & 31u) * 0x00108421u) & 0x01041041u) << 5u);
    const unsigned t14 = (((((state.aliens[1] >> 0u) & 31u) * 0x00108421u) & 0x01041041u) * alien) | (((((state.bullets[1] >> 0u) & 31u) * 0x00108421u) & 0x01041041u) << 4u);
    const unsigned t15 = t14 | (((((state.alien_bullets[1] >> 0u) & 31u) * 0x00108421u) & 0x01041041u) << 5u);
    const unsigned t16 = (((((state.aliens[1] >> 5u) & 31u) * 0x00108421u) & 0x01041041u) * alien) | (((((state.bullets[1] >> 5u) & 31u) * 0x00108421u) & 0x01041041u) << 4u);
    const unsigned t17 = t16 | (((((state.alien_bullets[1] >> 5u) & 31u) * 0x00108421u) & 0x01041041u) << 5u);
    const unsigned t18 = (((((state.aliens[1] >> 10u) & 31u) * 0x00108421u) & 0x01041041u) * alien) | (((((state.bullets[1] >> 10u) & 31u) * 0x00108421u) & 0x01041041u) << 4u);
    const unsigned t19 = t18 | (((((state.alien_bullets[1] >> 10u) & 31u) * 0x00108421u) & 0x01041041u) << 5u);
    const unsigned t20 = (((((state.aliens[1] >> 15u) & 31u) * 0x00108421u) & 0x01041041u) * alien) | (((((state.bullets[1] >> 15u) & 31u) * 0x00108421u) & 0x01041041u) << 4u);
    const unsigned t21 = t20 | (((((state.alien_bullets[1] >> 15u) & 31u) * 0x00108421u) & 0x01041041u) << 5u);
    const unsigned t22 = (((((state.aliens[1] >> 20u) & 31u) * 0x00108421u) & 0x01041041u) * alien) | (((((state.bullets[1] >> 20u) & 31u) * 0x00108421u) & 0x01041041u) << 4u);
    const unsigned t23 = t22 | (((((state.alien_bullets[1] >> 20u) & 31u) * 0x00108421u) & 0x01041041u) << 5u);
    const unsigned t24 = (((((state.aliens[1] >> 25u) & 31u) * 0x00108421u) & 0x01041041u) * alien) | (((((state.bullets[1] >> 25u) & 31u) * 0x00108421u) & 0x01041041u) << 4u);
    const unsigned t25 = t24 | (((((state.alien_bullets[1] >> 25u) & 31u) * 0x00108421u) & 0x01041041u) << 5u);
    const unsigned t26 = (((((state.aliens[2] >> 0u) & 31u) * 0x00108421u) & 0x01041041u) * alien) | (((((state.bullets[2] >> 0u) & 31u) * 0x00108421u) & 0x01041041u) << 4u);
    const unsigned t27 = t26 | (((((state.alien_bullets[2] >> 0u) & 31u) * 0x00108421u) & 0x01041041u) << 5u);
    const unsigned t28 = (((((state.aliens[2] >> 5u) & 31u) * 0x00108421u) & 0x01041041u) * alien) | (((((state.bullets[2] >> 5u) & 31u) * 0x00108421u) & 0x01041041u) << 4u);
    const unsigned t29 = t28 | (((((state.alien_bullets[2] >> 5u) & 31u) * 0x00108421u) & 0x01041041u) << 5u);
    const unsigned t30 = (((((state.aliens[2] >> 10u) & 31u) * 0x00108421u) & 0x01041041u) * alien) | (((((state.bullets[2] >> 10u) & 31u) * 0x00108421u) & 0x01041041u) << 4u);
    const unsigned t31 = t30 | (((((state.alien_bullets[2] >> 10u) & 31u) * 0x00108421u) & 0x01041041u) << 5u);
    const unsigned t32 = (((((state.aliens[2] >> 15u) & 31u) * 0x00108421u) & 0x01041041u) * alien) | (((((state.bullets[2] >> 15u) & 31u) * 0x00108421u) & 0x01041041u) << 4u);
    const unsigned t33 = (t32 | (((((state.alien_bullets[2] >> 15u) & 31u) * 0x00108421u) & 0x01041041u) << 5u)) << 2u;
    const unsigned t34 = (((((state.aliens[2] >> 20u) & 31u) * 0x00108421u) & 0x01041041u) * alien) | (((((state.bullets[2] >> 20u) & 31u) * 0x00108421u) & 0x01041041u) << 4u);
    const unsigned t35 = (t34 | (((((state.alien_bullets[2] >> 20u) & 31u) * 0x00108421u) & 0x01041041u) << 5u)) << 0u;
    const unsigned t36 = (((((state.aliens[2] >> 25u) & 31u) * 0x00108421u) & 0x01041041u) * alien) | (((((state.bullets[2] >> 25u) & 31u) * 0x00108421u) & 0x01041041u) << 4u);
    const unsigned t37 = t36 | (((((state.alien_bullets[2] >> 25u) & 31u) * 0x00108421u) & 0x01041041u) << 5u);
    const unsigned t38 = (((((state.aliens[3] >> 0u) & 31u) * 0x00108421u) & 0x01041041u) * alien) | (((((state.bullets[3] >> 0u) & 31u) * 0x00108421u) & 0x01041041u) << 4u);
    const unsigned t39 = (t38 | (((((state.alien_bullets[3] >> 0u) & 31u) * 0x00108421u) & 0x01041041u) << 5u)) | ((((t1 >> 0u) & 31u) * 0x00108421u) & 0x01041041u);
    const unsigned t40 = (((((state.aliens[3] >> 5u) & 31u) * 0x00108421u) & 0x01041041u) * alien) | (((((state.bullets[3] >> 5u) & 31u) * 0x00108421u) & 0x01041041u) << 4u);
    const unsigned t41 = (t40 | (((((state.alien_bullets[3] >> 5u) & 31u) * 0x00108421u) & 0x01041041u) << 5u)) | ((((t1 >> 5u) & 31u) * 0x00108421u) & 0x01041041u);
    obs[0] = (0u | t3) | (t5 << 30u);
    obs[1] = (0u | (t5 >> 2u)) | (t7 << 28u);
    obs[2] = (0u | (t7 >> 4u)) | (t9 << 26u);
    obs[3] = (0u | (t9 >> 6u)) | (t11 << 24u);
    obs[4] = (0u | (t11 >> 8u)) | (t13 << 22u);
    obs[5] = (0u | (t13 >> 10u)) | (t15 << 20u);
    obs[6] = (0u | (t15 >> 12u)) | (t17 << 18u);
    obs[7] = (0u | (t17 >> 14u)) | (t19 << 16u);
    obs[8] = (0u | (t19 >> 16u)) | (t21 << 14u);
    obs[9] = (0u | (t21 >> 18u)) | (t23 << 12u);
    obs[10] = (0u | (t23 >> 20u)) | (t25 << 10u);
    obs[11] = (0u | (t25 >> 22u)) | (t27 << 8u);
    obs[12] = (0u | (t27 >> 24u)) | (t29 << 6u);
    obs[13] = (0u | (t29 >> 26u)) | (t31 << 4u);
    obs[14] = (0u | (t31 >> 28u)) | t33;
    obs[15] = (0u | t35) | (t37 << 30u);
    obs[16] = (0u | (t37 >> 2u)) | (t39 << 28u);
    obs[17] = (0u | (t39 >> 4u)) | (t41 << 26u);
    obs[18] = 0u | (t41 >> 6u);
}
