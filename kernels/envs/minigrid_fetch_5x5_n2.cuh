// minigrid_fetch_5x5_n2: pick up the object that the mission names.
// Emitted from the environment's rules by `operant emit`; do not edit.
#pragma once

constexpr unsigned ENV_TIME_LIMIT = 125u;
constexpr unsigned ENV_OBS = 1002u;         // numbers the policy sees
constexpr unsigned ENV_OBS_WORDS = 39u;   // words they are stored in
constexpr unsigned ENV_STATE_WORDS = 34u;   // words of a state
constexpr unsigned ENV_ACTIONS = 7u;   // logits
constexpr unsigned ENV_COMPONENTS = 1u;   // numbers that name an action
#define ENV_DISCRETE 1   // choices, or real numbers between bounds
#define ENV_MASKED 0   // whether env_legal forbids choices
using EnvAction = unsigned;
__device__ __forceinline__ constexpr unsigned env_choices(unsigned) { return 7u; }

struct EnvState {
    unsigned cells[21];
    unsigned x;
    unsigned y;
    unsigned dir;
    unsigned carried;
    unsigned steps;
    unsigned extra[8];
};

__device__ __forceinline__ void env_load(const unsigned* words, unsigned stride, EnvState& state) {
    state.cells[0] = words[0];
    state.cells[1] = words[1u * stride];
    state.cells[2] = words[2u * stride];
    state.cells[3] = words[3u * stride];
    state.cells[4] = words[4u * stride];
    state.cells[5] = words[5u * stride];
    state.cells[6] = words[6u * stride];
    state.cells[7] = words[7u * stride];
    state.cells[8] = words[8u * stride];
    state.cells[9] = words[9u * stride];
    state.cells[10] = words[10u * stride];
    state.cells[11] = words[11u * stride];
    state.cells[12] = words[12u * stride];
    state.cells[13] = words[13u * stride];
    state.cells[14] = words[14u * stride];
    state.cells[15] = words[15u * stride];
    state.cells[16] = words[16u * stride];
    state.cells[17] = words[17u * stride];
    state.cells[18] = words[18u * stride];
    state.cells[19] = words[19u * stride];
    state.cells[20] = words[20u * stride];
    state.x = words[21u * stride];
    state.y = words[22u * stride];
    state.dir = words[23u * stride];
    state.carried = words[24u * stride];
    state.steps = words[25u * stride];
    state.extra[0] = words[26u * stride];
    state.extra[1] = words[27u * stride];
    state.extra[2] = words[28u * stride];
    state.extra[3] = words[29u * stride];
    state.extra[4] = words[30u * stride];
    state.extra[5] = words[31u * stride];
    state.extra[6] = words[32u * stride];
    state.extra[7] = words[33u * stride];
}

__device__ __forceinline__ void env_store(const EnvState& state, unsigned* words, unsigned stride) {
    words[0] = state.cells[0];
    words[1u * stride] = state.cells[1];
    words[2u * stride] = state.cells[2];
    words[3u * stride] = state.cells[3];
    words[4u * stride] = state.cells[4];
    words[5u * stride] = state.cells[5];
    words[6u * stride] = state.cells[6];
    words[7u * stride] = state.cells[7];
    words[8u * stride] = state.cells[8];
    words[9u * stride] = state.cells[9];
    words[10u * stride] = state.cells[10];
    words[11u * stride] = state.cells[11];
    words[12u * stride] = state.cells[12];
    words[13u * stride] = state.cells[13];
    words[14u * stride] = state.cells[14];
    words[15u * stride] = state.cells[15];
    words[16u * stride] = state.cells[16];
    words[17u * stride] = state.cells[17];
    words[18u * stride] = state.cells[18];
    words[19u * stride] = state.cells[19];
    words[20u * stride] = state.cells[20];
    words[21u * stride] = state.x;
    words[22u * stride] = state.y;
    words[23u * stride] = state.dir;
    words[24u * stride] = state.carried;
    words[25u * stride] = state.steps;
    words[26u * stride] = state.extra[0];
    words[27u * stride] = state.extra[1];
    words[28u * stride] = state.extra[2];
    words[29u * stride] = state.extra[3];
    words[30u * stride] = state.extra[4];
    words[31u * stride] = state.extra[5];
    words[32u * stride] = state.extra[6];
    words[33u * stride] = state.extra[7];
}

