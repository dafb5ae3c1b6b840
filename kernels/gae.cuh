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
    float gamma, decay;          // decay = gamma lambda
};

__device__ __forceinline__ void gae_of(const Gae& gae, unsigned environment, float next_value) {
    float next = 0.0f;
#pragma unroll 8
    for (unsigned t = gae.num_steps; t-- > 0u;) {
        const u64 at = (u64)t * gae.num_envs + environment;
        const float goes_on = gae.flags[at] == 0u ? 1.0f : 0.0f, value = gae.values[at];
        const float delta = fmaf(gae.gamma * goes_on, next_value, gae.rewards[at]) - value;
        next = fmaf(gae.decay * goes_on, next, delta);
        gae.samples[at * gae.stride + gae.advantage] = __float_as_uint(next);
        next_value = value;
    }
}
