// The rollout: a whole horizon of T steps in N environments, policy, sampling, auto-reset, bootstrap and GAE included, in one
// launch.
//
// in   packed weights (packing.cuh), log_std (A); running environments (RUNNING_WORDS, N); the global step
// out  samples (T, N, SAMPLE_STRIDE): obs | actions | logprob | value | advantage | mask | zeros; rewards, values (T, N) f32;
//      flags (T, N) u8, 1 terminated and 2 truncated; the running environments and the global step T later; episodes
//
// A warp owns 16 environments for the whole rollout; lane l < 16 keeps environment 16 tile + l in registers. Warps of a block
// share the weights and nothing else. 8,192 environments are 512 warps: 128 blocks of 4 warps, one block per multiprocessor.
// Environments past N, in the last tile, are played and leave no trace.
#include "common/common.cuh"
#include "params.cuh"
#include "common/philox.cuh"
#include "common/mma.cuh"
#include "common/packing.cuh"
#include "common/activation.cuh"
#include "fused/actor_critic.cuh"
#include "env.cuh"
#include "common/head.cuh"
#include "common/episode.cuh"
#include "common/gae.cuh"
#include "common/normalise.cuh"
#include "common/sample.cuh"

// Records a step for the scene: the state before it, its flags, and the return up to and with it.
constexpr unsigned SCENE_WORDS = RUNNING_WORDS + 2u;

// Puts the observation of a state into column `column` of a tile's rows, as the policy sees it. A packed observation stays in `packed`,
// for its sample.
__device__ __forceinline__ void stage(
    const EnvState& state, const Normaliser& normaliser, float* rows, unsigned column, bool count, NormSums& sums, unsigned* packed) {
#if ENV_PACKED
    unsigned input[ENV_INPUT_WORDS];
    env_observe(state, packed);
    env_input(packed, input);
#pragma unroll
    for (unsigned word = 0u; word < ENV_INPUT_WORDS; ++word) ((unsigned*)rows)[word * ROW + column] = input[word];
#elif OBS_BITS
    unsigned obs[ENV_OBS_WORDS];
    env_observe(state, obs);
#pragma unroll
    for (unsigned word = 0u; word < ENV_OBS_WORDS; ++word) ((unsigned*)rows)[word * ROW + column] = obs[word];
#else
    float obs[ENV_OBS];
    env_observe(state, obs);
#pragma unroll
    for (unsigned k = 0u; k < ENV_OBS; ++k) {
        if (count) sums.add_obs(normaliser, k, obs[k]);
        rows[k * ROW + column] = normalise_obs(normaliser, k, obs[k]);
    }
#endif
}

__device__ __forceinline__ void write_sample(
    unsigned* to, const float* obs, const unsigned* packed, const float* actions, float logprob, float value, const unsigned* mask, unsigned column) {
    unsigned words[SAMPLE_STRIDE];
#pragma unroll
    for (unsigned word = 0u; word < SAMPLE_STRIDE; ++word) words[word] = 0u;
#pragma unroll
    for (unsigned word = 0u; word < ENV_OBS_WORDS; ++word) words[word] = packed ? packed[word] : __float_as_uint(obs[word * ROW + column]);
#pragma unroll
    for (unsigned component = 0u; component < ENV_COMPONENTS; ++component) words[SAMPLE_ACTIONS + component] = __float_as_uint(actions[component]);
    words[SAMPLE_LOGPROB] = __float_as_uint(logprob);
    words[SAMPLE_VALUE] = __float_as_uint(value);
#pragma unroll
    for (unsigned word = 0u; word < MASK_WORDS; ++word) words[SAMPLE_MASK + word] = mask[word];
#pragma unroll
    for (unsigned word = 0u; word < SAMPLE_STRIDE; word += 4u) *(uint4*)(to + word) = make_uint4(words[word], words[word + 1u], words[word + 2u], words[word + 3u]);
}

// A block's shared memory: the weights unless they stay in global memory, then a tile per warp, then the statistics that are merged at the end.
constexpr unsigned WEIGHT_BYTES = WEIGHTS_AT == GLOBAL ? 0u : round_up(PACKED_WORDS * 4u, 16u);