__constant__ unsigned env_reset_table_0[21] = {0xd2d2d2d2u, 0x0101d2d2u, 0x01d2d201u, 0xd2d20101u, 0xd2010101u, 0xd2d2d2d2u, 0xd2d2d2d2u, 0xd2d2d2d2u, 0xd2d2d2d2u, 0xd2d2d2d2u, 0xd2d2d2d2u, 0xd2d2d2d2u, 0xd2d2d2d2u, 0xd2d2d2d2u, 0xd2d2d2d2u, 0xd2d2d2d2u, 0xd2d2d2d2u, 0xd2d2d2d2u, 0xd2d2d2d2u, 0xd2d2d2d2u, 0xd2d2d2d2u};
__device__ __forceinline__ void env_reset(
    unsigned seed_low, unsigned seed_high, unsigned environment, unsigned step_low, unsigned step_high, unsigned purpose,
    EnvState& next) {
    const unsigned t1 = purpose << 24u;
    unsigned v0_0 = environment;
    unsigned v0_1 = step_low;
    unsigned v0_2 = step_high;
    unsigned v0_3 = t1 | 0u;
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
    const unsigned t2 = 5u + __umulhi(v0_0, 2u);
    const unsigned t3 = __umulhi(v0_1, 6u);
    const unsigned t4 = environment & 0u;
    unsigned v0 = t4;
    unsigned v1_0_2 = 0u;
    unsigned v1_1_2 = 0u;
    #pragma unroll 1
    for (unsigned i_2 = 0u; i_2 < 25u; ++i_2) {
        const unsigned v0_before = v0;
        const unsigned v1_0_2_before = v1_0_2;
        const unsigned v1_1_2_before = v1_1_2;
        const unsigned t5 = (v1_1_2_before * 5u) + v1_0_2_before;
        const bool t6 = (((env_reset_table_0[min(t5 >> 2u, 20u)] >> (((t5 & 3u) << 3u) & 31u)) & 255u) == 1u) && true;
        const unsigned t7 = v1_0_2_before + 1u;
        const bool t8 = t7 == 5u;
        v0 = t6 ? (v0_before + 1u) : v0_before;
        v1_0_2 = t8 ? 0u : t7;
        v1_1_2 = t8 ? (v1_1_2_before + 1u) : v1_1_2_before;
    }
    unsigned v0_4 = __umulhi(v0_2, v0);
    unsigned v1_0_3 = 0u;
    unsigned v1_1_3 = 0u;
    unsigned v2_0 = 0u;
    unsigned v2_1 = 0u;
    #pragma unroll 1
    for (unsigned i_3 = 0u; i_3 < 25u; ++i_3) {
        const unsigned v0_4_before = v0_4;
        const unsigned v1_0_3_before = v1_0_3;
        const unsigned v1_1_3_before = v1_1_3;
        const unsigned v2_0_before = v2_0;
        const unsigned v2_1_before = v2_1;
        const unsigned t9 = (v1_1_3_before * 5u) + v1_0_3_before;
        const bool t10 = (((env_reset_table_0[min(t9 >> 2u, 20u)] >> (((t9 & 3u) << 3u) & 31u)) & 255u) == 1u) && true;
        const bool t11 = t10 && (v0_4_before == 0u);
        const unsigned t12 = v1_0_3_before + 1u;
        const bool t13 = t12 == 5u;
        v0_4 = t10 ? (v0_4_before - 1u) : v0_4_before;
        v1_0_3 = t13 ? 0u : t12;
        v1_1_3 = t13 ? (v1_1_3_before + 1u) : v1_1_3_before;
        v2_0 = t11 ? v1_0_3_before : v2_0_before;
        v2_1 = t11 ? v1_1_3_before : v2_1_before;
    }
    const unsigned t14 = (v2_1 * 5u) + v2_0;
    const unsigned t15 = t14 >> 2u;
    const unsigned t16 = (t14 & 3u) << 3u;
    const unsigned t17 = (env_reset_table_0[min(t15, 20u)] & (~(255u << (t16 & 31u)))) | (((t3 << 4u) | t2) << (t16 & 31u));
    unsigned words[21];
    for (unsigned word = 0u; word < 21u; ++word) words[word] = env_reset_table_0[word];
    if (t15 < 21u) words[t15] = t17;
    const unsigned t18 = 5u + __umulhi(v0_3, 2u);
    unsigned v0_0_2 = environment;
    unsigned v0_1_2 = step_low;
    unsigned v0_2_2 = step_high;
    unsigned v0_3_2 = t1 | 1u;
    unsigned v1_0_4 = seed_low;
    unsigned v1_1_4 = seed_high;
    #pragma unroll
    for (unsigned i_4 = 0u; i_4 < 10u; ++i_4) {
        const unsigned v0_0_2_before = v0_0_2;
        const unsigned v0_1_2_before = v0_1_2;
        const unsigned v0_2_2_before = v0_2_2;
        const unsigned v0_3_2_before = v0_3_2;
        const unsigned v1_0_4_before = v1_0_4;
        const unsigned v1_1_4_before = v1_1_4;
        v0_0_2 = (__umulhi(0xcd9e8d57u, v0_2_2_before) ^ v0_1_2_before) ^ v1_0_4_before;
        v0_1_2 = 0xcd9e8d57u * v0_2_2_before;
        v0_2_2 = (__umulhi(0xd2511f53u, v0_0_2_before) ^ v0_3_2_before) ^ v1_1_4_before;
        v0_3_2 = 0xd2511f53u * v0_0_2_before;
        v1_0_4 = v1_0_4_before + 0x9e3779b9u;
        v1_1_4 = v1_1_4_before + 0xbb67ae85u;
    }
    const unsigned t19 = __umulhi(v0_0_2, 6u);
    unsigned v0_5 = t4;
    unsigned v1_0_5 = 0u;
    unsigned v1_1_5 = 0u;
    #pragma unroll 1
    for (unsigned i_5 = 0u; i_5 < 25u; ++i_5) {
        const unsigned v0_5_before = v0_5;
        const unsigned v1_0_5_before = v1_0_5;
        const unsigned v1_1_5_before = v1_1_5;
        const unsigned t20 = (v1_1_5_before * 5u) + v1_0_5_before;
        const unsigned t21 = words[min(t20 >> 2u, 20u)];
        const unsigned t22 = ((((t21 >> (((t20 & 3u) << 3u) & 31u)) & 255u) == 1u) && true) ? (v0_5_before + 1u) : v0_5_before;
        const unsigned t23 = v1_0_5_before + 1u;
        const bool t24 = t23 == 5u;
        v0_5 = t22;
        v1_0_5 = t24 ? 0u : t23;
        v1_1_5 = t24 ? (v1_1_5_before + 1u) : v1_1_5_before;
    }
    unsigned v0_6 = __umulhi(v0_1_2, v0_5);
    unsigned v1_0_6 = 0u;
    unsigned v1_1_6 = 0u;
    unsigned v2_0_2 = 0u;
    unsigned v2_1_2 = 0u;
    #pragma unroll 1
    for (unsigned i_6 = 0u; i_6 < 25u; ++i_6) {
        const unsigned v0_6_before = v0_6;
        const unsigned v1_0_6_before = v1_0_6;
        const unsigned v1_1_6_before = v1_1_6;
        const unsigned v2_0_2_before = v2_0_2;
        const unsigned v2_1_2_before = v2_1_2;
        const unsigned t25 = (v1_1_6_before * 5u) + v1_0_6_before;
        const unsigned t26 = words[min(t25 >> 2u, 20u)];
        const bool t27 = (((t26 >> (((t25 & 3u) << 3u) & 31u)) & 255u) == 1u) && true;
        const bool t28 = t27 && (v0_6_before == 0u);
        const unsigned t29 = v1_0_6_before + 1u;
        const bool t30 = t29 == 5u;
        v0_6 = t27 ? (v0_6_before - 1u) : v0_6_before;
        v1_0_6 = t30 ? 0u : t29;
        v1_1_6 = t30 ? (v1_1_6_before + 1u) : v1_1_6_before;
        v2_0_2 = t28 ? v1_0_6_before : v2_0_2_before;
        v2_1_2 = t28 ? v1_1_6_before : v2_1_2_before;
    }
    const unsigned t31 = (v2_1_2 * 5u) + v2_0_2;
    const unsigned t32 = t31 >> 2u;
    const unsigned t33 = (t31 & 3u) << 3u;
    const unsigned t34 = words[min(t32, 20u)];
    if (t32 < 21u) words[t32] = (t34 & (~(255u << (t33 & 31u)))) | (((t19 << 4u) | t18) << (t33 & 31u));
    unsigned v0_7 = t4;
    unsigned v1_0_7 = 0u;
    unsigned v1_1_7 = 0u;
    #pragma unroll 1
    for (unsigned i_7 = 0u; i_7 < 25u; ++i_7) {
        const unsigned v0_7_before = v0_7;
        const unsigned v1_0_7_before = v1_0_7;
        const unsigned v1_1_7_before = v1_1_7;
        const unsigned t35 = (v1_1_7_before * 5u) + v1_0_7_before;
        const unsigned t36 = words[min(t35 >> 2u, 20u)];
        const unsigned t37 = ((((t36 >> (((t35 & 3u) << 3u) & 31u)) & 255u) == 1u) && true) ? (v0_7_before + 1u) : v0_7_before;
        const unsigned t38 = v1_0_7_before + 1u;
        const bool t39 = t38 == 5u;
        v0_7 = t37;
        v1_0_7 = t39 ? 0u : t38;
        v1_1_7 = t39 ? (v1_1_7_before + 1u) : v1_1_7_before;
    }
    unsigned v0_8 = __umulhi(v0_2_2, v0_7);
    unsigned v1_0_8 = 0u;
    unsigned v1_1_8 = 0u;
    unsigned v2_0_3 = 0u;
    unsigned v2_1_3 = 0u;
    #pragma unroll 1
    for (unsigned i_8 = 0u; i_8 < 25u; ++i_8) {
        const unsigned v0_8_before = v0_8;
        const unsigned v1_0_8_before = v1_0_8;
        const unsigned v1_1_8_before = v1_1_8;
        const unsigned v2_0_3_before = v2_0_3;
        const unsigned v2_1_3_before = v2_1_3;
        const unsigned t40 = (v1_1_8_before * 5u) + v1_0_8_before;
        const unsigned t41 = words[min(t40 >> 2u, 20u)];
        const bool t42 = (((t41 >> (((t40 & 3u) << 3u) & 31u)) & 255u) == 1u) && true;
        const bool t43 = t42 && (v0_8_before == 0u);
        const unsigned t44 = v1_0_8_before + 1u;
        const bool t45 = t44 == 5u;
        v0_8 = t42 ? (v0_8_before - 1u) : v0_8_before;
        v1_0_8 = t45 ? 0u : t44;
        v1_1_8 = t45 ? (v1_1_8_before + 1u) : v1_1_8_before;
        v2_0_3 = t43 ? v1_0_8_before : v2_0_3_before;
        v2_1_3 = t43 ? v1_1_8_before : v2_1_3_before;
    }
    unsigned v0_0_3 = environment;
    unsigned v0_1_3 = step_low;
    unsigned v0_2_3 = step_high;
    unsigned v0_3_3 = t1 | 2u;
    unsigned v1_0_9 = seed_low;
    unsigned v1_1_9 = seed_high;
    #pragma unroll
    for (unsigned i_9 = 0u; i_9 < 10u; ++i_9) {
        const unsigned v0_0_3_before = v0_0_3;
        const unsigned v0_1_3_before = v0_1_3;
        const unsigned v0_2_3_before = v0_2_3;
        const unsigned v0_3_3_before = v0_3_3;
        const unsigned v1_0_9_before = v1_0_9;
        const unsigned v1_1_9_before = v1_1_9;
        v0_0_3 = (__umulhi(0xcd9e8d57u, v0_2_3_before) ^ v0_1_3_before) ^ v1_0_9_before;
        v0_1_3 = 0xcd9e8d57u * v0_2_3_before;
        v0_2_3 = (__umulhi(0xd2511f53u, v0_0_3_before) ^ v0_3_3_before) ^ v1_1_9_before;
        v0_3_3 = 0xd2511f53u * v0_0_3_before;
        v1_0_9 = v1_0_9_before + 0x9e3779b9u;
        v1_1_9 = v1_1_9_before + 0xbb67ae85u;
    }
    const bool t46 = __umulhi(v0_0_3, 2u) == 0u;
    for (unsigned word = 0u; word < 21u; ++word) next.cells[word] = words[word];
    next.x = v2_0_3;
    next.y = v2_1_3;
    next.dir = __umulhi(v0_3_2, 4u);
    next.carried = 0u;
    next.steps = 0u;
    next.extra[0] = __umulhi(v0_1_3, 5u);
    next.extra[1] = t46 ? t3 : t19;
    next.extra[2] = t46 ? t2 : t18;
    next.extra[3] = 0u;
    next.extra[4] = 0u;
    next.extra[5] = 0u;
    next.extra[6] = 0u;
    next.extra[7] = 0u;
}

