// The offsets of the fields of a packed sample, in words: obs | actions | logprob | value | advantage | mask | zeros up to
// SAMPLE_STRIDE. Twin of operant-learn's SampleLayout.
#pragma once

constexpr unsigned SAMPLE_ACTIONS = ENV_OBS_WORDS;
constexpr unsigned SAMPLE_LOGPROB = SAMPLE_ACTIONS + ENV_COMPONENTS;
constexpr unsigned SAMPLE_VALUE = SAMPLE_LOGPROB + 1u;
constexpr unsigned SAMPLE_ADVANTAGE = SAMPLE_LOGPROB + 2u;
constexpr unsigned SAMPLE_MASK = SAMPLE_LOGPROB + 3u;
static_assert(SAMPLE_MASK + MASK_WORDS <= SAMPLE_STRIDE && SAMPLE_STRIDE % 4u == 0u, "a sample fits its stride");
static_assert(width(0u) == ENV_OBS && OUTPUTS == ENV_ACTIONS, "the network is the environment's");
