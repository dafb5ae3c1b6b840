// A step of a rollout into a replay, in two kernels, between which minibatches are learned from: one thread per environment.
//
//   gemm_act   chooses an action; begins the environment's row with its observation and the action
//   gemm_step  takes the step, completes the row, and writes the next observation for the policy
//   gemm_carry with memory: the state after this step becomes that before the next, zero where an episode ended; one thread per number
#pragma once

#include "gemm/ring.cuh"

#if !ACTION_VALUES

// The number that tanh makes this one, clipped to what single precision has just within -1 and 1.
__device__ __forceinline__ float before_tanh(float x) {
    constexpr float MOST = 1.0f - 1e-6f;
    const float squashed = clamp(x, -MOST, MOST);
    return logf((1.0f + squashed) / (1.0f - squashed)) * 0.5f;
}

// Actions before tanh, from outputs of the policy; where it is `random`, uniform within the bounds instead.
__device__ __forceinline__ void choose(const float* outputs, const float* uniforms, bool random, float noise, float* actions) {
#if LOG_STD_NETWORK
    EnvAction taken[ENV_COMPONENTS];
    sample(outputs, 0, 0, uniforms, taken, actions);
#else
#pragma unroll
    for (unsigned pair = 0u; pair < ENV_ACTIONS; pair += 2u) {
        float normals[2];
        box_muller(uniforms + pair, normals);
#pragma unroll
        for (unsigned i = 0u; i < 2u; ++i)
            if (pair + i < ENV_ACTIONS) actions[pair + i] = before_tanh(fmaf(normals[i], noise, tanh_rational(outputs[pair + i])));
    }
#endif
#pragma unroll
    for (unsigned k = 0u; k < ENV_ACTIONS; ++k)
        if (random) actions[k] = before_tanh(fmaf(uniforms[k], 2.0f, -1.0f));
}

#endif

__device__ __forceinline__ void store_obs(const EnvState& state, unsigned* row) {
    float obs[ENV_OBS_WORDS];
    observe(state, obs);
#pragma unroll
    for (unsigned word = 0u; word < ENV_OBS_WORDS; ++word) row[word] = __float_as_uint(obs[word]);
}

KERNEL(gemm_act, GemmRolloutParams, THREADS, 1) {
    const HorizonParams& horizon = params.horizon;
    const unsigned environment = blockIdx.x * blockDim.x + threadIdx.x;
    if (environment >= horizon.num_envs) return;
    Running running;
    load_running(horizon.environments + environment, horizon.num_envs, running);
    unsigned* row = row_of(params.ring, environment, params.ring.heads[environment]);
    store_obs(running.state, row);
#if STATES
    for (unsigned k = 0u; k < STATES; ++k) row[ROW_STATE + k] = __float_as_uint(params.state[(u64)environment * STATES + k]);
#endif
    const u64 time = *horizon.clock + params.step;
    float uniforms[HEAD_DRAWS], outputs[OUTPUTS];
    draw_uniforms(horizon, environment, time, uniforms);
    read_outputs(params, environment, outputs);
    const bool random = time * horizon.num_envs < params.learning_starts;
#if ACTION_VALUES
    unsigned mask[MASK_WORDS > 0u ? MASK_WORDS : 1u] = {};
    write_mask(running.state, mask);
#pragma unroll
    for (unsigned word = 0u; word < MASK_WORDS; ++word) row[ROW_MASK + word] = mask[word];
    EnvAction taken[ENV_COMPONENTS];
    float stored[ENV_COMPONENTS];
    const float epsilon = random ? 1.0f : share_of(params.exploration, *horizon.clock / horizon.num_steps);
    epsilon_greedy(outputs, ENV_MASKED ? mask : 0, epsilon, uniforms, taken, stored);
#pragma unroll
    for (unsigned component = 0u; component < ENV_COMPONENTS; ++component) row[ROW_ACTIONS + component] = __float_as_uint(stored[component]);
#else
    float actions[ENV_ACTIONS];
    choose(outputs, uniforms, random, (float)params.exploration.start, actions);
#pragma unroll
    for (unsigned k = 0u; k < ENV_ACTIONS; ++k) row[ROW_ACTIONS + k] = __float_as_uint(tanh_rational(actions[k]));
#endif
}