__device__ __forceinline__ void env_step(
    const EnvState& state, const unsigned* action,
    unsigned seed_low, unsigned seed_high, unsigned environment, unsigned step_low, unsigned step_high, unsigned purpose,
    EnvState& next, float& reward, bool& terminated) {
    const bool t1 = action[0] == 5u;
    const bool t2 = (state.dir & 1u) == 0u;
    const unsigned t3 = (state.dir < 2u) ? 1u : 0xffffffffu;
    const unsigned t4 = t2 ? (state.x + t3) : state.x;
    const unsigned t5 = t2 ? state.y : (state.y + t3);
    const unsigned t6 = (t5 * 5u) + t4;
    const unsigned t7 = t6 >> 2u;
    const unsigned t8 = state.cells[min(t7, 20u)];
    const unsigned t9 = (t6 & 3u) << 3u;
    const unsigned seen = (t8 >> (t9 & 31u)) & 255u;
    const unsigned t10 = seen & 143u;
    const bool t11 = t10 == 4u;
    const bool moved = (action[0] == 2u) && ((((t10 == 1u) || (t10 == 8u)) || (t10 == 9u)) || t11);
    const bool t12 = state.carried == 0u;
    const bool t13 = t10 == 7u;
    const bool t14 = ((action[0] == 3u) && t12) && (((t10 == 5u) || (t10 == 6u)) || t13);
    const bool dropped = ((action[0] == 4u) && (!t12)) && (seen == 1u);
    const unsigned t15 = ((seen >> 4u) & 7u) << 4u;
    const bool t16 = t1 && ((t10 == 132u) || ((t10 == 140u) && (state.carried == (t15 | 5u))));
    const bool t17 = t14 || (t1 && t13);
    const unsigned after = t17 ? 1u : (dropped ? state.carried : ((t15 | 0u) | (t16 ? 4u : 132u)));
    unsigned words[21];
    for (unsigned word = 0u; word < 21u; ++word) words[word] = state.cells[word];
    if ((((t17 || dropped) || t16) || (t1 && t11)) && t7 < 21u) words[t7] = (t8 & (~(255u << (t9 & 31u)))) | (after << (t9 & 31u));
    const unsigned carried = t14 ? seen : (dropped ? 0u : state.carried);
    const unsigned x = moved ? t4 : state.x;
    const unsigned y = moved ? t5 : state.y;
    const unsigned dir = (state.dir + ((action[0] == 0u) ? 3u : ((action[0] == 1u) ? 1u : 0u))) & 3u;
    const unsigned steps = state.steps + 1u;
    const bool t18 = !(carried == 0u);
    const bool t19 = carried == (state.extra[2] | (state.extra[1] << 4u));
    const bool t20 = t18 && t19;
    for (unsigned word = 0u; word < 21u; ++word) next.cells[word] = words[word];
    next.x = x;
    next.y = y;
    next.dir = dir;
    next.carried = carried;
    next.steps = steps;
    next.extra[0] = state.extra[0];
    next.extra[1] = state.extra[1];
    next.extra[2] = state.extra[2];
    next.extra[3] = state.extra[3];
    next.extra[4] = state.extra[4];
    next.extra[5] = state.extra[5];
    next.extra[6] = state.extra[6];
    next.extra[7] = state.extra[7];
    reward = t20 ? __fsub_rn(1.0f, __fmul_rn(0.9f, __fdiv_rn(__uint2float_rn(steps), 125.0f))) : 0.0f;
    terminated = (t20 || (t18 && (!t19))) || false;
}

