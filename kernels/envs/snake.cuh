// snake: eat and grow without hitting the walls or yourself; +1 per food.
// Emitted from the environment's rules by `operant emit`; do not edit.
#pragma once

constexpr unsigned ENV_TIME_LIMIT = 4294967294u;
constexpr unsigned ENV_OBS = 250u;         // numbers the policy sees
constexpr unsigned ENV_OBS_WORDS = 10u;   // words they are stored in
constexpr unsigned ENV_STATE_WORDS = 69u;   // words of a state
constexpr unsigned ENV_ACTIONS = 4u;   // logits
constexpr unsigned ENV_COMPONENTS = 1u;   // numbers that name an action
#define ENV_DISCRETE 1   // choices, or real numbers between bounds
#define ENV_MASKED 0   // whether env_legal forbids choices
using EnvAction = unsigned;
__device__ __forceinline__ constexpr unsigned env_choices(unsigned) { return 4u; }

struct EnvState {
    unsigned x;
    unsigned y;
    unsigned heading;
    unsigned tail_x;
    unsigned tail_y;
    unsigned food_x;
    unsigned food_y;
    unsigned length;
    unsigned hunger;
    unsigned body[20];
    unsigned low[20];
    unsigned high[20];
};

__device__ __forceinline__ void env_load(const unsigned* words, unsigned stride, EnvState& state) {
    state.x = words[0];
    state.y = words[1u * stride];
    state.heading = words[2u * stride];
    state.tail_x = words[3u * stride];
    state.tail_y = words[4u * stride];
    state.food_x = words[5u * stride];
    state.food_y = words[6u * stride];
    state.length = words[7u * stride];
    state.hunger = words[8u * stride];
    state.body[0] = words[9u * stride];
    state.body[1] = words[10u * stride];
    state.body[2] = words[11u * stride];
    state.body[3] = words[12u * stride];
    state.body[4] = words[13u * stride];
    state.body[5] = words[14u * stride];
    state.body[6] = words[15u * stride];
    state.body[7] = words[16u * stride];
    state.body[8] = words[17u * stride];
    state.body[9] = words[18u * stride];
    state.body[10] = words[19u * stride];
    state.body[11] = words[20u * stride];
    state.body[12] = words[21u * stride];
    state.body[13] = words[22u * stride];
    state.body[14] = words[23u * stride];
    state.body[15] = words[24u * stride];
    state.body[16] = words[25u * stride];
    state.body[17] = words[26u * stride];
    state.body[18] = words[27u * stride];
    state.body[19] = words[28u * stride];
    state.low[0] = words[29u * stride];
    state.low[1] = words[30u * stride];
    state.low[2] = words[31u * stride];
    state.low[3] = words[32u * stride];
    state.low[4] = words[33u * stride];
    state.low[5] = words[34u * stride];
    state.low[6] = words[35u * stride];
    state.low[7] = words[36u * stride];
    state.low[8] = words[37u * stride];
    state.low[9] = words[38u * stride];
    state.low[10] = words[39u * stride];
    state.low[11] = words[40u * stride];
    state.low[12] = words[41u * stride];
    state.low[13] = words[42u * stride];
    state.low[14] = words[43u * stride];
    state.low[15] = words[44u * stride];
    state.low[16] = words[45u * stride];
    state.low[17] = words[46u * stride];
    state.low[18] = words[47u * stride];
    state.low[19] = words[48u * stride];
    state.high[0] = words[49u * stride];
    state.high[1] = words[50u * stride];
    state.high[2] = words[51u * stride];
    state.high[3] = words[52u * stride];
    state.high[4] = words[53u * stride];
    state.high[5] = words[54u * stride];
    state.high[6] = words[55u * stride];
    state.high[7] = words[56u * stride];
    state.high[8] = words[57u * stride];
    state.high[9] = words[58u * stride];
    state.high[10] = words[59u * stride];
    state.high[11] = words[60u * stride];
    state.high[12] = words[61u * stride];
    state.high[13] = words[62u * stride];
    state.high[14] = words[63u * stride];
    state.high[15] = words[64u * stride];
    state.high[16] = words[65u * stride];
    state.high[17] = words[66u * stride];
    state.high[18] = words[67u * stride];
    state.high[19] = words[68u * stride];
}

