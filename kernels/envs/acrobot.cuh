// acrobot: swing a two-link arm above a line; -1 per step.
// Emitted from the environment's rules by `operant emit`; do not edit.
#pragma once

constexpr unsigned ENV_TIME_LIMIT = 500u;
constexpr unsigned ENV_OBS = 6u;         // numbers the policy sees
constexpr unsigned ENV_OBS_WORDS = 6u;   // words they are stored in
constexpr unsigned ENV_STATE_WORDS = 4u;   // words of a state
constexpr unsigned ENV_ACTIONS = 3u;   // logits
constexpr unsigned ENV_COMPONENTS = 1u;   // numbers that name an action
#define ENV_DISCRETE 1   // choices, or real numbers between bounds
#define ENV_MASKED 0   // whether env_legal forbids choices
using EnvAction = unsigned;
__device__ __forceinline__ constexpr unsigned env_choices(unsigned) { return 3u; }

struct EnvState {
    float theta1;
    float theta2;
    float theta1_dot;
    float theta2_dot;
};

__device__ __forceinline__ void env_load(const unsigned* words, unsigned stride, EnvState& state) {
    state.theta1 = __uint_as_float(words[0]);
    state.theta2 = __uint_as_float(words[1u * stride]);
    state.theta1_dot = __uint_as_float(words[2u * stride]);
    state.theta2_dot = __uint_as_float(words[3u * stride]);
}

__device__ __forceinline__ void env_store(const EnvState& state, unsigned* words, unsigned stride) {
    words[0] = __float_as_uint(state.theta1);
    words[1u * stride] = __float_as_uint(state.theta2);
    words[2u * stride] = __float_as_uint(state.theta1_dot);
    words[3u * stride] = __float_as_uint(state.theta2_dot);
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
    next.theta1 = __fmaf_rn(__fmul_rn(__int2float_rn((int)(v0_0 >> 8u)), 5.9604645e-8f), 0.2f, -0.1f);
    next.theta2 = __fmaf_rn(__fmul_rn(__int2float_rn((int)(v0_1 >> 8u)), 5.9604645e-8f), 0.2f, -0.1f);
    next.theta1_dot = __fmaf_rn(__fmul_rn(__int2float_rn((int)(v0_2 >> 8u)), 5.9604645e-8f), 0.2f, -0.1f);
    next.theta2_dot = __fmaf_rn(__fmul_rn(__int2float_rn((int)(v0_3 >> 8u)), 5.9604645e-8f), 0.2f, -0.1f);
}

