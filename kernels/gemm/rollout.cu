// The rollout of a network that runs as matrix products: the work between two forward passes, one thread per environment.
//
// in, out  as rollout.cu; the network reads rows of observations (N, row) and leaves policy outputs and values (N, row)
//
//   gemm_begin      the first observations of a rollout
//   gemm_step       chooses an action, takes the step, writes the sample and the next observation
//   gemm_carry      with memory: the state after this step becomes that before the next, zero at the end of an episode
//   gemm_bootstrap  adds gamma V(final_obs) to the rewards of steps where only the time limit ended an episode
//   gemm_finish     V after the last step, GAE, and the sums of the rollout
//   gemm_norms      merges the running statistics of several GPUs
//   gemm_pack       packs parameters that came from elsewhere, as products read them
//
// With a replay the steps are others (replay_steps.cuh), and there is no V and no GAE.
//
// An environment reaches its time limit L at most ceil(T / L) times in T steps, so that many final observations are kept, and go
// through the network after the rollout. 8,192 environments are 64 blocks of 128 threads.
#define ONE_SAMPLE_A_THREAD
#include "common/common.cuh"
#include "params.cuh"
#include "common/philox.cuh"
#include "common/mma.cuh"
#include "common/packing.cuh"
#include "env.cuh"
#include "gemm/layout.cuh"
#include "common/head.cuh"
#include "common/episode.cuh"
#include "common/gae.cuh"
#include "common/normalise.cuh"
#include "common/sample.cuh"
#if ACTION_VALUES
#include "gemm/action_values.cuh"
#endif
#if COUNTS
#include "gemm/counts.cuh"
#endif
#include "gemm/value.cuh"

constexpr unsigned SCENE_WORDS = RUNNING_WORDS + 2u;

// The observation of a state, as the environment gives it.
__device__ __forceinline__ void observe(const EnvState& state, float (&obs)[ENV_OBS_WORDS]) {
#if OBS_BITS || ENV_PACKED
    unsigned words[ENV_OBS_WORDS];
    env_observe(state, words);
#pragma unroll
    for (unsigned word = 0u; word < ENV_OBS_WORDS; ++word) obs[word] = __uint_as_float(words[word]);
#else
    env_observe(state, obs);
#endif
}

// The observation of a state as the policy's input; added to the statistics if it is new.
__device__ __forceinline__ void view(const EnvState& state, const Normaliser& normaliser, float (&obs)[ENV_OBS_WORDS], bool count, NormSums& sums) {
    observe(state, obs);
#if !OBS_BITS && !ENV_PACKED
#pragma unroll
    for (unsigned k = 0u; k < ENV_OBS; ++k) {
        if (count) sums.add_obs(normaliser, k, obs[k]);
        obs[k] = normalise_obs(normaliser, k, obs[k]);
    }
#endif
}

// One bit per logit that is legal in a state.
__device__ __forceinline__ void write_mask(const EnvState& state, unsigned* mask) {
#if ENV_MASKED
    bool legal[ENV_ACTIONS];
    env_legal(state, legal);
#pragma unroll
    for (unsigned k = 0u; k < ENV_ACTIONS; ++k) mask[k / 32u] |= legal[k] ? 1u << k % 32u : 0u;
#endif
}

// The policy's outputs of the last forward pass.
__device__ __forceinline__ void read_outputs(const GemmRolloutParams& params, unsigned environment, float (&outputs)[OUTPUTS]) {
    const float* row = params.policy + (u64)environment * params.policy_row;
#if ACTION_VALUES
    read_values(row, outputs);
#else
#pragma unroll
    for (unsigned k = 0u; k < OUTPUTS; ++k) outputs[k] = row[k];
#endif
}

// Uniform numbers for an environment's action.
__device__ __forceinline__ void draw_uniforms(const HorizonParams& horizon, unsigned environment, u64 time, float (&uniforms)[HEAD_DRAWS]) {
    ActionDraws<HEAD_DRAWS> draws;
    draws.draw(horizon.seed, horizon.first_environment + environment, time, PURPOSE_ACTION, true);
#pragma unroll
    for (unsigned k = 0u; k < HEAD_DRAWS; ++k) uniforms[k] = unit(draws.get(time, k));
}

