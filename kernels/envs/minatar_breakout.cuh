// minatar_breakout: break bricks with a ball on a 10x10 grid; +1 per brick.
// Emitted from the environment's rules by `operant emit`; do not edit.
#pragma once

constexpr unsigned ENV_TIME_LIMIT = 5000u;
constexpr unsigned ENV_OBS = 400u;         // numbers the policy sees
constexpr unsigned ENV_OBS_WORDS = 13u;   // words they are stored in
constexpr unsigned ENV_STATE_WORDS = 12u;   // words of a state
constexpr unsigned ENV_ACTIONS = 6u;   // logits
constexpr unsigned ENV_COMPONENTS = 1u;   // numbers that name an action
#define ENV_DISCRETE 1   // choices, or real numbers between bounds
#define ENV_MASKED 0   // whether env_legal forbids choices
using EnvAction = unsigned;
__device__ __forceinline__ constexpr unsigned env_choices(unsigned) { return 6u; }

struct EnvState {
    unsigned ball_y;
    unsigned ball_x;
    unsigned ball_dir;
    unsigned pos;
    unsigned strike;
    unsigned last_y;
    unsigned last_x;
    unsigned bricks[4];
    unsigned last_action;
};

__device__ __forceinline__ void env_load(const unsigned* words, unsigned stride, EnvState& state) {
    state.ball_y = words[0];
    state.ball_x = words[1u * stride];
    state.ball_dir = words[2u * stride];
    state.pos = words[3u * stride];
    state.strike = words[4u * stride];
    state.last_y = words[5u * stride];
    state.last_x = words[6u * stride];
    state.bricks[0] = words[7u * stride];
    state.bricks[1] = words[8u * stride];
    state.bricks[2] = words[9u * stride];
    state.bricks[3] = words[10u * stride];
    state.last_action = words[11u * stride];
}

__device__ __forceinline__ void env_store(const EnvState& state, unsigned* words, unsigned stride) {
    words[0] = state.ball_y;
    words[1u * stride] = state.ball_x;
    words[2u * stride] = state.ball_dir;
    words[3u * stride] = state.pos;
    words[4u * stride] = state.strike;
    words[5u * stride] = state.last_y;
    words[6u * stride] = state.last_x;
    words[7u * stride] = state.bricks[0];
    words[8u * stride] = state.bricks[1];
    words[9u * stride] = state.bricks[2];
    words[10u * stride] = state.bricks[3];
    words[11u * stride] = state.last_action;
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
    const bool t1 = __umulhi(v0_0, 2u) == 1u;
    const unsigned ball_x = t1 ? 9u : 0u;
    next.ball_y = 3u;
    next.ball_x = ball_x;
    next.ball_dir = t1 ? 3u : 2u;
    next.pos = 4u;
    next.strike = 0u;
    next.last_y = 3u;
    next.last_x = ball_x;
    next.bricks[0] = 0xfffffc00u;
    next.bricks[1] = 255u;
    next.bricks[2] = 0u;
    next.bricks[3] = 0u;
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
    const unsigned pos = (state.pos + (((executed == 3u) && (state.pos < 9u)) ? 1u : 0u)) - (((executed == 1u) && (!(state.pos == 0u))) ? 1u : 0u);
    const int t1 = (int)((unsigned)((int)state.ball_x) + (unsigned)(((state.ball_dir == 1u) || (state.ball_dir == 2u)) ? 1 : (-1)));
    const int t2 = (int)((unsigned)((int)state.ball_y) + (unsigned)((!(state.ball_dir < 2u)) ? 1 : (-1)));
    const bool at_wall = (t1 < 0) || (!(t1 < 10));
    const int t3 = (0 < t1) ? t1 : 0;
    const unsigned x = (unsigned)((t3 < 9) ? t3 : 9);
    const unsigned direction = at_wall ? (state.ball_dir ^ 1u) : state.ball_dir;
    const bool ceiling = t2 < 0;
    const unsigned y = (unsigned)((0 < t2) ? t2 : 0);
    const unsigned cell = (y * 10u) + x;
    const unsigned t4 = cell >> 5u;
    const bool t5 = t4 == 0u;
    const bool t6 = t4 == 1u;
    const bool t7 = t4 == 2u;
    const bool t8 = !ceiling;
    const unsigned t9 = (t7 ? state.bricks[2] : (t6 ? state.bricks[1] : (t5 ? state.bricks[0] : state.bricks[3]))) >> (cell & 31u);
    const bool on_brick = t8 && (!((t9 & 1u) == 0u));
    const bool breaks = on_brick && (state.strike == 0u);
    const bool bottom = (t8 && (!on_brick)) && (y == 9u);
    const bool rebuild = bottom && ((((state.bricks[0] | state.bricks[1]) | state.bricks[2]) | state.bricks[3]) == 0u);
    const unsigned t10 = 1u << (cell & 31u);
    const unsigned t11 = rebuild ? 0xfffffc00u : (breaks ? (state.bricks[0] & (~(t5 ? t10 : 0u))) : state.bricks[0]);
    const unsigned t12 = rebuild ? 0u : (breaks ? (state.bricks[3] & (~((t4 == 3u) ? t10 : 0u))) : state.bricks[3]);
    const bool caught = bottom && (state.ball_x == pos);
    const bool t13 = bottom && (!caught);
    const bool edge = t13 && (x == pos);
    const bool lost = t13 && (!edge);
    next.ball_y = ((breaks || caught) || edge) ? state.ball_y : y;
    next.ball_x = x;
    next.ball_dir = direction ^ (((ceiling || breaks) || caught) ? 3u : (edge ? 2u : 0u));
    next.pos = pos;
    next.strike = on_brick ? 1u : 0u;
    next.last_y = state.ball_y;
    next.last_x = state.ball_x;
    next.bricks[0] = t11;
    next.bricks[1] = rebuild ? 255u : (breaks ? (state.bricks[1] & (~(t6 ? t10 : 0u))) : state.bricks[1]);
    next.bricks[2] = rebuild ? 0u : (breaks ? (state.bricks[2] & (~(t7 ? t10 : 0u))) : state.bricks[2]);
    next.bricks[3] = t12;
    next.last_action = executed;
    reward = breaks ? 1.0f : 0.0f;
    terminated = lost;
}

