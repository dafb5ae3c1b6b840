// PPO's loss of one sample and its gradient with respect to the network's outputs, for the fused and the GEMM path. Twin of operant-learn's
// loss and heads.
//
//   L = policy - ent_coef entropy + vf_coef value, each averaged over the minibatch
//   policy = max(-A r, -A clip(r, 1 +- clip_coef)) with r = exp(logprob - old logprob)
//   value  = 1/2 (V - R)^2, or the greater of that and the same with V kept within clip_coef of the old value; with HUBER_DELTA linear from
//            that error on
#pragma once

// Sums over samples.
struct LossSums {
    float policy, value, entropy, kl, clipped;
};

// A sample as the loss needs it; `advantage` is normalised if advantages are, `returns` is not.
struct LossInput {
    const float* actions;
    const unsigned* mask;
    float logprob, value, advantage, returns;
};

// The gradient of the policy's loss by the log-probability; adds to the sums.
__device__ __forceinline__ float policy_loss(const float* coefficients, const LossInput& input, float logprob, LossSums& sums) {
    const float log_ratio = logprob - input.logprob, ratio = expf(log_ratio);
    const float plain = -input.advantage * ratio;
    const float bounded = -input.advantage * clamp(ratio, 1.0f - coefficients[CLIP_COEF], 1.0f + coefficients[CLIP_COEF]);
    sums.policy += max_nan(plain, bounded);
    sums.kl += (ratio - 1.0f) - log_ratio;
    if (fabsf(ratio - 1.0f) > coefficients[CLIP_COEF]) sums.clipped += 1.0f;
    // If the clipped objective is taken, it is constant.
    return plain < bounded ? 0.0f : plain;
}

// The gradient of vf_coef times the value loss by the value; adds to the sums.
__device__ __forceinline__ float value_loss(const float* coefficients, const LossInput& input, float value, LossSums& sums) {
    const float error = value - input.returns;
    float loss = error * error, gradient = error;
    if (coefficients[CLIP_VLOSS] != 0.0f) {
        const float change = value - input.value, clip = coefficients[CLIP_COEF];
        const float bounded = input.value + clamp(change, -clip, clip) - input.returns;
        if (bounded * bounded > loss) {
            loss = bounded * bounded;
            gradient = fabsf(change) <= clip ? bounded : 0.0f;
        }
    }
#ifdef HUBER_DELTA
    // The greater square is the greater loss. 2 delta (|e| - delta / 2) from delta on.
    const float size = sqrtf(loss);
    if (size > HUBER_DELTA) loss = fmaf(2.0f * HUBER_DELTA, size, -(HUBER_DELTA * HUBER_DELTA));
    gradient = clamp(gradient, -HUBER_DELTA, HUBER_DELTA);
#endif
    sums.value += 0.5f * loss;
    return coefficients[VF_COEF] * gradient;
}