// V of the last forward pass; of action values the greatest of those that are legal, all of them if `legal` is null.
__device__ __forceinline__ float value_of(const GemmRolloutParams& params, unsigned environment, const unsigned* legal) {
#if ACTION_VALUES
    float values[OUTPUTS];
    read_outputs(params, environment, values);
    return greatest_value(values, legal);
#else
    return value_in(params.values + (u64)environment * params.value_row + params.value_at);
#endif
}

#if INTRINSIC_VALUE
// The value of rewards for exploring, which follows that of the task.
__device__ __forceinline__ float intrinsic_value_of(const GemmRolloutParams& params, unsigned environment) {
    return params.values[(u64)environment * params.value_row + params.value_at + 1u];
}

// Adds the advantages of rewards for exploring, which are in their places, to those of the task. Their returns go on where episodes end.
__device__ __forceinline__ void add_exploring(const GemmRolloutParams& params, unsigned environment) {
    const HorizonParams& horizon = params.horizon;
    float next = 0.0f, next_value = intrinsic_value_of(params, environment);
    for (unsigned t = horizon.num_steps; t-- > 0u;) {
        unsigned* words = horizon.samples + ((u64)t * horizon.num_envs + environment) * SAMPLE_STRIDE;
        const float value = __uint_as_float(words[SAMPLE_INTRINSIC]), reward = __uint_as_float(words[SAMPLE_INTRINSIC + 1u]);
        const float delta = fmaf(params.intrinsic_discounts.gamma, next_value, reward) - value;
        next = fmaf(params.intrinsic_discounts.decay, next, delta);
        words[SAMPLE_INTRINSIC + 1u] = __float_as_uint(next);
        words[SAMPLE_ADVANTAGE] = __float_as_uint(__uint_as_float(words[SAMPLE_ADVANTAGE]) + next);
        next_value = value;
    }
}
#endif

__device__ __forceinline__ void write_row(Element* row, const float (&obs)[ENV_OBS_WORDS]) {
    for (unsigned k = 0u; k < OBS_ROW; ++k) row[k] = to_element(feature(obs, k));
}

#if STATES && !REPLAY_STRIDE
// The initial state of sequence `part` of every environment, (N, STATES): after the samples, (parts, N, STATES).
__device__ __forceinline__ float* first_states(const HorizonParams& horizon, unsigned part) {
    const u64 samples = (u64)horizon.num_envs * horizon.num_steps;
    return (float*)(horizon.samples + samples * SAMPLE_STRIDE) + (u64)part * horizon.num_envs * STATES;
}

// The state after a step becomes the state before the next one, a thread per number: kept for V(final_obs) where only the time limit ended the
// episode, zero where an episode ended, and kept for the update where a sequence begins.
KERNEL(gemm_carry, GemmRolloutParams, THREADS, 1) {
    const HorizonParams& horizon = params.horizon;
    const u64 at = (u64)blockIdx.x * blockDim.x + threadIdx.x;
    if (at >= (u64)horizon.num_envs * STATES) return;
    const unsigned environment = (unsigned)(at / STATES), t = params.step;
    const unsigned char flags = horizon.flags[(u64)t * horizon.num_envs + environment];
    if (flags == 2u) {
        for (unsigned truncation = 0u; truncation < params.max_truncations; ++truncation) {
            const u64 place = (u64)truncation * horizon.num_envs + environment;
            if (params.truncated_at[place] == t + 1u) params.final_states[place * STATES + at % STATES] = params.after[at];
        }
    }
    const float state = flags != 0u ? 0.0f : params.after[at];
    params.state[at] = state;
    if ((t + 1u) % SEQUENCE == 0u && t + 1u < horizon.num_steps) first_states(horizon, (t + 1u) / SEQUENCE)[at] = state;
}
#endif

