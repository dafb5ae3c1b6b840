// SAC's policy of one sample: squashed normals, and the gradient through its draws. Twin of operant-learn's algorithms/sac.
#pragma once

struct ActorCritic {
    const float* coefficients;
    // Weight of the entropy.
    float alpha;

    // Draws actions within -1 and 1; returns their log-probability there.
    __device__ __forceinline__ float actions(const float* outputs, const float* normals, float* actions) const {
        float logprob = 0.0f;
#pragma unroll
        for (unsigned k = 0u; k < ENV_ACTIONS; ++k) {
            const float log_std = log_std_of(outputs, 0, k), before = fmaf(expf(log_std), normals[k], outputs[k]);
            actions[k] = tanh_rational(before);
            logprob += fmaf(normals[k] * -0.5f, normals[k], -(log_std + HALF_LOG_TAU)) - log_slope(before);
        }
        return logprob;
    }

    // The actions after a step; returns what is added to their values.
    __device__ __forceinline__ float next_actions(const float* outputs, const float* normals, float* next) const {
        return -alpha * actions(outputs, normals, next);
    }

    // Replaces the outputs by the gradient of the policy's loss with respect to them, where `by_action` is that of the critics' part.
    __device__ __forceinline__ void gradient(float* outputs, const float* normals, const float* actions, const float* by_action, float weight) const {
#pragma unroll
        for (unsigned k = 0u; k < ENV_ACTIONS; ++k) {
            const float log_std = log_std_of(outputs, 0, k), share = (log_std - LOG_STD_CENTRE) * (1.0f / LOG_STD_RADIUS);
            // d/dx of -ln(1 - tanh(x)^2) is 2 tanh(x).
            const float by_before = fmaf(by_action[k], fmaf(-actions[k], actions[k], 1.0f), alpha * weight * (actions[k] + actions[k]));
            const float by_log_std = fmaf(by_before, normals[k] * expf(log_std), -(alpha * weight));
            outputs[k] = by_before;
            outputs[ENV_ACTIONS + k] = by_log_std * fmaf(-share, share, 1.0f);
        }
    }

    // The gradient of the logarithm of the temperature.
    __device__ __forceinline__ double by_log_alpha(double logprob) const {
        return -(logprob + (double)coefficients[TARGET_ENTROPY] * (double)ENV_ACTIONS);
    }
};
