// minatar_freeway: cross a road with cars on a 10x10 grid; +1 per crossing.
// Emitted from the environment's rules by `operant emit`; do not edit.
#pragma once

constexpr unsigned ENV_TIME_LIMIT = 2502u;
constexpr unsigned ENV_OBS = 700u;         // numbers the policy sees
constexpr unsigned ENV_OBS_WORDS = 22u;   // words they are stored in
constexpr unsigned ENV_STATE_WORDS = 28u;   // words of a state
constexpr unsigned ENV_ACTIONS = 6u;   // logits
constexpr unsigned ENV_COMPONENTS = 1u;   // numbers that name an action
#define ENV_DISCRETE 1   // choices, or real numbers between bounds
#define ENV_MASKED 0   // whether env_legal forbids choices
using EnvAction = unsigned;
__device__ __forceinline__ constexpr unsigned env_choices(unsigned) { return 6u; }

struct EnvState {
    unsigned y;
    unsigned move_timer;
    int time_left;
    unsigned x[8];
    unsigned timer[8];
    int speed[8];
    unsigned last_action;
};

__device__ __forceinline__ void env_load(const unsigned* words, unsigned stride, EnvState& state) {
    state.y = words[0];
    state.move_timer = words[1u * stride];
    state.time_left = (int)words[2u * stride];
    state.x[0] = words[3u * stride];
    state.x[1] = words[4u * stride];
    state.x[2] = words[5u * stride];
    state.x[3] = words[6u * stride];
    state.x[4] = words[7u * stride];
    state.x[5] = words[8u * stride];
    state.x[6] = words[9u * stride];
    state.x[7] = words[10u * stride];
    state.timer[0] = words[11u * stride];
    state.timer[1] = words[12u * stride];
    state.timer[2] = words[13u * stride];
    state.timer[3] = words[14u * stride];
    state.timer[4] = words[15u * stride];
    state.timer[5] = words[16u * stride];
    state.timer[6] = words[17u * stride];
    state.timer[7] = words[18u * stride];
    state.speed[0] = (int)words[19u * stride];
    state.speed[1] = (int)words[20u * stride];
    state.speed[2] = (int)words[21u * stride];
    state.speed[3] = (int)words[22u * stride];
    state.speed[4] = (int)words[23u * stride];
    state.speed[5] = (int)words[24u * stride];
    state.speed[6] = (int)words[25u * stride];
    state.speed[7] = (int)words[26u * stride];
    state.last_action = words[27u * stride];
}