KERNEL(gemm_begin, GemmRolloutParams, THREADS, 1) {
    const HorizonParams& horizon = params.horizon;
    const unsigned environment = blockIdx.x * blockDim.x + threadIdx.x;
    if (environment >= horizon.num_envs) return;
    Running running;
    load_running(horizon.environments + environment, horizon.num_envs, running);
    EpisodeSums episodes;
    episodes.clear();
    NormSums sums;
    sums.clear();
    float obs[ENV_OBS_WORDS];
    view(running.state, horizon.normaliser, obs, true, sums);
#if COUNTS
    // The first observation of the run; later ones are counted where a step arrives at them.
    if (*horizon.clock == 0u) reward_for_exploring(params.counts + (u64)environment * COUNTS, obs, true, 0.0f);
#endif
    write_row((Element*)params.obs + (u64)environment * OBS_ROW, obs);
#if INDICES
    write_indices(params.indices + (u64)environment * INDICES, obs);
#endif
    ((EpisodeSums*)params.episodes)[environment] = episodes;
    ((NormSums*)params.sums)[environment] = sums;
#if STATES && !REPLAY_STRIDE
    for (unsigned k = 0u; k < STATES; ++k)
        first_states(horizon, 0u)[(u64)environment * STATES + k] = params.state[(u64)environment * STATES + k];
#endif
    for (unsigned truncation = 0u; truncation < params.max_truncations; ++truncation) {
        params.truncated_at[(u64)truncation * horizon.num_envs + environment] = 0u;
    }
}

#if REPLAY_STRIDE
#include "gemm/replay_steps.cuh"
#else

