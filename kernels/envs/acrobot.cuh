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
    const float t1 = (fabsf(state.theta2) <= 1048576.0f) ? state.theta2 : __uint_as_float(0x7fc00000u);
    const float t2 = rintf(__fmul_rn(t1, 0.63661975f));
    const float t3 = __fmaf_rn(t2, 1.7151245e-15f, __fmaf_rn(t2, 4.371139e-8f, __fmaf_rn(t2, -1.5707964f, t1)));
    const float t4 = __fmul_rn(t3, t3);
    const float t5 = __fmaf_rn(__fmul_rn(t3, t4), __fmaf_rn(__fmaf_rn(-0.00019515296f, t4, 0.008332161f), t4, -0.16666655f), t3);
    const float t6 = __fmaf_rn(__fmul_rn(t4, t4), __fmaf_rn(__fmaf_rn(2.4433157e-5f, t4, -0.0013887316f), t4, 0.041666646f), __fmaf_rn(t4, -0.5f, 1.0f));
    const int t7 = __float2int_rz(t2);
    const bool t8 = !((t7 & 1) == 0);
    const float t9 = t8 ? t6 : t5;
    const float t10 = t8 ? t5 : t6;
    const float t11 = (!((((int)((unsigned)t7 + (unsigned)1)) & 2) == 0)) ? (-t10) : t10;
    const float t12 = __fmaf_rn(t11, 1.0f, 3.5f);
    const float t13 = __fmaf_rn(t11, 0.5f, 1.25f);
    const float t14 = __fsub_rn(__fadd_rn(state.theta1, state.theta2), 1.5707964f);
    const float t15 = (fabsf(t14) <= 1048576.0f) ? t14 : __uint_as_float(0x7fc00000u);
    const float t16 = rintf(__fmul_rn(t15, 0.63661975f));
    const float t17 = __fmaf_rn(t16, 1.7151245e-15f, __fmaf_rn(t16, 4.371139e-8f, __fmaf_rn(t16, -1.5707964f, t15)));
    const float t18 = __fmul_rn(t17, t17);
    const float t19 = __fmaf_rn(__fmul_rn(t17, t18), __fmaf_rn(__fmaf_rn(-0.00019515296f, t18, 0.008332161f), t18, -0.16666655f), t17);
    const float t20 = __fmaf_rn(__fmul_rn(t18, t18), __fmaf_rn(__fmaf_rn(2.4433157e-5f, t18, -0.0013887316f), t18, 0.041666646f), __fmaf_rn(t18, -0.5f, 1.0f));
    const int t21 = __float2int_rz(t16);
    const float t22 = (!((t21 & 1) == 0)) ? t19 : t20;
    const float t23 = __fmul_rn((!((((int)((unsigned)t21 + (unsigned)1)) & 2) == 0)) ? (-t22) : t22, 4.9f);
    const float t24 = __fmul_rn((!((t7 & 2) == 0)) ? (-t9) : t9, 0.5f);
    const float t25 = __fsub_rn(state.theta1, 1.5707964f);
    const float t26 = (fabsf(t25) <= 1048576.0f) ? t25 : __uint_as_float(0x7fc00000u);
    const float t27 = rintf(__fmul_rn(t26, 0.63661975f));
    const float t28 = __fmaf_rn(t27, 1.7151245e-15f, __fmaf_rn(t27, 4.371139e-8f, __fmaf_rn(t27, -1.5707964f, t26)));
    const float t29 = __fmul_rn(t28, t28);
    const float t30 = __fmaf_rn(__fmul_rn(t28, t29), __fmaf_rn(__fmaf_rn(-0.00019515296f, t29, 0.008332161f), t29, -0.16666655f), t28);
    const float t31 = __fmaf_rn(__fmul_rn(t29, t29), __fmaf_rn(__fmaf_rn(2.4433157e-5f, t29, -0.0013887316f), t29, 0.041666646f), __fmaf_rn(t29, -0.5f, 1.0f));
    const int t32 = __float2int_rz(t27);
    const float t33 = (!((t32 & 1) == 0)) ? t30 : t31;
    const float t34 = __fmaf_rn((!((((int)((unsigned)t32 + (unsigned)1)) & 2) == 0)) ? (-t33) : t33, 14.7f, t23);
    const float t35 = __fmaf_rn(__fmul_rn(t24, state.theta2_dot), -__fadd_rn(state.theta2_dot, __fmul_rn(state.theta1_dot, 2.0f)), t34);
    const float t36 = __fdiv_rn(t13, t12);
    const float t37 = __fsub_rn(__fmaf_rn(t36, t35, torque), __fmaf_rn(__fmul_rn(t24, state.theta1_dot), state.theta1_dot, t23));
    const float t38 = __fdiv_rn(t37, __fmaf_rn(t36, -t13, 1.25f));
    const float t39 = -__fdiv_rn(__fmaf_rn(t13, t38, t35), t12);
    const float t40 = __fmaf_rn(state.theta1_dot, 0.1f, state.theta1);
    const float t41 = __fmaf_rn(state.theta2_dot, 0.1f, state.theta2);
    const float t42 = __fmaf_rn(t39, 0.1f, state.theta1_dot);
    const float t43 = __fmaf_rn(t38, 0.1f, state.theta2_dot);
    const float t44 = (fabsf(t41) <= 1048576.0f) ? t41 : __uint_as_float(0x7fc00000u);
    const float t45 = rintf(__fmul_rn(t44, 0.63661975f));
    const float t46 = __fmaf_rn(t45, 1.7151245e-15f, __fmaf_rn(t45, 4.371139e-8f, __fmaf_rn(t45, -1.5707964f, t44)));
    const float t47 = __fmul_rn(t46, t46);
    const float t48 = __fmaf_rn(__fmul_rn(t46, t47), __fmaf_rn(__fmaf_rn(-0.00019515296f, t47, 0.008332161f), t47, -0.16666655f), t46);
    const float t49 = __fmaf_rn(__fmul_rn(t47, t47), __fmaf_rn(__fmaf_rn(2.4433157e-5f, t47, -0.0013887316f), t47, 0.041666646f), __fmaf_rn(t47, -0.5f, 1.0f));
    const int t50 = __float2int_rz(t45);
    const bool t51 = !((t50 & 1) == 0);
    const float t52 = t51 ? t49 : t48;
    const float t53 = t51 ? t48 : t49;
    const float t54 = (!((((int)((unsigned)t50 + (unsigned)1)) & 2) == 0)) ? (-t53) : t53;
    const float t55 = __fmaf_rn(t54, 1.0f, 3.5f);
    const float t56 = __fmaf_rn(t54, 0.5f, 1.25f);
    const float t57 = __fsub_rn(__fadd_rn(t40, t41), 1.5707964f);
    const float t58 = (fabsf(t57) <= 1048576.0f) ? t57 : __uint_as_float(0x7fc00000u);
    const float t59 = rintf(__fmul_rn(t58, 0.63661975f));
    const float t60 = __fmaf_rn(t59, 1.7151245e-15f, __fmaf_rn(t59, 4.371139e-8f, __fmaf_rn(t59, -1.5707964f, t58)));
    const float t61 = __fmul_rn(t60, t60);
    const float t62 = __fmaf_rn(__fmul_rn(t60, t61), __fmaf_rn(__fmaf_rn(-0.00019515296f, t61, 0.008332161f), t61, -0.16666655f), t60);
    const float t63 = __fmaf_rn(__fmul_rn(t61, t61), __fmaf_rn(__fmaf_rn(2.4433157e-5f, t61, -0.0013887316f), t61, 0.041666646f), __fmaf_rn(t61, -0.5f, 1.0f));
    const int t64 = __float2int_rz(t59);
    const float t65 = (!((t64 & 1) == 0)) ? t62 : t63;
    const float t66 = __fmul_rn((!((((int)((unsigned)t64 + (unsigned)1)) & 2) == 0)) ? (-t65) : t65, 4.9f);
    const float t67 = __fmul_rn((!((t50 & 2) == 0)) ? (-t52) : t52, 0.5f);
    const float t68 = __fsub_rn(t40, 1.5707964f);
    const float t69 = (fabsf(t68) <= 1048576.0f) ? t68 : __uint_as_float(0x7fc00000u);
    const float t70 = rintf(__fmul_rn(t69, 0.63661975f));
    const float t71 = __fmaf_rn(t70, 1.7151245e-15f, __fmaf_rn(t70, 4.371139e-8f, __fmaf_rn(t70, -1.5707964f, t69)));
    const float t72 = __fmul_rn(t71, t71);
    const float t73 = __fmaf_rn(__fmul_rn(t71, t72), __fmaf_rn(__fmaf_rn(-0.00019515296f, t72, 0.008332161f), t72, -0.16666655f), t71);
    const float t74 = __fmaf_rn(__fmul_rn(t72, t72), __fmaf_rn(__fmaf_rn(2.4433157e-5f, t72, -0.0013887316f), t72, 0.041666646f), __fmaf_rn(t72, -0.5f, 1.0f));
    const int t75 = __float2int_rz(t70);
    const float t76 = (!((t75 & 1) == 0)) ? t73 : t74;
    const float t77 = __fmaf_rn((!((((int)((unsigned)t75 + (unsigned)1)) & 2) == 0)) ? (-t76) : t76, 14.7f, t66);
    const float t78 = __fmaf_rn(__fmul_rn(t67, t43), -__fadd_rn(t43, __fmul_rn(t42, 2.0f)), t77);
    const float t79 = __fdiv_rn(t56, t55);
    const float t80 = __fdiv_rn(__fsub_rn(__fmaf_rn(t79, t78, torque), __fmaf_rn(__fmul_rn(t67, t42), t42, t66)), __fmaf_rn(t79, -t56, 1.25f));
    const float t81 = -__fdiv_rn(__fmaf_rn(t56, t80, t78), t55);
    const float t82 = __fmaf_rn(t42, 0.1f, state.theta1);
    const float t83 = __fmaf_rn(t43, 0.1f, state.theta2);
    const float t84 = __fmaf_rn(t81, 0.1f, state.theta1_dot);
    const float t85 = __fmaf_rn(t80, 0.1f, state.theta2_dot);
    const float t86 = (fabsf(t83) <= 1048576.0f) ? t83 : __uint_as_float(0x7fc00000u);
    const float t87 = rintf(__fmul_rn(t86, 0.63661975f));
    const float t88 = __fmaf_rn(t87, 1.7151245e-15f, __fmaf_rn(t87, 4.371139e-8f, __fmaf_rn(t87, -1.5707964f, t86)));
    const float t89 = __fmul_rn(t88, t88);
    const float t90 = __fmaf_rn(__fmul_rn(t88, t89), __fmaf_rn(__fmaf_rn(-0.00019515296f, t89, 0.008332161f), t89, -0.16666655f), t88);
    const float t91 = __fmaf_rn(__fmul_rn(t89, t89), __fmaf_rn(__fmaf_rn(2.4433157e-5f, t89, -0.0013887316f), t89, 0.041666646f), __fmaf_rn(t89, -0.5f, 1.0f));
    const int t92 = __float2int_rz(t87);
    const bool t93 = !((t92 & 1) == 0);
    const float t94 = t93 ? t91 : t90;
    const float t95 = t93 ? t90 : t91;
    const float t96 = (!((((int)((unsigned)t92 + (unsigned)1)) & 2) == 0)) ? (-t95) : t95;
    const float t97 = __fmaf_rn(t96, 1.0f, 3.5f);
    const float t98 = __fmaf_rn(t96, 0.5f, 1.25f);
    const float t99 = __fsub_rn(__fadd_rn(t82, t83), 1.5707964f);
    const float t100 = (fabsf(t99) <= 1048576.0f) ? t99 : __uint_as_float(0x7fc00000u);
    const float t101 = rintf(__fmul_rn(t100, 0.63661975f));
    const float t102 = __fmaf_rn(t101, 1.7151245e-15f, __fmaf_rn(t101, 4.371139e-8f, __fmaf_rn(t101, -1.5707964f, t100)));
    const float t103 = __fmul_rn(t102, t102);
    const float t104 = __fmaf_rn(__fmul_rn(t102, t103), __fmaf_rn(__fmaf_rn(-0.00019515296f, t103, 0.008332161f), t103, -0.16666655f), t102);
    const float t105 = __fmaf_rn(__fmul_rn(t103, t103), __fmaf_rn(__fmaf_rn(2.4433157e-5f, t103, -0.0013887316f), t103, 0.041666646f), __fmaf_rn(t103, -0.5f, 1.0f));
    const int t106 = __float2int_rz(t101);
    const float t107 = (!((t106 & 1) == 0)) ? t104 : t105;
    const float t108 = __fmul_rn((!((((int)((unsigned)t106 + (unsigned)1)) & 2) == 0)) ? (-t107) : t107, 4.9f);
    const float t109 = __fmul_rn((!((t92 & 2) == 0)) ? (-t94) : t94, 0.5f);
    const float t110 = __fsub_rn(t82, 1.5707964f);
    const float t111 = (fabsf(t110) <= 1048576.0f) ? t110 : __uint_as_float(0x7fc00000u);
    const float t112 = rintf(__fmul_rn(t111, 0.63661975f));
    const float t113 = __fmaf_rn(t112, 1.7151245e-15f, __fmaf_rn(t112, 4.371139e-8f, __fmaf_rn(t112, -1.5707964f, t111)));
    const float t114 = __fmul_rn(t113, t113);
    const float t115 = __fmaf_rn(__fmul_rn(t113, t114), __fmaf_rn(__fmaf_rn(-0.00019515296f, t114, 0.008332161f), t114, -0.16666655f), t113);
    const float t116 = __fmaf_rn(__fmul_rn(t114, t114), __fmaf_rn(__fmaf_rn(2.4433157e-5f, t114, -0.0013887316f), t114, 0.041666646f), __fmaf_rn(t114, -0.5f, 1.0f));
    const int t117 = __float2int_rz(t112);
    const float t118 = (!((t117 & 1) == 0)) ? t115 : t116;
    const float t119 = __fmaf_rn((!((((int)((unsigned)t117 + (unsigned)1)) & 2) == 0)) ? (-t118) : t118, 14.7f, t108);
    const float t120 = __fmaf_rn(__fmul_rn(t109, t85), -__fadd_rn(t85, __fmul_rn(t84, 2.0f)), t119);
    const float t121 = __fdiv_rn(t98, t97);
    const float t122 = __fdiv_rn(__fsub_rn(__fmaf_rn(t121, t120, torque), __fmaf_rn(__fmul_rn(t109, t84), t84, t108)), __fmaf_rn(t121, -t98, 1.25f));
    const float t123 = -__fdiv_rn(__fmaf_rn(t98, t122, t120), t97);
    const float t124 = __fmaf_rn(t84, 0.2f, state.theta1);
    const float t125 = __fmaf_rn(t85, 0.2f, state.theta2);
    const float t126 = __fmaf_rn(t123, 0.2f, state.theta1_dot);
    const float t127 = __fmaf_rn(t122, 0.2f, state.theta2_dot);
    const float t128 = (fabsf(t125) <= 1048576.0f) ? t125 : __uint_as_float(0x7fc00000u);
    const float t129 = rintf(__fmul_rn(t128, 0.63661975f));
    const float t130 = __fmaf_rn(t129, 1.7151245e-15f, __fmaf_rn(t129, 4.371139e-8f, __fmaf_rn(t129, -1.5707964f, t128)));
    const float t131 = __fmul_rn(t130, t130);
    const float t132 = __fmaf_rn(__fmul_rn(t130, t131), __fmaf_rn(__fmaf_rn(-0.00019515296f, t131, 0.008332161f), t131, -0.16666655f), t130);
    const float t133 = __fmaf_rn(__fmul_rn(t131, t131), __fmaf_rn(__fmaf_rn(2.4433157e-5f, t131, -0.0013887316f), t131, 0.041666646f), __fmaf_rn(t131, -0.5f, 1.0f));
    const int t134 = __float2int_rz(t129);
    const bool t135 = !((t134 & 1) == 0);
    const float t136 = t135 ? t133 : t132;
    const float t137 = t135 ? t132 : t133;
    const float t138 = (!((((int)((unsigned)t134 + (unsigned)1)) & 2) == 0)) ? (-t137) : t137;
    const float t139 = __fmaf_rn(t138, 1.0f, 3.5f);
    const float t140 = __fmaf_rn(t138, 0.5f, 1.25f);
    const float t141 = __fsub_rn(__fadd_rn(t124, t125), 1.5707964f);
    const float t142 = (fabsf(t141) <= 1048576.0f) ? t141 : __uint_as_float(0x7fc00000u);
    const float t143 = rintf(__fmul_rn(t142, 0.63661975f));
    const float t144 = __fmaf_rn(t143, 1.7151245e-15f, __fmaf_rn(t143, 4.371139e-8f, __fmaf_rn(t143, -1.5707964f, t142)));
    const float t145 = __fmul_rn(t144, t144);
    const float t146 = __fmaf_rn(__fmul_rn(t144, t145), __fmaf_rn(__fmaf_rn(-0.00019515296f, t145, 0.008332161f), t145, -0.16666655f), t144);
    const float t147 = __fmaf_rn(__fmul_rn(t145, t145), __fmaf_rn(__fmaf_rn(2.4433157e-5f, t145, -0.0013887316f), t145, 0.041666646f), __fmaf_rn(t145, -0.5f, 1.0f));
    const int t148 = __float2int_rz(t143);
    const float t149 = (!((t148 & 1) == 0)) ? t146 : t147;
    const float t150 = __fmul_rn((!((((int)((unsigned)t148 + (unsigned)1)) & 2) == 0)) ? (-t149) : t149, 4.9f);
    const float t151 = __fmul_rn((!((t134 & 2) == 0)) ? (-t136) : t136, 0.5f);
    const float t152 = __fsub_rn(t124, 1.5707964f);
    const float t153 = (fabsf(t152) <= 1048576.0f) ? t152 : __uint_as_float(0x7fc00000u);
    const float t154 = rintf(__fmul_rn(t153, 0.63661975f));
    const float t155 = __fmaf_rn(t154, 1.7151245e-15f, __fmaf_rn(t154, 4.371139e-8f, __fmaf_rn(t154, -1.5707964f, t153)));
    const float t156 = __fmul_rn(t155, t155);
    const float t157 = __fmaf_rn(__fmul_rn(t155, t156), __fmaf_rn(__fmaf_rn(-0.00019515296f, t156, 0.008332161f), t156, -0.16666655f), t155);
    const float t158 = __fmaf_rn(__fmul_rn(t156, t156), __fmaf_rn(__fmaf_rn(2.4433157e-5f, t156, -0.0013887316f), t156, 0.041666646f), __fmaf_rn(t156, -0.5f, 1.0f));
    const int t159 = __float2int_rz(t154);
    const float t160 = (!((t159 & 1) == 0)) ? t157 : t158;
    const float t161 = __fmaf_rn((!((((int)((unsigned)t159 + (unsigned)1)) & 2) == 0)) ? (-t160) : t160, 14.7f, t150);
    const float t162 = __fmaf_rn(__fmul_rn(t151, t127), -__fadd_rn(t127, __fmul_rn(t126, 2.0f)), t161);
    const float t163 = __fdiv_rn(t140, t139);
    const float t164 = __fdiv_rn(__fsub_rn(__fmaf_rn(t163, t162, torque), __fmaf_rn(__fmul_rn(t151, t126), t126, t150)), __fmaf_rn(t163, -t140, 1.25f));
    const float t165 = __fmaf_rn(__fmaf_rn(__fadd_rn(t42, t84), 2.0f, __fadd_rn(state.theta1_dot, t126)), 0.033333335f, state.theta1);
    const float t166 = __fmaf_rn(__fmaf_rn(__fadd_rn(t43, t85), 2.0f, __fadd_rn(state.theta2_dot, t127)), 0.033333335f, state.theta2);
    const float t167 = __fmaf_rn(__fadd_rn(t81, t123), 2.0f, __fadd_rn(t39, -__fdiv_rn(__fmaf_rn(t140, t164, t162), t139)));
    const float t168 = __fmaf_rn(t167, 0.033333335f, state.theta1_dot);
    const float t169 = __fmaf_rn(__fmaf_rn(__fadd_rn(t80, t122), 2.0f, __fadd_rn(t38, t164)), 0.033333335f, state.theta2_dot);
    const float t170 = (3.1415927f < t165) ? __fsub_rn(t165, 6.2831855f) : t165;
    const float t171 = (t170 < (-3.1415927f)) ? __fadd_rn(t170, 6.2831855f) : t170;
    const float t172 = (3.1415927f < t171) ? __fsub_rn(t171, 6.2831855f) : t171;
    const float theta1 = (t172 < (-3.1415927f)) ? __fadd_rn(t172, 6.2831855f) : t172;
    const float t173 = (3.1415927f < t166) ? __fsub_rn(t166, 6.2831855f) : t166;
    const float t174 = (t173 < (-3.1415927f)) ? __fadd_rn(t173, 6.2831855f) : t173;
    const float t175 = (3.1415927f < t174) ? __fsub_rn(t174, 6.2831855f) : t174;
    const float theta2 = (t175 < (-3.1415927f)) ? __fadd_rn(t175, 6.2831855f) : t175;
    const float t176 = (t168 < (-12.566371f)) ? (-12.566371f) : t168;
    const float theta1_dot = (12.566371f < t176) ? 12.566371f : t176;
    const float t177 = (t169 < (-28.274334f)) ? (-28.274334f) : t169;
    const float theta2_dot = (28.274334f < t177) ? 28.274334f : t177;
    const float t178 = (fabsf(theta1) <= 1048576.0f) ? theta1 : __uint_as_float(0x7fc00000u);
    const float t179 = rintf(__fmul_rn(t178, 0.63661975f));
    const float t180 = __fmaf_rn(t179, 1.7151245e-15f, __fmaf_rn(t179, 4.371139e-8f, __fmaf_rn(t179, -1.5707964f, t178)));
    const float t181 = __fmul_rn(t180, t180);
    const float t182 = __fmaf_rn(__fmul_rn(t180, t181), __fmaf_rn(__fmaf_rn(-0.00019515296f, t181, 0.008332161f), t181, -0.16666655f), t180);
    const float t183 = __fmaf_rn(__fmul_rn(t181, t181), __fmaf_rn(__fmaf_rn(2.4433157e-5f, t181, -0.0013887316f), t181, 0.041666646f), __fmaf_rn(t181, -0.5f, 1.0f));
    const int t184 = __float2int_rz(t179);
    const float t185 = (!((t184 & 1) == 0)) ? t182 : t183;
    const float t186 = __fadd_rn(theta2, theta1);
    const float t187 = (fabsf(t186) <= 1048576.0f) ? t186 : __uint_as_float(0x7fc00000u);
    const float t188 = rintf(__fmul_rn(t187, 0.63661975f));
    const float t189 = __fmaf_rn(t188, 1.7151245e-15f, __fmaf_rn(t188, 4.371139e-8f, __fmaf_rn(t188, -1.5707964f, t187)));
    const float t190 = __fmul_rn(t189, t189);
    const float t191 = __fmaf_rn(__fmul_rn(t189, t190), __fmaf_rn(__fmaf_rn(-0.00019515296f, t190, 0.008332161f), t190, -0.16666655f), t189);
    const float t192 = __fmaf_rn(__fmul_rn(t190, t190), __fmaf_rn(__fmaf_rn(2.4433157e-5f, t190, -0.0013887316f), t190, 0.041666646f), __fmaf_rn(t190, -0.5f, 1.0f));
    const int t193 = __float2int_rz(t188);
    const float t194 = (!((t193 & 1) == 0)) ? t191 : t192;
    const float t195 = __fsub_rn(-((!((((int)((unsigned)t184 + (unsigned)1)) & 2) == 0)) ? (-t185) : t185), (!((((int)((unsigned)t193 + (unsigned)1)) & 2) == 0)) ? (-t194) : t194);
    const bool above = 1.0f < t195;
    next.theta1 = theta1;
    next.theta2 = theta2;
    next.theta1_dot = theta1_dot;
    next.theta2_dot = theta2_dot;
    reward = above ? 0.0f : (-1.0f);
    terminated = above;
}