__device__ __forceinline__ void env_step(
    const EnvState& state, const unsigned* action,
    unsigned seed_low, unsigned seed_high, unsigned environment, unsigned step_low, unsigned step_high, unsigned purpose,
    EnvState& next, float& reward, bool& terminated) {
    const float torque = __int2float_rn((int)((unsigned)((int)action[0]) - (unsigned)1));
    const float t1 = rintf(__fmul_rn(state.theta2, 0.63661975f));
    const float t2 = __fmaf_rn(t1, 1.7151245e-15f, __fmaf_rn(t1, 4.371139e-8f, __fmaf_rn(t1, -1.5707964f, state.theta2)));
    const float t3 = __fmul_rn(t2, t2);
    const float t4 = __fmaf_rn(__fmul_rn(t2, t3), __fmaf_rn(__fmaf_rn(-0.00019515296f, t3, 0.008332161f), t3, -0.16666655f), t2);
    const float t5 = __fmaf_rn(__fmul_rn(t3, t3), __fmaf_rn(__fmaf_rn(2.4433157e-5f, t3, -0.0013887316f), t3, 0.041666646f), __fmaf_rn(t3, -0.5f, 1.0f));
    const int t6 = __float2int_rz(t1);
    const bool t7 = !((t6 & 1) == 0);
    const float t8 = t7 ? t5 : t4;
    const float t9 = t7 ? t4 : t5;
    const float t10 = (!((((int)((unsigned)t6 + (unsigned)1)) & 2) == 0)) ? (-t9) : t9;
    const float t11 = __fmaf_rn(t10, 1.0f, 3.5f);
    const float t12 = __fmaf_rn(t10, 0.5f, 1.25f);
    const float t13 = __fsub_rn(__fadd_rn(state.theta1, state.theta2), 1.5707964f);
    const float t14 = rintf(__fmul_rn(t13, 0.63661975f));
    const float t15 = __fmaf_rn(t14, 1.7151245e-15f, __fmaf_rn(t14, 4.371139e-8f, __fmaf_rn(t14, -1.5707964f, t13)));
    const float t16 = __fmul_rn(t15, t15);
    const float t17 = __fmaf_rn(__fmul_rn(t15, t16), __fmaf_rn(__fmaf_rn(-0.00019515296f, t16, 0.008332161f), t16, -0.16666655f), t15);
    const float t18 = __fmaf_rn(__fmul_rn(t16, t16), __fmaf_rn(__fmaf_rn(2.4433157e-5f, t16, -0.0013887316f), t16, 0.041666646f), __fmaf_rn(t16, -0.5f, 1.0f));
    const int t19 = __float2int_rz(t14);
    const float t20 = (!((t19 & 1) == 0)) ? t17 : t18;
    const float t21 = __fmul_rn((!((((int)((unsigned)t19 + (unsigned)1)) & 2) == 0)) ? (-t20) : t20, 4.9f);
    const float t22 = __fmul_rn((!((t6 & 2) == 0)) ? (-t8) : t8, 0.5f);
    const float t23 = __fsub_rn(state.theta1, 1.5707964f);
    const float t24 = rintf(__fmul_rn(t23, 0.63661975f));
    const float t25 = __fmaf_rn(t24, 1.7151245e-15f, __fmaf_rn(t24, 4.371139e-8f, __fmaf_rn(t24, -1.5707964f, t23)));
    const float t26 = __fmul_rn(t25, t25);
    const float t27 = __fmaf_rn(__fmul_rn(t25, t26), __fmaf_rn(__fmaf_rn(-0.00019515296f, t26, 0.008332161f), t26, -0.16666655f), t25);
    const float t28 = __fmaf_rn(__fmul_rn(t26, t26), __fmaf_rn(__fmaf_rn(2.4433157e-5f, t26, -0.0013887316f), t26, 0.041666646f), __fmaf_rn(t26, -0.5f, 1.0f));
    const int t29 = __float2int_rz(t24);
    const float t30 = (!((t29 & 1) == 0)) ? t27 : t28;
    const float t31 = __fmaf_rn((!((((int)((unsigned)t29 + (unsigned)1)) & 2) == 0)) ? (-t30) : t30, 14.7f, t21);
    const float t32 = __fmaf_rn(__fmul_rn(t22, state.theta2_dot), -__fadd_rn(state.theta2_dot, __fmul_rn(state.theta1_dot, 2.0f)), t31);
    const float t33 = __fdiv_rn(t12, t11);
    const float t34 = __fsub_rn(__fmaf_rn(t33, t32, torque), __fmaf_rn(__fmul_rn(t22, state.theta1_dot), state.theta1_dot, t21));
    const float t35 = __fdiv_rn(t34, __fmaf_rn(t33, -t12, 1.25f));
    const float t36 = -__fdiv_rn(__fmaf_rn(t12, t35, t32), t11);
    const float t37 = __fmaf_rn(state.theta1_dot, 0.1f, state.theta1);
    const float t38 = __fmaf_rn(state.theta2_dot, 0.1f, state.theta2);
    const float t39 = __fmaf_rn(t36, 0.1f, state.theta1_dot);
    const float t40 = __fmaf_rn(t35, 0.1f, state.theta2_dot);
    const float t41 = rintf(__fmul_rn(t38, 0.63661975f));
    const float t42 = __fmaf_rn(t41, 1.7151245e-15f, __fmaf_rn(t41, 4.371139e-8f, __fmaf_rn(t41, -1.5707964f, t38)));
    const float t43 = __fmul_rn(t42, t42);
    const float t44 = __fmaf_rn(__fmul_rn(t42, t43), __fmaf_rn(__fmaf_rn(-0.00019515296f, t43, 0.008332161f), t43, -0.16666655f), t42);
    const float t45 = __fmaf_rn(__fmul_rn(t43, t43), __fmaf_rn(__fmaf_rn(2.4433157e-5f, t43, -0.0013887316f), t43, 0.041666646f), __fmaf_rn(t43, -0.5f, 1.0f));
    const int t46 = __float2int_rz(t41);
    const bool t47 = !((t46 & 1) == 0);
    const float t48 = t47 ? t45 : t44;
    const float t49 = t47 ? t44 : t45;
    const float t50 = (!((((int)((unsigned)t46 + (unsigned)1)) & 2) == 0)) ? (-t49) : t49;
    const float t51 = __fmaf_rn(t50, 1.0f, 3.5f);
    const float t52 = __fmaf_rn(t50, 0.5f, 1.25f);
    const float t53 = __fsub_rn(__fadd_rn(t37, t38), 1.5707964f);
    const float t54 = rintf(__fmul_rn(t53, 0.63661975f));
    const float t55 = __fmaf_rn(t54, 1.7151245e-15f, __fmaf_rn(t54, 4.371139e-8f, __fmaf_rn(t54, -1.5707964f, t53)));
    const float t56 = __fmul_rn(t55, t55);
    const float t57 = __fmaf_rn(__fmul_rn(t55, t56), __fmaf_rn(__fmaf_rn(-0.00019515296f, t56, 0.008332161f), t56, -0.16666655f), t55);
    const float t58 = __fmaf_rn(__fmul_rn(t56, t56), __fmaf_rn(__fmaf_rn(2.4433157e-5f, t56, -0.0013887316f), t56, 0.041666646f), __fmaf_rn(t56, -0.5f, 1.0f));
    const int t59 = __float2int_rz(t54);
    const float t60 = (!((t59 & 1) == 0)) ? t57 : t58;
    const float t61 = __fmul_rn((!((((int)((unsigned)t59 + (unsigned)1)) & 2) == 0)) ? (-t60) : t60, 4.9f);
    const float t62 = __fmul_rn((!((t46 & 2) == 0)) ? (-t48) : t48, 0.5f);
    const float t63 = __fsub_rn(t37, 1.5707964f);
    const float t64 = rintf(__fmul_rn(t63, 0.63661975f));
    const float t65 = __fmaf_rn(t64, 1.7151245e-15f, __fmaf_rn(t64, 4.371139e-8f, __fmaf_rn(t64, -1.5707964f, t63)));
    const float t66 = __fmul_rn(t65, t65);
    const float t67 = __fmaf_rn(__fmul_rn(t65, t66), __fmaf_rn(__fmaf_rn(-0.00019515296f, t66, 0.008332161f), t66, -0.16666655f), t65);
    const float t68 = __fmaf_rn(__fmul_rn(t66, t66), __fmaf_rn(__fmaf_rn(2.4433157e-5f, t66, -0.0013887316f), t66, 0.041666646f), __fmaf_rn(t66, -0.5f, 1.0f));
    const int t69 = __float2int_rz(t64);
    const float t70 = (!((t69 & 1) == 0)) ? t67 : t68;
    const float t71 = __fmaf_rn((!((((int)((unsigned)t69 + (unsigned)1)) & 2) == 0)) ? (-t70) : t70, 14.7f, t61);
    const float t72 = __fmaf_rn(__fmul_rn(t62, t40), -__fadd_rn(t40, __fmul_rn(t39, 2.0f)), t71);
    const float t73 = __fdiv_rn(t52, t51);
    const float t74 = __fdiv_rn(__fsub_rn(__fmaf_rn(t73, t72, torque), __fmaf_rn(__fmul_rn(t62, t39), t39, t61)), __fmaf_rn(t73, -t52, 1.25f));
    const float t75 = -__fdiv_rn(__fmaf_rn(t52, t74, t72), t51);
    const float t76 = __fmaf_rn(t39, 0.1f, state.theta1);
    const float t77 = __fmaf_rn(t40, 0.1f, state.theta2);
    const float t78 = __fmaf_rn(t75, 0.1f, state.theta1_dot);
    const float t79 = __fmaf_rn(t74, 0.1f, state.theta2_dot);
    const float t80 = rintf(__fmul_rn(t77, 0.63661975f));
    const float t81 = __fmaf_rn(t80, 1.7151245e-15f, __fmaf_rn(t80, 4.371139e-8f, __fmaf_rn(t80, -1.5707964f, t77)));
    const float t82 = __fmul_rn(t81, t81);
    const float t83 = __fmaf_rn(__fmul_rn(t81, t82), __fmaf_rn(__fmaf_rn(-0.00019515296f, t82, 0.008332161f), t82, -0.16666655f), t81);
    const float t84 = __fmaf_rn(__fmul_rn(t82, t82), __fmaf_rn(__fmaf_rn(2.4433157e-5f, t82, -0.0013887316f), t82, 0.041666646f), __fmaf_rn(t82, -0.5f, 1.0f));
    const int t85 = __float2int_rz(t80);
    const bool t86 = !((t85 & 1) == 0);
    const float t87 = t86 ? t84 : t83;
    const float t88 = t86 ? t83 : t84;
    const float t89 = (!((((int)((unsigned)t85 + (unsigned)1)) & 2) == 0)) ? (-t88) : t88;
    const float t90 = __fmaf_rn(t89, 1.0f, 3.5f);
    const float t91 = __fmaf_rn(t89, 0.5f, 1.25f);
    const float t92 = __fsub_rn(__fadd_rn(t76, t77), 1.5707964f);
    const float t93 = rintf(__fmul_rn(t92, 0.63661975f));
    const float t94 = __fmaf_rn(t93, 1.7151245e-15f, __fmaf_rn(t93, 4.371139e-8f, __fmaf_rn(t93, -1.5707964f, t92)));
    const float t95 = __fmul_rn(t94, t94);
    const float t96 = __fmaf_rn(__fmul_rn(t94, t95), __fmaf_rn(__fmaf_rn(-0.00019515296f, t95, 0.008332161f), t95, -0.16666655f), t94);
    const float t97 = __fmaf_rn(__fmul_rn(t95, t95), __fmaf_rn(__fmaf_rn(2.4433157e-5f, t95, -0.0013887316f), t95, 0.041666646f), __fmaf_rn(t95, -0.5f, 1.0f));
    const int t98 = __float2int_rz(t93);
    const float t99 = (!((t98 & 1) == 0)) ? t96 : t97;
    const float t100 = __fmul_rn((!((((int)((unsigned)t98 + (unsigned)1)) & 2) == 0)) ? (-t99) : t99, 4.9f);
    const float t101 = __fmul_rn((!((t85 & 2) == 0)) ? (-t87) : t87, 0.5f);
    const float t102 = __fsub_rn(t76, 1.5707964f);
    const float t103 = rintf(__fmul_rn(t102, 0.63661975f));
    const float t104 = __fmaf_rn(t103, 1.7151245e-15f, __fmaf_rn(t103, 4.371139e-8f, __fmaf_rn(t103, -1.5707964f, t102)));
    const float t105 = __fmul_rn(t104, t104);
    const float t106 = __fmaf_rn(__fmul_rn(t104, t105), __fmaf_rn(__fmaf_rn(-0.00019515296f, t105, 0.008332161f), t105, -0.16666655f), t104);
    const float t107 = __fmaf_rn(__fmul_rn(t105, t105), __fmaf_rn(__fmaf_rn(2.4433157e-5f, t105, -0.0013887316f), t105, 0.041666646f), __fmaf_rn(t105, -0.5f, 1.0f));
    const int t108 = __float2int_rz(t103);
    const float t109 = (!((t108 & 1) == 0)) ? t106 : t107;
    const float t110 = __fmaf_rn((!((((int)((unsigned)t108 + (unsigned)1)) & 2) == 0)) ? (-t109) : t109, 14.7f, t100);
    const float t111 = __fmaf_rn(__fmul_rn(t101, t79), -__fadd_rn(t79, __fmul_rn(t78, 2.0f)), t110);
    const float t112 = __fdiv_rn(t91, t90);
    const float t113 = __fdiv_rn(__fsub_rn(__fmaf_rn(t112, t111, torque), __fmaf_rn(__fmul_rn(t101, t78), t78, t100)), __fmaf_rn(t112, -t91, 1.25f));
    const float t114 = -__fdiv_rn(__fmaf_rn(t91, t113, t111), t90);
    const float t115 = __fmaf_rn(t78, 0.2f, state.theta1);
    const float t116 = __fmaf_rn(t79, 0.2f, state.theta2);
    const float t117 = __fmaf_rn(t114, 0.2f, state.theta1_dot);
    const float t118 = __fmaf_rn(t113, 0.2f, state.theta2_dot);
    const float t119 = rintf(__fmul_rn(t116, 0.63661975f));
    const float t120 = __fmaf_rn(t119, 1.7151245e-15f, __fmaf_rn(t119, 4.371139e-8f, __fmaf_rn(t119, -1.5707964f, t116)));
    const float t121 = __fmul_rn(t120, t120);
    const float t122 = __fmaf_rn(__fmul_rn(t120, t121), __fmaf_rn(__fmaf_rn(-0.00019515296f, t121, 0.008332161f), t121, -0.16666655f), t120);
    const float t123 = __fmaf_rn(__fmul_rn(t121, t121), __fmaf_rn(__fmaf_rn(2.4433157e-5f, t121, -0.0013887316f), t121, 0.041666646f), __fmaf_rn(t121, -0.5f, 1.0f));
    const int t124 = __float2int_rz(t119);
    const bool t125 = !((t124 & 1) == 0);
    const float t126 = t125 ? t123 : t122;
    const float t127 = t125 ? t122 : t123;
    const float t128 = (!((((int)((unsigned)t124 + (unsigned)1)) & 2) == 0)) ? (-t127) : t127;
    const float t129 = __fmaf_rn(t128, 1.0f, 3.5f);
    const float t130 = __fmaf_rn(t128, 0.5f, 1.25f);
    const float t131 = __fsub_rn(__fadd_rn(t115, t116), 1.5707964f);
    const float t132 = rintf(__fmul_rn(t131, 0.63661975f));
    const float t133 = __fmaf_rn(t132, 1.7151245e-15f, __fmaf_rn(t132, 4.371139e-8f, __fmaf_rn(t132, -1.5707964f, t131)));
    const float t134 = __fmul_rn(t133, t133);
    const float t135 = __fmaf_rn(__fmul_rn(t133, t134), __fmaf_rn(__fmaf_rn(-0.00019515296f, t134, 0.008332161f), t134, -0.16666655f), t133);
    const float t136 = __fmaf_rn(__fmul_rn(t134, t134), __fmaf_rn(__fmaf_rn(2.4433157e-5f, t134, -0.0013887316f), t134, 0.041666646f), __fmaf_rn(t134, -0.5f, 1.0f));
    const int t137 = __float2int_rz(t132);
    const float t138 = (!((t137 & 1) == 0)) ? t135 : t136;
    const float t139 = __fmul_rn((!((((int)((unsigned)t137 + (unsigned)1)) & 2) == 0)) ? (-t138) : t138, 4.9f);
    const float t140 = __fmul_rn((!((t124 & 2) == 0)) ? (-t126) : t126, 0.5f);
    const float t141 = __fsub_rn(t115, 1.5707964f);
    const float t142 = rintf(__fmul_rn(t141, 0.63661975f));
    const float t143 = __fmaf_rn(t142, 1.7151245e-15f, __fmaf_rn(t142, 4.371139e-8f, __fmaf_rn(t142, -1.5707964f, t141)));
    const float t144 = __fmul_rn(t143, t143);
    const float t145 = __fmaf_rn(__fmul_rn(t143, t144), __fmaf_rn(__fmaf_rn(-0.00019515296f, t144, 0.008332161f), t144, -0.16666655f), t143);
    const float t146 = __fmaf_rn(__fmul_rn(t144, t144), __fmaf_rn(__fmaf_rn(2.4433157e-5f, t144, -0.0013887316f), t144, 0.041666646f), __fmaf_rn(t144, -0.5f, 1.0f));
    const int t147 = __float2int_rz(t142);
    const float t148 = (!((t147 & 1) == 0)) ? t145 : t146;
    const float t149 = __fmaf_rn((!((((int)((unsigned)t147 + (unsigned)1)) & 2) == 0)) ? (-t148) : t148, 14.7f, t139);
    const float t150 = __fmaf_rn(__fmul_rn(t140, t118), -__fadd_rn(t118, __fmul_rn(t117, 2.0f)), t149);
    const float t151 = __fdiv_rn(t130, t129);
    const float t152 = __fdiv_rn(__fsub_rn(__fmaf_rn(t151, t150, torque), __fmaf_rn(__fmul_rn(t140, t117), t117, t139)), __fmaf_rn(t151, -t130, 1.25f));
    const float t153 = __fmaf_rn(__fmaf_rn(__fadd_rn(t39, t78), 2.0f, __fadd_rn(state.theta1_dot, t117)), 0.033333335f, state.theta1);
    const float t154 = __fmaf_rn(__fmaf_rn(__fadd_rn(t40, t79), 2.0f, __fadd_rn(state.theta2_dot, t118)), 0.033333335f, state.theta2);
    const float t155 = __fmaf_rn(__fadd_rn(t75, t114), 2.0f, __fadd_rn(t36, -__fdiv_rn(__fmaf_rn(t130, t152, t150), t129)));
    const float t156 = __fmaf_rn(t155, 0.033333335f, state.theta1_dot);
    const float t157 = __fmaf_rn(__fmaf_rn(__fadd_rn(t74, t113), 2.0f, __fadd_rn(t35, t152)), 0.033333335f, state.theta2_dot);
    const float t158 = (3.1415927f < t153) ? __fsub_rn(t153, 6.2831855f) : t153;
    const float t159 = (t158 < (-3.1415927f)) ? __fadd_rn(t158, 6.2831855f) : t158;
    const float t160 = (3.1415927f < t159) ? __fsub_rn(t159, 6.2831855f) : t159;
    const float theta1 = (t160 < (-3.1415927f)) ? __fadd_rn(t160, 6.2831855f) : t160;
    const float t161 = (3.1415927f < t154) ? __fsub_rn(t154, 6.2831855f) : t154;
    const float t162 = (t161 < (-3.1415927f)) ? __fadd_rn(t161, 6.2831855f) : t161;
    const float t163 = (3.1415927f < t162) ? __fsub_rn(t162, 6.2831855f) : t162;
    const float theta2 = (t163 < (-3.1415927f)) ? __fadd_rn(t163, 6.2831855f) : t163;
    const float t164 = (t156 < (-12.566371f)) ? (-12.566371f) : t156;
    const float theta1_dot = (12.566371f < t164) ? 12.566371f : t164;
    const float t165 = (t157 < (-28.274334f)) ? (-28.274334f) : t157;
    const float theta2_dot = (28.274334f < t165) ? 28.274334f : t165;
    const float t166 = rintf(__fmul_rn(theta1, 0.63661975f));
    const float t167 = __fmaf_rn(t166, 1.7151245e-15f, __fmaf_rn(t166, 4.371139e-8f, __fmaf_rn(t166, -1.5707964f, theta1)));
    const float t168 = __fmul_rn(t167, t167);
    const float t169 = __fmaf_rn(__fmul_rn(t167, t168), __fmaf_rn(__fmaf_rn(-0.00019515296f, t168, 0.008332161f), t168, -0.16666655f), t167);
    const float t170 = __fmaf_rn(__fmul_rn(t168, t168), __fmaf_rn(__fmaf_rn(2.4433157e-5f, t168, -0.0013887316f), t168, 0.041666646f), __fmaf_rn(t168, -0.5f, 1.0f));
    const int t171 = __float2int_rz(t166);
    const float t172 = (!((t171 & 1) == 0)) ? t169 : t170;
    const float t173 = __fadd_rn(theta2, theta1);
    const float t174 = rintf(__fmul_rn(t173, 0.63661975f));
    const float t175 = __fmaf_rn(t174, 1.7151245e-15f, __fmaf_rn(t174, 4.371139e-8f, __fmaf_rn(t174, -1.5707964f, t173)));
    const float t176 = __fmul_rn(t175, t175);
    const float t177 = __fmaf_rn(__fmul_rn(t175, t176), __fmaf_rn(__fmaf_rn(-0.00019515296f, t176, 0.008332161f), t176, -0.16666655f), t175);
    const float t178 = __fmaf_rn(__fmul_rn(t176, t176), __fmaf_rn(__fmaf_rn(2.4433157e-5f, t176, -0.0013887316f), t176, 0.041666646f), __fmaf_rn(t176, -0.5f, 1.0f));
    const int t179 = __float2int_rz(t174);
    const float t180 = (!((t179 & 1) == 0)) ? t177 : t178;
    const float t181 = __fsub_rn(-((!((((int)((unsigned)t171 + (unsigned)1)) & 2) == 0)) ? (-t172) : t172), (!((((int)((unsigned)t179 + (unsigned)1)) & 2) == 0)) ? (-t180) : t180);
    const bool above = 1.0f < t181;
    next.theta1 = theta1;
    next.theta2 = theta2;
    next.theta1_dot = theta1_dot;
    next.theta2_dot = theta2_dot;
    reward = above ? 0.0f : (-1.0f);
    terminated = above;
}

