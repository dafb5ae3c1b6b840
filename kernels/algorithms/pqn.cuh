// PQN's loss of one sample and its gradient with respect to the action values. Twin of operant-learn's loss.
//
//   L = 1/2 (Q(s, a) - R)^2, averaged over the minibatch; Q(s, a) is the mean over the components of the value of each one's choice
#pragma once

// The loss of a minibatch on the GEMM path.
struct Loss {
    __device__ __forceinline__ Loss(const UpdateParams&) {}

    // Replaces the action values by the gradient of the sample's loss with respect to them, times `weight`, and sets the sample's sums.
    __device__ __forceinline__ void of_sample(
        const unsigned* words, float weight, const float*, float* values, float*, float*, float (&sums)[SUMS]) const {
        constexpr float SHARE = 1.0f / (float)ENV_COMPONENTS;
        float value = 0.0f;
        auto is_taken = [&](unsigned component, unsigned k) {
            return __uint_as_float(words[SAMPLE_ACTIONS + component]) == (float)(k - first_logit(component));
        };
#pragma unroll
        for (unsigned component = 0u; component < ENV_COMPONENTS; ++component) {
            const unsigned first = first_logit(component), end = first + env_choices(component);
#pragma unroll
            for (unsigned k = 0u; k < ENV_ACTIONS; ++k)
                if (k >= first && k < end && is_taken(component, k)) value = fmaf(values[k], SHARE, value);
        }
        const float error = value - (__uint_as_float(words[SAMPLE_ADVANTAGE]) + __uint_as_float(words[SAMPLE_VALUE]));
        const float by_value = error * (SHARE * weight);
#pragma unroll
        for (unsigned component = 0u; component < ENV_COMPONENTS; ++component) {
            const unsigned first = first_logit(component), end = first + env_choices(component);
#pragma unroll
            for (unsigned k = 0u; k < ENV_ACTIONS; ++k)
                if (k >= first && k < end) values[k] = is_taken(component, k) ? by_value : 0.0f;
        }
        sums[0] = error * error;
        sums[1] = value;
    }
};