__device__ __forceinline__ void env_store(const EnvState& state, unsigned* words, unsigned stride) {
    words[0] = state.x;
    words[1u * stride] = state.y;
    words[2u * stride] = state.heading;
    words[3u * stride] = state.tail_x;
    words[4u * stride] = state.tail_y;
    words[5u * stride] = state.food_x;
    words[6u * stride] = state.food_y;
    words[7u * stride] = state.length;
    words[8u * stride] = state.hunger;
    words[9u * stride] = state.body[0];
    words[10u * stride] = state.body[1];
    words[11u * stride] = state.body[2];
    words[12u * stride] = state.body[3];
    words[13u * stride] = state.body[4];
    words[14u * stride] = state.body[5];
    words[15u * stride] = state.body[6];
    words[16u * stride] = state.body[7];
    words[17u * stride] = state.body[8];
    words[18u * stride] = state.body[9];
    words[19u * stride] = state.body[10];
    words[20u * stride] = state.body[11];
    words[21u * stride] = state.body[12];
    words[22u * stride] = state.body[13];
    words[23u * stride] = state.body[14];
    words[24u * stride] = state.body[15];
    words[25u * stride] = state.body[16];
    words[26u * stride] = state.body[17];
    words[27u * stride] = state.body[18];
    words[28u * stride] = state.body[19];
    words[29u * stride] = state.low[0];
    words[30u * stride] = state.low[1];
    words[31u * stride] = state.low[2];
    words[32u * stride] = state.low[3];
    words[33u * stride] = state.low[4];
    words[34u * stride] = state.low[5];
    words[35u * stride] = state.low[6];
    words[36u * stride] = state.low[7];
    words[37u * stride] = state.low[8];
    words[38u * stride] = state.low[9];
    words[39u * stride] = state.low[10];
    words[40u * stride] = state.low[11];
    words[41u * stride] = state.low[12];
    words[42u * stride] = state.low[13];
    words[43u * stride] = state.low[14];
    words[44u * stride] = state.low[15];
    words[45u * stride] = state.low[16];
    words[46u * stride] = state.low[17];
    words[47u * stride] = state.low[18];
    words[48u * stride] = state.low[19];
    words[49u * stride] = state.high[0];
    words[50u * stride] = state.high[1];
    words[51u * stride] = state.high[2];
    words[52u * stride] = state.high[3];
    words[53u * stride] = state.high[4];
    words[54u * stride] = state.high[5];
    words[55u * stride] = state.high[6];
    words[56u * stride] = state.high[7];
    words[57u * stride] = state.high[8];
    words[58u * stride] = state.high[9];
    words[59u * stride] = state.high[10];
    words[60u * stride] = state.high[11];
    words[61u * stride] = state.high[12];
    words[62u * stride] = state.high[13];
    words[63u * stride] = state.high[14];
    words[64u * stride] = state.high[15];
    words[65u * stride] = state.high[16];
    words[66u * stride] = state.high[17];
    words[67u * stride] = state.high[18];
    words[68u * stride] = state.high[19];
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
    const unsigned k = __umulhi(v0_0, 97u);
    const bool here = true && (k < 10u);
    const bool t1 = false || here;
    const unsigned k_2 = t1 ? k : (k - 10u);
    const bool here_2 = (!t1) && (k_2 < 10u);
    const bool t2 = t1 || here_2;
    const unsigned k_3 = t2 ? k_2 : (k_2 - 10u);
    const bool here_3 = (!t2) && (k_3 < 10u);
    const bool t3 = t2 || here_3;
    const unsigned k_4 = t3 ? k_3 : (k_3 - 10u);
    const bool here_4 = (!t3) && (k_4 < 10u);
    const bool t4 = t3 || here_4;
    const unsigned k_5 = t4 ? k_4 : (k_4 - 10u);
    const bool here_5 = (!t4) && (k_5 < 10u);
    const unsigned t5 = here_5 ? 1023u : (here_4 ? 1023u : (here_3 ? 1023u : (here_2 ? 1023u : (here ? 1023u : 0u))));
    const bool t6 = t4 || here_5;
    const unsigned k_6 = t6 ? k_5 : (k_5 - 10u);
    const bool here_6 = (!t6) && (k_6 < 7u);
    const bool t7 = t6 || here_6;
    const unsigned k_7 = t7 ? k_6 : (k_6 - 7u);
    const bool here_7 = (!t7) && (k_7 < 10u);
    const unsigned t8 = here_7 ? 6u : (here_6 ? 5u : (here_5 ? 4u : (here_4 ? 3u : (here_3 ? 2u : (here_2 ? 1u : 0u)))));
    const bool t9 = t7 || here_7;
    const unsigned k_8 = t9 ? k_7 : (k_7 - 10u);
    const bool here_8 = (!t9) && (k_8 < 10u);
    const bool t10 = t9 || here_8;
    const unsigned k_9 = t10 ? k_8 : (k_8 - 10u);
    const bool here_9 = (!t10) && (k_9 < 10u);
    const bool t11 = t10 || here_9;
    const unsigned k_10 = t11 ? k_9 : (k_9 - 10u);
    const bool here_10 = (!t11) && (k_10 < 10u);
    const unsigned t12 = here_10 ? 1023u : (here_9 ? 1023u : (here_8 ? 1023u : (here_7 ? 1023u : (here_6 ? 967u : t5))));
    const unsigned k_11 = (t11 || here_10) ? k_10 : (k_10 - 10u);
    const unsigned t13 = t12 & 65535u;
    const unsigned t14 = t13 - ((t13 >> 1u) & 0x55555555u);
    const unsigned t15 = (t14 & 0x33333333u) + ((t14 >> 2u) & 0x33333333u);
    const unsigned t16 = (((t15 + (t15 >> 4u)) & 0x0f0f0f0fu) * 0x01010101u) >> 24u;
    const bool t17 = !(k_11 < t16);
    const unsigned t18 = t17 ? (k_11 - t16) : k_11;
    const unsigned t19 = t17 ? (t12 >> 16u) : t12;
    const unsigned position = 0u + (t17 ? 16u : 0u);
    const unsigned t20 = t19 & 255u;
    const unsigned t21 = t20 - ((t20 >> 1u) & 0x55555555u);
    const unsigned t22 = (t21 & 0x33333333u) + ((t21 >> 2u) & 0x33333333u);
    const unsigned t23 = (((t22 + (t22 >> 4u)) & 0x0f0f0f0fu) * 0x01010101u) >> 24u;
    const bool t24 = !(t18 < t23);
    const unsigned t25 = t24 ? (t18 - t23) : t18;
    const unsigned t26 = t24 ? (t19 >> 8u) : t19;
    const unsigned position_2 = position + (t24 ? 8u : 0u);
    const unsigned t27 = t26 & 15u;
    const unsigned t28 = t27 - ((t27 >> 1u) & 0x55555555u);
    const unsigned t29 = (t28 & 0x33333333u) + ((t28 >> 2u) & 0x33333333u);
    const unsigned t30 = (((t29 + (t29 >> 4u)) & 0x0f0f0f0fu) * 0x01010101u) >> 24u;
    const bool t31 = !(t25 < t30);
    const unsigned t32 = t31 ? (t25 - t30) : t25;
    const unsigned t33 = t31 ? (t26 >> 4u) : t26;
    const unsigned position_3 = position_2 + (t31 ? 4u : 0u);
    const unsigned t34 = t33 & 3u;
    const unsigned t35 = t34 - ((t34 >> 1u) & 0x55555555u);
    const unsigned t36 = (t35 & 0x33333333u) + ((t35 >> 2u) & 0x33333333u);
    const unsigned t37 = (((t36 + (t36 >> 4u)) & 0x0f0f0f0fu) * 0x01010101u) >> 24u;
    const bool t38 = !(t32 < t37);
    const unsigned position_4 = position_3 + (t38 ? 2u : 0u);
    const unsigned t39 = (t38 ? (t33 >> 2u) : t33) & 1u;
    const unsigned t40 = t39 - ((t39 >> 1u) & 0x55555555u);
    const unsigned t41 = (t40 & 0x33333333u) + ((t40 >> 2u) & 0x33333333u);
    const bool t42 = !((t38 ? (t32 - t37) : t32) < ((((t41 + (t41 >> 4u)) & 0x0f0f0f0fu) * 0x01010101u) >> 24u));
    const unsigned position_5 = position_4 + (t42 ? 1u : 0u);
    next.x = 5u;
    next.y = 5u;
    next.heading = 1u;
    next.tail_x = 3u;
    next.tail_y = 5u;
    next.food_x = position_5;
    next.food_y = here_10 ? 9u : (here_9 ? 8u : (here_8 ? 7u : t8));
    next.length = 3u;
    next.hunger = 0u;
    next.body[0] = 0u;
    next.body[1] = 0u;
    next.body[2] = 0u;
    next.body[3] = 0u;
    next.body[4] = 0u;
    next.body[5] = 56u;
    next.body[6] = 0u;
    next.body[7] = 0u;
    next.body[8] = 0u;
    next.body[9] = 0u;
    next.body[10] = 0u;
    next.body[11] = 0u;
    next.body[12] = 0u;
    next.body[13] = 0u;
    next.body[14] = 0u;
    next.body[15] = 0u;
    next.body[16] = 0u;
    next.body[17] = 0u;
    next.body[18] = 0u;
    next.body[19] = 0u;
    next.low[0] = 0u;
    next.low[1] = 0u;
    next.low[2] = 0u;
    next.low[3] = 0u;
    next.low[4] = 0u;
    next.low[5] = 24u;
    next.low[6] = 0u;
    next.low[7] = 0u;
    next.low[8] = 0u;
    next.low[9] = 0u;
    next.low[10] = 0u;
    next.low[11] = 0u;
    next.low[12] = 0u;
    next.low[13] = 0u;
    next.low[14] = 0u;
    next.low[15] = 0u;
    next.low[16] = 0u;
    next.low[17] = 0u;
    next.low[18] = 0u;
    next.low[19] = 0u;
    next.high[0] = 0u;
    next.high[1] = 0u;
    next.high[2] = 0u;
    next.high[3] = 0u;
    next.high[4] = 0u;
    next.high[5] = 0u;
    next.high[6] = 0u;
    next.high[7] = 0u;
    next.high[8] = 0u;
    next.high[9] = 0u;
    next.high[10] = 0u;
    next.high[11] = 0u;
    next.high[12] = 0u;
    next.high[13] = 0u;
    next.high[14] = 0u;
    next.high[15] = 0u;
    next.high[16] = 0u;
    next.high[17] = 0u;
    next.high[18] = 0u;
    next.high[19] = 0u;
}