__device__ __forceinline__ void env_observe(
    const EnvState& state, float* obs) {
    const float t1 = (fabsf(state.theta1) <= 1048576.0f) ? state.theta1 : __uint_as_float(0x7fc00000u);
    const float t2 = rintf(__fmul_rn(t1, 0.63661975f));
    const float t3 = __fmaf_rn(t2, 1.7151245e-15f, __fmaf_rn(t2, 4.371139e-8f, __fmaf_rn(t2, -1.5707964f, t1)));
    const float t4 = __fmul_rn(t3, t3);
    const float t5 = __fmaf_rn(__fmul_rn(t3, t4), __fmaf_rn(__fmaf_rn(-0.00019515296f, t4, 0.008332161f), t4, -0.16666655f), t3);
    const float t6 = __fmaf_rn(__fmul_rn(t4, t4), __fmaf_rn(__fmaf_rn(2.4433157e-5f, t4, -0.0013887316f), t4, 0.041666646f), __fmaf_rn(t4, -0.5f, 1.0f));
    const int t7 = __float2int_rz(t2);
    const bool t8 = !((t7 & 1) == 0);
    const float t9 = t8 ? t6 : t5;
    const float t10 = t8 ? t5 : t6;
    const float t11 = (fabsf(state.theta2) <= 1048576.0f) ? state.theta2 : __uint_as_float(0x7fc00000u);
    const float t12 = rintf(__fmul_rn(t11, 0.63661975f));
    const float t13 = __fmaf_rn(t12, 1.7151245e-15f, __fmaf_rn(t12, 4.371139e-8f, __fmaf_rn(t12, -1.5707964f, t11)));
    const float t14 = __fmul_rn(t13, t13);
    const float t15 = __fmaf_rn(__fmul_rn(t13, t14), __fmaf_rn(__fmaf_rn(-0.00019515296f, t14, 0.008332161f), t14, -0.16666655f), t13);
    const float t16 = __fmaf_rn(__fmul_rn(t14, t14), __fmaf_rn(__fmaf_rn(2.4433157e-5f, t14, -0.0013887316f), t14, 0.041666646f), __fmaf_rn(t14, -0.5f, 1.0f));
    const int t17 = __float2int_rz(t12);
    const bool t18 = !((t17 & 1) == 0);
    const float t19 = t18 ? t16 : t15;
    const float t20 = t18 ? t15 : t16;
    obs[0] = (!((((int)((unsigned)t7 + (unsigned)1)) & 2) == 0)) ? (-t10) : t10;
    obs[1] = (!((t7 & 2) == 0)) ? (-t9) : t9;
    obs[2] = (!((((int)((unsigned)t17 + (unsigned)1)) & 2) == 0)) ? (-t20) : t20;
    obs[3] = (!((t17 & 2) == 0)) ? (-t19) : t19;
    obs[4] = state.theta1_dot;
    obs[5] = state.theta2_dot;
}
