// minatar_asterix: collect gold between enemies on a 10x10 grid; +1 per piece.
// Emitted from the environment's rules by `operant emit`; do not edit.
#pragma once

constexpr unsigned ENV_TIME_LIMIT = 5000u;
constexpr unsigned ENV_OBS = 400u;         // numbers the policy sees
constexpr unsigned ENV_OBS_WORDS = 13u;   // words they are stored in
constexpr unsigned ENV_STATE_WORDS = 13u;   // words of a state
constexpr unsigned ENV_ACTIONS = 6u;   // logits
constexpr unsigned ENV_COMPONENTS = 1u;   // numbers that name an action
#define ENV_DISCRETE 1   // choices, or real numbers between bounds
#define ENV_MASKED 0   // whether env_legal forbids choices
using EnvAction = unsigned;
__device__ __forceinline__ constexpr unsigned env_choices(unsigned) { return 6u; }

struct EnvState {
    unsigned y;
    unsigned x;
    unsigned spawn_timer;
    unsigned spawn_speed;
    unsigned move_timer;
    unsigned move_speed;
    int ramp_timer;
    unsigned ramp_index;
    unsigned things;
    unsigned enemies;
    unsigned gold;
    unsigned rightwards;
    unsigned last_action;
};

__device__ __forceinline__ void env_load(const unsigned* words, unsigned stride, EnvState& state) {
    state.y = words[0];
    state.x = words[1u * stride];
    state.spawn_timer = words[2u * stride];
    state.spawn_speed = words[3u * stride];
    state.move_timer = words[4u * stride];
    state.move_speed = words[5u * stride];
    state.ramp_timer = (int)words[6u * stride];
    state.ramp_index = words[7u * stride];
    state.things = words[8u * stride];
    state.enemies = words[9u * stride];
    state.gold = words[10u * stride];
    state.rightwards = words[11u * stride];
    state.last_action = words[12u * stride];
}

__device__ __forceinline__ void env_store(const EnvState& state, unsigned* words, unsigned stride) {
    words[0] = state.y;
    words[1u * stride] = state.x;
    words[2u * stride] = state.spawn_timer;
    words[3u * stride] = state.spawn_speed;
    words[4u * stride] = state.move_timer;
    words[5u * stride] = state.move_speed;
    words[6u * stride] = (unsigned)state.ramp_timer;
    words[7u * stride] = state.ramp_index;
    words[8u * stride] = state.things;
    words[9u * stride] = state.enemies;
    words[10u * stride] = state.gold;
    words[11u * stride] = state.rightwards;
    words[12u * stride] = state.last_action;
}