__device__ __forceinline__ void env_step(
    const EnvState& state, const unsigned* action,
    unsigned seed_low, unsigned seed_high, unsigned environment, unsigned step_low, unsigned step_high, unsigned purpose,
    EnvState& next, float& reward, bool& terminated) {
    const unsigned t1 = purpose << 24u;
    const unsigned heading = (action[0] == (state.heading ^ 2u)) ? state.heading : action[0];
    const unsigned x = state.x + (((heading == 1u) ? 1u : 0u) - ((heading == 3u) ? 1u : 0u));
    const unsigned y = state.y + (((heading == 2u) ? 1u : 0u) - ((heading == 0u) ? 1u : 0u));
    const bool wall = (!(x < 10u)) || (!(y < 10u));
    const bool eats = (x == state.food_x) && (y == state.food_y);
    const unsigned t2 = ~(1u << (state.x & 31u));
    unsigned words[20];
    for (unsigned word = 0u; word < 20u; ++word) words[word] = state.low[word];
    if (state.y < 20u) words[state.y] = (state.low[min(state.y, 19u)] & t2) | ((heading & 1u) << (state.x & 31u));
    unsigned words_2[20];
    for (unsigned word = 0u; word < 20u; ++word) words_2[word] = state.high[word];
    if (state.y < 20u) words_2[state.y] = (state.high[min(state.y, 19u)] & t2) | ((heading >> 1u) << (state.x & 31u));
    const unsigned t3 = words[min(state.tail_y, 19u)];
    const unsigned t4 = words_2[min(state.tail_y, 19u)];
    const unsigned t5 = ((t3 >> (state.tail_x & 31u)) & 1u) | (((t4 >> (state.tail_x & 31u)) & 1u) << 1u);
    const unsigned x_2 = state.tail_x + (((t5 == 1u) ? 1u : 0u) - ((t5 == 3u) ? 1u : 0u));
    const unsigned y_2 = state.tail_y + (((t5 == 2u) ? 1u : 0u) - ((t5 == 0u) ? 1u : 0u));
    const unsigned t6 = (state.body[min(state.tail_y, 19u)] & (~(1u << (state.tail_x & 31u)))) | (0u << (state.tail_x & 31u));
    unsigned words_3[20];
    for (unsigned word = 0u; word < 20u; ++word) words_3[word] = state.body[word];
    if ((!eats) && state.tail_y < 20u) words_3[state.tail_y] = t6;
    const bool t7 = !wall;
    const unsigned t8 = words_3[min(y, 19u)];
    const bool bites = t7 && (!(((t8 >> (x & 31u)) & 1u) == 0u));
    const unsigned t9 = 1u << (x & 31u);
    if (t7 && y < 20u) words_3[y] = (t8 & (~t9)) | t9;
    const unsigned t10 = state.length + (eats ? 1u : 0u);
    const unsigned t11 = eats ? 0u : (state.hunger + 1u);
    const bool t12 = t10 == 100u;
    const bool t13 = eats && (!t12);
    unsigned _0 = state.food_x;
    unsigned _1 = state.food_y;
    if (t13) {
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
        const unsigned k = __umulhi(v0_0, 100u - t10);
        const unsigned t14 = words_3[0u];
        const unsigned t15 = (~t14) & 1023u;
        const unsigned t16 = t15 - ((t15 >> 1u) & 0x55555555u);
        const unsigned t17 = (t16 & 0x33333333u) + ((t16 >> 2u) & 0x33333333u);
        const unsigned t18 = (((t17 + (t17 >> 4u)) & 0x0f0f0f0fu) * 0x01010101u) >> 24u;
        const bool here = true && (k < t18);
        const bool t19 = false || here;
        const unsigned k_2 = t19 ? k : (k - t18);
        const unsigned t20 = words_3[1u];
        const unsigned t21 = (~t20) & 1023u;
        const unsigned t22 = t21 - ((t21 >> 1u) & 0x55555555u);
        const unsigned t23 = (t22 & 0x33333333u) + ((t22 >> 2u) & 0x33333333u);
        const unsigned t24 = (((t23 + (t23 >> 4u)) & 0x0f0f0f0fu) * 0x01010101u) >> 24u;
        const bool here_2 = (!t19) && (k_2 < t24);
        const bool t25 = t19 || here_2;
        const unsigned k_3 = t25 ? k_2 : (k_2 - t24);
        const unsigned t26 = words_3[2u];
        const unsigned t27 = (~t26) & 1023u;
        const unsigned t28 = t27 - ((t27 >> 1u) & 0x55555555u);
        const unsigned t29 = (t28 & 0x33333333u) + ((t28 >> 2u) & 0x33333333u);
        const unsigned t30 = (((t29 + (t29 >> 4u)) & 0x0f0f0f0fu) * 0x01010101u) >> 24u;
        const bool here_3 = (!t25) && (k_3 < t30);
        const bool t31 = t25 || here_3;
        const unsigned k_4 = t31 ? k_3 : (k_3 - t30);
        const unsigned t32 = words_3[3u];
        const unsigned t33 = (~t32) & 1023u;
        const unsigned t34 = t33 - ((t33 >> 1u) & 0x55555555u);
        const unsigned t35 = (t34 & 0x33333333u) + ((t34 >> 2u) & 0x33333333u);
        const unsigned t36 = (((t35 + (t35 >> 4u)) & 0x0f0f0f0fu) * 0x01010101u) >> 24u;
        const bool here_4 = (!t31) && (k_4 < t36);
        const bool t37 = t31 || here_4;
        const unsigned k_5 = t37 ? k_4 : (k_4 - t36);
        const unsigned t38 = words_3[4u];
        const unsigned t39 = (~t38) & 1023u;
        const unsigned t40 = t39 - ((t39 >> 1u) & 0x55555555u);
        const unsigned t41 = (t40 & 0x33333333u) + ((t40 >> 2u) & 0x33333333u);
        const unsigned t42 = (((t41 + (t41 >> 4u)) & 0x0f0f0f0fu) * 0x01010101u) >> 24u;
        const bool here_5 = (!t37) && (k_5 < t42);
        const bool t43 = t37 || here_5;
        const unsigned k_6 = t43 ? k_5 : (k_5 - t42);
        const unsigned t44 = words_3[5u];
        const unsigned t45 = (~t44) & 1023u;
        const unsigned t46 = t45 - ((t45 >> 1u) & 0x55555555u);
        const unsigned t47 = (t46 & 0x33333333u) + ((t46 >> 2u) & 0x33333333u);
        const unsigned t48 = (((t47 + (t47 >> 4u)) & 0x0f0f0f0fu) * 0x01010101u) >> 24u;
        const bool here_6 = (!t43) && (k_6 < t48);
        const unsigned t49 = here_6 ? t45 : (here_5 ? t39 : (here_4 ? t33 : (here_3 ? t27 : (here_2 ? t21 : (here ? t15 : 0u)))));
        const bool t50 = t43 || here_6;
        const unsigned k_7 = t50 ? k_6 : (k_6 - t48);
        const unsigned t51 = words_3[6u];
        const unsigned t52 = (~t51) & 1023u;
        const unsigned t53 = t52 - ((t52 >> 1u) & 0x55555555u);
        const unsigned t54 = (t53 & 0x33333333u) + ((t53 >> 2u) & 0x33333333u);
        const unsigned t55 = (((t54 + (t54 >> 4u)) & 0x0f0f0f0fu) * 0x01010101u) >> 24u;
        const bool here_7 = (!t50) && (k_7 < t55);
        const unsigned t56 = here_7 ? 6u : (here_6 ? 5u : (here_5 ? 4u : (here_4 ? 3u : (here_3 ? 2u : (here_2 ? 1u : 0u)))));
        const bool t57 = t50 || here_7;
        const unsigned k_8 = t57 ? k_7 : (k_7 - t55);
        const unsigned t58 = words_3[7u];
        const unsigned t59 = (~t58) & 1023u;
        const unsigned t60 = t59 - ((t59 >> 1u) & 0x55555555u);
        const unsigned t61 = (t60 & 0x33333333u) + ((t60 >> 2u) & 0x33333333u);
        const unsigned t62 = (((t61 + (t61 >> 4u)) & 0x0f0f0f0fu) * 0x01010101u) >> 24u;
        const bool here_8 = (!t57) && (k_8 < t62);
        const bool t63 = t57 || here_8;
        const unsigned k_9 = t63 ? k_8 : (k_8 - t62);
        const unsigned t64 = words_3[8u];
        const unsigned t65 = (~t64) & 1023u;
        const unsigned t66 = t65 - ((t65 >> 1u) & 0x55555555u);
        const unsigned t67 = (t66 & 0x33333333u) + ((t66 >> 2u) & 0x33333333u);
        const unsigned t68 = (((t67 + (t67 >> 4u)) & 0x0f0f0f0fu) * 0x01010101u) >> 24u;
        const bool here_9 = (!t63) && (k_9 < t68);
        const bool t69 = t63 || here_9;
        const unsigned k_10 = t69 ? k_9 : (k_9 - t68);
        const unsigned t70 = words_3[9u];
        const unsigned t71 = (~t70) & 1023u;
        const unsigned t72 = t71 - ((t71 >> 1u) & 0x55555555u);
        const unsigned t73 = (t72 & 0x33333333u) + ((t72 >> 2u) & 0x33333333u);
        const unsigned t74 = (((t73 + (t73 >> 4u)) & 0x0f0f0f0fu) * 0x01010101u) >> 24u;
        const bool here_10 = (!t69) && (k_10 < t74);
        const unsigned t75 = here_10 ? t71 : (here_9 ? t65 : (here_8 ? t59 : (here_7 ? t52 : t49)));
        const unsigned k_11 = (t69 || here_10) ? k_10 : (k_10 - t74);
        const unsigned t76 = t75 & 65535u;
        const unsigned t77 = t76 - ((t76 >> 1u) & 0x55555555u);
        const unsigned t78 = (t77 & 0x33333333u) + ((t77 >> 2u) & 0x33333333u);
        const unsigned t79 = (((t78 + (t78 >> 4u)) & 0x0f0f0f0fu) * 0x01010101u) >> 24u;
        const bool t80 = !(k_11 < t79);
        const unsigned t81 = t80 ? (k_11 - t79) : k_11;
        const unsigned t82 = t80 ? (t75 >> 16u) : t75;
        const unsigned position = 0u + (t80 ? 16u : 0u);
        const unsigned t83 = t82 & 255u;
        const unsigned t84 = t83 - ((t83 >> 1u) & 0x55555555u);
        const unsigned t85 = (t84 & 0x33333333u) + ((t84 >> 2u) & 0x33333333u);
        const unsigned t86 = (((t85 + (t85 >> 4u)) & 0x0f0f0f0fu) * 0x01010101u) >> 24u;
        const bool t87 = !(t81 < t86);
        const unsigned t88 = t87 ? (t81 - t86) : t81;
        const unsigned t89 = t87 ? (t82 >> 8u) : t82;
        const unsigned position_2 = position + (t87 ? 8u : 0u);
        const unsigned t90 = t89 & 15u;
        const unsigned t91 = t90 - ((t90 >> 1u) & 0x55555555u);
        const unsigned t92 = (t91 & 0x33333333u) + ((t91 >> 2u) & 0x33333333u);
        const unsigned t93 = (((t92 + (t92 >> 4u)) & 0x0f0f0f0fu) * 0x01010101u) >> 24u;
        const bool t94 = !(t88 < t93);
        const unsigned t95 = t94 ? (t88 - t93) : t88;
        const unsigned t96 = t94 ? (t89 >> 4u) : t89;
        const unsigned position_3 = position_2 + (t94 ? 4u : 0u);
        const unsigned t97 = t96 & 3u;
        const unsigned t98 = t97 - ((t97 >> 1u) & 0x55555555u);
        const unsigned t99 = (t98 & 0x33333333u) + ((t98 >> 2u) & 0x33333333u);
        const unsigned t100 = (((t99 + (t99 >> 4u)) & 0x0f0f0f0fu) * 0x01010101u) >> 24u;
        const bool t101 = !(t95 < t100);
        const unsigned position_4 = position_3 + (t101 ? 2u : 0u);
        const unsigned t102 = (t101 ? (t96 >> 2u) : t96) & 1u;
        const unsigned t103 = t102 - ((t102 >> 1u) & 0x55555555u);
        const unsigned t104 = (t103 & 0x33333333u) + ((t103 >> 2u) & 0x33333333u);
        const bool t105 = (t101 ? (t95 - t100) : t95) < ((((t104 + (t104 >> 4u)) & 0x0f0f0f0fu) * 0x01010101u) >> 24u);
        const unsigned position_5 = position_4 + ((!t105) ? 1u : 0u);
        _0 = position_5;
        _1 = here_10 ? 9u : (here_9 ? 8u : (here_8 ? 7u : t56));
    }
    next.x = x;
    next.y = y;
    next.heading = heading;
    next.tail_x = eats ? state.tail_x : x_2;
    next.tail_y = eats ? state.tail_y : y_2;
    next.food_x = _0;
    next.food_y = _1;
    next.length = t10;
    next.hunger = t11;
    for (unsigned word = 0u; word < 20u; ++word) next.body[word] = words_3[word];
    for (unsigned word = 0u; word < 20u; ++word) next.low[word] = words[word];
    for (unsigned word = 0u; word < 20u; ++word) next.high[word] = words_2[word];
    reward = eats ? 1.0f : 0.0f;
    terminated = ((wall || bites) || t12) || (!(t11 < 200u));
}