__device__ __forceinline__ void env_observe(
    const EnvState& state, float* obs) {
    const float t1 = rintf(__fmul_rn(state.theta1, 0.63661975f));
    const float t2 = __fmaf_rn(t1, 1.7151245e-15f, __fmaf_rn(t1, 4.371139e-8f, __fmaf_rn(t1, -1.5707964f, state.theta1)));
    const float t3 = __fmul_rn(t2, t2);
    const float t4 = __fmaf_rn(__fmul_rn(t2, t3), __fmaf_rn(__fmaf_rn(-0.00019515296f, t3, 0.008332161f), t3, -0.16666655f), t2);
    const float t5 = __fmaf_rn(__fmul_rn(t3, t3), __fmaf_rn(__fmaf_rn(2.4433157e-5f, t3, -0.0013887316f), t3, 0.041666646f), __fmaf_rn(t3, -0.5f, 1.0f));
    const int t6 = __float2int_rz(t1);
    const bool t7 = !((t6 & 1) == 0);
    const float t8 = t7 ? t5 : t4;
    const float t9 = t7 ? t4 : t5;
    const float t10 = rintf(__fmul_rn(state.theta2, 0.63661975f));
    const float t11 = __fmaf_rn(t10, 1.7151245e-15f, __fmaf_rn(t10, 4.371139e-8f, __fmaf_rn(t10, -1.5707964f, state.theta2)));
    const float t12 = __fmul_rn(t11, t11);
    const float t13 = __fmaf_rn(__fmul_rn(t11, t12), __fmaf_rn(__fmaf_rn(-0.00019515296f, t12, 0.008332161f), t12, -0.16666655f), t11);
    const float t14 = __fmaf_rn(__fmul_rn(t12, t12), __fmaf_rn(__fmaf_rn(2.4433157e-5f, t12, -0.0013887316f), t12, 0.041666646f), __fmaf_rn(t12, -0.5f, 1.0f));
    const int t15 = __float2int_rz(t10);
    const bool t16 = !((t15 & 1) == 0);
    const float t17 = t16 ? t14 : t13;
    const float t18 = t16 ? t13 : t14;
    obs[0] = (!((((int)((unsigned)t6 + (unsigned)1)) & 2) == 0)) ? (-t9) : t9;
    obs[1] = (!((t6 & 2) == 0)) ? (-t8) : t8;
    obs[2] = (!((((int)((unsigned)t15 + (unsigned)1)) & 2) == 0)) ? (-t18) : t18;
    obs[3] = (!((t15 & 2) == 0)) ? (-t17) : t17;
    obs[4] = state.theta1_dot;
    obs[5] = state.theta2_dot;
}
