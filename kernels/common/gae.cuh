// Generalised advantage estimation (Schulman et al. 2016) of one environment, last step to first:
//
//   delta[t]     = rewards[t] + gamma V[t+1] (1 - done[t]) - V[t]
//   advantage[t] = delta[t] + gamma lambda (1 - done[t]) advantage[t+1]
//
// The reward of a step that only the time limit ended already contains gamma V(final_obs).
#pragma once

struct Gae {
    const float* rewards;        // (T, N)
    const float* values;         // (T, N)
    const unsigned char* flags;  // (T, N): 1 terminated, 2 truncated
    unsigned* samples;           // (T, N, stride); word `advantage` of each is written
    unsigned num_envs, num_steps;
    unsigned stride, advantage;
    Discounts discounts;
};

// Steps whose values are loaded before any is used: stores to samples would delay the loads of the next step.
constexpr unsigned GAE_AHEAD = 8u;

__device__ __forceinline__ void gae_of(const Gae& gae, unsigned environment, float next_value) {
    float next = 0.0f;
    for (unsigned end = gae.num_steps; end > 0u;) {
        const unsigned begin = end > GAE_AHEAD ? end - GAE_AHEAD : 0u;
        float rewards[GAE_AHEAD], values[GAE_AHEAD], goes_on[GAE_AHEAD];
#pragma unroll
        for (unsigned i = 0u; i < GAE_AHEAD; ++i) {
            if (begin + i >= end) continue;
            const u64 at = (u64)(begin + i) * gae.num_envs + environment;
            rewards[i] = gae.rewards[at];
            values[i] = gae.values[at];
            goes_on[i] = gae.flags[at] == 0u ? 1.0f : 0.0f;
        }
#pragma unroll
        for (unsigned i = GAE_AHEAD; i-- > 0u;) {
            if (begin + i >= end) continue;
            const float delta = fmaf(gae.discounts.gamma * goes_on[i], next_value, rewards[i]) - values[i];
            next = fmaf(gae.discounts.decay * goes_on[i], next, delta);
            const u64 at = (u64)(begin + i) * gae.num_envs + environment;
            gae.samples[at * gae.stride + gae.advantage] = __float_as_uint(next);
            next_value = values[i];
        }
        end = begin;
    }
}