__device__ __forceinline__ void env_observe(
    const EnvState& state, unsigned* obs) {
    const unsigned t1 = 1u << (state.tail_x & 31u);
    const unsigned t2 = (state.y + 0u) - 5u;
    const unsigned row = (t2 < 10u) ? ((state.body[min(t2, 19u)] & (~((t2 == state.tail_y) ? t1 : 0u))) | 0xfffffc00u) : 0xffffffffu;
    const unsigned t3 = (state.y + 1u) - 5u;
    const unsigned row_2 = (t3 < 10u) ? ((state.body[min(t3, 19u)] & (~((t3 == state.tail_y) ? t1 : 0u))) | 0xfffffc00u) : 0xffffffffu;
    const unsigned t4 = (0u | (((((row << 5u) | 31u) >> (state.x & 31u)) & 2047u) << 0u)) | (((((row_2 << 5u) | 31u) >> (state.x & 31u)) & 2047u) << 11u);
    const unsigned t5 = (state.y + 2u) - 5u;
    const unsigned row_3 = (t5 < 10u) ? ((state.body[min(t5, 19u)] & (~((t5 == state.tail_y) ? t1 : 0u))) | 0xfffffc00u) : 0xffffffffu;
    const unsigned t6 = (((row_3 << 5u) | 31u) >> (state.x & 31u)) & 2047u;
    const unsigned t7 = (state.y + 3u) - 5u;
    const unsigned row_4 = (t7 < 10u) ? ((state.body[min(t7, 19u)] & (~((t7 == state.tail_y) ? t1 : 0u))) | 0xfffffc00u) : 0xffffffffu;
    const unsigned t8 = (state.y + 4u) - 5u;
    const unsigned row_5 = (t8 < 10u) ? ((state.body[min(t8, 19u)] & (~((t8 == state.tail_y) ? t1 : 0u))) | 0xfffffc00u) : 0xffffffffu;
    const unsigned t9 = ((0u | (t6 >> 10u)) | (((((row_4 << 5u) | 31u) >> (state.x & 31u)) & 2047u) << 1u)) | (((((row_5 << 5u) | 31u) >> (state.x & 31u)) & 2047u) << 12u);
    const unsigned t10 = (state.y + 5u) - 5u;
    const unsigned row_6 = (t10 < 10u) ? ((state.body[min(t10, 19u)] & (~((t10 == state.tail_y) ? t1 : 0u))) | 0xfffffc00u) : 0xffffffffu;
    const unsigned t11 = (((row_6 << 5u) | 31u) >> (state.x & 31u)) & 2047u;
    const unsigned t12 = (state.y + 6u) - 5u;
    const unsigned row_7 = (t12 < 10u) ? ((state.body[min(t12, 19u)] & (~((t12 == state.tail_y) ? t1 : 0u))) | 0xfffffc00u) : 0xffffffffu;
    const unsigned t13 = (state.y + 7u) - 5u;
    const unsigned row_8 = (t13 < 10u) ? ((state.body[min(t13, 19u)] & (~((t13 == state.tail_y) ? t1 : 0u))) | 0xfffffc00u) : 0xffffffffu;
    const unsigned t14 = ((0u | (t11 >> 9u)) | (((((row_7 << 5u) | 31u) >> (state.x & 31u)) & 2047u) << 2u)) | (((((row_8 << 5u) | 31u) >> (state.x & 31u)) & 2047u) << 13u);
    const unsigned t15 = (state.y + 8u) - 5u;
    const unsigned row_9 = (t15 < 10u) ? ((state.body[min(t15, 19u)] & (~((t15 == state.tail_y) ? t1 : 0u))) | 0xfffffc00u) : 0xffffffffu;
    const unsigned t16 = (((row_9 << 5u) | 31u) >> (state.x & 31u)) & 2047u;
    const unsigned t17 = (state.y + 9u) - 5u;
    const unsigned row_10 = (t17 < 10u) ? ((state.body[min(t17, 19u)] & (~((t17 == state.tail_y) ? t1 : 0u))) | 0xfffffc00u) : 0xffffffffu;
    const unsigned t18 = (state.y + 10u) - 5u;
    const unsigned row_11 = (t18 < 10u) ? ((state.body[min(t18, 19u)] & (~((t18 == state.tail_y) ? t1 : 0u))) | 0xfffffc00u) : 0xffffffffu;
    const unsigned t19 = ((0u | (t16 >> 8u)) | (((((row_10 << 5u) | 31u) >> (state.x & 31u)) & 2047u) << 3u)) | (((((row_11 << 5u) | 31u) >> (state.x & 31u)) & 2047u) << 14u);
    const unsigned t20 = (state.food_x + 5u) - state.x;
    const unsigned t21 = (state.food_y + 5u) - state.y;
    const bool near = (t20 < 11u) && (t21 < 11u);
    const unsigned t22 = (121u + (t21 * 11u)) + t20;
    const unsigned t23 = t22 >> 5u;
    const unsigned t24 = 1u << (t22 & 31u);
    const unsigned t25 = (((state.food_y < state.y) ? 1u : 0u) | ((state.x < state.food_x) ? 2u : 0u)) | ((state.y < state.food_y) ? 4u : 0u);
    obs[0] = t4 | (t6 << 22u);
    obs[1] = t9 | (t11 << 23u);
    obs[2] = t14 | (t16 << 24u);
    obs[3] = t19 | (near ? ((t23 == 3u) ? t24 : 0u) : 0u);
    obs[4] = 0u | (near ? ((t23 == 4u) ? t24 : 0u) : 0u);
    obs[5] = 0u | (near ? ((t23 == 5u) ? t24 : 0u) : 0u);
    obs[6] = 0u | (near ? ((t23 == 6u) ? t24 : 0u) : 0u);
    obs[7] = 0u | (near ? ((t23 == 7u) ? t24 : 0u) : 0u);
    obs[8] = t25 | ((state.food_x < state.x) ? 8u : 0u);
    obs[9] = 1u << (state.heading & 31u);
}