#if ENV_DISCRETE
// Replaces the logits of a sample, ROW words apart, by the gradient of its loss with respect to them, times `weight`.
__device__ __forceinline__ void policy_gradient(
    const float* coefficients, const LossInput& input, const float*, float weight, float* logits, float*, LossSums& sums) {
    float p[ENV_ACTIONS], log_p[ENV_ACTIONS], entropies[ENV_COMPONENTS];
    float logprob = 0.0f;
#pragma unroll
    for (unsigned component = 0u; component < ENV_COMPONENTS; ++component) {
        const unsigned first = first_logit(component), end = first + env_choices(component);
        float greatest = 0.0f, total = 0.0f;
#pragma unroll
        for (unsigned k = 0u; k < ENV_ACTIONS; ++k) {
            if (k < first || k >= end) continue;
            log_p[k] = logits[k * ROW];
            if (ENV_MASKED && (input.mask[k / 32u] >> k % 32u & 1u) == 0u) log_p[k] = ILLEGAL;
            greatest = k == first ? log_p[k] : max_nan(greatest, log_p[k]);
        }
#pragma unroll
        for (unsigned k = 0u; k < ENV_ACTIONS; ++k) {
            if (k < first || k >= end) continue;
            log_p[k] -= greatest;
            p[k] = expf(log_p[k]);
            total += p[k];
        }
        const float log_total = logf(total), scale = 1.0f / total;
        entropies[component] = 0.0f;
#pragma unroll
        for (unsigned k = 0u; k < ENV_ACTIONS; ++k) {
            if (k < first || k >= end) continue;
            p[k] *= scale;
            log_p[k] -= log_total;
            entropies[component] = fmaf(-p[k], log_p[k], entropies[component]);
            if (input.actions[component] == (float)(k - first)) logprob += log_p[k];
        }
        sums.entropy += entropies[component];
    }
    const float by_logprob = policy_loss(coefficients, input, logprob, sums) * weight;
    const float by_entropy = -coefficients[ENT_COEF] * weight;
#pragma unroll
    for (unsigned component = 0u; component < ENV_COMPONENTS; ++component) {
        const unsigned first = first_logit(component), end = first + env_choices(component);
#pragma unroll
        for (unsigned k = 0u; k < ENV_ACTIONS; ++k) {
            if (k < first || k >= end) continue;
            const float taken = input.actions[component] == (float)(k - first) ? 1.0f : 0.0f;
            const float by_k = p[k] * (log_p[k] + entropies[component]);
            logits[k * ROW] = fmaf(by_logprob, taken - p[k], -(by_entropy * by_k));
        }
    }
}
#elif IS_BETA
// The same for what makes alphas and betas.
__device__ __forceinline__ void policy_gradient(
    const float* coefficients, const LossInput& input, const float*, float weight, float* outputs, float*, LossSums& sums) {
    float logprob = 0.0f;
    for (unsigned k = 0u; k < ENV_ACTIONS; ++k) {
        const Beta beta(outputs[k * ROW], outputs[(ENV_ACTIONS + k) * ROW]);
        logprob += beta.logprob(input.actions[k]);
        sums.entropy += beta.entropy();
    }
    const float by_logprob = policy_loss(coefficients, input, logprob, sums) * weight;
    const float by_entropy = -coefficients[ENT_COEF] * weight;
    for (unsigned k = 0u; k < ENV_ACTIONS; ++k) {
        float &a = outputs[k * ROW], &b = outputs[(ENV_ACTIONS + k) * ROW], x = input.actions[k];
        const Beta beta(a, b);
        a = beta.gradient(0u, a, x, by_logprob, by_entropy);
        b = beta.gradient(1u, b, 1.0f - x, by_logprob, by_entropy);
    }
}
#else
// The same for means, and for log standard deviations if the network computes them; the gradient with respect to parameters log_std, `(A)`,
// is added to `d_log_std`.
__device__ __forceinline__ void policy_gradient(
    const float* coefficients, const LossInput& input, const float* log_std, float weight, float* outputs, float* d_log_std, LossSums& sums) {
    float distance[ENV_ACTIONS], spread[ENV_ACTIONS], logprob = 0.0f;
#pragma unroll
    for (unsigned k = 0u; k < ENV_ACTIONS; ++k) {
        spread[k] = log_std_of(outputs, log_std, k);
        distance[k] = (input.actions[k] - outputs[k * ROW]) * expf(-spread[k]);
        logprob += fmaf(distance[k] * -0.5f, distance[k], -(spread[k] + HALF_LOG_TAU));
        sums.entropy += 0.5f + HALF_LOG_TAU + spread[k];
        if (SQUASHED) {
            logprob -= log_slope(input.actions[k]);
            sums.entropy += log_slope(input.actions[k]);
        }
    }
    const float by_logprob = policy_loss(coefficients, input, logprob, sums) * weight;
    const float by_entropy = -coefficients[ENT_COEF] * weight;
#pragma unroll
    for (unsigned k = 0u; k < ENV_ACTIONS; ++k) {
        float by_mean = by_logprob * distance[k] * expf(-spread[k]);
        float by_spread = fmaf(by_logprob, fmaf(distance[k], distance[k], -1.0f), by_entropy);
        if (SQUASHED) {
            // The sample's action moves with its mean and deviation, at its distance.
            const float by_action = by_entropy * -2.0f * tanh_rational(input.actions[k]);
            by_mean += by_action;
            by_spread = fmaf(by_action, distance[k] * expf(spread[k]), by_spread);
        }
        outputs[k * ROW] = by_mean;
        if (LOG_STD_NETWORK) {
            const float share = (spread[k] - LOG_STD_CENTRE) * (1.0f / LOG_STD_RADIUS);
            outputs[(ENV_ACTIONS + k) * ROW] = by_spread * fmaf(-share, share, 1.0f);
        } else {
            d_log_std[k] += by_spread;
        }
    }
}
#endif

