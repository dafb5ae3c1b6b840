// First states of the next episodes, made ahead of time, for environments whose reset takes as long as many steps.
//
// make_ahead  in   running environments (RUNNING_WORDS, N); the global step
//             out  states (ENV_STATE_WORDS, N) and, for each, the step whose draws made it, plus one, where they are not yet those of the
//                  episode that follows the running one
//
// One thread per environment. A reset takes as long for one thread of a warp as for all of them, so states are made before every 16th step (EVERY)
// only: a launch fewer than 16 steps after the last one, `since`, does nothing unless a multiple of 16 lies between them. A step that finds no state
// runs the reset itself, with the same bits.
#include "common/common.cuh"
#include "params.cuh"
#include "common/philox.cuh"
#include "env.cuh"

KERNEL(make_ahead, AheadParams, THREADS, 1) {
    const u64 time = (params.clock ? *params.clock : 0ull) + params.step;
    if (time % EVERY >= params.since) return;
    const unsigned environment = blockIdx.x * blockDim.x + threadIdx.x;
    if (environment >= params.num_envs) return;
    const unsigned elapsed = params.environments[(u64)ENV_STATE_WORDS * params.num_envs + environment];
    const u64 began = time - elapsed;
    if (params.made[environment] == began + 1u) return;
    EnvState state;
    env_reset(params.seed.low, params.seed.high, params.first_environment + environment, (unsigned)began, (unsigned)(began >> 32u), PURPOSE_RESET, state);
    env_store(state, params.states + environment, params.num_envs);
    params.made[environment] = began + 1u;
}
