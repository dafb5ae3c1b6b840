// The policy's distribution for one environment: sampling an action and its log-probability. Twins of operant-learn's heads.
//
// The head is the environment's: categorical over ENV_CHOICES per component, or ENV_ACTIONS independent normals. SQUASHED normals end in tanh;
// with LOG_STD_NETWORK their log standard deviations are outputs after the means. Or, with IS_BETA, Beta distributions.
#pragma once

// Random words that one action takes: one a component, a pair for every two normals, or four a round of a Beta distribution.
constexpr unsigned HEAD_DRAWS = ENV_DISCRETE ? ENV_COMPONENTS : IS_BETA ? ENV_ACTIONS * 4u * BETA_ROUNDS : (ENV_ACTIONS + 1u) / 2u * 2u;
constexpr unsigned MASK_WORDS = ENV_MASKED ? (ENV_ACTIONS + 31u) / 32u : 0u;

// Half the logarithm of 2 pi.
constexpr float HALF_LOG_TAU = 0.91893853f;

// Logit of an illegal choice; its probability is exactly zero.
constexpr float ILLEGAL = -1e8f;

#if ENV_DISCRETE
__device__ __forceinline__ constexpr unsigned first_logit(unsigned component) {
    unsigned first = 0u;
    for (unsigned c = 0u; c < component; ++c) first += env_choices(c);
    return first;
}

// Draws a choice for each component by inverting the cumulative distribution; returns the log-probability of all together.
// `logits` are ENV_ACTIONS numbers ROW words apart; `legal` is one bit per logit.
__device__ __forceinline__ float sample(
    const float* logits, const unsigned* legal, const float*, const float* uniforms, EnvAction* action, float* stored) {
    float logprob = 0.0f;
#pragma unroll
    for (unsigned component = 0u; component < ENV_COMPONENTS; ++component) {
        constexpr unsigned MOST = ENV_ACTIONS;
        const unsigned first = first_logit(component), count = env_choices(component);
        float log_p[MOST], p[MOST];
        float greatest = 0.0f, total = 0.0f;
#pragma unroll
        for (unsigned k = 0u; k < MOST; ++k) {
            if (k >= count) continue;
            float logit = logits[(first + k) * ROW];
            if (ENV_MASKED && (legal[(first + k) / 32u] >> (first + k) % 32u & 1u) == 0u) logit = ILLEGAL;
            log_p[k] = logit;
            greatest = k == 0u ? logit : max_nan(greatest, logit);
        }
#pragma unroll
        for (unsigned k = 0u; k < MOST; ++k) {
            if (k >= count) continue;
            log_p[k] -= greatest;
            p[k] = expf(log_p[k]);
            total += p[k];
        }
        const float log_total = logf(total), scale = 1.0f / total;
        total = 0.0f;
#pragma unroll
        for (unsigned k = 0u; k < MOST; ++k) {
            if (k >= count) continue;
            p[k] *= scale;
            total += p[k];
        }
        // The first choice whose cumulative probability exceeds the draw; where rounding leaves none, the last possible one.
        const float threshold = uniforms[component] * total;
        float sum = 0.0f;
        unsigned choice = 0u, last = 0u;
#pragma unroll
        for (unsigned k = 0u; k < MOST; ++k) {
            if (k >= count) continue;
            sum += p[k];
            if (sum <= threshold) ++choice;
            if (p[k] > 0.0f) last = k;
        }
        choice = choice < last ? choice : last;
        float chosen = log_p[0];
#pragma unroll
        for (unsigned k = 1u; k < MOST; ++k)
            if (k < count && choice == k) chosen = log_p[k];
        logprob += chosen - log_total;
        // Where no choice is legal, training must not go on as if one had been.
        if (ENV_MASKED && greatest <= ILLEGAL) logprob = __uint_as_float(0x7fc00000u);
        action[component] = choice;
        stored[component] = (float)choice;
    }
    return logprob;
}
#else
// Log standard deviations of a network are between -5 and 2.
constexpr float LOG_STD_CENTRE = -1.5f, LOG_STD_RADIUS = 3.5f;

__device__ __forceinline__ float log_std_of(const float* outputs, const float* log_std, unsigned k) {
    if (!LOG_STD_NETWORK) return log_std[k];
    return fmaf(tanh_rational((outputs[(ENV_ACTIONS + k) * ROW] - LOG_STD_CENTRE) * (1.0f / LOG_STD_RADIUS)), LOG_STD_RADIUS, LOG_STD_CENTRE);
}

// ln(1 - tanh(x)^2)
__device__ __forceinline__ float log_slope(float x) {
    return 2.0f * (0.69314718f - fabsf(x) - logf(1.0f + expf(-2.0f * fabsf(x))));
}