KERNEL(gemm_step, GemmRolloutParams, THREADS, 1) {
    const HorizonParams& horizon = params.horizon;
    const unsigned environment = blockIdx.x * blockDim.x + threadIdx.x, t = params.step;
    if (environment >= horizon.num_envs) return;
    Running running;
    load_running(horizon.environments + environment, horizon.num_envs, running);
    EpisodeSums episodes = ((EpisodeSums*)params.episodes)[environment];
    NormSums sums = ((NormSums*)params.sums)[environment];
    float discounted = load_discounted(horizon.normaliser, environment);
    float obs[ENV_OBS_WORDS];
    view(running.state, horizon.normaliser, obs, false, sums);

    unsigned mask[MASK_WORDS > 0u ? MASK_WORDS : 1u] = {};
    write_mask(running.state, mask);
    const u64 time = *horizon.clock + t, at = (u64)t * horizon.num_envs + environment;
    float uniforms[HEAD_DRAWS], stored[ENV_COMPONENTS], outputs[OUTPUTS];
    draw_uniforms(horizon, environment, time, uniforms);
    read_outputs(params, environment, outputs);
    EnvAction action[ENV_COMPONENTS];
    const unsigned* legal = ENV_MASKED ? mask : 0;
#if ACTION_VALUES
    epsilon_greedy(outputs, legal, share_of(params.exploration, *horizon.clock / horizon.num_steps), uniforms, action, stored);
#else
    float log_std[ENV_ACTIONS];
#pragma unroll
    for (unsigned k = 0u; k < ENV_ACTIONS; ++k) log_std[k] = LOG_STDS > 0u ? horizon.log_std[k] : 0.0f;
    const float logprob = sample(outputs, mask, log_std, uniforms, action, stored);
#endif
    const float value = value_of(params, environment, legal);

    unsigned* to = horizon.samples + at * SAMPLE_STRIDE;
#pragma unroll
    for (unsigned word = 0u; word < ENV_OBS_WORDS; ++word) to[word] = __float_as_uint(obs[word]);
#pragma unroll
    for (unsigned component = 0u; component < ENV_COMPONENTS; ++component) to[SAMPLE_ACTIONS + component] = __float_as_uint(stored[component]);
#if !ACTION_VALUES
    to[SAMPLE_LOGPROB] = __float_as_uint(logprob);
#endif
    to[SAMPLE_VALUE] = __float_as_uint(value);
    to[SAMPLE_ADVANTAGE] = 0u;
#if INTRINSIC_VALUE
    to[SAMPLE_INTRINSIC] = __float_as_uint(intrinsic_value_of(params, environment));
    to[SAMPLE_INTRINSIC + 1u] = 0u;
#endif
#if STATES
    to[SAMPLE_KEEP] = __float_as_uint(t > 0u && horizon.flags[at - horizon.num_envs] != 0u ? 0.0f : 1.0f);
#endif
#pragma unroll
    for (unsigned word = 0u; word < SAMPLE_STRIDE - SAMPLE_MASK; ++word) to[SAMPLE_MASK + word] = word < MASK_WORDS ? mask[word] : 0u;
    horizon.values[at] = value;

#if PLAYERS > 1
    params.movers[at] = (unsigned char)running.state.player;
#endif
    const bool shown = horizon.scene && environment == 0u;
    if (shown) store_running(running, horizon.scene + t * SCENE_WORDS, 1u);
    const Outcome outcome = step(running, action, horizon.seed, horizon.first_environment + environment, time, episodes, horizon.next, environment, horizon.num_envs);
    const bool done = outcome.terminated || outcome.truncated;
    const unsigned flags = (outcome.terminated ? 1u : 0u) | (outcome.truncated ? 2u : 0u);
    if (shown) {
        horizon.scene[t * SCENE_WORDS + RUNNING_WORDS] = flags;
        horizon.scene[t * SCENE_WORDS + RUNNING_WORDS + 1u] = __float_as_uint(outcome.episodic_return);
    }
    float reward = outcome.reward;
#if COUNTS
    view(running.state, horizon.normaliser, obs, false, sums);
    const float intrinsic = reward_for_exploring(params.counts + (u64)environment * COUNTS, obs, done, params.intrinsic_coef);
    reward += intrinsic;
    episodes.metrics[ENV_METRICS] += intrinsic;
    episodes.measured[ENV_METRICS] += 1u;
#endif
    horizon.rewards[at] = normalise_reward(horizon.normaliser, reward, done, horizon.discounts.gamma, discounted, sums);
    horizon.flags[at] = (unsigned char)flags;
    // Whose value that would be in a game of several players is not known any more: one that is cut off counts as it stands.
    if (PLAYERS == 1 && outcome.truncated && !outcome.terminated) {
        unsigned truncation = 0u;
        while (truncation < params.max_truncations &&
               params.truncated_at[(u64)truncation * horizon.num_envs + environment] != 0u) {
            ++truncation;
        }
        if (truncation < params.max_truncations) {
            const u64 place = (u64)truncation * horizon.num_envs + environment;
            view(outcome.after, horizon.normaliser, obs, false, sums);
            write_row((Element*)params.final_obs + place * OBS_ROW, obs);
#if INDICES
            write_indices(params.final_indices + place * INDICES, obs);
#endif
            params.truncated_at[place] = t + 1u;
        }
    }
    // The observation after the last step is counted by the next rollout.
    view(running.state, horizon.normaliser, obs, t + 1u < horizon.num_steps, sums);
    write_row((Element*)params.obs + (u64)environment * OBS_ROW, obs);
#if INDICES
    write_indices(params.indices + (u64)environment * INDICES, obs);
#endif
    store_running(running, horizon.environments + environment, horizon.num_envs);
    store_discounted(horizon.normaliser, environment, discounted);
    ((EpisodeSums*)params.episodes)[environment] = episodes;
    ((NormSums*)params.sums)[environment] = sums;
}

KERNEL(gemm_bootstrap, GemmRolloutParams, THREADS, 1) {
    const HorizonParams& horizon = params.horizon;
    const unsigned environment = blockIdx.x * blockDim.x + threadIdx.x;
    if (environment >= horizon.num_envs) return;
    const unsigned truncated_at = params.truncated_at[(u64)params.truncation * horizon.num_envs + environment];
    if (truncated_at == 0u) return;
    // Which actions would be legal there is not known.
    const float value = value_of(params, environment, 0);
    horizon.rewards[(u64)(truncated_at - 1u) * horizon.num_envs + environment] += __fmul_rn(horizon.discounts.gamma, value);
}

#endif

// A warp's shared memory for merging.
struct WarpMemory {
    alignas(16) EpisodeTotals episodes;
    double norms[NORMS > 0u ? 2u * NORMS : 1u];
    unsigned flag[2];
};

