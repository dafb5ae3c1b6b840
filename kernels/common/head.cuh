// The policy's distribution for one environment: sampling an action and its log-probability. Twins of operant-learn's heads.
//
// The head is the environment's: categorical over ENV_CHOICES per component, or ENV_ACTIONS independent normals.
#pragma once

// Random words that one action takes: one a component, or a pair for every two normals.
constexpr unsigned HEAD_DRAWS = ENV_DISCRETE ? ENV_COMPONENTS : (ENV_ACTIONS + 1u) / 2u * 2u;
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
// Draws ENV_ACTIONS normals by Box and Muller's transform; returns their log-probability. The environment gets them
// clipped to its box, the sample keeps them as they are.
__device__ __forceinline__ float sample(
    const float* means, const unsigned*, const float* log_std, const float* uniforms, EnvAction* action, float* stored) {
    float logprob = 0.0f;
#pragma unroll
    for (unsigned pair = 0u; pair < ENV_ACTIONS; pair += 2u) {
        // 1 - u is in (0, 1], whose logarithm is finite.
        const float radius = sqrtf(-2.0f * logf(1.0f - uniforms[pair]));
        float sine, cosine;
        sincospif(2.0f * uniforms[pair + 1u], &sine, &cosine);
        const float normals[2] = {radius * cosine, radius * sine};
#pragma unroll
        for (unsigned i = 0u; i < 2u; ++i) {
            const unsigned k = pair + i;
            if (k >= ENV_ACTIONS) continue;
            const float mean = means[k * ROW];
            stored[k] = fmaf(expf(log_std[k]), normals[i], mean);
            const float distance = (stored[k] - mean) * expf(-log_std[k]);
            logprob += fmaf(distance * -0.5f, distance, -(log_std[k] + HALF_LOG_TAU));
            action[k] = clamp(stored[k], env_low(k), env_high(k));
        }
    }
    return logprob;
}
#endif

// The log-probability of actions whose distribution has the parameters `outputs`, one word apart.
__device__ __forceinline__ float logprob_of(const float* outputs, const unsigned* legal, const float* log_std, const float* actions) {
    float logprob = 0.0f;
#if ENV_DISCRETE
#pragma unroll
    for (unsigned component = 0u; component < ENV_COMPONENTS; ++component) {
        const unsigned first = first_logit(component), end = first + env_choices(component);
        auto logit_of = [&](unsigned k) { return ENV_MASKED && (legal[k / 32u] >> k % 32u & 1u) == 0u ? ILLEGAL : outputs[k]; };
        float greatest = logit_of(first), total = 0.0f;
        for (unsigned k = first + 1u; k < end; ++k) greatest = max_nan(greatest, logit_of(k));
        for (unsigned k = first; k < end; ++k) total += expf(logit_of(k) - greatest);
        logprob += logit_of(first + (unsigned)actions[component]) - greatest - logf(total);
    }
#else
#pragma unroll
    for (unsigned k = 0u; k < ENV_ACTIONS; ++k) {
        const float distance = (actions[k] - outputs[k]) * expf(-log_std[k]);
        logprob += fmaf(distance * -0.5f, distance, -(log_std[k] + HALF_LOG_TAU));
    }
#endif
    return logprob;
}