// A number within -1 and 1, stretched to the bounds.
__device__ __forceinline__ float stretched(float squashed, float low, float high) {
    return fmaf(squashed, 0.5f * (high - low), 0.5f * (low + high));
}

// The number of a sample as the environment takes it.
__device__ __forceinline__ float taken(float drawn, float low, float high) {
    if (SQUASHED) drawn = stretched(tanh_rational(drawn), low, high);
    if (IS_BETA) drawn = fmaf(drawn, high - low, low);
    return clamp(drawn, low, high);
}

// Two normals from two uniform numbers, by Box and Muller's transform.
__device__ __forceinline__ void box_muller(const float* uniforms, float (&normals)[2]) {
    // 1 - u is in (0, 1], whose logarithm is finite.
    const float radius = sqrtf(-2.0f * logf(1.0f - uniforms[0]));
    float sine, cosine;
    sincospif(2.0f * uniforms[1], &sine, &cosine);
    normals[0] = radius * cosine;
    normals[1] = radius * sine;
}

#if IS_BETA
#include "common/beta.cuh"

// Draws ENV_ACTIONS numbers in (0, 1); returns their log-probability. The environment gets them between its bounds.
__device__ __forceinline__ float sample(
    const float* outputs, const unsigned*, const float*, const float* uniforms, EnvAction* action, float* stored) {
    float logprob = 0.0f;
    for (unsigned k = 0u; k < ENV_ACTIONS; ++k) {
        const Beta beta(outputs[k * ROW], outputs[(ENV_ACTIONS + k) * ROW]);
        stored[k] = beta.sample(uniforms + k * 4u * BETA_ROUNDS);
        logprob += beta.logprob(stored[k]);
        action[k] = taken(stored[k], env_low(k), env_high(k));
    }
    return logprob;
}
#else
// Draws ENV_ACTIONS normals; returns their log-probability. The environment gets them
// clipped to its box or squashed into it, the sample keeps them as they are.
__device__ __forceinline__ float sample(
    const float* outputs, const unsigned*, const float* log_std, const float* uniforms, EnvAction* action, float* stored) {
    float logprob = 0.0f;
#pragma unroll
    for (unsigned pair = 0u; pair < ENV_ACTIONS; pair += 2u) {
        float normals[2];
        box_muller(uniforms + pair, normals);
#pragma unroll
        for (unsigned i = 0u; i < 2u; ++i) {
            const unsigned k = pair + i;
            if (k >= ENV_ACTIONS) continue;
            const float mean = outputs[k * ROW], spread = log_std_of(outputs, log_std, k);
            stored[k] = fmaf(expf(spread), normals[i], mean);
            const float distance = (stored[k] - mean) * expf(-spread);
            logprob += fmaf(distance * -0.5f, distance, -(spread + HALF_LOG_TAU));
            if (SQUASHED) logprob -= log_slope(stored[k]);
            action[k] = taken(stored[k], env_low(k), env_high(k));
        }
    }
    return logprob;
}
#endif
#endif

// The log-probability of actions whose distribution has the parameters `outputs`, ROW words apart.
__device__ __forceinline__ float logprob_of(const float* outputs, const unsigned* legal, const float* log_std, const float* actions) {
    float logprob = 0.0f;
#if ENV_DISCRETE
#pragma unroll
    for (unsigned component = 0u; component < ENV_COMPONENTS; ++component) {
        const unsigned first = first_logit(component), end = first + env_choices(component);
        auto logit_of = [&](unsigned k) { return ENV_MASKED && (legal[k / 32u] >> k % 32u & 1u) == 0u ? ILLEGAL : outputs[k * ROW]; };
        float greatest = logit_of(first), total = 0.0f;
        for (unsigned k = first + 1u; k < end; ++k) greatest = max_nan(greatest, logit_of(k));
        for (unsigned k = first; k < end; ++k) total += expf(logit_of(k) - greatest);
        logprob += logit_of(first + (unsigned)actions[component]) - greatest - logf(total);
    }
#elif IS_BETA
    for (unsigned k = 0u; k < ENV_ACTIONS; ++k) logprob += Beta(outputs[k * ROW], outputs[(ENV_ACTIONS + k) * ROW]).logprob(actions[k]);
#else
#pragma unroll
    for (unsigned k = 0u; k < ENV_ACTIONS; ++k) {
        const float spread = log_std_of(outputs, log_std, k), distance = (actions[k] - outputs[k * ROW]) * expf(-spread);
        logprob += fmaf(distance * -0.5f, distance, -(spread + HALF_LOG_TAU));
        if (SQUASHED) logprob -= log_slope(actions[k]);
    }
#endif
    return logprob;
}
