// game_2048: slide and merge tiles on a 4x4 board; the reward is the sum of merged tiles.
// Emitted from the environment's rules by `operant emit`; do not edit.
#pragma once

constexpr unsigned ENV_TIME_LIMIT = 4294967294u;
constexpr unsigned ENV_OBS = 288u;         // numbers the policy sees
constexpr unsigned ENV_OBS_WORDS = 4u;   // words they are stored in
constexpr unsigned ENV_STATE_WORDS = 16u;   // words of a state
constexpr unsigned ENV_ACTIONS = 4u;   // logits
constexpr unsigned ENV_COMPONENTS = 1u;   // numbers that name an action
#define ENV_DISCRETE 1   // choices, or real numbers between bounds
#define ENV_MASKED 1   // whether env_legal forbids choices
using EnvAction = unsigned;
__device__ __forceinline__ constexpr unsigned env_choices(unsigned) { return 4u; }

struct EnvState {
    unsigned cells[16];
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
    const unsigned chosen = __umulhi(v0_0, 16u);
    const unsigned exponent = (__fmul_rn(__int2float_rn((int)(v0_1 >> 8u)), 5.9604645e-8f) < 0.1f) ? 2u : 1u;
    const unsigned cell = (true && (0u == chosen)) ? exponent : 0u;
    const unsigned cell_2 = (true && (1u == chosen)) ? exponent : 0u;
    const unsigned cell_3 = (true && (2u == chosen)) ? exponent : 0u;
    const unsigned cell_4 = (true && (3u == chosen)) ? exponent : 0u;
    const unsigned cell_5 = (true && (4u == chosen)) ? exponent : 0u;
    const unsigned cell_6 = (true && (5u == chosen)) ? exponent : 0u;
    const unsigned cell_7 = (true && (6u == chosen)) ? exponent : 0u;
    const unsigned cell_8 = (true && (7u == chosen)) ? exponent : 0u;
    const unsigned cell_9 = (true && (8u == chosen)) ? exponent : 0u;
    const unsigned cell_10 = (true && (9u == chosen)) ? exponent : 0u;
    const unsigned cell_11 = (true && (10u == chosen)) ? exponent : 0u;
    const unsigned cell_12 = (true && (11u == chosen)) ? exponent : 0u;
    const unsigned cell_13 = (true && (12u == chosen)) ? exponent : 0u;
    const unsigned cell_14 = (true && (13u == chosen)) ? exponent : 0u;
    const unsigned cell_15 = (true && (14u == chosen)) ? exponent : 0u;
    const unsigned cell_16 = (true && (15u == chosen)) ? exponent : 0u;
    const bool t1 = cell == 0u;
    const unsigned t2 = 0u + (t1 ? 1u : 0u);
    const bool t3 = cell_2 == 0u;
    const unsigned t4 = t2 + (t3 ? 1u : 0u);
    const bool t5 = cell_3 == 0u;
    const unsigned t6 = t4 + (t5 ? 1u : 0u);
    const bool t7 = cell_4 == 0u;
    const unsigned t8 = t6 + (t7 ? 1u : 0u);
    const bool t9 = cell_5 == 0u;
    const unsigned t10 = t8 + (t9 ? 1u : 0u);
    const bool t11 = cell_6 == 0u;
    const unsigned t12 = t10 + (t11 ? 1u : 0u);
    const bool t13 = cell_7 == 0u;
    const unsigned t14 = t12 + (t13 ? 1u : 0u);
    const bool t15 = cell_8 == 0u;
    const unsigned t16 = t14 + (t15 ? 1u : 0u);
    const bool t17 = cell_9 == 0u;
    const unsigned t18 = t16 + (t17 ? 1u : 0u);
    const bool t19 = cell_10 == 0u;
    const unsigned t20 = t18 + (t19 ? 1u : 0u);
    const bool t21 = cell_11 == 0u;
    const unsigned t22 = t20 + (t21 ? 1u : 0u);
    const bool t23 = cell_12 == 0u;
    const unsigned t24 = t22 + (t23 ? 1u : 0u);
    const bool t25 = cell_13 == 0u;
    const unsigned t26 = t24 + (t25 ? 1u : 0u);
    const bool t27 = cell_14 == 0u;
    const unsigned t28 = t26 + (t27 ? 1u : 0u);
    const bool t29 = cell_15 == 0u;
    const unsigned t30 = t28 + (t29 ? 1u : 0u);
    const bool t31 = cell_16 == 0u;
    const unsigned count = t30 + (t31 ? 1u : 0u);
    const unsigned chosen_2 = __umulhi(v0_2, count);
    const unsigned exponent_2 = (__fmul_rn(__int2float_rn((int)(v0_3 >> 8u)), 5.9604645e-8f) < 0.1f) ? 2u : 1u;
    const unsigned cell_17 = ((true && t1) && (0u == chosen_2)) ? exponent_2 : cell;
    const unsigned cell_18 = ((true && t3) && (t2 == chosen_2)) ? exponent_2 : cell_2;
    const unsigned cell_19 = ((true && t5) && (t4 == chosen_2)) ? exponent_2 : cell_3;
    const unsigned cell_20 = ((true && t7) && (t6 == chosen_2)) ? exponent_2 : cell_4;
    const unsigned cell_21 = ((true && t9) && (t8 == chosen_2)) ? exponent_2 : cell_5;
    const unsigned cell_22 = ((true && t11) && (t10 == chosen_2)) ? exponent_2 : cell_6;
    const unsigned cell_23 = ((true && t13) && (t12 == chosen_2)) ? exponent_2 : cell_7;
    const unsigned cell_24 = ((true && t15) && (t14 == chosen_2)) ? exponent_2 : cell_8;
    const unsigned cell_25 = ((true && t17) && (t16 == chosen_2)) ? exponent_2 : cell_9;
    const unsigned cell_26 = ((true && t19) && (t18 == chosen_2)) ? exponent_2 : cell_10;
    const unsigned cell_27 = ((true && t21) && (t20 == chosen_2)) ? exponent_2 : cell_11;
    const unsigned cell_28 = ((true && t23) && (t22 == chosen_2)) ? exponent_2 : cell_12;
    const unsigned cell_29 = ((true && t25) && (t24 == chosen_2)) ? exponent_2 : cell_13;
    const unsigned cell_30 = ((true && t27) && (t26 == chosen_2)) ? exponent_2 : cell_14;
    const unsigned cell_31 = ((true && t29) && (t28 == chosen_2)) ? exponent_2 : cell_15;
    const unsigned cell_32 = ((true && t31) && (t30 == chosen_2)) ? exponent_2 : cell_16;
    next.cells[0] = cell_17;
    next.cells[1] = cell_18;
    next.cells[2] = cell_19;
    next.cells[3] = cell_20;
    next.cells[4] = cell_21;
    next.cells[5] = cell_22;
    next.cells[6] = cell_23;
    next.cells[7] = cell_24;
    next.cells[8] = cell_25;
    next.cells[9] = cell_26;
    next.cells[10] = cell_27;
    next.cells[11] = cell_28;
    next.cells[12] = cell_29;
    next.cells[13] = cell_30;
    next.cells[14] = cell_31;
    next.cells[15] = cell_32;
}

