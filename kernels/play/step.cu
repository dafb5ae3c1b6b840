// Environments that another program steps with its own actions: row-major arrays, as frameworks have them.
//
// reset_all  in   running environments (RUNNING_WORDS, N); chosen (N) or null for all
//            out  the same with new episodes where chosen; obs (N, ENV_OBS) of all; masks
// step_all   in   running environments; actions (N, ENV_COMPONENTS), i64 or i32 choices or f32 numbers
//            out  the same a step later; obs, rewards (N), terminated, truncated and ended (N) a byte each; returns and lengths (N) of
//                 the episodes that ended, else 0; with AUTORESET == SAME_STEP final_obs (N, ENV_OBS) where an episode ended; masks
//                 (N, ENV_ACTIONS) a byte each where actions can be illegal; in games the players to move (N)
//
// Observations are f32, or a byte for each bit. An action that the environment does not take is stepped as 0, and `bad` becomes the
// least (place in `actions`, value): environment 5 of a Discrete(2) with action 7 leaves 5 << 32 | 7.
//
// One thread an environment. A block's observations pass through shared memory, so that neighbouring threads write neighbouring words.
#include "common/common.cuh"
#include "params.cuh"
#include "common/philox.cuh"
#include "env.cuh"
#include "common/episode.cuh"
#include "play/observe.cuh"

constexpr unsigned SAME_STEP = 0u, NEXT_STEP = 1u;

// `elapsed` of an environment whose next step starts an episode. Episodes are shorter.
constexpr unsigned ENDED = 0xffffffffu;

// Four bits as four bytes.
__device__ __forceinline__ unsigned four_bytes(unsigned bits) { return bits * 0x00204081u & 0x01010101u; }

__device__ __forceinline__ unsigned char bit_of(const unsigned* words, unsigned bit) {
    return (unsigned char)(words[bit / 32u] >> bit % 32u & 1u);
}

// One row of observations, by one thread.
__device__ __forceinline__ void write_row(const unsigned* obs, unsigned char* rows, unsigned row) {
#if OBS_BITS
    for (unsigned bit = 0u; bit < ENV_OBS; ++bit) rows[(u64)row * ENV_OBS + bit] = bit_of(obs, bit);
#else
    for (unsigned word = 0u; word < ENV_OBS; ++word) ((unsigned*)rows)[(u64)row * ENV_OBS + word] = obs[word];
#endif
}

// The block's rows of observations, `obs` a thread's own. All threads call it; `staged` has ENV_OBS_WORDS words for each.
__device__ __forceinline__ void write_rows(const unsigned* obs, unsigned* staged, unsigned char* rows, unsigned num_envs) {
    const unsigned first = blockIdx.x * blockDim.x, count = min(blockDim.x, num_envs - first);
#pragma unroll
    for (unsigned word = 0u; word < ENV_OBS_WORDS; ++word) staged[threadIdx.x * ENV_OBS_WORDS + word] = obs[word];
    __syncthreads();
#if !OBS_BITS
    unsigned* const to = (unsigned*)rows + (u64)first * ENV_OBS;
    for (unsigned i = threadIdx.x; i < count * ENV_OBS; i += blockDim.x) to[i] = staged[i];
#else
    if (ENV_OBS % 4u != 0u) {
        unsigned char* const to = rows + (u64)first * ENV_OBS;
        for (unsigned i = threadIdx.x; i < count * ENV_OBS; i += blockDim.x)
            to[i] = bit_of(staged + i / ENV_OBS * ENV_OBS_WORDS, i % ENV_OBS);
        return;
    }
    constexpr unsigned fours = ENV_OBS / 4u;
    unsigned* const to = (unsigned*)rows + (u64)first * fours;
    for (unsigned i = threadIdx.x; i < count * fours; i += blockDim.x) {
        const unsigned four = i % fours;
        to[i] = four_bytes(staged[i / fours * ENV_OBS_WORDS + four / 8u] >> four % 8u * 4u & 15u);
    }
#endif
}

__device__ __forceinline__ void write_mask(const EnvState& state, unsigned char* masks, unsigned row) {
#if ENV_MASKED
    bool legal[ENV_ACTIONS];
    env_legal(state, legal);
    for (unsigned choice = 0u; choice < ENV_ACTIONS; ++choice) masks[(u64)row * ENV_ACTIONS + choice] = legal[choice] ? 1u : 0u;
#endif
    (void)state, (void)masks, (void)row;
}

