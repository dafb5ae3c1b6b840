// The offsets of the fields of a packed sample, in words: obs | actions | logprob, of a policy | value | advantage | value and advantage of rewards
// for exploring, with INTRINSIC_VALUE | keep, with memory | mask | zeros up to SAMPLE_STRIDE. Twin of operant-learn's SampleLayout.
#pragma once

// Numbers of state of layers with memory, which the fused path does not have.
#ifndef STATES
#define STATES 0u
#endif
// 1: the network computes action values and no policy. On the GEMM path only.
#ifndef ACTION_VALUES
#define ACTION_VALUES 0
#endif
// 1: rewards for exploring have a value of their own, and SAMPLE_ADVANTAGE is the sum of both advantages. On the GEMM path only.
#ifndef INTRINSIC_VALUE
#define INTRINSIC_VALUE 0
#endif

constexpr unsigned SAMPLE_ACTIONS = ENV_OBS_WORDS;
constexpr unsigned SAMPLE_LOGPROB = SAMPLE_ACTIONS + ENV_COMPONENTS;
constexpr unsigned SAMPLE_VALUE = SAMPLE_LOGPROB + (ACTION_VALUES ? 0u : 1u);
constexpr unsigned SAMPLE_ADVANTAGE = SAMPLE_VALUE + 1u;
constexpr unsigned SAMPLE_INTRINSIC = SAMPLE_VALUE + 2u, SAMPLE_AFTER_VALUES = SAMPLE_INTRINSIC + (INTRINSIC_VALUE ? 2u : 0u);
#if STATES
constexpr unsigned SAMPLE_KEEP = SAMPLE_AFTER_VALUES, SAMPLE_MASK = SAMPLE_KEEP + 1u;
#else
constexpr unsigned SAMPLE_MASK = SAMPLE_AFTER_VALUES;
#endif
static_assert(SAMPLE_MASK + MASK_WORDS <= SAMPLE_STRIDE && SAMPLE_STRIDE % 4u == 0u, "a sample fits its stride");
static_assert(width(0u) == ENV_OBS && OUTPUTS == ENV_ACTIONS * (LOG_STD_NETWORK || IS_BETA ? 2u : 1u), "the network is the environment's");