#define ENV_PACKED 1   // env_input computes the network input
#define ENV_INPUT_BITS 1   // bits, or floats by their bits
constexpr unsigned ENV_INPUT_WORDS = 8u;
__device__ __forceinline__ void env_input(const unsigned* obs, unsigned* input) {
    #pragma unroll
    for (unsigned k = 0u; k < ENV_INPUT_WORDS; ++k) input[k] = 0u;
    #pragma unroll
    for (unsigned i = 0u; i < 242u; ++i) {
        const unsigned value = obs[0u + i / 32u] >> i % 32u * 1u & 0x1u;
        const unsigned first = 0u + i * 1u;
        input[first / 32u] |= value << first % 32u;
    }
    #pragma unroll
    for (unsigned i = 0u; i < 4u; ++i) {
        const unsigned value = obs[8u + i / 32u] >> i % 32u * 1u & 0x1u;
        const unsigned first = 242u + i * 1u;
        input[first / 32u] |= value << first % 32u;
    }
    #pragma unroll
    for (unsigned i = 0u; i < 4u; ++i) {
        const unsigned value = obs[9u + i / 32u] >> i % 32u * 1u & 0x1u;
        const unsigned first = 246u + i * 1u;
        input[first / 32u] |= value << first % 32u;
    }
}

__device__ __forceinline__ float env_feature(const float* obs, unsigned k) {
    if (k < 242u) {
        const unsigned item = (k - 0u) / 1u;
        const unsigned value = __float_as_uint(obs[0u + item / 32u]) >> item % 32u * 1u & 0x1u;
        return __uint2float_rn(value);
    }
    if (k < 246u) {
        const unsigned item = (k - 242u) / 1u;
        const unsigned value = __float_as_uint(obs[8u + item / 32u]) >> item % 32u * 1u & 0x1u;
        return __uint2float_rn(value);
    }
    if (k < 250u) {
        const unsigned item = (k - 246u) / 1u;
        const unsigned value = __float_as_uint(obs[9u + item / 32u]) >> item % 32u * 1u & 0x1u;
        return __uint2float_rn(value);
    }
    return 0.0f;
}
