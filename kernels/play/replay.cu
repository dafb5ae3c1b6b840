// Given actions from given states, without auto-reset: what `operant replay --device cuda` prints.
//
// in   states (ENV_STATE_WORDS, C) of C cases; actions (S, ENV_COMPONENTS, C); steps (C): actions that each case has
// out  obs (S, ENV_OBS_WORDS, C), rewards (S, C) f32, flags (S, C) u8, states after each step (S, ENV_STATE_WORDS, C);
//      played (C): steps until the first end of the episode
//
// One thread a case. A case of 3 actions that ends with the second has played = 2 and leaves rows 2 .. S as they were.
#include "common/common.cuh"
#include "params.cuh"
#include "common/philox.cuh"
#include "env.cuh"

KERNEL(replay, ReplayParams, 64, 1) {
    const unsigned item = blockIdx.x * blockDim.x + threadIdx.x, cases = params.num_cases;
    if (item >= cases) return;
    EnvState state;
    env_load(params.states + item, cases, state);
    unsigned t = 0u;
    bool done = false;
    for (; t < params.steps[item] && !done; ++t) {
        EnvAction action[ENV_COMPONENTS];
#pragma unroll
        for (unsigned component = 0u; component < ENV_COMPONENTS; ++component)
            action[component] = ((const EnvAction*)params.actions)[((u64)t * ENV_COMPONENTS + component) * cases + item];
        EnvState next;
        float reward;
        bool terminated;
        env_step(state, action, 0u, 0u, 0u, t, 0u, PURPOSE_STEP, next, reward, terminated);
        state = next;
        const bool truncated = t + 1u >= ENV_TIME_LIMIT;
        done = terminated || truncated;
#if OBS_BITS
        unsigned obs[ENV_OBS_WORDS];
#else
        float obs[ENV_OBS_WORDS];
#endif
        env_observe(state, obs);
#pragma unroll
        for (unsigned word = 0u; word < ENV_OBS_WORDS; ++word)
            ((decltype(&obs[0]))params.obs)[((u64)t * ENV_OBS_WORDS + word) * cases + item] = obs[word];
        env_store(state, params.after + (u64)t * ENV_STATE_WORDS * cases + item, cases);
        params.rewards[(u64)t * cases + item] = reward;
        params.flags[(u64)t * cases + item] = (unsigned char)((terminated ? 1u : 0u) | (truncated ? 2u : 0u));
    }
    params.played[item] = t;
}
