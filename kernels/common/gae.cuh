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

// 1 for the players with even numbers, -1 for the others.
__device__ __forceinline__ float side_of(unsigned player) { return player % 2u == 0u ? 1.0f : -1.0f; }

// `gae_of` where several players move in turn and learn together, as operant-learn's gae_of_players: a delta spans from a move of a player to that
// player's next one, with the rewards of this player's side between them. `movers` are (T, N); `next_mover` moves after the last step.
__device__ __forceinline__ void gae_of_players(
    const Gae& gae, unsigned environment, unsigned players, const unsigned char* movers, float next_value, unsigned next_mover) {
    for (unsigned player = 0u; player < players; ++player) {
        const float side = side_of(player);
        float value = side * side_of(next_mover) * next_value, next = 0.0f, reward = 0.0f;
        for (unsigned t = gae.num_steps; t-- > 0u;) {
            const u64 at = (u64)t * gae.num_envs + environment;
            const float goes_on = gae.flags[at] == 0u ? 1.0f : 0.0f;
            value *= goes_on;
            next *= goes_on;
            reward = fmaf(side, gae.rewards[at], reward * goes_on);
            if (movers[at] != player) continue;
            const float delta = fmaf(gae.discounts.gamma, value, reward) - gae.values[at];
            next = fmaf(gae.discounts.decay, next, delta);
            gae.samples[at * gae.stride + gae.advantage] = __float_as_uint(next);
            value = gae.values[at];
            reward = 0.0f;
        }
    }
}