struct WarpMemory {
    alignas(16) TileMemory tile;
    alignas(16) EpisodeTotals episodes;
    double norms[NORMS > 0u ? 2u * NORMS : 1u];
    unsigned flag[2];
};

static_assert(sizeof(WarpMemory) == WARP_BYTES && PACKED_WORDS == EXPECTED_PACKED_WORDS, "the host counts as the kernel does");

KERNEL(rollout, RolloutParams, THREADS, 1) {
    SHARED_ARENA(arena);
    const HorizonParams& horizon = params.horizon;
    const unsigned lane = threadIdx.x % WARP, warp = threadIdx.x / WARP, warps = blockDim.x / WARP;
    WarpMemory* memories = (WarpMemory*)(arena + WEIGHT_BYTES);
    TileMemory& tile = memories[warp].tile;
    Weights weights;
    weights.packed = params.weights;
    if (WEIGHTS_AT != GLOBAL) {
        for (unsigned word = threadIdx.x * 4u; word < PACKED_WORDS; word += blockDim.x * 4u)
            *(uint4*)(arena + word * 4u) = *(const uint4*)(params.weights + word);
        __syncthreads();
        weights.packed = (const float*)arena;
    }
    hold(weights, lane);
    // Rows that only pad a tensor core's tile, and the final observations of environments that have none yet.
    for (unsigned place = lane; place < OBS_ROWS * ROW; place += WARP) tile.obs[place] = tile.final_obs[place] = 0.0f;
    __syncwarp();

    const unsigned first = (blockIdx.x * warps + warp) * TILE, column = lane % TILE, environment = first + column;
    const bool owner = lane < TILE, counted = owner && environment < horizon.num_envs;
    const u64 start = *horizon.clock;
    EpisodeSums episodes;
    episodes.clear();
    NormSums sums;
    sums.clear();
    if (first < horizon.num_envs) {
        const unsigned place = environment < horizon.num_envs ? environment : horizon.num_envs - 1u;
        Running running;
        load_running(horizon.environments + place, horizon.num_envs, running);
        float discounted = load_discounted(horizon.normaliser, place);
        ActionDraws<HEAD_DRAWS> draws;
        float log_std[ENV_ACTIONS];
        if (!ENV_DISCRETE)
            for (unsigned k = 0u; k < ENV_ACTIONS; ++k) log_std[k] = horizon.log_std[k];

        float reward = 0.0f, next_value = 0.0f;
        bool truncated = false, bootstrapping = false;
        unsigned t = 0u;
#if ENV_PACKED
        unsigned packed[ENV_OBS_WORDS], final_packed[ENV_OBS_WORDS];
#else
        unsigned *const packed = nullptr, *const final_packed = nullptr;
#endif
        if (owner) stage(running.state, horizon.normaliser, tile.obs, column, true, sums, packed);
#pragma unroll 1
        for (;;) {
            // One place runs the policy: on the next observations, and on final ones where only the time limit ended an episode.
            forward(weights, bootstrapping ? tile.final_obs : tile.obs, tile, lane);
            const float value = tile.outputs[OUTPUTS * ROW + column];
            const u64 at = (u64)t * horizon.num_envs + environment;
            if (bootstrapping) {
                if (truncated) reward += __fmul_rn(horizon.discounts.gamma, value);
                if (counted) horizon.rewards[at - horizon.num_envs] = reward;
                bootstrapping = false;
                continue;
            }
            if (t == horizon.num_steps) {
                next_value = value;
                break;
            }
            truncated = false;
            if (owner) {
                const u64 time = start + t;
                unsigned mask[MASK_WORDS > 0u ? MASK_WORDS : 1u] = {};
#if ENV_MASKED
                bool legal[ENV_ACTIONS];
                env_legal(running.state, legal);
#pragma unroll
                for (unsigned k = 0u; k < ENV_ACTIONS; ++k) mask[k / 32u] |= legal[k] ? 1u << k % 32u : 0u;
#endif
                draws.draw(horizon.seed, horizon.first_environment + environment, time, PURPOSE_ACTION, t == 0u);
                float uniforms[HEAD_DRAWS], stored[ENV_COMPONENTS];
#pragma unroll
                for (unsigned k = 0u; k < HEAD_DRAWS; ++k) uniforms[k] = unit(draws.get(time, k));
                EnvAction action[ENV_COMPONENTS];
                const float logprob = sample(tile.outputs + column, mask, log_std, uniforms, action, stored);
                if (counted) {
                    write_sample(horizon.samples + at * SAMPLE_STRIDE, tile.obs, packed, stored, logprob, value, mask, column);
                    horizon.values[at] = value;
                }
                const bool shown = horizon.scene && environment == 0u;
                if (shown) store_running(running, horizon.scene + t * SCENE_WORDS, 1u);
                const Outcome outcome = step(running, action, horizon.seed, horizon.first_environment + environment, time, episodes, horizon.next, place, horizon.num_envs);
                const bool done = outcome.terminated || outcome.truncated;
                const unsigned flags = (outcome.terminated ? 1u : 0u) | (outcome.truncated ? 2u : 0u);
                if (shown) {
                    horizon.scene[t * SCENE_WORDS + RUNNING_WORDS] = flags;
                    horizon.scene[t * SCENE_WORDS + RUNNING_WORDS + 1u] = __float_as_uint(outcome.episodic_return);
                }
                reward = normalise_reward(horizon.normaliser, outcome.reward, done, horizon.discounts.gamma, discounted, sums);
                truncated = outcome.truncated && !outcome.terminated;
                if (truncated) stage(outcome.after, horizon.normaliser, tile.final_obs, column, false, sums, final_packed);
                // The observation after the last step is counted by the next rollout.
                stage(running.state, horizon.normaliser, tile.obs, column, t + 1u < horizon.num_steps, sums, packed);
                if (counted) horizon.flags[at] = (unsigned char)flags;
            }
            t += 1u;
            bootstrapping = __any_sync(ALL_LANES, truncated);
            if (counted && !bootstrapping) horizon.rewards[at] = reward;
        }
        if (counted) {
            store_running(running, horizon.environments + environment, horizon.num_envs);
            store_discounted(horizon.normaliser, environment, discounted);
            horizon.next_values[environment] = next_value;
            const Gae gae = {horizon.rewards, horizon.values, horizon.flags, horizon.samples, horizon.num_envs, horizon.num_steps,
                             SAMPLE_STRIDE, SAMPLE_ADVANTAGE, horizon.discounts};
            gae_of(gae, environment, next_value);
        }
    }

    if (!counted) {
        episodes.clear();
        sums.clear();
    }
    EpisodeTotals* of_warps = &memories[0].episodes;
    merge_warps(warp_merge(widened(episodes)), of_warps, sizeof(WarpMemory), horizon.partials);
    merge_norm_warps(sums, horizon.normaliser, &memories[0].norms[0], sizeof(WarpMemory));
#if ENV_METRICS
    merge_metrics_of_warp(episodes, horizon.metric_partials);
#endif
    if (!is_last_block(horizon.ticket, memories[0].flag)) return;
#if ENV_METRICS
    if (threadIdx.x < WARP) merge_metrics(horizon.metric_partials, horizon.metric_totals);
#endif
    merge_blocks(horizon.partials, of_warps, sizeof(WarpMemory), horizon.totals);
    // With several devices, a separate kernel merges them after all have arrived.
    if (horizon.normaliser.devices == 1u) merge_norm_blocks(horizon.normaliser, gridDim.x, (u64)horizon.num_envs * horizon.num_steps);
    if (threadIdx.x == 0u) *horizon.clock = start + horizon.num_steps;
}

#ifdef ENV_BLOCKS

// Merges the sums of the blocks of all devices: one block.
KERNEL(rollout_norms, RolloutParams, THREADS, 1) {
    const Normaliser& normaliser = params.horizon.normaliser;
    const u64 count = (u64)params.horizon.num_envs * params.horizon.num_steps * normaliser.devices;
    merge_norm_blocks(normaliser, normaliser.blocks * normaliser.devices, count);
}

#endif