__device__ __forceinline__ void env_reset(
    unsigned seed_low, unsigned seed_high, unsigned environment, unsigned step_low, unsigned step_high, unsigned purpose,
    EnvState& next) {
    next.y = 5u;
    next.x = 5u;
    next.spawn_timer = 10u;
    next.spawn_speed = 10u;
    next.move_timer = 5u;
    next.move_speed = 5u;
    next.ramp_timer = 100;
    next.ramp_index = 0u;
    next.things = 0u;
    next.enemies = 0u;
    next.gold = 0u;
    next.rightwards = 0u;
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
    const bool comes = state.spawn_timer == 0u;
    unsigned y = state.y;
    unsigned x = state.x;
    unsigned spawn_timer = state.spawn_timer;
    unsigned spawn_speed = state.spawn_speed;
    unsigned move_timer = state.move_timer;
    unsigned move_speed = state.move_speed;
    int ramp_timer = state.ramp_timer;
    unsigned ramp_index = state.ramp_index;
    unsigned things = state.things;
    unsigned enemies = state.enemies;
    unsigned gold = state.gold;
    unsigned rightwards = state.rightwards;
    if (comes) {
        const bool right = __fmul_rn(__int2float_rn((int)(v0_1 >> 8u)), 5.9604645e-8f) < 0.5f;
        const bool is_gold = __fmul_rn(__int2float_rn((int)(v0_2 >> 8u)), 5.9604645e-8f) < 0.33333334f;
        const unsigned t1 = (~(state.enemies | state.gold)) & 0x11111111u;
        const unsigned numbers = t1 * 0x11111111u;
        const unsigned t2 = numbers >> 28u;
        unsigned value = 0u;
        if (!(t2 == 0u)) {
            value = __umulhi(v0_3, t2);
        }
        const unsigned t3 = numbers ^ ((value + 1u) * 0x11111111u);
        const unsigned row = t1 & ((~(((t3 | (t3 >> 1u)) | (t3 >> 2u)) | (t3 >> 3u))) & 0x11111111u);
        y = state.y;
        x = state.x;
        spawn_timer = state.spawn_timer;
        spawn_speed = state.spawn_speed;
        move_timer = state.move_timer;
        move_speed = state.move_speed;
        ramp_timer = state.ramp_timer;
        ramp_index = state.ramp_index;
        things = (state.things & (~(row * 15u))) | (right ? 0u : (row * 9u));
        enemies = state.enemies | (is_gold ? 0u : row);
        gold = state.gold | (is_gold ? row : 0u);
        rightwards = (state.rightwards & (~row)) | (right ? row : 0u);
    }
    const unsigned x_2 = (x + (((executed == 3u) && (x < 9u)) ? 1u : 0u)) - (((executed == 1u) && (!(x == 0u))) ? 1u : 0u);
    const unsigned y_2 = (y + (((executed == 4u) && (y < 8u)) ? 1u : 0u)) - (((executed == 2u) && (!(y == 1u))) ? 1u : 0u);
    const unsigned t4 = x_2 * 0x11111111u;
    const unsigned t5 = things ^ t4;
    const unsigned t6 = 1u << (((y_2 - 1u) << 2u) & 31u);
    const unsigned t7 = ((~(((t5 | (t5 >> 1u)) | (t5 >> 2u)) | (t5 >> 3u))) & 0x11111111u) & t6;
    const unsigned found = gold & t7;
    const unsigned t8 = gold & (~found);
    const bool moves = move_timer == 0u;
    const unsigned moving = moves ? (enemies | t8) : 0u;
    const unsigned t9 = moving & rightwards;
    const unsigned t10 = moving & (~rightwards);
    const unsigned t11 = things ^ 0x99999999u;
    const unsigned t12 = things ^ 0u;
    const unsigned gone = (t9 & ((~(((t11 | (t11 >> 1u)) | (t11 >> 2u)) | (t11 >> 3u))) & 0x11111111u)) | (t10 & ((~(((t12 | (t12 >> 1u)) | (t12 >> 2u)) | (t12 >> 3u))) & 0x11111111u));
    const unsigned t13 = ~gone;
    const unsigned things_2 = (things + (t9 & t13)) - (t10 & t13);
    const unsigned t14 = enemies & t13;
    const unsigned t15 = t8 & t13;
    const unsigned t16 = things_2 ^ t4;
    const unsigned t17 = ((~(((t16 | (t16 >> 1u)) | (t16 >> 2u)) | (t16 >> 3u))) & 0x11111111u) & t6;
    const unsigned found_2 = t15 & t17;
    const bool t18 = 1u < spawn_speed;
    const bool t19 = 1u < move_speed;
    const bool t20 = t18 || t19;
    const bool faster = t20 && (!(!(ramp_timer < 0)));
    next.y = y_2;
    next.x = x_2;
    next.spawn_timer = (comes ? spawn_speed : spawn_timer) - 1u;
    next.spawn_speed = spawn_speed - ((faster && t18) ? 1u : 0u);
    next.move_timer = (moves ? move_speed : move_timer) - 1u;
    next.move_speed = move_speed - (((faster && t19) && ((ramp_index & 1u) == 1u)) ? 1u : 0u);
    next.ramp_timer = faster ? 100 : (t20 ? ((int)((unsigned)ramp_timer - (unsigned)1)) : ramp_timer);
    next.ramp_index = ramp_index + (faster ? 1u : 0u);
    next.things = things_2;
    next.enemies = t14;
    next.gold = t15 & (~found_2);
    next.rightwards = rightwards;
    next.last_action = executed;
    reward = __uint2float_rn(((!(found == 0u)) ? 1u : 0u) + ((!(found_2 == 0u)) ? 1u : 0u));
    terminated = (!((enemies & t7) == 0u)) || (!((t14 & t17) == 0u));
}