__device__ __forceinline__ void env_store(const EnvState& state, unsigned* words, unsigned stride) {
    words[0] = state.y;
    words[1u * stride] = state.move_timer;
    words[2u * stride] = (unsigned)state.time_left;
    words[3u * stride] = state.x[0];
    words[4u * stride] = state.x[1];
    words[5u * stride] = state.x[2];
    words[6u * stride] = state.x[3];
    words[7u * stride] = state.x[4];
    words[8u * stride] = state.x[5];
    words[9u * stride] = state.x[6];
    words[10u * stride] = state.x[7];
    words[11u * stride] = state.timer[0];
    words[12u * stride] = state.timer[1];
    words[13u * stride] = state.timer[2];
    words[14u * stride] = state.timer[3];
    words[15u * stride] = state.timer[4];
    words[16u * stride] = state.timer[5];
    words[17u * stride] = state.timer[6];
    words[18u * stride] = state.timer[7];
    words[19u * stride] = (unsigned)state.speed[0];
    words[20u * stride] = (unsigned)state.speed[1];
    words[21u * stride] = (unsigned)state.speed[2];
    words[22u * stride] = (unsigned)state.speed[3];
    words[23u * stride] = (unsigned)state.speed[4];
    words[24u * stride] = (unsigned)state.speed[5];
    words[25u * stride] = (unsigned)state.speed[6];
    words[26u * stride] = (unsigned)state.speed[7];
    words[27u * stride] = state.last_action;
}

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
    const unsigned timer = __umulhi(v0_0, 5u) + 1u;
    const unsigned timer_2 = __umulhi(v0_1, 5u) + 1u;
    const unsigned timer_3 = __umulhi(v0_2, 5u) + 1u;
    const unsigned timer_4 = __umulhi(v0_3, 5u) + 1u;
    unsigned v0_0_2 = environment;
    unsigned v0_1_2 = step_low;
    unsigned v0_2_2 = step_high;
    unsigned v0_3_2 = t1 | 1u;
    unsigned v1_0_2 = seed_low;
    unsigned v1_1_2 = seed_high;
    #pragma unroll
    for (unsigned i_2 = 0u; i_2 < 10u; ++i_2) {
        const unsigned v0_0_2_before = v0_0_2;
        const unsigned v0_1_2_before = v0_1_2;
        const unsigned v0_2_2_before = v0_2_2;
        const unsigned v0_3_2_before = v0_3_2;
        const unsigned v1_0_2_before = v1_0_2;
        const unsigned v1_1_2_before = v1_1_2;
        v0_0_2 = (__umulhi(0xcd9e8d57u, v0_2_2_before) ^ v0_1_2_before) ^ v1_0_2_before;
        v0_1_2 = 0xcd9e8d57u * v0_2_2_before;
        v0_2_2 = (__umulhi(0xd2511f53u, v0_0_2_before) ^ v0_3_2_before) ^ v1_1_2_before;
        v0_3_2 = 0xd2511f53u * v0_0_2_before;
        v1_0_2 = v1_0_2_before + 0x9e3779b9u;
        v1_1_2 = v1_1_2_before + 0xbb67ae85u;
    }
    const unsigned timer_5 = __umulhi(v0_0_2, 5u) + 1u;
    const unsigned timer_6 = __umulhi(v0_1_2, 5u) + 1u;
    const unsigned timer_7 = __umulhi(v0_2_2, 5u) + 1u;
    const unsigned timer_8 = __umulhi(v0_3_2, 5u) + 1u;
    unsigned v0_0_3 = environment;
    unsigned v0_1_3 = step_low;
    unsigned v0_2_3 = step_high;
    unsigned v0_3_3 = t1 | 2u;
    unsigned v1_0_3 = seed_low;
    unsigned v1_1_3 = seed_high;
    #pragma unroll
    for (unsigned i_3 = 0u; i_3 < 10u; ++i_3) {
        const unsigned v0_0_3_before = v0_0_3;
        const unsigned v0_1_3_before = v0_1_3;
        const unsigned v0_2_3_before = v0_2_3;
        const unsigned v0_3_3_before = v0_3_3;
        const unsigned v1_0_3_before = v1_0_3;
        const unsigned v1_1_3_before = v1_1_3;
        v0_0_3 = (__umulhi(0xcd9e8d57u, v0_2_3_before) ^ v0_1_3_before) ^ v1_0_3_before;
        v0_1_3 = 0xcd9e8d57u * v0_2_3_before;
        v0_2_3 = (__umulhi(0xd2511f53u, v0_0_3_before) ^ v0_3_3_before) ^ v1_1_3_before;
        v0_3_3 = 0xd2511f53u * v0_0_3_before;
        v1_0_3 = v1_0_3_before + 0x9e3779b9u;
        v1_1_3 = v1_1_3_before + 0xbb67ae85u;
    }
    const int t2 = (int)timer;
    const int speed = (__fmul_rn(__int2float_rn((int)(v0_0_3 >> 8u)), 5.9604645e-8f) < 0.5f) ? ((int)(0u - (unsigned)t2)) : t2;
    const int t3 = (int)timer_2;
    const int speed_2 = (__fmul_rn(__int2float_rn((int)(v0_1_3 >> 8u)), 5.9604645e-8f) < 0.5f) ? ((int)(0u - (unsigned)t3)) : t3;
    const int t4 = (int)timer_3;
    const int speed_3 = (__fmul_rn(__int2float_rn((int)(v0_2_3 >> 8u)), 5.9604645e-8f) < 0.5f) ? ((int)(0u - (unsigned)t4)) : t4;
    const int t5 = (int)timer_4;
    const int speed_4 = (__fmul_rn(__int2float_rn((int)(v0_3_3 >> 8u)), 5.9604645e-8f) < 0.5f) ? ((int)(0u - (unsigned)t5)) : t5;
    unsigned v0_0_4 = environment;
    unsigned v0_1_4 = step_low;
    unsigned v0_2_4 = step_high;
    unsigned v0_3_4 = t1 | 3u;
    unsigned v1_0_4 = seed_low;
    unsigned v1_1_4 = seed_high;
    #pragma unroll
    for (unsigned i_4 = 0u; i_4 < 10u; ++i_4) {
        const unsigned v0_0_4_before = v0_0_4;
        const unsigned v0_1_4_before = v0_1_4;
        const unsigned v0_2_4_before = v0_2_4;
        const unsigned v0_3_4_before = v0_3_4;
        const unsigned v1_0_4_before = v1_0_4;
        const unsigned v1_1_4_before = v1_1_4;
        v0_0_4 = (__umulhi(0xcd9e8d57u, v0_2_4_before) ^ v0_1_4_before) ^ v1_0_4_before;
        v0_1_4 = 0xcd9e8d57u * v0_2_4_before;
        v0_2_4 = (__umulhi(0xd2511f53u, v0_0_4_before) ^ v0_3_4_before) ^ v1_1_4_before;
        v0_3_4 = 0xd2511f53u * v0_0_4_before;
        v1_0_4 = v1_0_4_before + 0x9e3779b9u;
        v1_1_4 = v1_1_4_before + 0xbb67ae85u;
    }
    const int t6 = (int)timer_5;
    const int speed_5 = (__fmul_rn(__int2float_rn((int)(v0_0_4 >> 8u)), 5.9604645e-8f) < 0.5f) ? ((int)(0u - (unsigned)t6)) : t6;
    const int t7 = (int)timer_6;
    const int speed_6 = (__fmul_rn(__int2float_rn((int)(v0_1_4 >> 8u)), 5.9604645e-8f) < 0.5f) ? ((int)(0u - (unsigned)t7)) : t7;
    const int t8 = (int)timer_7;
    const int speed_7 = (__fmul_rn(__int2float_rn((int)(v0_2_4 >> 8u)), 5.9604645e-8f) < 0.5f) ? ((int)(0u - (unsigned)t8)) : t8;
    const int t9 = (int)timer_8;
    const int speed_8 = (__fmul_rn(__int2float_rn((int)(v0_3_4 >> 8u)), 5.9604645e-8f) < 0.5f) ? ((int)(0u - (unsigned)t9)) : t9;
    next.y = 9u;
    next.move_timer = 3u;
    next.time_left = 2500;
    next.x[0] = 0u;
    next.x[1] = 0u;
    next.x[2] = 0u;
    next.x[3] = 0u;
    next.x[4] = 0u;
    next.x[5] = 0u;
    next.x[6] = 0u;
    next.x[7] = 0u;
    next.timer[0] = timer;
    next.timer[1] = timer_2;
    next.timer[2] = timer_3;
    next.timer[3] = timer_4;
    next.timer[4] = timer_5;
    next.timer[5] = timer_6;
    next.timer[6] = timer_7;
    next.timer[7] = timer_8;
    next.speed[0] = speed;
    next.speed[1] = speed_2;
    next.speed[2] = speed_3;
    next.speed[3] = speed_4;
    next.speed[4] = speed_5;
    next.speed[5] = speed_6;
    next.speed[6] = speed_7;
    next.speed[7] = speed_8;
    next.last_action = 0u;
}