__device__ __forceinline__ void env_observe(
    const EnvState& state, unsigned* obs) {
    const unsigned t1 = state.x - ((state.dir == 0u) ? 0u : ((state.dir == 2u) ? 6u : 3u));
    const unsigned t2 = state.y - ((state.dir == 1u) ? 0u : ((state.dir == 3u) ? 6u : 3u));
    const bool t3 = (t1 + 0u) < 5u;
    const bool t4 = (t1 + 1u) < 5u;
    const bool t5 = (t1 + 2u) < 5u;
    const bool t6 = (t1 + 3u) < 5u;
    const bool t7 = (t1 + 4u) < 5u;
    const bool t8 = (t1 + 5u) < 5u;
    const bool t9 = (t1 + 6u) < 5u;
    const unsigned t10 = t2 + 0u;
    const unsigned t11 = (t10 * 5u) + t1;
    const unsigned t12 = t11 >> 2u;
    const unsigned t13 = (t11 & 3u) << 3u;
    const unsigned t14 = state.cells[min((t12 + 1u) & 0x3fffffffu, 20u)];
    const unsigned t15 = 24u - t13;
    const unsigned t16 = (state.cells[min((t12 + 0u) & 0x3fffffffu, 20u)] >> (t13 & 31u)) | ((t14 << 8u) << (t15 & 31u));
    const unsigned t17 = (t14 >> (t13 & 31u)) | ((state.cells[min((t12 + 2u) & 0x3fffffffu, 20u)] << 8u) << (t15 & 31u));
    const bool t18 = t10 < 5u;
    const unsigned t19 = (t18 && t3) ? ((t16 >> 0u) & 255u) : 210u;
    const unsigned t20 = (t18 && t4) ? ((t16 >> 8u) & 255u) : 210u;
    const unsigned t21 = (t18 && t5) ? ((t16 >> 16u) & 255u) : 210u;
    const unsigned t22 = (t18 && t6) ? ((t16 >> 24u) & 255u) : 210u;
    const unsigned t23 = (t18 && t7) ? ((t17 >> 0u) & 255u) : 210u;
    const unsigned t24 = (t18 && t8) ? ((t17 >> 8u) & 255u) : 210u;
    const unsigned t25 = (t18 && t9) ? ((t17 >> 16u) & 255u) : 210u;
    const unsigned t26 = t2 + 1u;
    const unsigned t27 = (t26 * 5u) + t1;
    const unsigned t28 = t27 >> 2u;
    const unsigned t29 = (t27 & 3u) << 3u;
    const unsigned t30 = state.cells[min((t28 + 1u) & 0x3fffffffu, 20u)];
    const unsigned t31 = 24u - t29;
    const unsigned t32 = (state.cells[min((t28 + 0u) & 0x3fffffffu, 20u)] >> (t29 & 31u)) | ((t30 << 8u) << (t31 & 31u));
    const unsigned t33 = (t30 >> (t29 & 31u)) | ((state.cells[min((t28 + 2u) & 0x3fffffffu, 20u)] << 8u) << (t31 & 31u));
    const bool t34 = t26 < 5u;
    const unsigned t35 = (t34 && t3) ? ((t32 >> 0u) & 255u) : 210u;
    const unsigned t36 = (t34 && t4) ? ((t32 >> 8u) & 255u) : 210u;
    const unsigned t37 = (t34 && t5) ? ((t32 >> 16u) & 255u) : 210u;
    const unsigned t38 = (t34 && t6) ? ((t32 >> 24u) & 255u) : 210u;
    const unsigned t39 = (t34 && t7) ? ((t33 >> 0u) & 255u) : 210u;
    const unsigned t40 = (t34 && t8) ? ((t33 >> 8u) & 255u) : 210u;
    const unsigned t41 = (t34 && t9) ? ((t33 >> 16u) & 255u) : 210u;
    const unsigned t42 = t2 + 2u;
    const unsigned t43 = (t42 * 5u) + t1;
    const unsigned t44 = t43 >> 2u;
    const unsigned t45 = (t43 & 3u) << 3u;
    const unsigned t46 = state.cells[min((t44 + 1u) & 0x3fffffffu, 20u)];
    const unsigned t47 = 24u - t45;
    const unsigned t48 = (state.cells[min((t44 + 0u) & 0x3fffffffu, 20u)] >> (t45 & 31u)) | ((t46 << 8u) << (t47 & 31u));
    const unsigned t49 = (t46 >> (t45 & 31u)) | ((state.cells[min((t44 + 2u) & 0x3fffffffu, 20u)] << 8u) << (t47 & 31u));
    const bool t50 = t42 < 5u;
    const unsigned t51 = (t50 && t3) ? ((t48 >> 0u) & 255u) : 210u;
    const unsigned t52 = (t50 && t4) ? ((t48 >> 8u) & 255u) : 210u;
    const unsigned t53 = (t50 && t5) ? ((t48 >> 16u) & 255u) : 210u;
    const unsigned t54 = (t50 && t6) ? ((t48 >> 24u) & 255u) : 210u;
    const unsigned t55 = (t50 && t7) ? ((t49 >> 0u) & 255u) : 210u;
    const unsigned t56 = (t50 && t8) ? ((t49 >> 8u) & 255u) : 210u;
    const unsigned t57 = (t50 && t9) ? ((t49 >> 16u) & 255u) : 210u;
    const unsigned t58 = t2 + 3u;
    const unsigned t59 = (t58 * 5u) + t1;
    const unsigned t60 = t59 >> 2u;
    const unsigned t61 = (t59 & 3u) << 3u;
    const unsigned t62 = state.cells[min((t60 + 1u) & 0x3fffffffu, 20u)];
    const unsigned t63 = 24u - t61;
    const unsigned t64 = (state.cells[min((t60 + 0u) & 0x3fffffffu, 20u)] >> (t61 & 31u)) | ((t62 << 8u) << (t63 & 31u));
    const unsigned t65 = (t62 >> (t61 & 31u)) | ((state.cells[min((t60 + 2u) & 0x3fffffffu, 20u)] << 8u) << (t63 & 31u));
    const bool t66 = t58 < 5u;
    const unsigned t67 = (t66 && t3) ? ((t64 >> 0u) & 255u) : 210u;
    const unsigned t68 = (t66 && t4) ? ((t64 >> 8u) & 255u) : 210u;
    const unsigned t69 = (t66 && t5) ? ((t64 >> 16u) & 255u) : 210u;
    const unsigned t70 = (t66 && t6) ? ((t64 >> 24u) & 255u) : 210u;
    const unsigned t71 = (t66 && t7) ? ((t65 >> 0u) & 255u) : 210u;
    const unsigned t72 = (t66 && t8) ? ((t65 >> 8u) & 255u) : 210u;
    const unsigned t73 = (t66 && t9) ? ((t65 >> 16u) & 255u) : 210u;
    const unsigned t74 = t2 + 4u;
    const unsigned t75 = (t74 * 5u) + t1;
    const unsigned t76 = t75 >> 2u;
    const unsigned t77 = (t75 & 3u) << 3u;
    const unsigned t78 = state.cells[min((t76 + 1u) & 0x3fffffffu, 20u)];
    const unsigned t79 = 24u - t77;
    const unsigned t80 = (state.cells[min((t76 + 0u) & 0x3fffffffu, 20u)] >> (t77 & 31u)) | ((t78 << 8u) << (t79 & 31u));
    const unsigned t81 = (t78 >> (t77 & 31u)) | ((state.cells[min((t76 + 2u) & 0x3fffffffu, 20u)] << 8u) << (t79 & 31u));
    const bool t82 = t74 < 5u;
    const unsigned t83 = (t82 && t3) ? ((t80 >> 0u) & 255u) : 210u;
    const unsigned t84 = (t82 && t4) ? ((t80 >> 8u) & 255u) : 210u;
    const unsigned t85 = (t82 && t5) ? ((t80 >> 16u) & 255u) : 210u;
    const unsigned t86 = (t82 && t6) ? ((t80 >> 24u) & 255u) : 210u;
    const unsigned t87 = (t82 && t7) ? ((t81 >> 0u) & 255u) : 210u;
    const unsigned t88 = (t82 && t8) ? ((t81 >> 8u) & 255u) : 210u;
    const unsigned t89 = (t82 && t9) ? ((t81 >> 16u) & 255u) : 210u;
    const unsigned t90 = t2 + 5u;
    const unsigned t91 = (t90 * 5u) + t1;
    const unsigned t92 = t91 >> 2u;
    const unsigned t93 = (t91 & 3u) << 3u;
    const unsigned t94 = state.cells[min((t92 + 1u) & 0x3fffffffu, 20u)];
    const unsigned t95 = 24u - t93;
    const unsigned t96 = (state.cells[min((t92 + 0u) & 0x3fffffffu, 20u)] >> (t93 & 31u)) | ((t94 << 8u) << (t95 & 31u));
    const unsigned t97 = (t94 >> (t93 & 31u)) | ((state.cells[min((t92 + 2u) & 0x3fffffffu, 20u)] << 8u) << (t95 & 31u));
    const bool t98 = t90 < 5u;
    const unsigned t99 = (t98 && t3) ? ((t96 >> 0u) & 255u) : 210u;
    const unsigned t100 = (t98 && t4) ? ((t96 >> 8u) & 255u) : 210u;
    const unsigned t101 = (t98 && t5) ? ((t96 >> 16u) & 255u) : 210u;
    const unsigned t102 = (t98 && t6) ? ((t96 >> 24u) & 255u) : 210u;
    const unsigned t103 = (t98 && t7) ? ((t97 >> 0u) & 255u) : 210u;
    const unsigned t104 = (t98 && t8) ? ((t97 >> 8u) & 255u) : 210u;
    const unsigned t105 = (t98 && t9) ? ((t97 >> 16u) & 255u) : 210u;
    const unsigned t106 = t2 + 6u;
    const unsigned t107 = (t106 * 5u) + t1;
    const unsigned t108 = t107 >> 2u;
    const unsigned t109 = (t107 & 3u) << 3u;
    const unsigned t110 = state.cells[min((t108 + 1u) & 0x3fffffffu, 20u)];
    const unsigned t111 = 24u - t109;
    const unsigned t112 = (state.cells[min((t108 + 0u) & 0x3fffffffu, 20u)] >> (t109 & 31u)) | ((t110 << 8u) << (t111 & 31u));
    const unsigned t113 = (t110 >> (t109 & 31u)) | ((state.cells[min((t108 + 2u) & 0x3fffffffu, 20u)] << 8u) << (t111 & 31u));
    const bool t114 = t106 < 5u;
    const unsigned t115 = (t114 && t3) ? ((t112 >> 0u) & 255u) : 210u;
    const unsigned t116 = (t114 && t4) ? ((t112 >> 8u) & 255u) : 210u;
    const unsigned t117 = (t114 && t5) ? ((t112 >> 16u) & 255u) : 210u;
    const unsigned t118 = (t114 && t6) ? ((t112 >> 24u) & 255u) : 210u;
    const unsigned t119 = (t114 && t7) ? ((t113 >> 0u) & 255u) : 210u;
    const unsigned t120 = (t114 && t8) ? ((t113 >> 8u) & 255u) : 210u;
    const unsigned t121 = (t114 && t9) ? ((t113 >> 16u) & 255u) : 210u;
    const bool t122 = !((state.dir & 1u) == 0u);
    const bool t123 = !(state.dir < 2u);
    const unsigned t124 = t123 ? t19 : t121;
    const unsigned t125 = t123 ? t115 : t25;
    const unsigned t126 = t122 ? t124 : t125;
    const unsigned t127 = t123 ? t35 : t105;
    const unsigned t128 = t123 ? t116 : t24;
    const unsigned t129 = t122 ? t127 : t128;
    const unsigned t130 = t123 ? t51 : t89;
    const unsigned t131 = t123 ? t117 : t23;
    const unsigned t132 = t122 ? t130 : t131;
    const unsigned t133 = t123 ? t67 : t73;
    const unsigned t134 = t122 ? t133 : (t123 ? t118 : t22);
    const unsigned t135 = t123 ? t83 : t57;
    const unsigned t136 = t123 ? t119 : t21;
    const unsigned t137 = t122 ? t135 : t136;
    const unsigned t138 = t123 ? t99 : t41;
    const unsigned t139 = t123 ? t120 : t20;
    const unsigned t140 = t122 ? t138 : t139;
    const unsigned t141 = t123 ? t121 : t19;
    const unsigned t142 = t122 ? t125 : t141;
    const unsigned t143 = t123 ? t20 : t120;
    const unsigned t144 = t122 ? t143 : t138;
    const unsigned t145 = t123 ? t36 : t104;
    const unsigned t146 = t123 ? t100 : t40;
    const unsigned t147 = t122 ? t145 : t146;
    const unsigned t148 = t123 ? t52 : t88;
    const unsigned t149 = t123 ? t101 : t39;
    const unsigned t150 = t122 ? t148 : t149;
    const unsigned t151 = t123 ? t68 : t72;
    const unsigned t152 = t123 ? t102 : t38;
    const unsigned t153 = t122 ? t151 : t152;
    const unsigned t154 = t123 ? t84 : t56;
    const unsigned t155 = t123 ? t103 : t37;
    const unsigned t156 = t122 ? t154 : t155;
    const unsigned t157 = t123 ? t104 : t36;
    const unsigned t158 = t122 ? t146 : t157;
    const unsigned t159 = t123 ? t105 : t35;
    const unsigned t160 = t122 ? t128 : t159;
    const unsigned t161 = t123 ? t21 : t119;
    const unsigned t162 = t122 ? t161 : t135;
    const unsigned t163 = t123 ? t37 : t103;
    const unsigned t164 = t122 ? t163 : t154;
    const unsigned t165 = t123 ? t53 : t87;
    const unsigned t166 = t123 ? t85 : t55;
    const unsigned t167 = t122 ? t165 : t166;
    const unsigned t168 = t123 ? t69 : t71;
    const unsigned t169 = t123 ? t86 : t54;
    const unsigned t170 = t122 ? t168 : t169;
    const unsigned t171 = t123 ? t87 : t53;
    const unsigned t172 = t122 ? t166 : t171;
    const unsigned t173 = t123 ? t88 : t52;
    const unsigned t174 = t122 ? t149 : t173;
    const unsigned t175 = t123 ? t89 : t51;
    const unsigned t176 = t122 ? t131 : t175;
    const unsigned t177 = t123 ? t22 : t118;
    const unsigned t178 = t122 ? t177 : t133;
    const unsigned t179 = t123 ? t38 : t102;
    const unsigned t180 = t122 ? t179 : t151;
    const unsigned t181 = t123 ? t54 : t86;
    const unsigned t182 = t122 ? t181 : t168;
    const unsigned t183 = t123 ? t71 : t69;
    const unsigned t184 = t122 ? t169 : t183;
    const unsigned t185 = t123 ? t72 : t68;
    const unsigned t186 = t122 ? t152 : t185;
    const unsigned t187 = t123 ? t23 : t117;
    const unsigned t188 = t122 ? t187 : t130;
    const unsigned t189 = t123 ? t39 : t101;
    const unsigned t190 = t122 ? t189 : t148;
    const unsigned t191 = t123 ? t55 : t85;
    const unsigned t192 = t122 ? t191 : t165;
    const unsigned t193 = t122 ? t183 : t181;
    const unsigned t194 = t122 ? t171 : t191;
    const unsigned t195 = t123 ? t56 : t84;
    const unsigned t196 = t122 ? t155 : t195;
    const unsigned t197 = t123 ? t57 : t83;
    const unsigned t198 = t122 ? t136 : t197;
    const unsigned t199 = t123 ? t24 : t116;
    const unsigned t200 = t122 ? t199 : t127;
    const unsigned t201 = t123 ? t40 : t100;
    const unsigned t202 = t122 ? t201 : t145;
    const unsigned t203 = t122 ? t195 : t163;
    const unsigned t204 = t122 ? t185 : t179;
    const unsigned t205 = t122 ? t173 : t189;
    const unsigned t206 = t122 ? t157 : t201;
    const unsigned t207 = t123 ? t41 : t99;
    const unsigned t208 = t122 ? t139 : t207;
    const unsigned t209 = t123 ? t25 : t115;
    const unsigned t210 = t122 ? t209 : t124;
    const unsigned t211 = t122 ? t207 : t143;
    const unsigned t212 = t122 ? t197 : t161;
    const unsigned t213 = t122 ? (t123 ? t73 : t67) : t177;
    const unsigned t214 = t122 ? t175 : t187;
    const unsigned t215 = t122 ? t159 : t199;
    const unsigned t216 = t122 ? t141 : t209;
    const unsigned t217 = (state.carried == 0u) ? 1u : state.carried;
    const unsigned t218 = t126 & 15u;
    const unsigned t219 = ((t218 | ((t126 & 112u) << 4u)) + (((t126 & 143u) == 132u) ? 0x00010000u : 0u)) + ((t218 == 12u) ? 0x0001fff8u : 0u);
    const unsigned t220 = t129 & 15u;
    const unsigned t221 = ((t220 | ((t129 & 112u) << 4u)) + (((t129 & 143u) == 132u) ? 0x00010000u : 0u)) + ((t220 == 12u) ? 0x0001fff8u : 0u);
    const unsigned t222 = t132 & 15u;
    const unsigned t223 = ((t222 | ((t132 & 112u) << 4u)) + (((t132 & 143u) == 132u) ? 0x00010000u : 0u)) + ((t222 == 12u) ? 0x0001fff8u : 0u);
    const unsigned t224 = t134 & 15u;
    const unsigned t225 = ((t224 | ((t134 & 112u) << 4u)) + (((t134 & 143u) == 132u) ? 0x00010000u : 0u)) + ((t224 == 12u) ? 0x0001fff8u : 0u);
    const unsigned t226 = t137 & 15u;
    const unsigned t227 = ((t226 | ((t137 & 112u) << 4u)) + (((t137 & 143u) == 132u) ? 0x00010000u : 0u)) + ((t226 == 12u) ? 0x0001fff8u : 0u);
    const unsigned t228 = t140 & 15u;
    const unsigned t229 = ((t228 | ((t140 & 112u) << 4u)) + (((t140 & 143u) == 132u) ? 0x00010000u : 0u)) + ((t228 == 12u) ? 0x0001fff8u : 0u);
    const unsigned t230 = t142 & 15u;
    const unsigned t231 = ((t230 | ((t142 & 112u) << 4u)) + (((t142 & 143u) == 132u) ? 0x00010000u : 0u)) + ((t230 == 12u) ? 0x0001fff8u : 0u);
    const unsigned t232 = t144 & 15u;
    const unsigned t233 = ((t232 | ((t144 & 112u) << 4u)) + (((t144 & 143u) == 132u) ? 0x00010000u : 0u)) + ((t232 == 12u) ? 0x0001fff8u : 0u);
    const unsigned t234 = t147 & 15u;
    const unsigned t235 = ((t234 | ((t147 & 112u) << 4u)) + (((t147 & 143u) == 132u) ? 0x00010000u : 0u)) + ((t234 == 12u) ? 0x0001fff8u : 0u);
    const unsigned t236 = t150 & 15u;
    const unsigned t237 = ((t236 | ((t150 & 112u) << 4u)) + (((t150 & 143u) == 132u) ? 0x00010000u : 0u)) + ((t236 == 12u) ? 0x0001fff8u : 0u);
    const unsigned t238 = t153 & 15u;
    const unsigned t239 = ((t238 | ((t153 & 112u) << 4u)) + (((t153 & 143u) == 132u) ? 0x00010000u : 0u)) + ((t238 == 12u) ? 0x0001fff8u : 0u);
    const unsigned t240 = t156 & 15u;
    const unsigned t241 = ((t240 | ((t156 & 112u) << 4u)) + (((t156 & 143u) == 132u) ? 0x00010000u : 0u)) + ((t240 == 12u) ? 0x0001fff8u : 0u);
    const unsigned t242 = t158 & 15u;
    const unsigned t243 = ((t242 | ((t158 & 112u) << 4u)) + (((t158 & 143u) == 132u) ? 0x00010000u : 0u)) + ((t242 == 12u) ? 0x0001fff8u : 0u);
    const unsigned t244 = t160 & 15u;
    const unsigned t245 = ((t244 | ((t160 & 112u) << 4u)) + (((t160 & 143u) == 132u) ? 0x00010000u : 0u)) + ((t244 == 12u) ? 0x0001fff8u : 0u);
    const unsigned t246 = t162 & 15u;
    const unsigned t247 = ((t246 | ((t162 & 112u) << 4u)) + (((t162 & 143u) == 132u) ? 0x00010000u : 0u)) + ((t246 == 12u) ? 0x0001fff8u : 0u);
    const unsigned t248 = t164 & 15u;
    const unsigned t249 = ((t248 | ((t164 & 112u) << 4u)) + (((t164 & 143u) == 132u) ? 0x00010000u : 0u)) + ((t248 == 12u) ? 0x0001fff8u : 0u);
    const unsigned t250 = t167 & 15u;
    const unsigned t251 = ((t250 | ((t167 & 112u) << 4u)) + (((t167 & 143u) == 132u) ? 0x00010000u : 0u)) + ((t250 == 12u) ? 0x0001fff8u : 0u);
    const unsigned t252 = t170 & 15u;
    const unsigned t253 = ((t252 | ((t170 & 112u) << 4u)) + (((t170 & 143u) == 132u) ? 0x00010000u : 0u)) + ((t252 == 12u) ? 0x0001fff8u : 0u);
    const unsigned t254 = t172 & 15u;
    const unsigned t255 = ((t254 | ((t172 & 112u) << 4u)) + (((t172 & 143u) == 132u) ? 0x00010000u : 0u)) + ((t254 == 12u) ? 0x0001fff8u : 0u);
    const unsigned t256 = t174 & 15u;
    const unsigned t257 = ((t256 | ((t174 & 112u) << 4u)) + (((t174 & 143u) == 132u) ? 0x00010000u : 0u)) + ((t256 == 12u) ? 0x0001fff8u : 0u);
    const unsigned t258 = t176 & 15u;
    const unsigned t259 = ((t258 | ((t176 & 112u) << 4u)) + (((t176 & 143u) == 132u) ? 0x00010000u : 0u)) + ((t258 == 12u) ? 0x0001fff8u : 0u);
    const unsigned t260 = t178 & 15u;
    const unsigned t261 = ((t260 | ((t178 & 112u) << 4u)) + (((t178 & 143u) == 132u) ? 0x00010000u : 0u)) + ((t260 == 12u) ? 0x0001fff8u : 0u);
    const unsigned t262 = t180 & 15u;
    const unsigned t263 = ((t262 | ((t180 & 112u) << 4u)) + (((t180 & 143u) == 132u) ? 0x00010000u : 0u)) + ((t262 == 12u) ? 0x0001fff8u : 0u);
    const unsigned t264 = t182 & 15u;
    const unsigned t265 = ((t264 | ((t182 & 112u) << 4u)) + (((t182 & 143u) == 132u) ? 0x00010000u : 0u)) + ((t264 == 12u) ? 0x0001fff8u : 0u);
    const unsigned t266 = t70 & 15u;
    const unsigned t267 = ((t266 | ((t70 & 112u) << 4u)) + (((t70 & 143u) == 132u) ? 0x00010000u : 0u)) + ((t266 == 12u) ? 0x0001fff8u : 0u);
    const unsigned t268 = t184 & 15u;
    const unsigned t269 = ((t268 | ((t184 & 112u) << 4u)) + (((t184 & 143u) == 132u) ? 0x00010000u : 0u)) + ((t268 == 12u) ? 0x0001fff8u : 0u);
    const unsigned t270 = t186 & 15u;
    const unsigned t271 = ((t270 | ((t186 & 112u) << 4u)) + (((t186 & 143u) == 132u) ? 0x00010000u : 0u)) + ((t270 == 12u) ? 0x0001fff8u : 0u);
    const unsigned t272 = t217 & 15u;
    const unsigned t273 = ((t272 | ((t217 & 112u) << 4u)) + (((t217 & 143u) == 132u) ? 0x00010000u : 0u)) + ((t272 == 12u) ? 0x0001fff8u : 0u);
    const unsigned t274 = t188 & 15u;
    const unsigned t275 = ((t274 | ((t188 & 112u) << 4u)) + (((t188 & 143u) == 132u) ? 0x00010000u : 0u)) + ((t274 == 12u) ? 0x0001fff8u : 0u);
    const unsigned t276 = t190 & 15u;
    const unsigned t277 = ((t276 | ((t190 & 112u) << 4u)) + (((t190 & 143u) == 132u) ? 0x00010000u : 0u)) + ((t276 == 12u) ? 0x0001fff8u : 0u);
    const unsigned t278 = t192 & 15u;
    const unsigned t279 = ((t278 | ((t192 & 112u) << 4u)) + (((t192 & 143u) == 132u) ? 0x00010000u : 0u)) + ((t278 == 12u) ? 0x0001fff8u : 0u);
    const unsigned t280 = t193 & 15u;
    const unsigned t281 = ((t280 | ((t193 & 112u) << 4u)) + (((t193 & 143u) == 132u) ? 0x00010000u : 0u)) + ((t280 == 12u) ? 0x0001fff8u : 0u);
    const unsigned t282 = t194 & 15u;
    const unsigned t283 = ((t282 | ((t194 & 112u) << 4u)) + (((t194 & 143u) == 132u) ? 0x00010000u : 0u)) + ((t282 == 12u) ? 0x0001fff8u : 0u);
    const unsigned t284 = t196 & 15u;
    const unsigned t285 = ((t284 | ((t196 & 112u) << 4u)) + (((t196 & 143u) == 132u) ? 0x00010000u : 0u)) + ((t284 == 12u) ? 0x0001fff8u : 0u);
    const unsigned t286 = t198 & 15u;
    const unsigned t287 = ((t286 | ((t198 & 112u) << 4u)) + (((t198 & 143u) == 132u) ? 0x00010000u : 0u)) + ((t286 == 12u) ? 0x0001fff8u : 0u);
    const unsigned t288 = t200 & 15u;
    const unsigned t289 = ((t288 | ((t200 & 112u) << 4u)) + (((t200 & 143u) == 132u) ? 0x00010000u : 0u)) + ((t288 == 12u) ? 0x0001fff8u : 0u);
    const unsigned t290 = t202 & 15u;
    const unsigned t291 = ((t290 | ((t202 & 112u) << 4u)) + (((t202 & 143u) == 132u) ? 0x00010000u : 0u)) + ((t290 == 12u) ? 0x0001fff8u : 0u);
    const unsigned t292 = t203 & 15u;
    const unsigned t293 = ((t292 | ((t203 & 112u) << 4u)) + (((t203 & 143u) == 132u) ? 0x00010000u : 0u)) + ((t292 == 12u) ? 0x0001fff8u : 0u);
    const unsigned t294 = t204 & 15u;
    const unsigned t295 = ((t294 | ((t204 & 112u) << 4u)) + (((t204 & 143u) == 132u) ? 0x00010000u : 0u)) + ((t294 == 12u) ? 0x0001fff8u : 0u);
    const unsigned t296 = t205 & 15u;
    const unsigned t297 = ((t296 | ((t205 & 112u) << 4u)) + (((t205 & 143u) == 132u) ? 0x00010000u : 0u)) + ((t296 == 12u) ? 0x0001fff8u : 0u);
    const unsigned t298 = t206 & 15u;
    const unsigned t299 = ((t298 | ((t206 & 112u) << 4u)) + (((t206 & 143u) == 132u) ? 0x00010000u : 0u)) + ((t298 == 12u) ? 0x0001fff8u : 0u);
    const unsigned t300 = t208 & 15u;
    const unsigned t301 = ((t300 | ((t208 & 112u) << 4u)) + (((t208 & 143u) == 132u) ? 0x00010000u : 0u)) + ((t300 == 12u) ? 0x0001fff8u : 0u);
    const unsigned t302 = t210 & 15u;
    const unsigned t303 = ((t302 | ((t210 & 112u) << 4u)) + (((t210 & 143u) == 132u) ? 0x00010000u : 0u)) + ((t302 == 12u) ? 0x0001fff8u : 0u);
    const unsigned t304 = t211 & 15u;
    const unsigned t305 = ((t304 | ((t211 & 112u) << 4u)) + (((t211 & 143u) == 132u) ? 0x00010000u : 0u)) + ((t304 == 12u) ? 0x0001fff8u : 0u);
    const unsigned t306 = t212 & 15u;
    const unsigned t307 = ((t306 | ((t212 & 112u) << 4u)) + (((t212 & 143u) == 132u) ? 0x00010000u : 0u)) + ((t306 == 12u) ? 0x0001fff8u : 0u);
    const unsigned t308 = t213 & 15u;
    const unsigned t309 = ((t308 | ((t213 & 112u) << 4u)) + (((t213 & 143u) == 132u) ? 0x00010000u : 0u)) + ((t308 == 12u) ? 0x0001fff8u : 0u);
    const unsigned t310 = t214 & 15u;
    const unsigned t311 = ((t310 | ((t214 & 112u) << 4u)) + (((t214 & 143u) == 132u) ? 0x00010000u : 0u)) + ((t310 == 12u) ? 0x0001fff8u : 0u);
    const unsigned t312 = t215 & 15u;
    const unsigned t313 = ((t312 | ((t215 & 112u) << 4u)) + (((t215 & 143u) == 132u) ? 0x00010000u : 0u)) + ((t312 == 12u) ? 0x0001fff8u : 0u);
    const unsigned t314 = t216 & 15u;
    const unsigned t315 = ((t314 | ((t216 & 112u) << 4u)) + (((t216 & 143u) == 132u) ? 0x00010000u : 0u)) + ((t314 == 12u) ? 0x0001fff8u : 0u);
    obs[0] = t219 | (t221 << 24u);
    obs[1] = (t221 >> 8u) | (t223 << 16u);
    obs[2] = (t223 >> 16u) | (t225 << 8u);
    obs[3] = t227 | (t229 << 24u);
    obs[4] = (t229 >> 8u) | (t231 << 16u);
    obs[5] = (t231 >> 16u) | (t233 << 8u);
    obs[6] = t235 | (t237 << 24u);
    obs[7] = (t237 >> 8u) | (t239 << 16u);
    obs[8] = (t239 >> 16u) | (t241 << 8u);
    obs[9] = t243 | (t245 << 24u);
    obs[10] = (t245 >> 8u) | (t247 << 16u);
    obs[11] = (t247 >> 16u) | (t249 << 8u);
    obs[12] = t251 | (t253 << 24u);
    obs[13] = (t253 >> 8u) | (t255 << 16u);
    obs[14] = (t255 >> 16u) | (t257 << 8u);
    obs[15] = t259 | (t261 << 24u);
    obs[16] = (t261 >> 8u) | (t263 << 16u);
    obs[17] = (t263 >> 16u) | (t265 << 8u);
    obs[18] = t267 | (t269 << 24u);
    obs[19] = (t269 >> 8u) | (t271 << 16u);
    obs[20] = (t271 >> 16u) | (t273 << 8u);
    obs[21] = t275 | (t277 << 24u);
    obs[22] = (t277 >> 8u) | (t279 << 16u);
    obs[23] = (t279 >> 16u) | (t281 << 8u);
    obs[24] = t283 | (t285 << 24u);
    obs[25] = (t285 >> 8u) | (t287 << 16u);
    obs[26] = (t287 >> 16u) | (t289 << 8u);
    obs[27] = t291 | (t293 << 24u);
    obs[28] = (t293 >> 8u) | (t295 << 16u);
    obs[29] = (t295 >> 16u) | (t297 << 8u);
    obs[30] = t299 | (t301 << 24u);
    obs[31] = (t301 >> 8u) | (t303 << 16u);
    obs[32] = (t303 >> 16u) | (t305 << 8u);
    obs[33] = t307 | (t309 << 24u);
    obs[34] = (t309 >> 8u) | (t311 << 16u);
    obs[35] = (t311 >> 16u) | (t313 << 8u);
    obs[36] = t315 | 0u;
    obs[37] = state.dir;
    obs[38] = ((0u | (state.extra[0] << 0u)) | (state.extra[1] << 8u)) | (state.extra[2] << 16u);
}