// The loss of a minibatch on the GEMM path.
struct Loss {
    const UpdateParams& update;
    // Shift and scale of its advantages, and the weight of a sample's in draws by priority.
    float2 scale;
    float importance = 1.0f;

    __device__ __forceinline__ Loss(const UpdateParams& params) : update(params), scale(advantage_scale(params, params.minibatch)) {}

    // Replaces the policy's outputs and the values by the gradient of the sample's loss with respect to them, times `weight`, and sets that of
    // log_std and the sample's sums.
    __device__ __forceinline__ void of_sample(
        const unsigned* words, float weight, const float* log_std, float* out, float* values, float* d_log_std, float (&sums)[SUMS]) const {
        float actions[ENV_COMPONENTS];
        unsigned mask[MASK_WORDS > 0u ? MASK_WORDS : 1u] = {};
#pragma unroll
        for (unsigned component = 0u; component < ENV_COMPONENTS; ++component) actions[component] = __uint_as_float(words[SAMPLE_ACTIONS + component]);
#pragma unroll
        for (unsigned word = 0u; word < MASK_WORDS; ++word) mask[word] = words[SAMPLE_MASK + word];
        LossInput input;
        input.actions = actions;
        input.mask = mask;
        input.logprob = __uint_as_float(words[SAMPLE_LOGPROB]);
        input.value = __uint_as_float(words[SAMPLE_VALUE]);
        const float advantage = __uint_as_float(words[SAMPLE_ADVANTAGE]);
#if INTRINSIC_VALUE
        const float of_exploring = __uint_as_float(words[SAMPLE_INTRINSIC + 1u]);
        input.returns = (advantage - of_exploring) + input.value;
#else
        input.returns = advantage + input.value;
#endif
        input.advantage = (advantage - scale.x) * scale.y * importance;
#if NORM_VALUE
        input.returns = in_units(input.returns, update.progress->value_norm);
        input.value = in_units(input.value, update.progress->value_norm);
#endif
        LossSums parts = {};
        if (!BINS) values[0] = value_loss(update.coefficients, input, values[0], parts) * weight;
#if INTRINSIC_VALUE
        LossInput exploring = input;
        exploring.value = __uint_as_float(words[SAMPLE_INTRINSIC]);
        exploring.returns = of_exploring + exploring.value;
        values[1] = value_loss(update.coefficients, exploring, values[1], parts) * weight;
#endif
        if (is_of_critic(update)) {
#pragma unroll
            for (unsigned k = 0u; k < OUTPUTS; ++k) out[k] = 0.0f;
        } else {
            policy_gradient(update.coefficients, input, log_std, weight, out, d_log_std, parts);
        }
        const float all[SUMS] = {parts.policy, parts.value, parts.entropy, parts.kl, parts.clipped};
#pragma unroll
        for (unsigned i = 0u; i < SUMS; ++i) sums[i] = all[i];
    }
};