__device__ __forceinline__ void env_step(
    const EnvState& state, const unsigned* action,
    unsigned seed_low, unsigned seed_high, unsigned environment, unsigned step_low, unsigned step_high, unsigned purpose,
    EnvState& next, float& reward, bool& terminated) {
    const bool t1 = (action[0] & 1u) == 0u;
    const bool t2 = (action[0] & 2u) == 0u;
    const unsigned t3 = t1 ? (t2 ? state.cells[0] : state.cells[12]) : (t2 ? state.cells[3] : state.cells[0]);
    const unsigned t4 = t1 ? (t2 ? state.cells[4] : state.cells[8]) : (t2 ? state.cells[2] : state.cells[1]);
    const unsigned t5 = t1 ? (t2 ? state.cells[8] : state.cells[4]) : (t2 ? state.cells[1] : state.cells[2]);
    const unsigned t6 = t1 ? (t2 ? state.cells[12] : state.cells[0]) : (t2 ? state.cells[0] : state.cells[3]);
    const bool t7 = t3 == 0u;
    const unsigned t8 = t7 ? t4 : t3;
    const unsigned t9 = t7 ? 0u : t4;
    const bool t10 = t9 == 0u;
    const unsigned t11 = t10 ? t5 : t9;
    const unsigned t12 = t10 ? 0u : t5;
    const bool t13 = t12 == 0u;
    const unsigned t14 = t13 ? t6 : t12;
    const unsigned t15 = t13 ? 0u : t6;
    const bool t16 = t8 == 0u;
    const unsigned t17 = t16 ? t11 : t8;
    const unsigned t18 = t16 ? 0u : t11;
    const bool t19 = t18 == 0u;
    const unsigned t20 = t19 ? t14 : t18;
    const unsigned t21 = t19 ? 0u : t14;
    const bool t22 = t17 == 0u;
    const unsigned t23 = t22 ? t20 : t17;
    const unsigned t24 = t22 ? 0u : t20;
    const bool t25 = (t23 == t24) && (!(t23 == 0u));
    const unsigned exponent = t25 ? (t23 + 1u) : t23;
    const unsigned t26 = t25 ? t21 : t24;
    const unsigned t27 = t25 ? t15 : t21;
    const unsigned t28 = t25 ? 0u : t15;
    const bool t29 = (t26 == t27) && (!(t26 == 0u));
    const unsigned exponent_2 = t29 ? (t26 + 1u) : t26;
    const unsigned t30 = t29 ? t28 : t27;
    const unsigned t31 = t29 ? 0u : t28;
    const bool t32 = (t30 == t31) && (!(t30 == 0u));
    const unsigned exponent_3 = t32 ? (t30 + 1u) : t30;
    const unsigned merged = ((0u + (t25 ? (1u << (exponent & 31u)) : 0u)) + (t29 ? (1u << (exponent_2 & 31u)) : 0u)) + (t32 ? (1u << (exponent_3 & 31u)) : 0u);
    const unsigned exponent_4 = t32 ? 0u : t31;
    const unsigned t33 = t1 ? (t2 ? state.cells[1] : state.cells[13]) : (t2 ? state.cells[7] : state.cells[4]);
    const unsigned t34 = t1 ? (t2 ? state.cells[5] : state.cells[9]) : (t2 ? state.cells[6] : state.cells[5]);
    const unsigned t35 = t1 ? (t2 ? state.cells[9] : state.cells[5]) : (t2 ? state.cells[5] : state.cells[6]);
    const unsigned t36 = t1 ? (t2 ? state.cells[13] : state.cells[1]) : (t2 ? state.cells[4] : state.cells[7]);
    const bool t37 = t33 == 0u;
    const unsigned t38 = t37 ? t34 : t33;
    const unsigned t39 = t37 ? 0u : t34;
    const bool t40 = t39 == 0u;
    const unsigned t41 = t40 ? t35 : t39;
    const unsigned t42 = t40 ? 0u : t35;
    const bool t43 = t42 == 0u;
    const unsigned t44 = t43 ? t36 : t42;
    const unsigned t45 = t43 ? 0u : t36;
    const bool t46 = t38 == 0u;
    const unsigned t47 = t46 ? t41 : t38;
    const unsigned t48 = t46 ? 0u : t41;
    const bool t49 = t48 == 0u;
    const unsigned t50 = t49 ? t44 : t48;
    const unsigned t51 = t49 ? 0u : t44;
    const bool t52 = t47 == 0u;
    const unsigned t53 = t52 ? t50 : t47;
    const unsigned t54 = t52 ? 0u : t50;
    const bool t55 = (t53 == t54) && (!(t53 == 0u));
    const unsigned exponent_5 = t55 ? (t53 + 1u) : t53;
    const unsigned t56 = t55 ? t51 : t54;
    const unsigned t57 = t55 ? t45 : t51;
    const unsigned t58 = t55 ? 0u : t45;
    const bool t59 = (t56 == t57) && (!(t56 == 0u));
    const unsigned exponent_6 = t59 ? (t56 + 1u) : t56;
    const unsigned t60 = t59 ? t58 : t57;
    const unsigned t61 = t59 ? 0u : t58;
    const bool t62 = (t60 == t61) && (!(t60 == 0u));
    const unsigned exponent_7 = t62 ? (t60 + 1u) : t60;
    const unsigned merged_2 = ((0u + (t55 ? (1u << (exponent_5 & 31u)) : 0u)) + (t59 ? (1u << (exponent_6 & 31u)) : 0u)) + (t62 ? (1u << (exponent_7 & 31u)) : 0u);
    const unsigned exponent_8 = t62 ? 0u : t61;
    const unsigned t63 = t1 ? (t2 ? state.cells[2] : state.cells[14]) : (t2 ? state.cells[11] : state.cells[8]);
    const unsigned t64 = t1 ? (t2 ? state.cells[6] : state.cells[10]) : (t2 ? state.cells[10] : state.cells[9]);
    const unsigned t65 = t1 ? (t2 ? state.cells[10] : state.cells[6]) : (t2 ? state.cells[9] : state.cells[10]);
    const unsigned t66 = t1 ? (t2 ? state.cells[14] : state.cells[2]) : (t2 ? state.cells[8] : state.cells[11]);
    const bool t67 = t63 == 0u;
    const unsigned t68 = t67 ? t64 : t63;
    const unsigned t69 = t67 ? 0u : t64;
    const bool t70 = t69 == 0u;
    const unsigned t71 = t70 ? t65 : t69;
    const unsigned t72 = t70 ? 0u : t65;
    const bool t73 = t72 == 0u;
    const unsigned t74 = t73 ? t66 : t72;
    const unsigned t75 = t73 ? 0u : t66;
    const bool t76 = t68 == 0u;
    const unsigned t77 = t76 ? t71 : t68;
    const unsigned t78 = t76 ? 0u : t71;
    const bool t79 = t78 == 0u;
    const unsigned t80 = t79 ? t74 : t78;
    const unsigned t81 = t79 ? 0u : t74;
    const bool t82 = t77 == 0u;
    const unsigned t83 = t82 ? t80 : t77;
    const unsigned t84 = t82 ? 0u : t80;
    const bool t85 = (t83 == t84) && (!(t83 == 0u));
    const unsigned exponent_9 = t85 ? (t83 + 1u) : t83;
    const unsigned t86 = t85 ? t81 : t84;
    const unsigned t87 = t85 ? t75 : t81;
    const unsigned t88 = t85 ? 0u : t75;
    const bool t89 = (t86 == t87) && (!(t86 == 0u));
    const unsigned exponent_10 = t89 ? (t86 + 1u) : t86;
    const unsigned t90 = (0u + (t85 ? (1u << (exponent_9 & 31u)) : 0u)) + (t89 ? (1u << (exponent_10 & 31u)) : 0u);
    const unsigned t91 = t89 ? t88 : t87;
    const unsigned t92 = t89 ? 0u : t88;
    const bool t93 = (t91 == t92) && (!(t91 == 0u));
    const unsigned exponent_11 = t93 ? (t91 + 1u) : t91;
    const unsigned merged_3 = t90 + (t93 ? (1u << (exponent_11 & 31u)) : 0u);
    const unsigned exponent_12 = t93 ? 0u : t92;
    const unsigned t94 = t1 ? (t2 ? state.cells[3] : state.cells[15]) : (t2 ? state.cells[15] : state.cells[12]);
    const unsigned t95 = t1 ? (t2 ? state.cells[7] : state.cells[11]) : (t2 ? state.cells[14] : state.cells[13]);
    const unsigned t96 = t1 ? (t2 ? state.cells[11] : state.cells[7]) : (t2 ? state.cells[13] : state.cells[14]);
    const unsigned t97 = t1 ? (t2 ? state.cells[15] : state.cells[3]) : (t2 ? state.cells[12] : state.cells[15]);
    const bool t98 = t94 == 0u;
    const unsigned t99 = t98 ? t95 : t94;
    const unsigned t100 = t98 ? 0u : t95;
    const bool t101 = t100 == 0u;
    const unsigned t102 = t101 ? t96 : t100;
    const unsigned t103 = t101 ? 0u : t96;
    const bool t104 = t103 == 0u;
    const unsigned t105 = t104 ? t97 : t103;
    const unsigned t106 = t104 ? 0u : t97;
    const bool t107 = t99 == 0u;
    const unsigned t108 = t107 ? t102 : t99;
    const unsigned t109 = t107 ? 0u : t102;
    const bool t110 = t109 == 0u;
    const unsigned t111 = t110 ? t105 : t109;
    const unsigned t112 = t110 ? 0u : t105;
    const bool t113 = t108 == 0u;
    const unsigned t114 = t113 ? t111 : t108;
    const unsigned t115 = t113 ? 0u : t111;
    const bool t116 = (t114 == t115) && (!(t114 == 0u));
    const unsigned exponent_13 = t116 ? (t114 + 1u) : t114;
    const unsigned t117 = t116 ? t112 : t115;
    const unsigned t118 = t116 ? t106 : t112;
    const unsigned t119 = t116 ? 0u : t106;
    const bool t120 = (t117 == t118) && (!(t117 == 0u));
    const unsigned exponent_14 = t120 ? (t117 + 1u) : t117;
    const unsigned t121 = (0u + (t116 ? (1u << (exponent_13 & 31u)) : 0u)) + (t120 ? (1u << (exponent_14 & 31u)) : 0u);
    const unsigned t122 = t120 ? t119 : t118;
    const unsigned t123 = t120 ? 0u : t119;
    const bool t124 = (t122 == t123) && (!(t122 == 0u));
    const unsigned exponent_15 = t124 ? (t122 + 1u) : t122;
    const unsigned merged_4 = t121 + (t124 ? (1u << (exponent_15 & 31u)) : 0u);
    const unsigned exponent_16 = t124 ? 0u : t123;
    const unsigned t125 = t2 ? exponent : exponent_4;
    const unsigned t126 = t2 ? exponent_4 : exponent;
    const unsigned t127 = t1 ? t125 : t126;
    const unsigned t128 = t2 ? exponent_5 : exponent_8;
    const unsigned t129 = t2 ? exponent_3 : exponent_2;
    const unsigned t130 = t1 ? t128 : t129;
    const unsigned t131 = t2 ? exponent_9 : exponent_12;
    const unsigned t132 = t2 ? exponent_2 : exponent_3;
    const unsigned t133 = t1 ? t131 : t132;
    const unsigned t134 = t2 ? exponent_13 : exponent_16;
    const unsigned t135 = t1 ? t134 : t125;
    const unsigned t136 = t2 ? exponent_8 : exponent_5;
    const unsigned t137 = t1 ? t132 : t136;
    const unsigned t138 = t2 ? exponent_6 : exponent_7;
    const unsigned t139 = t2 ? exponent_7 : exponent_6;
    const unsigned t140 = t1 ? t138 : t139;
    const unsigned t141 = t2 ? exponent_10 : exponent_11;
    const unsigned t142 = t1 ? t141 : t138;
    const unsigned t143 = t2 ? exponent_14 : exponent_15;
    const unsigned t144 = t1 ? t143 : t128;
    const unsigned t145 = t2 ? exponent_12 : exponent_9;
    const unsigned t146 = t1 ? t129 : t145;
    const unsigned t147 = t2 ? exponent_11 : exponent_10;
    const unsigned t148 = t1 ? t139 : t147;
    const unsigned t149 = t1 ? t147 : t141;
    const unsigned t150 = t2 ? exponent_15 : exponent_14;
    const unsigned t151 = t1 ? t150 : t131;
    const unsigned t152 = t2 ? exponent_16 : exponent_13;
    const unsigned t153 = t1 ? t126 : t152;
    const unsigned t154 = t1 ? t136 : t150;
    const unsigned t155 = t1 ? t145 : t143;
    const unsigned t156 = t1 ? t152 : t134;
    const bool t157 = ((false || (!(t127 == state.cells[0]))) || (!(t130 == state.cells[1]))) || (!(t133 == state.cells[2]));
    const bool t158 = ((t157 || (!(t135 == state.cells[3]))) || (!(t137 == state.cells[4]))) || (!(t140 == state.cells[5]));
    const bool t159 = ((t158 || (!(t142 == state.cells[6]))) || (!(t144 == state.cells[7]))) || (!(t146 == state.cells[8]));
    const bool t160 = ((t159 || (!(t148 == state.cells[9]))) || (!(t149 == state.cells[10]))) || (!(t151 == state.cells[11]));
    const bool t161 = ((t160 || (!(t153 == state.cells[12]))) || (!(t154 == state.cells[13]))) || (!(t155 == state.cells[14]));
    const bool changed = t161 || (!(t156 == state.cells[15]));
    const bool t162 = t127 == 0u;
    const unsigned t163 = 0u + (t162 ? 1u : 0u);
    const bool t164 = t130 == 0u;
    const unsigned t165 = t163 + (t164 ? 1u : 0u);
    const bool t166 = t133 == 0u;
    const unsigned t167 = t165 + (t166 ? 1u : 0u);
    const bool t168 = t135 == 0u;
    const unsigned t169 = t167 + (t168 ? 1u : 0u);
    const bool t170 = t137 == 0u;
    const unsigned t171 = t169 + (t170 ? 1u : 0u);
    const bool t172 = t140 == 0u;
    const unsigned t173 = t171 + (t172 ? 1u : 0u);
    const bool t174 = t142 == 0u;
    const unsigned t175 = t173 + (t174 ? 1u : 0u);
    const bool t176 = t144 == 0u;
    const unsigned t177 = t175 + (t176 ? 1u : 0u);
    const bool t178 = t146 == 0u;
    const unsigned t179 = t177 + (t178 ? 1u : 0u);
    const bool t180 = t148 == 0u;
    const unsigned t181 = t179 + (t180 ? 1u : 0u);
    const bool t182 = t149 == 0u;
    const unsigned t183 = t181 + (t182 ? 1u : 0u);
    const bool t184 = t151 == 0u;
    const unsigned t185 = t183 + (t184 ? 1u : 0u);
    const bool t186 = t153 == 0u;
    const unsigned t187 = t185 + (t186 ? 1u : 0u);
    const bool t188 = t154 == 0u;
    const unsigned t189 = t187 + (t188 ? 1u : 0u);
    const bool t190 = t155 == 0u;
    const unsigned t191 = t189 + (t190 ? 1u : 0u);
    const bool t192 = t156 == 0u;
    const unsigned count = t191 + (t192 ? 1u : 0u);
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
    const unsigned chosen = __umulhi(v0_0, count);
    const unsigned exponent_17 = (__fmul_rn(__int2float_rn((int)(v0_1 >> 8u)), 5.9604645e-8f) < 0.1f) ? 2u : 1u;
    const unsigned cell = ((changed && t162) && (0u == chosen)) ? exponent_17 : t127;
    const unsigned cell_2 = ((changed && t164) && (t163 == chosen)) ? exponent_17 : t130;
    const unsigned cell_3 = ((changed && t166) && (t165 == chosen)) ? exponent_17 : t133;
    const unsigned cell_4 = ((changed && t168) && (t167 == chosen)) ? exponent_17 : t135;
    const unsigned cell_5 = ((changed && t170) && (t169 == chosen)) ? exponent_17 : t137;
    const unsigned cell_6 = ((changed && t172) && (t171 == chosen)) ? exponent_17 : t140;
    const unsigned cell_7 = ((changed && t174) && (t173 == chosen)) ? exponent_17 : t142;
    const unsigned cell_8 = ((changed && t176) && (t175 == chosen)) ? exponent_17 : t144;
    const unsigned cell_9 = ((changed && t178) && (t177 == chosen)) ? exponent_17 : t146;
    const unsigned cell_10 = ((changed && t180) && (t179 == chosen)) ? exponent_17 : t148;
    const unsigned cell_11 = ((changed && t182) && (t181 == chosen)) ? exponent_17 : t149;
    const unsigned cell_12 = ((changed && t184) && (t183 == chosen)) ? exponent_17 : t151;
    const unsigned cell_13 = ((changed && t186) && (t185 == chosen)) ? exponent_17 : t153;
    const unsigned cell_14 = ((changed && t188) && (t187 == chosen)) ? exponent_17 : t154;
    const unsigned cell_15 = ((changed && t190) && (t189 == chosen)) ? exponent_17 : t155;
    const unsigned cell_16 = ((changed && t192) && (t191 == chosen)) ? exponent_17 : t156;
    const bool t193 = cell == 0u;
    const bool t194 = cell_5 == 0u;
    const bool t195 = !t194;
    const bool t196 = cell_9 == 0u;
    const bool t197 = !t196;
    const bool t198 = (false || (t195 && (t193 || (cell == cell_5)))) || (t197 && (t194 || (cell_5 == cell_9)));
    const bool t199 = cell_13 == 0u;
    const bool t200 = !t199;
    const bool t201 = cell_2 == 0u;
    const bool t202 = cell_6 == 0u;
    const bool t203 = !t202;
    const bool t204 = (t198 || (t200 && (t196 || (cell_9 == cell_13)))) || (t203 && (t201 || (cell_2 == cell_6)));
    const bool t205 = cell_10 == 0u;
    const bool t206 = !t205;
    const bool t207 = cell_14 == 0u;
    const bool t208 = !t207;
    const bool t209 = (t204 || (t206 && (t202 || (cell_6 == cell_10)))) || (t208 && (t205 || (cell_10 == cell_14)));
    const bool t210 = cell_3 == 0u;
    const bool t211 = cell_7 == 0u;
    const bool t212 = !t211;
    const bool t213 = cell_11 == 0u;
    const bool t214 = !t213;
    const bool t215 = (t209 || (t212 && (t210 || (cell_3 == cell_7)))) || (t214 && (t211 || (cell_7 == cell_11)));
    const bool t216 = cell_15 == 0u;
    const bool t217 = !t216;
    const bool t218 = cell_4 == 0u;
    const bool t219 = cell_8 == 0u;
    const bool t220 = !t219;
    const bool t221 = (t215 || (t217 && (t213 || (cell_11 == cell_15)))) || (t220 && (t218 || (cell_4 == cell_8)));
    const bool t222 = cell_12 == 0u;
    const bool t223 = !t222;
    const bool t224 = cell_16 == 0u;
    const bool t225 = !t224;
    const bool moves = (t221 || (t223 && (t219 || (cell_8 == cell_12)))) || (t225 && (t222 || (cell_12 == cell_16)));
    const bool t226 = !t210;
    const bool t227 = !t201;
    const bool t228 = (false || (t226 && (t218 || (cell_4 == cell_3)))) || (t227 && (t210 || (cell_3 == cell_2)));
    const bool t229 = !t193;
    const bool t230 = ((t228 || (t229 && (t201 || (cell_2 == cell)))) || (t212 && (t219 || (cell_8 == cell_7)))) || (t203 && (t211 || (cell_7 == cell_6)));
    const bool t231 = (t230 || (t195 && (t202 || (cell_6 == cell_5)))) || (t214 && (t222 || (cell_12 == cell_11)));
    const bool t232 = (t231 || (t206 && (t213 || (cell_11 == cell_10)))) || (t197 && (t205 || (cell_10 == cell_9)));
    const bool t233 = (t232 || (t217 && (t224 || (cell_16 == cell_15)))) || (t208 && (t216 || (cell_15 == cell_14)));
    const bool moves_2 = t233 || (t200 && (t207 || (cell_14 == cell_13)));
    const bool t234 = (false || (t197 && (t199 || (cell_13 == cell_9)))) || (t195 && (t196 || (cell_9 == cell_5)));
    const bool t235 = (t234 || (t229 && (t194 || (cell_5 == cell)))) || (t206 && (t207 || (cell_14 == cell_10)));
    const bool t236 = (t235 || (t203 && (t205 || (cell_10 == cell_6)))) || (t227 && (t202 || (cell_6 == cell_2)));
    const bool t237 = (t236 || (t214 && (t216 || (cell_15 == cell_11)))) || (t212 && (t213 || (cell_11 == cell_7)));
    const bool t238 = (t237 || (t226 && (t211 || (cell_7 == cell_3)))) || (t223 && (t224 || (cell_16 == cell_12)));
    const bool t239 = !t218;
    const bool moves_3 = (t238 || (t220 && (t222 || (cell_12 == cell_8)))) || (t239 && (t219 || (cell_8 == cell_4)));
    const bool t240 = (false || (t227 && (t193 || (cell == cell_2)))) || (t226 && (t201 || (cell_2 == cell_3)));
    const bool t241 = (t240 || (t239 && (t210 || (cell_3 == cell_4)))) || (t203 && (t194 || (cell_5 == cell_6)));
    const bool t242 = (t241 || (t212 && (t202 || (cell_6 == cell_7)))) || (t220 && (t211 || (cell_7 == cell_8)));
    const bool t243 = (t242 || (t206 && (t196 || (cell_9 == cell_10)))) || (t214 && (t205 || (cell_10 == cell_11)));
    const bool t244 = (t243 || (t223 && (t213 || (cell_11 == cell_12)))) || (t208 && (t199 || (cell_13 == cell_14)));
    const bool moves_4 = (t244 || (t217 && (t207 || (cell_14 == cell_15)))) || (t225 && (t216 || (cell_15 == cell_16)));
    const bool stuck = (((true && (!moves)) && (!moves_2)) && (!moves_3)) && (!moves_4);
    next.cells[0] = cell;
    next.cells[1] = cell_2;
    next.cells[2] = cell_3;
    next.cells[3] = cell_4;
    next.cells[4] = cell_5;
    next.cells[5] = cell_6;
    next.cells[6] = cell_7;
    next.cells[7] = cell_8;
    next.cells[8] = cell_9;
    next.cells[9] = cell_10;
    next.cells[10] = cell_11;
    next.cells[11] = cell_12;
    next.cells[12] = cell_13;
    next.cells[13] = cell_14;
    next.cells[14] = cell_15;
    next.cells[15] = cell_16;
    reward = __uint2float_rn((((0u + merged) + merged_2) + merged_3) + merged_4);
    terminated = stuck;
}