__device__ __forceinline__ void env_observe(
    const EnvState& state, unsigned* obs) {
    const unsigned t1 = 90u + state.pos;
    const unsigned t2 = (state.ball_y * 10u) + state.ball_x;
    const unsigned t3 = (state.last_y * 10u) + state.last_x;
    const unsigned t4 = (state.bricks[0] >> 0u) & 255u;
    const unsigned t5 = (t4 | (t4 << 12u)) & 0x000f000fu;
    const unsigned t6 = (t5 | (t5 << 6u)) & 0x03030303u;
    const unsigned t7 = t2 >> 3u;
    const unsigned t8 = 2u << (((t2 & 7u) << 2u) & 31u);
    const unsigned t9 = t3 >> 3u;
    const unsigned t10 = 4u << (((t3 & 7u) << 2u) & 31u);
    const unsigned t11 = (((((t6 | (t6 << 3u)) & 0x11111111u) << 3u) | 0u) | ((t7 == 0u) ? t8 : 0u)) | ((t9 == 0u) ? t10 : 0u);
    const unsigned t12 = (state.bricks[0] >> 8u) & 255u;
    const unsigned t13 = (t12 | (t12 << 12u)) & 0x000f000fu;
    const unsigned t14 = (t13 | (t13 << 6u)) & 0x03030303u;
    const unsigned t15 = (((((t14 | (t14 << 3u)) & 0x11111111u) << 3u) | 0u) | ((t7 == 1u) ? t8 : 0u)) | ((t9 == 1u) ? t10 : 0u);
    const unsigned t16 = (state.bricks[0] >> 16u) & 255u;
    const unsigned t17 = (t16 | (t16 << 12u)) & 0x000f000fu;
    const unsigned t18 = (t17 | (t17 << 6u)) & 0x03030303u;
    const unsigned t19 = (((((t18 | (t18 << 3u)) & 0x11111111u) << 3u) | 0u) | ((t7 == 2u) ? t8 : 0u)) | ((t9 == 2u) ? t10 : 0u);
    const unsigned t20 = (state.bricks[0] >> 24u) & 255u;
    const unsigned t21 = (t20 | (t20 << 12u)) & 0x000f000fu;
    const unsigned t22 = (t21 | (t21 << 6u)) & 0x03030303u;
    const unsigned t23 = (((((t22 | (t22 << 3u)) & 0x11111111u) << 3u) | 0u) | ((t7 == 3u) ? t8 : 0u)) | ((t9 == 3u) ? t10 : 0u);
    const unsigned t24 = (state.bricks[1] >> 0u) & 255u;
    const unsigned t25 = (t24 | (t24 << 12u)) & 0x000f000fu;
    const unsigned t26 = (t25 | (t25 << 6u)) & 0x03030303u;
    const unsigned t27 = (((((t26 | (t26 << 3u)) & 0x11111111u) << 3u) | 0u) | ((t7 == 4u) ? t8 : 0u)) | ((t9 == 4u) ? t10 : 0u);
    const unsigned t28 = (state.bricks[1] >> 8u) & 255u;
    const unsigned t29 = (t28 | (t28 << 12u)) & 0x000f000fu;
    const unsigned t30 = (t29 | (t29 << 6u)) & 0x03030303u;
    const unsigned t31 = (((((t30 | (t30 << 3u)) & 0x11111111u) << 3u) | 0u) | ((t7 == 5u) ? t8 : 0u)) | ((t9 == 5u) ? t10 : 0u);
    const unsigned t32 = (state.bricks[1] >> 16u) & 255u;
    const unsigned t33 = (t32 | (t32 << 12u)) & 0x000f000fu;
    const unsigned t34 = (t33 | (t33 << 6u)) & 0x03030303u;
    const unsigned t35 = (((((t34 | (t34 << 3u)) & 0x11111111u) << 3u) | 0u) | ((t7 == 6u) ? t8 : 0u)) | ((t9 == 6u) ? t10 : 0u);
    const unsigned t36 = (state.bricks[1] >> 24u) & 255u;
    const unsigned t37 = (t36 | (t36 << 12u)) & 0x000f000fu;
    const unsigned t38 = (t37 | (t37 << 6u)) & 0x03030303u;
    const unsigned t39 = (((((t38 | (t38 << 3u)) & 0x11111111u) << 3u) | 0u) | ((t7 == 7u) ? t8 : 0u)) | ((t9 == 7u) ? t10 : 0u);
    const unsigned t40 = (state.bricks[2] >> 0u) & 255u;
    const unsigned t41 = (t40 | (t40 << 12u)) & 0x000f000fu;
    const unsigned t42 = (t41 | (t41 << 6u)) & 0x03030303u;
    const unsigned t43 = (((((t42 | (t42 << 3u)) & 0x11111111u) << 3u) | 0u) | ((t7 == 8u) ? t8 : 0u)) | ((t9 == 8u) ? t10 : 0u);
    const unsigned t44 = (state.bricks[2] >> 8u) & 255u;
    const unsigned t45 = (t44 | (t44 << 12u)) & 0x000f000fu;
    const unsigned t46 = (t45 | (t45 << 6u)) & 0x03030303u;
    const unsigned t47 = (((((t46 | (t46 << 3u)) & 0x11111111u) << 3u) | 0u) | ((t7 == 9u) ? t8 : 0u)) | ((t9 == 9u) ? t10 : 0u);
    const unsigned t48 = (state.bricks[2] >> 16u) & 255u;
    const unsigned t49 = (t48 | (t48 << 12u)) & 0x000f000fu;
    const unsigned t50 = (t49 | (t49 << 6u)) & 0x03030303u;
    const unsigned t51 = (((((t50 | (t50 << 3u)) & 0x11111111u) << 3u) | 0u) | ((t7 == 10u) ? t8 : 0u)) | ((t9 == 10u) ? t10 : 0u);
    const unsigned t52 = (state.bricks[2] >> 24u) & 255u;
    const unsigned t53 = (t52 | (t52 << 12u)) & 0x000f000fu;
    const unsigned t54 = (t53 | (t53 << 6u)) & 0x03030303u;
    const unsigned t55 = t1 >> 3u;
    const unsigned t56 = 1u << (((t1 & 7u) << 2u) & 31u);
    const unsigned t57 = ((((t54 | (t54 << 3u)) & 0x11111111u) << 3u) | ((t55 == 11u) ? t56 : 0u)) | ((t7 == 11u) ? t8 : 0u);
    const unsigned t58 = (state.bricks[3] >> 0u) & 255u;
    const unsigned t59 = (t58 | (t58 << 12u)) & 0x000f000fu;
    const unsigned t60 = (t59 | (t59 << 6u)) & 0x03030303u;
    const unsigned t61 = ((((t60 | (t60 << 3u)) & 0x11111111u) << 3u) | ((t55 == 12u) ? t56 : 0u)) | ((t7 == 12u) ? t8 : 0u);
    obs[0] = t11;
    obs[1] = t15;
    obs[2] = t19;
    obs[3] = t23;
    obs[4] = t27;
    obs[5] = t31;
    obs[6] = t35;
    obs[7] = t39;
    obs[8] = t43;
    obs[9] = t47;
    obs[10] = t51;
    obs[11] = t57 | ((t9 == 11u) ? t10 : 0u);
    obs[12] = t61 | ((t9 == 12u) ? t10 : 0u);
}
