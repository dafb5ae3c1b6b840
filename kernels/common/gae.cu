// GAE as a separate launch: one thread per environment, see gae.cuh. The rollout runs the same recurrence at its end, so this
// kernel serves where rewards or values come from elsewhere, and measures what the recurrence alone costs.
//
// in   rewards, values (T, N) f32; flags (T, N) u8; next_values (N) f32, V of the observation after the last step
// out  word `advantage` of samples (T, N, stride)
//
// 8,192 environments take 64 blocks of 128 threads; a warp reads 128 consecutive bytes of rewards and values a step.
#include "common/common.cuh"
#include "params.cuh"
#include "common/gae.cuh"

KERNEL(gae, GaeParams, 128, 1) {
    const unsigned environment = blockIdx.x * blockDim.x + threadIdx.x;
    if (environment >= params.num_envs) return;
    const Gae gae = {params.rewards, params.values, params.flags, params.samples, params.num_envs, params.num_steps,
                     params.stride, params.advantage, params.discounts};
    gae_of(gae, environment, params.next_values[environment]);
}