#define ENV_PACKED 1   // env_input computes the network input
#define ENV_INPUT_BITS 1   // bits, or floats by their bits
constexpr unsigned ENV_INPUT_WORDS = 32u;
__device__ __forceinline__ constexpr unsigned input_offset_0(unsigned k) { return k == 0u ? 0u : k == 1u ? 11u : 17u; }
__device__ __forceinline__ constexpr unsigned input_place_0(unsigned k) { return k < 11u ? 0u : k < 17u ? 1u : 2u; }
__device__ __forceinline__ constexpr unsigned input_offset_2(unsigned k) { return k == 0u ? 0u : k == 1u ? 5u : 11u; }
__device__ __forceinline__ constexpr unsigned input_place_2(unsigned k) { return k < 5u ? 0u : k < 11u ? 1u : 2u; }
__device__ __forceinline__ void env_input(const unsigned* obs, unsigned* input) {
    #pragma unroll
    for (unsigned k = 0u; k < ENV_INPUT_WORDS; ++k) input[k] = 0u;
    #pragma unroll
    for (unsigned i = 0u; i < 147u; ++i) {
        const unsigned value = obs[0u + i / 4u] >> i % 4u * 8u & 0xffu;
        const unsigned first = 0u + i / 3u * 20u + input_offset_0(i % 3u);
        const unsigned bit = first + value;
        input[bit / 32u] |= 1u << bit % 32u;
    }
    #pragma unroll
    for (unsigned i = 0u; i < 1u; ++i) {
        const unsigned value = obs[37u + i / 4u] >> i % 4u * 8u & 0xffu;
        const unsigned first = 980u + i * 4u;
        const unsigned bit = first + value;
        input[bit / 32u] |= 1u << bit % 32u;
    }
    #pragma unroll
    for (unsigned i = 0u; i < 3u; ++i) {
        const unsigned value = obs[38u + i / 4u] >> i % 4u * 8u & 0xffu;
        const unsigned first = 984u + i / 3u * 18u + input_offset_2(i % 3u);
        const unsigned bit = first + value;
        input[bit / 32u] |= 1u << bit % 32u;
    }
}