__device__ __forceinline__ void env_observe(
    const EnvState& state, unsigned* obs) {
    const unsigned t1 = (((state.cells[0] << 0u) | (state.cells[1] << 8u)) | (state.cells[2] << 16u)) | (state.cells[3] << 24u);
    const unsigned t2 = (((state.cells[4] << 0u) | (state.cells[5] << 8u)) | (state.cells[6] << 16u)) | (state.cells[7] << 24u);
    const unsigned t3 = (((state.cells[8] << 0u) | (state.cells[9] << 8u)) | (state.cells[10] << 16u)) | (state.cells[11] << 24u);
    const unsigned t4 = (((state.cells[12] << 0u) | (state.cells[13] << 8u)) | (state.cells[14] << 16u)) | (state.cells[15] << 24u);
    obs[0] = t1;
    obs[1] = t2;
    obs[2] = t3;
    obs[3] = t4;
}

#define ENV_PACKED 1   // env_input computes the network input
#define ENV_INPUT_BITS 1   // bits, or floats by their bits
constexpr unsigned ENV_INPUT_WORDS = 9u;
__device__ __forceinline__ void env_input(const unsigned* obs, unsigned* input) {
    #pragma unroll
    for (unsigned k = 0u; k < ENV_INPUT_WORDS; ++k) input[k] = 0u;
    #pragma unroll
    for (unsigned i = 0u; i < 16u; ++i) {
        const unsigned value = obs[0u + i / 4u] >> i % 4u * 8u & 0xffu;
        const unsigned first = 0u + i * 18u;
        const unsigned bit = first + value;
        input[bit / 32u] |= 1u << bit % 32u;
    }
}

