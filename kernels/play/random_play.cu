// Environments without a policy: their first states, and rollouts of uniformly random actions with auto-reset and time limit.
// Random play for environment benchmarks and for checking bit parity with the CPU. Twin of operant-env's RandomPlay.
//
// start        out  running environments (RUNNING_WORDS, N) at the start of their first episodes
// random_play  in   running environments and the global step
//              out  the same T steps later; episodes; with WRITES obs (T, ENV_OBS_WORDS, N), rewards (T, N) f32 and flags (T, N) u8;
//                   with HASHES one 64-bit FNV-1a hash an environment over all that every step gave
//
// One thread per environment, its state in registers for the whole rollout: 8,192 environments are 128 blocks of 64 threads.
#include "common/common.cuh"
#include "params.cuh"
#include "common/philox.cuh"
#include "env.cuh"
#include "common/episode.cuh"
#include "play/observe.cuh"

KERNEL(start, StartParams, THREADS, 1) {
    const unsigned environment = blockIdx.x * blockDim.x + threadIdx.x;
    if (environment >= params.num_envs) return;
    Running running;
    begin(running, params.seed, params.first_environment + environment, 0ull, PURPOSE_INIT);
    store_running(running, params.environments + environment, params.num_envs);
}

// Uniform over the choices, or over the box. An illegal choice is replaced by the next legal one.
__device__ __forceinline__ void random_action(const EnvState& state, const ActionDraws<ENV_COMPONENTS>& draws, u64 time, EnvAction* action) {
#if ENV_MASKED
    bool legal[ENV_ACTIONS];
    env_legal(state, legal);
    unsigned first = 0u;
#endif
#pragma unroll
    for (unsigned component = 0u; component < ENV_COMPONENTS; ++component) {
        const unsigned bits = draws.get(time, component);
#if ENV_DISCRETE
        const unsigned count = env_choices(component);
        unsigned choice = __umulhi(bits, count);
#if ENV_MASKED
        for (unsigned tried = 0u; tried < count && !legal[first + choice]; ++tried) choice = choice + 1u == count ? 0u : choice + 1u;
        first += count;
#endif
        action[component] = choice;
#else
        action[component] = __fmaf_rn(unit(bits), env_high(component) - env_low(component), env_low(component));
#endif
    }
    (void)state;
}

__device__ __forceinline__ void fold(u64& hash, unsigned word) {
#pragma unroll
    for (unsigned byte = 0u; byte < 4u; ++byte) hash = (hash ^ (word >> 8u * byte & 255u)) * 0x100000001b3ull;
}

// Everything that a step gave: reward, flags, the next observation and the state after it.
__device__ __forceinline__ void fold_step(u64& hash, const Outcome& outcome, const unsigned* obs, const Running& running) {
    fold(hash, __float_as_uint(outcome.reward));
    fold(hash, outcome.terminated ? 1u : 0u);
    fold(hash, outcome.truncated ? 1u : 0u);
#pragma unroll
    for (unsigned word = 0u; word < ENV_OBS_WORDS; ++word) fold(hash, obs[word]);
    unsigned words[ENV_STATE_WORDS];
    env_store(running.state, words, 1u);
#pragma unroll
    for (unsigned word = 0u; word < ENV_STATE_WORDS; ++word) fold(hash, words[word]);
}

KERNEL(random_play, RandomPlayParams, THREADS, 1) {
    SHARED_ARENA(arena);
    EpisodeTotals* warps = (EpisodeTotals*)(arena + 16u);
    const unsigned environment = blockIdx.x * blockDim.x + threadIdx.x;
    const u64 start = *params.clock;
    EpisodeSums episodes;
    episodes.clear();
    if (environment < params.num_envs) {
        Running running;
        load_running(params.environments + environment, params.num_envs, running);
        ActionDraws<ENV_COMPONENTS> draws;
        u64 hash = HASHES ? params.hashes[environment] : 0ull;
#pragma unroll 1
        for (unsigned t = 0u; t < params.num_steps; ++t) {
            const u64 time = start + t;
            draws.draw(params.seed, environment, time, PURPOSE_RANDOM_ACTION, t == 0u);
            EnvAction action[ENV_COMPONENTS];
            random_action(running.state, draws, time, action);
            const Outcome outcome = step(running, action, params.seed, environment, time, episodes, params.next, environment, params.num_envs);
            if (WRITES || HASHES) {
                unsigned obs[ENV_OBS_WORDS];
                observe_words(running.state, obs);
                if (HASHES) fold_step(hash, outcome, obs, running);
                if (WRITES) {
                    const u64 row = (u64)t * params.num_envs;
#pragma unroll
                    for (unsigned word = 0u; word < ENV_OBS_WORDS; ++word)
                        params.obs[row * ENV_OBS_WORDS + (u64)word * params.num_envs + environment] = obs[word];
                    params.rewards[row + environment] = outcome.reward;
                    params.flags[row + environment] = (unsigned char)((outcome.terminated ? 1u : 0u) | (outcome.truncated ? 2u : 0u));
                }
            }
        }
        store_running(running, params.environments + environment, params.num_envs);
        if (HASHES) params.hashes[environment] = hash;
    }
    merge_warps(warp_merge(widened(episodes)), warps, sizeof(EpisodeTotals), params.partials);
    if (!is_last_block(params.ticket, (unsigned*)arena)) return;
    merge_blocks(params.partials, warps, sizeof(EpisodeTotals), params.totals);
    if (threadIdx.x == 0u) *params.clock = start + params.num_steps;
}