__device__ __forceinline__ float env_feature(const float* obs, unsigned k) {
    if (k < 980u) {
        const unsigned item = (k - 0u) / 20u * 3u + input_place_0((k - 0u) % 20u);
        const unsigned value = __float_as_uint(obs[0u + item / 4u]) >> item % 4u * 8u & 0xffu;
        return value == k - (0u + item / 3u * 20u + input_offset_0(item % 3u)) ? 1.0f : 0.0f;
    }
    if (k < 984u) {
        const unsigned item = (k - 980u) / 4u;
        const unsigned value = __float_as_uint(obs[37u + item / 4u]) >> item % 4u * 8u & 0xffu;
        return value == k - (980u + item * 4u) ? 1.0f : 0.0f;
    }
    if (k < 1002u) {
        const unsigned item = (k - 984u) / 18u * 3u + input_place_2((k - 984u) % 18u);
        const unsigned value = __float_as_uint(obs[38u + item / 4u]) >> item % 4u * 8u & 0xffu;
        return value == k - (984u + item / 3u * 18u + input_offset_2(item % 3u)) ? 1.0f : 0.0f;
    }
    return 0.0f;
}

__device__ __forceinline__ unsigned env_index(const float* obs, unsigned i) {
    if (i < 147u) {
        const unsigned item = i - 0u;
        return (__float_as_uint(obs[0u + item / 4u]) >> item % 4u * 8u & 0xffu) + input_offset_0(item % 3u);
    }
    if (i < 148u) {
        const unsigned item = i - 147u;
        return (__float_as_uint(obs[37u + item / 4u]) >> item % 4u * 8u & 0xffu);
    }
    if (i < 151u) {
        const unsigned item = i - 148u;
        return (__float_as_uint(obs[38u + item / 4u]) >> item % 4u * 8u & 0xffu) + input_offset_2(item % 3u);
    }
    return 0u;
}