__device__ __forceinline__ void write_player(const EnvState& state, unsigned* players, unsigned row) {
#if PLAYERS > 1
    players[row] = state.player;
#endif
    (void)state, (void)players, (void)row;
}

KERNEL(reset_all, ResetParams, THREADS, 1) {
    SHARED_ARENA(arena);
    const unsigned environment = blockIdx.x * blockDim.x + threadIdx.x;
    unsigned obs[ENV_OBS_WORDS] = {};
    if (environment < params.num_envs) {
        Running running;
        if (!params.chosen || params.chosen[environment]) {
            begin(running, params.seed, environment, params.time, PURPOSE_INIT);
            store_running(running, params.environments + environment, params.num_envs);
        } else {
            load_running(params.environments + environment, params.num_envs, running);
        }
        observe_words(running.state, obs);
        write_mask(running.state, params.to.masks, environment);
        write_player(running.state, params.to.players, environment);
    }
    write_rows(obs, (unsigned*)arena, params.to.obs, params.num_envs);
}

// Reads the actions of an environment; those that it does not take are 0 and are reported.
__device__ __forceinline__ void read_actions(const StepParams& params, unsigned environment, EnvAction* action) {
#pragma unroll
    for (unsigned component = 0u; component < ENV_COMPONENTS; ++component) {
        const unsigned place = environment * ENV_COMPONENTS + component;
#if ENV_DISCRETE
        const long long value = params.wide ? ((const long long*)params.actions)[place] : ((const int*)params.actions)[place];
        const bool is_good = 0 <= value && value < env_choices(component);
        const unsigned shown = value < -0x7fffffffll ? 0x80000000u : value > 0x7fffffffll ? 0x7fffffffu : (unsigned)value;
        action[component] = is_good ? (unsigned)value : 0u;
#else
        const float value = ((const float*)params.actions)[place];
        const unsigned shown = __float_as_uint(value);
        const bool is_good = (shown & 0x7f800000u) != 0x7f800000u;
        action[component] = is_good ? value : 0.0f;
#endif
        if (!is_good) atomicMin(params.bad, (u64)place << 32u | shown);
    }
}

KERNEL(step_all, StepParams, THREADS, 1) {
    SHARED_ARENA(arena);
    const unsigned environment = blockIdx.x * blockDim.x + threadIdx.x;
    unsigned obs[ENV_OBS_WORDS] = {};
    if (environment < params.num_envs) {
        Running running;
        load_running(params.environments + environment, params.num_envs, running);
        EnvAction action[ENV_COMPONENTS];
        read_actions(params, environment, action);
        float reward = 0.0f, episodic_return = 0.0f;
        bool terminated = false, truncated = false;
        unsigned length = 0u;
        if (AUTORESET == NEXT_STEP && running.elapsed == ENDED) {
            begin(running, params.seed, environment, params.time, PURPOSE_RESET);
        } else {
            const Outcome outcome = advance(running, action, params.seed, environment, params.time);
            reward = outcome.reward;
            terminated = outcome.terminated;
            truncated = outcome.truncated;
            if (terminated || truncated) {
                length = running.elapsed;
                episodic_return = outcome.episodic_return;
                if (AUTORESET == SAME_STEP) {
                    observe_words(outcome.after, obs);
                    write_row(obs, params.to.final_obs, environment);
                    begin_next(running, params.seed, environment, params.time, params.next, environment, params.num_envs);
                } else if (AUTORESET == NEXT_STEP) {
                    running.elapsed = ENDED;
                }
            }
        }
        store_running(running, params.environments + environment, params.num_envs);
        observe_words(running.state, obs);
        write_mask(running.state, params.to.masks, environment);
        write_player(running.state, params.to.players, environment);
        params.to.rewards[environment] = reward;
        params.to.terminated[environment] = terminated ? 1u : 0u;
        params.to.truncated[environment] = truncated ? 1u : 0u;
        params.to.ended[environment] = terminated || truncated ? 1u : 0u;
        params.to.returns[environment] = episodic_return;
        params.to.lengths[environment] = length;
    }
    write_rows(obs, (unsigned*)arena, params.to.obs, params.num_envs);
}