__device__ __forceinline__ void env_step(
    const EnvState& state, const unsigned* action,
    unsigned seed_low, unsigned seed_high, unsigned environment, unsigned step_low, unsigned step_high, unsigned purpose,
    EnvState& next, float& reward, bool& terminated) {
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
    const unsigned executed = (__fmul_rn(__int2float_rn((int)(v0_0 >> 8u)), 5.9604645e-8f) < 0.1f) ? state.last_action : action[0];
    const bool t2 = executed == 2u;
    const bool t3 = executed == 4u;
    const bool moves = (t2 || t3) && (state.move_timer == 0u);
    const unsigned t4 = moves ? 3u : state.move_timer;
    const unsigned y = ((moves && t3) && (state.y < 9u)) ? (state.y + 1u) : (((moves && t2) && (!(state.y == 0u))) ? (state.y - 1u) : state.y);
    const bool crossed = y == 0u;
    unsigned v0_0_2 = state.timer[0];
    unsigned v0_1_2 = state.timer[1];
    unsigned v0_2_2 = state.timer[2];
    unsigned v0_3_2 = state.timer[3];
    unsigned v0_4 = state.timer[4];
    unsigned v0_5 = state.timer[5];
    unsigned v0_6 = state.timer[6];
    unsigned v0_7 = state.timer[7];
    int v1_0_2 = state.speed[0];
    int v1_1_2 = state.speed[1];
    int v1_2 = state.speed[2];
    int v1_3 = state.speed[3];
    int v1_4 = state.speed[4];
    int v1_5 = state.speed[5];
    int v1_6 = state.speed[6];
    int v1_7 = state.speed[7];
    if (crossed) {
        const unsigned timer = __umulhi(v0_1, 5u) + 1u;
        const unsigned timer_2 = __umulhi(v0_2, 5u) + 1u;
        const unsigned timer_3 = __umulhi(v0_3, 5u) + 1u;
        unsigned v0_0_3 = environment;
        unsigned v0_1_3 = step_low;
        unsigned v0_2_3 = step_high;
        unsigned v0_3_3 = t1 | 1u;
        unsigned v1_0_3 = seed_low;
        unsigned v1_1_3 = seed_high;
        #pragma unroll
        for (unsigned i_2 = 0u; i_2 < 10u; ++i_2) {
            const unsigned v0_0_3_before = v0_0_3;
            const unsigned v0_1_3_before = v0_1_3;
            const unsigned v0_2_3_before = v0_2_3;
            const unsigned v0_3_3_before = v0_3_3;
            const unsigned v1_0_3_before = v1_0_3;
            const unsigned v1_1_3_before = v1_1_3;
            v0_0_3 = (__umulhi(0xcd9e8d57u, v0_2_3_before) ^ v0_1_3_before) ^ v1_0_3_before;
            v0_1_3 = 0xcd9e8d57u * v0_2_3_before;
            v0_2_3 = (__umulhi(0xd2511f53u, v0_0_3_before) ^ v0_3_3_before) ^ v1_1_3_before;
            v0_3_3 = 0xd2511f53u * v0_0_3_before;
            v1_0_3 = v1_0_3_before + 0x9e3779b9u;
            v1_1_3 = v1_1_3_before + 0xbb67ae85u;
        }
        const unsigned timer_4 = __umulhi(v0_0_3, 5u) + 1u;
        const unsigned timer_5 = __umulhi(v0_1_3, 5u) + 1u;
        const unsigned timer_6 = __umulhi(v0_2_3, 5u) + 1u;
        const unsigned timer_7 = __umulhi(v0_3_3, 5u) + 1u;
        unsigned v0_0_4 = environment;
        unsigned v0_1_4 = step_low;
        unsigned v0_2_4 = step_high;
        unsigned v0_3_4 = t1 | 2u;
        unsigned v1_0_4 = seed_low;
        unsigned v1_1_4 = seed_high;
        #pragma unroll
        for (unsigned i_3 = 0u; i_3 < 10u; ++i_3) {
            const unsigned v0_0_4_before = v0_0_4;
            const unsigned v0_1_4_before = v0_1_4;
            const unsigned v0_2_4_before = v0_2_4;
            const unsigned v0_3_4_before = v0_3_4;
            const unsigned v1_0_4_before = v1_0_4;
            const unsigned v1_1_4_before = v1_1_4;
            v0_0_4 = (__umulhi(0xcd9e8d57u, v0_2_4_before) ^ v0_1_4_before) ^ v1_0_4_before;
            v0_1_4 = 0xcd9e8d57u * v0_2_4_before;
            v0_2_4 = (__umulhi(0xd2511f53u, v0_0_4_before) ^ v0_3_4_before) ^ v1_1_4_before;
            v0_3_4 = 0xd2511f53u * v0_0_4_before;
            v1_0_4 = v1_0_4_before + 0x9e3779b9u;
            v1_1_4 = v1_1_4_before + 0xbb67ae85u;
        }
        const unsigned timer_8 = __umulhi(v0_0_4, 5u) + 1u;
        const int t5 = (int)timer;
        const int speed = (__fmul_rn(__int2float_rn((int)(v0_1_4 >> 8u)), 5.9604645e-8f) < 0.5f) ? ((int)(0u - (unsigned)t5)) : t5;
        const int t6 = (int)timer_2;
        const int speed_2 = (__fmul_rn(__int2float_rn((int)(v0_2_4 >> 8u)), 5.9604645e-8f) < 0.5f) ? ((int)(0u - (unsigned)t6)) : t6;
        const int t7 = (int)timer_3;
        const int speed_3 = (__fmul_rn(__int2float_rn((int)(v0_3_4 >> 8u)), 5.9604645e-8f) < 0.5f) ? ((int)(0u - (unsigned)t7)) : t7;
        unsigned v0_0_5 = environment;
        unsigned v0_1_5 = step_low;
        unsigned v0_2_5 = step_high;
        unsigned v0_3_5 = t1 | 3u;
        unsigned v1_0_5 = seed_low;
        unsigned v1_1_5 = seed_high;
        #pragma unroll
        for (unsigned i_4 = 0u; i_4 < 10u; ++i_4) {
            const unsigned v0_0_5_before = v0_0_5;
            const unsigned v0_1_5_before = v0_1_5;
            const unsigned v0_2_5_before = v0_2_5;
            const unsigned v0_3_5_before = v0_3_5;
            const unsigned v1_0_5_before = v1_0_5;
            const unsigned v1_1_5_before = v1_1_5;
            v0_0_5 = (__umulhi(0xcd9e8d57u, v0_2_5_before) ^ v0_1_5_before) ^ v1_0_5_before;
            v0_1_5 = 0xcd9e8d57u * v0_2_5_before;
            v0_2_5 = (__umulhi(0xd2511f53u, v0_0_5_before) ^ v0_3_5_before) ^ v1_1_5_before;
            v0_3_5 = 0xd2511f53u * v0_0_5_before;
            v1_0_5 = v1_0_5_before + 0x9e3779b9u;
            v1_1_5 = v1_1_5_before + 0xbb67ae85u;
        }
        const int t8 = (int)timer_4;
        const int speed_4 = (__fmul_rn(__int2float_rn((int)(v0_0_5 >> 8u)), 5.9604645e-8f) < 0.5f) ? ((int)(0u - (unsigned)t8)) : t8;
        const int t9 = (int)timer_5;
        const int speed_5 = (__fmul_rn(__int2float_rn((int)(v0_1_5 >> 8u)), 5.9604645e-8f) < 0.5f) ? ((int)(0u - (unsigned)t9)) : t9;
        const int t10 = (int)timer_6;
        const int speed_6 = (__fmul_rn(__int2float_rn((int)(v0_2_5 >> 8u)), 5.9604645e-8f) < 0.5f) ? ((int)(0u - (unsigned)t10)) : t10;
        const int t11 = (int)timer_7;
        const int speed_7 = (__fmul_rn(__int2float_rn((int)(v0_3_5 >> 8u)), 5.9604645e-8f) < 0.5f) ? ((int)(0u - (unsigned)t11)) : t11;
        unsigned v0_0_6 = environment;
        unsigned v0_1_6 = step_low;
        unsigned v0_2_6 = step_high;
        unsigned v0_3_6 = t1 | 4u;
        unsigned v1_0_6 = seed_low;
        unsigned v1_1_6 = seed_high;
        #pragma unroll
        for (unsigned i_5 = 0u; i_5 < 10u; ++i_5) {
            const unsigned v0_0_6_before = v0_0_6;
            const unsigned v0_1_6_before = v0_1_6;
            const unsigned v0_2_6_before = v0_2_6;
            const unsigned v0_3_6_before = v0_3_6;
            const unsigned v1_0_6_before = v1_0_6;
            const unsigned v1_1_6_before = v1_1_6;
            v0_0_6 = (__umulhi(0xcd9e8d57u, v0_2_6_before) ^ v0_1_6_before) ^ v1_0_6_before;
            v0_1_6 = 0xcd9e8d57u * v0_2_6_before;
            v0_2_6 = (__umulhi(0xd2511f53u, v0_0_6_before) ^ v0_3_6_before) ^ v1_1_6_before;
            v0_3_6 = 0xd2511f53u * v0_0_6_before;
            v1_0_6 = v1_0_6_before + 0x9e3779b9u;
            v1_1_6 = v1_1_6_before + 0xbb67ae85u;
        }
        const int t12 = (int)timer_8;
        const int speed_8 = (__fmul_rn(__int2float_rn((int)(v0_0_6 >> 8u)), 5.9604645e-8f) < 0.5f) ? ((int)(0u - (unsigned)t12)) : t12;
        v0_0_2 = timer;
        v0_1_2 = timer_2;
        v0_2_2 = timer_3;
        v0_3_2 = timer_4;
        v0_4 = timer_5;
        v0_5 = timer_6;
        v0_6 = timer_7;
        v0_7 = timer_8;
        v1_0_2 = speed;
        v1_1_2 = speed_2;
        v1_2 = speed_3;
        v1_3 = speed_4;
        v1_4 = speed_5;
        v1_5 = speed_6;
        v1_6 = speed_7;
        v1_7 = speed_8;
    }
    const unsigned y_2 = crossed ? 9u : y;
    const bool t13 = v0_0_2 == 0u;
    const unsigned t14 = (0 < v1_0_2) ? ((state.x[0] == 9u) ? 0u : (state.x[0] + 1u)) : ((state.x[0] == 0u) ? 9u : (state.x[0] - 1u));
    const unsigned x = t13 ? t14 : state.x[0];
    const int t15 = (int)(0u - (unsigned)v1_0_2);
    const unsigned timer_9 = t13 ? ((unsigned)((t15 < v1_0_2) ? v1_0_2 : t15)) : (v0_0_2 - 1u);
    const bool hit = false || ((y_2 == 1u) && ((state.x[0] == 4u) || (x == 4u)));
    const bool t16 = v0_1_2 == 0u;
    const unsigned t17 = (0 < v1_1_2) ? ((state.x[1] == 9u) ? 0u : (state.x[1] + 1u)) : ((state.x[1] == 0u) ? 9u : (state.x[1] - 1u));
    const unsigned x_2 = t16 ? t17 : state.x[1];
    const int t18 = (int)(0u - (unsigned)v1_1_2);
    const unsigned timer_10 = t16 ? ((unsigned)((t18 < v1_1_2) ? v1_1_2 : t18)) : (v0_1_2 - 1u);
    const bool hit_2 = hit || ((y_2 == 2u) && ((state.x[1] == 4u) || (x_2 == 4u)));
    const bool t19 = v0_2_2 == 0u;
    const unsigned t20 = (0 < v1_2) ? ((state.x[2] == 9u) ? 0u : (state.x[2] + 1u)) : ((state.x[2] == 0u) ? 9u : (state.x[2] - 1u));
    const unsigned x_3 = t19 ? t20 : state.x[2];
    const int t21 = (int)(0u - (unsigned)v1_2);
    const unsigned timer_11 = t19 ? ((unsigned)((t21 < v1_2) ? v1_2 : t21)) : (v0_2_2 - 1u);
    const bool hit_3 = hit_2 || ((y_2 == 3u) && ((state.x[2] == 4u) || (x_3 == 4u)));
    const bool t22 = v0_3_2 == 0u;
    const unsigned t23 = (0 < v1_3) ? ((state.x[3] == 9u) ? 0u : (state.x[3] + 1u)) : ((state.x[3] == 0u) ? 9u : (state.x[3] - 1u));
    const unsigned x_4 = t22 ? t23 : state.x[3];
    const int t24 = (int)(0u - (unsigned)v1_3);
    const unsigned timer_12 = t22 ? ((unsigned)((t24 < v1_3) ? v1_3 : t24)) : (v0_3_2 - 1u);
    const bool hit_4 = hit_3 || ((y_2 == 4u) && ((state.x[3] == 4u) || (x_4 == 4u)));
    const bool t25 = v0_4 == 0u;
    const unsigned t26 = (0 < v1_4) ? ((state.x[4] == 9u) ? 0u : (state.x[4] + 1u)) : ((state.x[4] == 0u) ? 9u : (state.x[4] - 1u));
    const unsigned x_5 = t25 ? t26 : state.x[4];
    const int t27 = (int)(0u - (unsigned)v1_4);
    const unsigned timer_13 = t25 ? ((unsigned)((t27 < v1_4) ? v1_4 : t27)) : (v0_4 - 1u);
    const bool hit_5 = hit_4 || ((y_2 == 5u) && ((state.x[4] == 4u) || (x_5 == 4u)));
    const bool t28 = v0_5 == 0u;
    const unsigned t29 = (0 < v1_5) ? ((state.x[5] == 9u) ? 0u : (state.x[5] + 1u)) : ((state.x[5] == 0u) ? 9u : (state.x[5] - 1u));
    const unsigned x_6 = t28 ? t29 : state.x[5];
    const int t30 = (int)(0u - (unsigned)v1_5);
    const unsigned timer_14 = t28 ? ((unsigned)((t30 < v1_5) ? v1_5 : t30)) : (v0_5 - 1u);
    const bool hit_6 = hit_5 || ((y_2 == 6u) && ((state.x[5] == 4u) || (x_6 == 4u)));
    const bool t31 = v0_6 == 0u;
    const unsigned t32 = (0 < v1_6) ? ((state.x[6] == 9u) ? 0u : (state.x[6] + 1u)) : ((state.x[6] == 0u) ? 9u : (state.x[6] - 1u));
    const unsigned x_7 = t31 ? t32 : state.x[6];
    const int t33 = (int)(0u - (unsigned)v1_6);
    const unsigned timer_15 = t31 ? ((unsigned)((t33 < v1_6) ? v1_6 : t33)) : (v0_6 - 1u);
    const bool hit_7 = hit_6 || ((y_2 == 7u) && ((state.x[6] == 4u) || (x_7 == 4u)));
    const bool t34 = v0_7 == 0u;
    const unsigned t35 = (0 < v1_7) ? ((state.x[7] == 9u) ? 0u : (state.x[7] + 1u)) : ((state.x[7] == 0u) ? 9u : (state.x[7] - 1u));
    const unsigned x_8 = t34 ? t35 : state.x[7];
    const int t36 = (int)(0u - (unsigned)v1_7);
    const unsigned timer_16 = t34 ? ((unsigned)((t36 < v1_7) ? v1_7 : t36)) : (v0_7 - 1u);
    const bool hit_8 = hit_7 || ((y_2 == 8u) && ((state.x[7] == 4u) || (x_8 == 4u)));
    const int time_left = (int)((unsigned)state.time_left - (unsigned)1);
    next.y = hit_8 ? 9u : y_2;
    next.move_timer = ((1u < t4) ? t4 : 1u) - 1u;
    next.time_left = time_left;
    next.x[0] = x;
    next.x[1] = x_2;
    next.x[2] = x_3;
    next.x[3] = x_4;
    next.x[4] = x_5;
    next.x[5] = x_6;
    next.x[6] = x_7;
    next.x[7] = x_8;
    next.timer[0] = timer_9;
    next.timer[1] = timer_10;
    next.timer[2] = timer_11;
    next.timer[3] = timer_12;
    next.timer[4] = timer_13;
    next.timer[5] = timer_14;
    next.timer[6] = timer_15;
    next.timer[7] = timer_16;
    next.speed[0] = v1_0_2;
    next.speed[1] = v1_1_2;
    next.speed[2] = v1_2;
    next.speed[3] = v1_3;
    next.speed[4] = v1_4;
    next.speed[5] = v1_5;
    next.speed[6] = v1_6;
    next.speed[7] = v1_7;
    next.last_action = executed;
    reward = crossed ? 1.0f : 0.0f;
    terminated = time_left < 0;
}