__device__ __forceinline__ void env_observe(
    const EnvState& state, unsigned* obs) {
    const unsigned t1 = (state.y * 10u) + state.x;
    const unsigned t2 = t1 >> 3u;
    const unsigned t3 = 1u << (((t1 & 7u) << 2u) & 31u);
    const unsigned t4 = (state.things >> 0u) & 15u;
    const unsigned t5 = (((state.enemies >> 0u) & 15u) << 1u) | (((state.gold >> 0u) & 15u) << 3u);
    const unsigned t6 = (!(((state.rightwards >> 0u) & 15u) == 0u)) ? (t4 - 1u) : (t4 + 1u);
    const unsigned t7 = t5 << ((t4 << 2u) & 31u);
    const bool t8 = t4 < 8u;
    const unsigned t9 = (((!(t5 == 0u)) && (t6 < 10u)) ? 4u : 0u) << ((t6 << 2u) & 31u);
    const bool t10 = t6 < 8u;
    const unsigned cells = (t8 ? t7 : 0u) | (t10 ? t9 : 0u);
    const unsigned last_cells = (t8 ? 0u : t7) | (t10 ? 0u : t9);
    const unsigned t11 = (state.things >> 4u) & 15u;
    const unsigned t12 = (((state.enemies >> 4u) & 15u) << 1u) | (((state.gold >> 4u) & 15u) << 3u);
    const unsigned t13 = (!(((state.rightwards >> 4u) & 15u) == 0u)) ? (t11 - 1u) : (t11 + 1u);
    const unsigned t14 = t12 << ((t11 << 2u) & 31u);
    const bool t15 = t11 < 8u;
    const unsigned t16 = (((!(t12 == 0u)) && (t13 < 10u)) ? 4u : 0u) << ((t13 << 2u) & 31u);
    const bool t17 = t13 < 8u;
    const unsigned cells_2 = (t15 ? t14 : 0u) | (t17 ? t16 : 0u);
    const unsigned last_cells_2 = (t15 ? 0u : t14) | (t17 ? 0u : t16);
    const unsigned t18 = (state.things >> 8u) & 15u;
    const unsigned t19 = (((state.enemies >> 8u) & 15u) << 1u) | (((state.gold >> 8u) & 15u) << 3u);
    const unsigned t20 = (!(((state.rightwards >> 8u) & 15u) == 0u)) ? (t18 - 1u) : (t18 + 1u);
    const unsigned t21 = t19 << ((t18 << 2u) & 31u);
    const bool t22 = t18 < 8u;
    const unsigned t23 = (((!(t19 == 0u)) && (t20 < 10u)) ? 4u : 0u) << ((t20 << 2u) & 31u);
    const bool t24 = t20 < 8u;
    const unsigned cells_3 = (t22 ? t21 : 0u) | (t24 ? t23 : 0u);
    const unsigned last_cells_3 = (t22 ? 0u : t21) | (t24 ? 0u : t23);
    const unsigned t25 = (state.things >> 12u) & 15u;
    const unsigned t26 = (((state.enemies >> 12u) & 15u) << 1u) | (((state.gold >> 12u) & 15u) << 3u);
    const unsigned t27 = (!(((state.rightwards >> 12u) & 15u) == 0u)) ? (t25 - 1u) : (t25 + 1u);
    const unsigned t28 = t26 << ((t25 << 2u) & 31u);
    const bool t29 = t25 < 8u;
    const unsigned t30 = (((!(t26 == 0u)) && (t27 < 10u)) ? 4u : 0u) << ((t27 << 2u) & 31u);
    const bool t31 = t27 < 8u;
    const unsigned cells_4 = (t29 ? t28 : 0u) | (t31 ? t30 : 0u);
    const unsigned last_cells_4 = (t29 ? 0u : t28) | (t31 ? 0u : t30);
    const unsigned t32 = (state.things >> 16u) & 15u;
    const unsigned t33 = (((state.enemies >> 16u) & 15u) << 1u) | (((state.gold >> 16u) & 15u) << 3u);
    const unsigned t34 = (!(((state.rightwards >> 16u) & 15u) == 0u)) ? (t32 - 1u) : (t32 + 1u);
    const unsigned t35 = t33 << ((t32 << 2u) & 31u);
    const bool t36 = t32 < 8u;
    const unsigned t37 = (((!(t33 == 0u)) && (t34 < 10u)) ? 4u : 0u) << ((t34 << 2u) & 31u);
    const bool t38 = t34 < 8u;
    const unsigned cells_5 = (t36 ? t35 : 0u) | (t38 ? t37 : 0u);
    const unsigned last_cells_5 = (t36 ? 0u : t35) | (t38 ? 0u : t37);
    const unsigned t39 = (state.things >> 20u) & 15u;
    const unsigned t40 = (((state.enemies >> 20u) & 15u) << 1u) | (((state.gold >> 20u) & 15u) << 3u);
    const unsigned t41 = (!(((state.rightwards >> 20u) & 15u) == 0u)) ? (t39 - 1u) : (t39 + 1u);
    const unsigned t42 = t40 << ((t39 << 2u) & 31u);
    const bool t43 = t39 < 8u;
    const unsigned t44 = (((!(t40 == 0u)) && (t41 < 10u)) ? 4u : 0u) << ((t41 << 2u) & 31u);
    const bool t45 = t41 < 8u;
    const unsigned cells_6 = (t43 ? t42 : 0u) | (t45 ? t44 : 0u);
    const unsigned last_cells_6 = (t43 ? 0u : t42) | (t45 ? 0u : t44);
    const unsigned t46 = (state.things >> 24u) & 15u;
    const unsigned t47 = (((state.enemies >> 24u) & 15u) << 1u) | (((state.gold >> 24u) & 15u) << 3u);
    const unsigned t48 = (!(((state.rightwards >> 24u) & 15u) == 0u)) ? (t46 - 1u) : (t46 + 1u);
    const unsigned t49 = t47 << ((t46 << 2u) & 31u);
    const bool t50 = t46 < 8u;
    const unsigned t51 = (((!(t47 == 0u)) && (t48 < 10u)) ? 4u : 0u) << ((t48 << 2u) & 31u);
    const bool t52 = t48 < 8u;
    const unsigned cells_7 = (t50 ? t49 : 0u) | (t52 ? t51 : 0u);
    const unsigned last_cells_7 = (t50 ? 0u : t49) | (t52 ? 0u : t51);
    const unsigned t53 = (state.things >> 28u) & 15u;
    const unsigned t54 = (((state.enemies >> 28u) & 15u) << 1u) | (((state.gold >> 28u) & 15u) << 3u);
    const unsigned t55 = (!(((state.rightwards >> 28u) & 15u) == 0u)) ? (t53 - 1u) : (t53 + 1u);
    const unsigned t56 = t54 << ((t53 << 2u) & 31u);
    const bool t57 = t53 < 8u;
    const unsigned t58 = (((!(t54 == 0u)) && (t55 < 10u)) ? 4u : 0u) << ((t55 << 2u) & 31u);
    const bool t59 = t55 < 8u;
    const unsigned cells_8 = (t57 ? t56 : 0u) | (t59 ? t58 : 0u);
    const unsigned last_cells_8 = (t57 ? 0u : t56) | (t59 ? 0u : t58);
    obs[0] = (t2 == 0u) ? t3 : 0u;
    obs[1] = ((t2 == 1u) ? t3 : 0u) | (cells << 8u);
    obs[2] = ((((t2 == 2u) ? t3 : 0u) | (last_cells << 8u)) | (cells >> 24u)) | (cells_2 << 16u);
    obs[3] = ((((t2 == 3u) ? t3 : 0u) | (last_cells_2 << 16u)) | (cells_2 >> 16u)) | (cells_3 << 24u);
    obs[4] = (((t2 == 4u) ? t3 : 0u) | (last_cells_3 << 24u)) | (cells_3 >> 8u);
    obs[5] = ((t2 == 5u) ? t3 : 0u) | (cells_4 << 0u);
    obs[6] = (((t2 == 6u) ? t3 : 0u) | (last_cells_4 << 0u)) | (cells_5 << 8u);
    obs[7] = ((((t2 == 7u) ? t3 : 0u) | (last_cells_5 << 8u)) | (cells_5 >> 24u)) | (cells_6 << 16u);
    obs[8] = ((((t2 == 8u) ? t3 : 0u) | (last_cells_6 << 16u)) | (cells_6 >> 16u)) | (cells_7 << 24u);
    obs[9] = (((t2 == 9u) ? t3 : 0u) | (last_cells_7 << 24u)) | (cells_7 >> 8u);
    obs[10] = ((t2 == 10u) ? t3 : 0u) | (cells_8 << 0u);
    obs[11] = ((t2 == 11u) ? t3 : 0u) | (last_cells_8 << 0u);
    obs[12] = (t2 == 12u) ? t3 : 0u;
}