KERNEL(gemm_step, GemmRolloutParams, THREADS, 1) {
    const HorizonParams& horizon = params.horizon;
    const unsigned environment = blockIdx.x * blockDim.x + threadIdx.x, t = params.step;
    if (environment >= horizon.num_envs) return;
    Running running;
    load_running(horizon.environments + environment, horizon.num_envs, running);
    EpisodeSums episodes = ((EpisodeSums*)params.episodes)[environment];
    NormSums sums = ((NormSums*)params.sums)[environment];
    const u64 first = params.ring.heads[environment];
    u64 head = first;
    unsigned* row = row_of(params.ring, environment, head);
    EnvAction action[ENV_COMPONENTS];
#if ACTION_VALUES
#pragma unroll
    for (unsigned component = 0u; component < ENV_COMPONENTS; ++component) action[component] = (EnvAction)__uint_as_float(row[ROW_ACTIONS + component]);
#else
#pragma unroll
    for (unsigned k = 0u; k < ENV_ACTIONS; ++k)
        action[k] = clamp(stretched(__uint_as_float(row[ROW_ACTIONS + k]), env_low(k), env_high(k)), env_low(k), env_high(k));
#endif

    const bool shown = horizon.scene && environment == 0u;
    if (shown) store_running(running, horizon.scene + t * SCENE_WORDS, 1u);
    const Outcome outcome = step(running, action, horizon.seed, horizon.first_environment + environment, *horizon.clock + t, episodes, horizon.next, environment, horizon.num_envs);
    if (shown) {
        horizon.scene[t * SCENE_WORDS + RUNNING_WORDS] = (outcome.terminated ? 1u : 0u) | (outcome.truncated ? 2u : 0u);
        horizon.scene[t * SCENE_WORDS + RUNNING_WORDS + 1u] = __float_as_uint(outcome.episodic_return);
    }
    row[ROW_REWARD] = __float_as_uint(outcome.reward);
    row[ROW_END] = outcome.terminated ? TERMINATED : outcome.truncated ? TRUNCATED : GOES_ON;
    ++head;
    if (outcome.truncated && !outcome.terminated) {
        row = row_of(params.ring, environment, head);
        store_obs(outcome.after, row);
        // The legal actions there are not known.
#pragma unroll
        for (unsigned word = 0u; word < MASK_WORDS; ++word) row[ROW_MASK + word] = 0xffffffffu;
        row[ROW_END] = FINAL;
        ++head;
    }
    params.ring.heads[environment] = head;
#if PRIORITIES
    enter(params.ring, environment, first, head);
#endif
    // The observation after the last step is counted by the next rollout.
    float obs[ENV_OBS_WORDS];
    view(running.state, horizon.normaliser, obs, t + 1u < horizon.num_steps, sums);
    write_row((Element*)params.obs + (u64)environment * OBS_ROW, obs);
#if INDICES
    write_indices(params.indices + (u64)environment * INDICES, obs);
#endif
    store_running(running, horizon.environments + environment, horizon.num_envs);
    ((EpisodeSums*)params.episodes)[environment] = episodes;
    ((NormSums*)params.sums)[environment] = sums;
}

#if STATES
KERNEL(gemm_carry, GemmRolloutParams, THREADS, 1) {
    const u64 at = (u64)blockIdx.x * blockDim.x + threadIdx.x;
    if (at >= (u64)params.horizon.num_envs * STATES) return;
    const unsigned environment = (unsigned)(at / STATES);
    const unsigned* row = row_of(params.ring, environment, params.ring.heads[environment] - 1u);
    params.state[at] = row[ROW_END] == GOES_ON ? params.after[at] : 0.0f;
}
#endif