static_assert(sizeof(WarpMemory) * (THREADS / WARP) == BLOCK_BYTES, "the host counts as the kernel does");

KERNEL(gemm_finish, GemmRolloutParams, THREADS, 1) {
    const HorizonParams& horizon = params.horizon;
    SHARED_ARENA(arena);
    WarpMemory* memories = (WarpMemory*)arena;
    const unsigned environment = blockIdx.x * blockDim.x + threadIdx.x;
    EpisodeSums episodes;
    episodes.clear();
    NormSums sums;
    sums.clear();
    if (environment < horizon.num_envs) {
        episodes = ((EpisodeSums*)params.episodes)[environment];
        sums = ((NormSums*)params.sums)[environment];
#if !REPLAY_STRIDE
        unsigned mask[MASK_WORDS > 0u ? MASK_WORDS : 1u] = {};
#if PLAYERS > 1 || ACTION_VALUES && ENV_MASKED
        Running running;
        load_running(horizon.environments + environment, horizon.num_envs, running);
        write_mask(running.state, mask);
#endif
        const float next_value = value_of(params, environment, ENV_MASKED ? mask : 0);
        horizon.next_values[environment] = next_value;
        const Gae gae = {horizon.rewards, horizon.values, horizon.flags, horizon.samples, horizon.num_envs, horizon.num_steps,
                         SAMPLE_STRIDE, SAMPLE_ADVANTAGE, horizon.discounts};
#if PLAYERS > 1
        params.movers[(u64)horizon.num_steps * horizon.num_envs + environment] = (unsigned char)running.state.player;
        gae_of_players(gae, environment, PLAYERS, params.movers, next_value, running.state.player);
#else
        gae_of(gae, environment, next_value);
#endif
#if INTRINSIC_VALUE
        add_exploring(params, environment);
#endif
#endif
#if RECOMPUTES
        const u64 steps = (u64)horizon.num_envs * horizon.num_steps;
        float* outcomes = (float*)outcomes_of(horizon.samples, steps, horizon.num_envs);
        for (u64 at = environment; at < steps; at += horizon.num_envs) {
            outcomes[2u * at] = horizon.rewards[at];
            outcomes[2u * at + 1u] = horizon.flags[at] == 0u ? 1.0f : 0.0f;
        }
        outcomes[2u * steps + environment] = next_value;
#endif
    }
    merge_warps(warp_merge(widened(episodes)), &memories[0].episodes, sizeof(WarpMemory), horizon.partials);
    merge_norm_warps(sums, horizon.normaliser, &memories[0].norms[0], sizeof(WarpMemory));
#if METRICS
    merge_metrics_of_warp(episodes, horizon.metric_partials);
#endif
    if (!is_last_block(horizon.ticket, memories[0].flag)) return;
#if METRICS
    if (threadIdx.x < WARP) merge_metrics(horizon.metric_partials, horizon.metric_totals);
#endif
    merge_blocks(horizon.partials, &memories[0].episodes, sizeof(WarpMemory), horizon.totals);
    // With several devices, a separate kernel merges them after all have arrived.
    if (horizon.normaliser.devices == 1u) merge_norm_blocks(horizon.normaliser, gridDim.x, (u64)horizon.num_envs * horizon.num_steps);
    if (threadIdx.x == 0u) *horizon.clock += horizon.num_steps;
}

#ifdef ENV_BLOCKS

// Merges the sums of the blocks of all devices: one block.
KERNEL(gemm_norms, GemmRolloutParams, THREADS, 1) {
    const Normaliser& normaliser = params.horizon.normaliser;
    const u64 count = (u64)params.horizon.num_envs * params.horizon.num_steps * normaliser.devices;
    merge_norm_blocks(normaliser, normaliser.blocks * normaliser.devices, count);
}

#endif

// Packs parameters that came from elsewhere into weights that are zero: one thread per parameter.
KERNEL(gemm_pack, GemmWeightParams, THREADS, 1) {
    const unsigned p = blockIdx.x * blockDim.x + threadIdx.x;
    if (p < params.count) pack_parameter(p, params.parameters[p], params.weights);
}