__device__ __forceinline__ void env_observe(
    const EnvState& state, unsigned* obs) {
    const unsigned t1 = (state.y * 70u) + 28u;
    const unsigned t2 = (state.speed[0] < 0) ? ((state.x[0] == 9u) ? 0u : (state.x[0] + 1u)) : ((state.x[0] == 0u) ? 9u : (state.x[0] - 1u));
    const int t3 = (int)(0u - (unsigned)state.speed[0]);
    const unsigned trail = (70u + (t2 * 7u)) + (((unsigned)((t3 < state.speed[0]) ? state.speed[0] : t3)) + 1u);
    const unsigned car = (70u + (state.x[0] * 7u)) + 1u;
    const unsigned t4 = (state.speed[1] < 0) ? ((state.x[1] == 9u) ? 0u : (state.x[1] + 1u)) : ((state.x[1] == 0u) ? 9u : (state.x[1] - 1u));
    const int t5 = (int)(0u - (unsigned)state.speed[1]);
    const unsigned trail_2 = (140u + (t4 * 7u)) + (((unsigned)((t5 < state.speed[1]) ? state.speed[1] : t5)) + 1u);
    const unsigned car_2 = (140u + (state.x[1] * 7u)) + 1u;
    const unsigned t6 = (state.speed[2] < 0) ? ((state.x[2] == 9u) ? 0u : (state.x[2] + 1u)) : ((state.x[2] == 0u) ? 9u : (state.x[2] - 1u));
    const int t7 = (int)(0u - (unsigned)state.speed[2]);
    const unsigned trail_3 = (210u + (t6 * 7u)) + (((unsigned)((t7 < state.speed[2]) ? state.speed[2] : t7)) + 1u);
    const unsigned car_3 = (210u + (state.x[2] * 7u)) + 1u;
    const unsigned t8 = (state.speed[3] < 0) ? ((state.x[3] == 9u) ? 0u : (state.x[3] + 1u)) : ((state.x[3] == 0u) ? 9u : (state.x[3] - 1u));
    const int t9 = (int)(0u - (unsigned)state.speed[3]);
    const unsigned trail_4 = (280u + (t8 * 7u)) + (((unsigned)((t9 < state.speed[3]) ? state.speed[3] : t9)) + 1u);
    const unsigned car_4 = (280u + (state.x[3] * 7u)) + 1u;
    const unsigned t10 = (state.speed[4] < 0) ? ((state.x[4] == 9u) ? 0u : (state.x[4] + 1u)) : ((state.x[4] == 0u) ? 9u : (state.x[4] - 1u));
    const int t11 = (int)(0u - (unsigned)state.speed[4]);
    const unsigned trail_5 = (350u + (t10 * 7u)) + (((unsigned)((t11 < state.speed[4]) ? state.speed[4] : t11)) + 1u);
    const unsigned car_5 = (350u + (state.x[4] * 7u)) + 1u;
    const unsigned t12 = (state.speed[5] < 0) ? ((state.x[5] == 9u) ? 0u : (state.x[5] + 1u)) : ((state.x[5] == 0u) ? 9u : (state.x[5] - 1u));
    const int t13 = (int)(0u - (unsigned)state.speed[5]);
    const unsigned trail_6 = (420u + (t12 * 7u)) + (((unsigned)((t13 < state.speed[5]) ? state.speed[5] : t13)) + 1u);
    const unsigned car_6 = (420u + (state.x[5] * 7u)) + 1u;
    const unsigned t14 = (state.speed[6] < 0) ? ((state.x[6] == 9u) ? 0u : (state.x[6] + 1u)) : ((state.x[6] == 0u) ? 9u : (state.x[6] - 1u));
    const int t15 = (int)(0u - (unsigned)state.speed[6]);
    const unsigned trail_7 = (490u + (t14 * 7u)) + (((unsigned)((t15 < state.speed[6]) ? state.speed[6] : t15)) + 1u);
    const unsigned car_7 = (490u + (state.x[6] * 7u)) + 1u;
    const unsigned t16 = (state.speed[7] < 0) ? ((state.x[7] == 9u) ? 0u : (state.x[7] + 1u)) : ((state.x[7] == 0u) ? 9u : (state.x[7] - 1u));
    const int t17 = (int)(0u - (unsigned)state.speed[7]);
    const unsigned trail_8 = (560u + (t16 * 7u)) + (((unsigned)((t17 < state.speed[7]) ? state.speed[7] : t17)) + 1u);
    const unsigned car_8 = (560u + (state.x[7] * 7u)) + 1u;
    const unsigned t18 = t1 >> 5u;
    const unsigned t19 = 1u << (t1 & 31u);
    const unsigned t20 = car >> 5u;
    const unsigned t21 = 1u << (car & 31u);
    const unsigned t22 = trail >> 5u;
    const unsigned t23 = 1u << (trail & 31u);
    const unsigned t24 = car_2 >> 5u;
    const unsigned t25 = 1u << (car_2 & 31u);
    const unsigned t26 = ((((t18 == 4u) ? t19 : 0u) | ((t20 == 4u) ? t21 : 0u)) | ((t22 == 4u) ? t23 : 0u)) | ((t24 == 4u) ? t25 : 0u);
    const unsigned t27 = trail_2 >> 5u;
    const unsigned t28 = 1u << (trail_2 & 31u);
    const unsigned t29 = car_3 >> 5u;
    const unsigned t30 = 1u << (car_3 & 31u);
    const unsigned t31 = ((((t18 == 6u) ? t19 : 0u) | ((t24 == 6u) ? t25 : 0u)) | ((t27 == 6u) ? t28 : 0u)) | ((t29 == 6u) ? t30 : 0u);
    const unsigned t32 = trail_3 >> 5u;
    const unsigned t33 = 1u << (trail_3 & 31u);
    const unsigned t34 = car_4 >> 5u;
    const unsigned t35 = 1u << (car_4 & 31u);
    const unsigned t36 = ((((t18 == 8u) ? t19 : 0u) | ((t29 == 8u) ? t30 : 0u)) | ((t32 == 8u) ? t33 : 0u)) | ((t34 == 8u) ? t35 : 0u);
    const unsigned t37 = trail_4 >> 5u;
    const unsigned t38 = 1u << (trail_4 & 31u);
    const unsigned t39 = car_5 >> 5u;
    const unsigned t40 = 1u << (car_5 & 31u);
    const unsigned t41 = ((((t18 == 10u) ? t19 : 0u) | ((t34 == 10u) ? t35 : 0u)) | ((t37 == 10u) ? t38 : 0u)) | ((t39 == 10u) ? t40 : 0u);
    const unsigned t42 = trail_5 >> 5u;
    const unsigned t43 = 1u << (trail_5 & 31u);
    const unsigned t44 = car_6 >> 5u;
    const unsigned t45 = 1u << (car_6 & 31u);
    const unsigned t46 = ((((t18 == 13u) ? t19 : 0u) | ((t39 == 13u) ? t40 : 0u)) | ((t42 == 13u) ? t43 : 0u)) | ((t44 == 13u) ? t45 : 0u);
    const unsigned t47 = trail_6 >> 5u;
    const unsigned t48 = 1u << (trail_6 & 31u);
    const unsigned t49 = car_7 >> 5u;
    const unsigned t50 = 1u << (car_7 & 31u);
    const unsigned t51 = ((((t18 == 15u) ? t19 : 0u) | ((t44 == 15u) ? t45 : 0u)) | ((t47 == 15u) ? t48 : 0u)) | ((t49 == 15u) ? t50 : 0u);
    const unsigned t52 = trail_7 >> 5u;
    const unsigned t53 = 1u << (trail_7 & 31u);
    const unsigned t54 = car_8 >> 5u;
    const unsigned t55 = 1u << (car_8 & 31u);
    const unsigned t56 = ((((t18 == 17u) ? t19 : 0u) | ((t49 == 17u) ? t50 : 0u)) | ((t52 == 17u) ? t53 : 0u)) | ((t54 == 17u) ? t55 : 0u);
    const unsigned t57 = trail_8 >> 5u;
    const unsigned t58 = 1u << (trail_8 & 31u);
    obs[0] = 0u;
    obs[1] = 0u;
    obs[2] = (((t18 == 2u) ? t19 : 0u) | ((t20 == 2u) ? t21 : 0u)) | ((t22 == 2u) ? t23 : 0u);
    obs[3] = (((t18 == 3u) ? t19 : 0u) | ((t20 == 3u) ? t21 : 0u)) | ((t22 == 3u) ? t23 : 0u);
    obs[4] = t26 | ((t27 == 4u) ? t28 : 0u);
    obs[5] = (((t18 == 5u) ? t19 : 0u) | ((t24 == 5u) ? t25 : 0u)) | ((t27 == 5u) ? t28 : 0u);
    obs[6] = t31 | ((t32 == 6u) ? t33 : 0u);
    obs[7] = (((t18 == 7u) ? t19 : 0u) | ((t29 == 7u) ? t30 : 0u)) | ((t32 == 7u) ? t33 : 0u);
    obs[8] = t36 | ((t37 == 8u) ? t38 : 0u);
    obs[9] = (((t18 == 9u) ? t19 : 0u) | ((t34 == 9u) ? t35 : 0u)) | ((t37 == 9u) ? t38 : 0u);
    obs[10] = t41 | ((t42 == 10u) ? t43 : 0u);
    obs[11] = (((t18 == 11u) ? t19 : 0u) | ((t39 == 11u) ? t40 : 0u)) | ((t42 == 11u) ? t43 : 0u);
    obs[12] = (((t18 == 12u) ? t19 : 0u) | ((t39 == 12u) ? t40 : 0u)) | ((t42 == 12u) ? t43 : 0u);
    obs[13] = t46 | ((t47 == 13u) ? t48 : 0u);
    obs[14] = (((t18 == 14u) ? t19 : 0u) | ((t44 == 14u) ? t45 : 0u)) | ((t47 == 14u) ? t48 : 0u);
    obs[15] = t51 | ((t52 == 15u) ? t53 : 0u);
    obs[16] = (((t18 == 16u) ? t19 : 0u) | ((t49 == 16u) ? t50 : 0u)) | ((t52 == 16u) ? t53 : 0u);
    obs[17] = t56 | ((t57 == 17u) ? t58 : 0u);
    obs[18] = (((t18 == 18u) ? t19 : 0u) | ((t54 == 18u) ? t55 : 0u)) | ((t57 == 18u) ? t58 : 0u);
    obs[19] = (((t18 == 19u) ? t19 : 0u) | ((t54 == 19u) ? t55 : 0u)) | ((t57 == 19u) ? t58 : 0u);
    obs[20] = (t18 == 20u) ? t19 : 0u;
    obs[21] = (t18 == 21u) ? t19 : 0u;
}
