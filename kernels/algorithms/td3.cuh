// TD3's policy of one sample: an action, without a distribution. Twin of operant-learn's algorithms/td3.
#pragma once

struct ActorCritic {
    const float* coefficients;
    float alpha;

    // The actions whose values the policy raises.
    __device__ __forceinline__ float actions(const float* outputs, const float*, float* actions) const {
#pragma unroll
        for (unsigned k = 0u; k < ENV_ACTIONS; ++k) actions[k] = tanh_rational(outputs[k]);
        return 0.0f;
    }

    // The actions after a step, with smoothing noise.
    __device__ __forceinline__ float next_actions(const float* outputs, const float* normals, float* next) const {
        const float clip = coefficients[NOISE_CLIP];
#pragma unroll
        for (unsigned k = 0u; k < ENV_ACTIONS; ++k)
            next[k] = clamp(tanh_rational(outputs[k]) + clamp(normals[k] * coefficients[POLICY_NOISE], -clip, clip), -1.0f, 1.0f);
        return 0.0f;
    }

    // Replaces the outputs by the gradient of the policy's loss with respect to them.
    __device__ __forceinline__ void gradient(float* outputs, const float*, const float* actions, const float* by_action, float) const {
#pragma unroll
        for (unsigned k = 0u; k < ENV_ACTIONS; ++k) outputs[k] = by_action[k] * fmaf(-actions[k], actions[k], 1.0f);
    }
};