__device__ __forceinline__ float env_feature(const float* obs, unsigned k) {
    if (k < 288u) {
        const unsigned item = (k - 0u) / 18u;
        const unsigned value = __float_as_uint(obs[0u + item / 4u]) >> item % 4u * 8u & 0xffu;
        return value == k - (0u + item * 18u) ? 1.0f : 0.0f;
    }
    return 0.0f;
}

__device__ __forceinline__ unsigned env_index(const float* obs, unsigned i) {
    if (i < 16u) {
        const unsigned item = i - 0u;
        return (__float_as_uint(obs[0u + item / 4u]) >> item % 4u * 8u & 0xffu);
    }
    return 0u;
}

__device__ __forceinline__ void env_legal(
    const EnvState& state, bool* legal) {
    const bool t1 = state.cells[0] == 0u;
    const bool t2 = state.cells[4] == 0u;
    const bool t3 = !t2;
    const bool t4 = state.cells[8] == 0u;
    const bool t5 = !t4;
    const bool t6 = (false || (t3 && (t1 || (state.cells[0] == state.cells[4])))) || (t5 && (t2 || (state.cells[4] == state.cells[8])));
    const bool t7 = state.cells[12] == 0u;
    const bool t8 = !t7;
    const bool t9 = state.cells[1] == 0u;
    const bool t10 = state.cells[5] == 0u;
    const bool t11 = !t10;
    const bool t12 = (t6 || (t8 && (t4 || (state.cells[8] == state.cells[12])))) || (t11 && (t9 || (state.cells[1] == state.cells[5])));
    const bool t13 = state.cells[9] == 0u;
    const bool t14 = !t13;
    const bool t15 = state.cells[13] == 0u;
    const bool t16 = !t15;
    const bool t17 = (t12 || (t14 && (t10 || (state.cells[5] == state.cells[9])))) || (t16 && (t13 || (state.cells[9] == state.cells[13])));
    const bool t18 = state.cells[2] == 0u;
    const bool t19 = state.cells[6] == 0u;
    const bool t20 = !t19;
    const bool t21 = state.cells[10] == 0u;
    const bool t22 = !t21;
    const bool t23 = (t17 || (t20 && (t18 || (state.cells[2] == state.cells[6])))) || (t22 && (t19 || (state.cells[6] == state.cells[10])));
    const bool t24 = state.cells[14] == 0u;
    const bool t25 = !t24;
    const bool t26 = state.cells[3] == 0u;
    const bool t27 = state.cells[7] == 0u;
    const bool t28 = !t27;
    const bool t29 = (t23 || (t25 && (t21 || (state.cells[10] == state.cells[14])))) || (t28 && (t26 || (state.cells[3] == state.cells[7])));
    const bool t30 = state.cells[11] == 0u;
    const bool t31 = !t30;
    const bool t32 = state.cells[15] == 0u;
    const bool t33 = !t32;
    const bool moves = (t29 || (t31 && (t27 || (state.cells[7] == state.cells[11])))) || (t33 && (t30 || (state.cells[11] == state.cells[15])));
    const bool t34 = !t18;
    const bool t35 = !t9;
    const bool t36 = (false || (t34 && (t26 || (state.cells[3] == state.cells[2])))) || (t35 && (t18 || (state.cells[2] == state.cells[1])));
    const bool t37 = !t1;
    const bool t38 = (t36 || (t37 && (t9 || (state.cells[1] == state.cells[0])))) || (t20 && (t27 || (state.cells[7] == state.cells[6])));
    const bool t39 = (t38 || (t11 && (t19 || (state.cells[6] == state.cells[5])))) || (t3 && (t10 || (state.cells[5] == state.cells[4])));
    const bool t40 = (t39 || (t22 && (t30 || (state.cells[11] == state.cells[10])))) || (t14 && (t21 || (state.cells[10] == state.cells[9])));
    const bool t41 = (t40 || (t5 && (t13 || (state.cells[9] == state.cells[8])))) || (t25 && (t32 || (state.cells[15] == state.cells[14])));
    const bool moves_2 = (t41 || (t16 && (t24 || (state.cells[14] == state.cells[13])))) || (t8 && (t15 || (state.cells[13] == state.cells[12])));
    const bool t42 = (false || (t5 && (t7 || (state.cells[12] == state.cells[8])))) || (t3 && (t4 || (state.cells[8] == state.cells[4])));
    const bool t43 = (t42 || (t37 && (t2 || (state.cells[4] == state.cells[0])))) || (t14 && (t15 || (state.cells[13] == state.cells[9])));
    const bool t44 = (t43 || (t11 && (t13 || (state.cells[9] == state.cells[5])))) || (t35 && (t10 || (state.cells[5] == state.cells[1])));
    const bool t45 = (t44 || (t22 && (t24 || (state.cells[14] == state.cells[10])))) || (t20 && (t21 || (state.cells[10] == state.cells[6])));
    const bool t46 = (t45 || (t34 && (t19 || (state.cells[6] == state.cells[2])))) || (t31 && (t32 || (state.cells[15] == state.cells[11])));
    const bool t47 = !t26;
    const bool moves_3 = (t46 || (t28 && (t30 || (state.cells[11] == state.cells[7])))) || (t47 && (t27 || (state.cells[7] == state.cells[3])));
    const bool t48 = (false || (t35 && (t1 || (state.cells[0] == state.cells[1])))) || (t34 && (t9 || (state.cells[1] == state.cells[2])));
    const bool t49 = (t48 || (t47 && (t18 || (state.cells[2] == state.cells[3])))) || (t11 && (t2 || (state.cells[4] == state.cells[5])));
    const bool t50 = (t49 || (t20 && (t10 || (state.cells[5] == state.cells[6])))) || (t28 && (t19 || (state.cells[6] == state.cells[7])));
    const bool t51 = (t50 || (t14 && (t4 || (state.cells[8] == state.cells[9])))) || (t22 && (t13 || (state.cells[9] == state.cells[10])));
    const bool t52 = (t51 || (t31 && (t21 || (state.cells[10] == state.cells[11])))) || (t16 && (t7 || (state.cells[12] == state.cells[13])));
    const bool moves_4 = (t52 || (t25 && (t15 || (state.cells[13] == state.cells[14])))) || (t33 && (t24 || (state.cells[14] == state.cells[15])));
    legal[0] = moves;
    legal[1] = moves_2;
    legal[2] = moves_3;
    legal[3] = moves_4;
}
