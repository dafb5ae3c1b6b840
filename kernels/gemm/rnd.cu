// Random network distillation (docs/exploration.md): a predictor learns the outputs of a target, a network with random weights that never change. The work
// around the products of both, which are the two chains of one layout.
//
// After the steps of a rollout, before its advantages, for the observations that its T N steps arrive at, a number of rows at a time:
//
//   rnd_arrivals  those observations, as the first product reads them; here the forward products of both networks run
//   rnd_errors    their errors, a warp per row
//   rnd_rewards   one thread per environment: discounted sums of errors, and the rewards for exploring
//   rnd_merge     the variance of those sums, of all devices: one block
//
// In the predictor's update, whose phases are those of every update (update.cuh), before and after the forward products of a minibatch:
//
//   rnd_gather    rows of observations of a minibatch's samples
//   rnd_loss      the errors, and the gradients of the predictor's outputs, a warp per row
//   rnd_note      adds the minibatches that were not finite to the report of the policy's update
//
// Worked example: 8,192 environments x 64 steps in 4 minibatches are 4 x 131,072 rows. 264 blocks of 128 threads are 1,056 warps, which take 125 rows each.
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
#include "common/sample.cuh"
#include "common/shuffle.cuh"
#include "common/adam.cuh"

// Parameters of the predictor; those of the target follow.
constexpr unsigned PARAMETERS = PREDICTOR_PARAMETERS;
// Numbers that both networks compute.
constexpr unsigned NUMBERS = POLICY_ROW;

typedef RndUpdateParams PhaseParams;
typedef GemmWeightParams WeightParams;

#include "common/update.cuh"

static_assert(NUMBERS == VALUE_ROW, "both networks compute the same numbers");

__device__ __forceinline__ double* sum_room(unsigned char* arena) { return (double*)arena; }

__device__ __forceinline__ unsigned busy_blocks(const UpdateParams& params, unsigned) { return params.blocks / ENV_BLOCKS; }

// Products leave gradients of the predictor's matrices, and then of its biases.
__device__ __forceinline__ float gradient_of(const PhaseParams& params, unsigned p, unsigned) {
    const unsigned place = gemm_place(p);
    return params.products[place < MATRIX_ELEMENTS ? place : place - MATRIX_ELEMENTS + PREDICTOR_ELEMENTS];
}

// A part of a row of observations.
__device__ __forceinline__ void write_group(float* rows, u64 at, const float* obs) {
    const unsigned first = (unsigned)(at % (OBS_ROW / PAD)) * PAD;
    Element* to = (Element*)rows + at * PAD;
#pragma unroll
    for (unsigned k = 0u; k < PAD; ++k) to[k] = to_element(feature(obs, first + k));
}

// The squares of the differences between a row's outputs, of one lane: `f` gets the output's number and the difference.
template <typename F>
__device__ __forceinline__ float each_difference(const float* predicted, const float* targets, u64 row, F f) {
    float sum = 0.0f;
    for (unsigned k = threadIdx.x % WARP; k < NUMBERS; k += WARP) {
        const float difference = predicted[row * NUMBERS + k] - targets[row * NUMBERS + k];
        sum = fmaf(difference, difference, sum);
        f(k, difference);
    }
    return sum;
}

// Calls `f` with each row of the warp.
template <typename F>
__device__ __forceinline__ void each_row(unsigned rows, F f) {
    const unsigned own = blockIdx.x * (blockDim.x / WARP) + threadIdx.x / WARP, warps = gridDim.x * (blockDim.x / WARP);
    for (unsigned row = own; row < rows; row += warps) f(row);
}

// The observation that the step of a row arrives at is the next sample's of its environment; after the last step it is that of the next rollout.
KERNEL(rnd_arrivals, RndJudgeParams, THREADS, 1) {
    constexpr unsigned GROUPS = OBS_ROW / PAD;
    const HorizonParams& horizon = params.horizon;
    const u64 count = (u64)horizon.num_envs * horizon.num_steps, groups = (u64)params.rows * GROUPS;
    for (u64 at = (u64)blockIdx.x * blockDim.x + threadIdx.x; at < groups; at += (u64)gridDim.x * blockDim.x) {
        const u64 row = at / GROUPS, step = params.first + row < count ? params.first + row : count - 1u, next = step + horizon.num_envs;
        if (next < count) {
            const float* obs = (const float*)horizon.samples + next * SAMPLE_STRIDE;
            write_group(params.obs, at, obs);
#if INDICES
            if (at % GROUPS == 0u) write_indices(params.indices + row * INDICES, obs);
#endif
        } else {
            const u64 environment = next - count;
            const Element* from = (const Element*)params.last_obs + (environment * GROUPS + at % GROUPS) * PAD;
#pragma unroll
            for (unsigned k = 0u; k < PAD; ++k) ((Element*)params.obs)[at * PAD + k] = from[k];
#if INDICES
            for (unsigned i = 0u; at % GROUPS == 0u && i < INDICES; ++i) params.indices[row * INDICES + i] = params.last_indices[environment * INDICES + i];
#endif
        }
    }
}

KERNEL(rnd_errors, RndJudgeParams, THREADS, 1) {
    const u64 count = (u64)params.horizon.num_envs * params.horizon.num_steps;
    each_row(params.rows, [&](unsigned row) {
        const float sum = warp_sum(each_difference(params.predicted, params.targets, row, [](unsigned, float) {}));
        if (threadIdx.x % WARP == 0u && params.first + row < count) params.errors[params.first + row] = sum * (1.0f / (float)NUMBERS);
    });
}

KERNEL(rnd_rewards, RndJudgeParams, THREADS, 1) {
    SHARED_ARENA(arena);
    const HorizonParams& horizon = params.horizon;
    const unsigned environment = blockIdx.x * blockDim.x + threadIdx.x;
    // In the first rollout observations are not yet normalised.
    const bool judges = !NORM_OBS || *horizon.clock != 0u;
    double mine[3] = {}, all[3];
    if (environment < horizon.num_envs) {
        const RunningNorm returns = *params.returns;
        const float scale = returns.count == 0.0 ? 0.0f : (float)(1.0 / sqrt(returns.var + 1e-8));
        float discounted = params.discounted[environment], intrinsic = 0.0f;
        for (unsigned t = 0u; judges && t < horizon.num_steps; ++t) {
            const u64 at = (u64)t * horizon.num_envs + environment;
            const float error = horizon.flags[at] != 0u ? 0.0f : params.errors[at];
            discounted = fmaf(discounted, params.gamma, error);
            // A number that is not finite would stay in the sum.
            if (!(discounted * discounted < 3.402823466e38f)) discounted = 0.0f;
            mine[0] += (double)discounted;
            mine[1] += (double)discounted * (double)discounted;
            mine[2] += 1.0;
            const float reward = __fmul_rn(__fmul_rn(error, scale), params.intrinsic_coef);
#if INTRINSIC_VALUE
            // It is in the place of its advantage until that is known.
            horizon.samples[at * SAMPLE_STRIDE + SAMPLE_INTRINSIC + 1u] = __float_as_uint(reward);
#else
            horizon.rewards[at] += reward;
#endif
            intrinsic += reward;
        }
        params.discounted[environment] = discounted;
        EpisodeSums& episodes = ((EpisodeSums*)params.episodes)[environment];
        episodes.metrics[ENV_METRICS] += intrinsic;
        episodes.measured[ENV_METRICS] += horizon.num_steps;
    }
    block_sum(mine, sum_room(arena), all);
    if (threadIdx.x != 0u) return;
#pragma unroll
    for (unsigned i = 0u; i < 3u; ++i) params.partials[blockIdx.x * 3u + i] = all[i];
}

// Takes the variance within a rollout into its average.
KERNEL(rnd_merge, RndMergeParams, THREADS, 1) {
    if (threadIdx.x >= WARP) return;
    double sums[3] = {};
    for (unsigned part = threadIdx.x; part < params.parts; part += WARP)
        for (unsigned i = 0u; i < 3u; ++i) sums[i] += params.all_partials[part * 3u + i];
    for (unsigned i = 0u; i < 3u; ++i) sums[i] = warp_sum(sums[i]);
    const double count = sums[2], variance = (sums[1] - sums[0] * sums[0] / count) / count;
    if (threadIdx.x != 0u || count == 0.0 || variance - variance != 0.0) return;
    RunningNorm returns = *params.returns;
    returns.count = returns.count + 1.0 < AVERAGED ? returns.count + 1.0 : AVERAGED;
    returns.var += ((variance > 0.0 ? variance : 0.0) - returns.var) / returns.count;
    *params.returns = returns;
}

// A minibatch: its rows are those of one block of environments after the other. Rows past a block's end repeat its last, without weight.
struct Rows {
    unsigned first, size, each;
    const UpdateParams& update;

    __device__ __forceinline__ Rows(const RndUpdateParams& params) : update(params.update) {
        first = bound(update, update.minibatch);
        size = block_size(update, update.minibatch);
        each = params.rows / ENV_BLOCKS;
    }

    __device__ __forceinline__ bool has(unsigned row) const { return row % each < size; }

    // The sample of a row. A thread's next rows are mostly of the same block.
    __device__ __forceinline__ unsigned sample(Shuffle& shuffle, unsigned& shuffled, unsigned row) const {
        const unsigned block = row / each, position = row % each;
        if (BLOCKED && block != shuffled) {
            shuffle = shuffle_of(update, update.epoch, block);
            shuffled = block;
        }
        return sample_at(update, shuffle, block, first + (position < size ? position : size - 1u));
    }
};

KERNEL(rnd_gather, RndUpdateParams, THREADS, 1) {
    constexpr unsigned GROUPS = OBS_ROW / PAD;
    Shuffle shuffle = shuffle_of(params.update, params.update.epoch, 0u);
    unsigned shuffled = 0u;
    const Rows rows(params);
    const u64 count = (u64)params.rows * GROUPS;
    for (u64 at = (u64)blockIdx.x * blockDim.x + threadIdx.x; at < count; at += (u64)gridDim.x * blockDim.x) {
        const unsigned row = (unsigned)(at / GROUPS);
        const float* obs = (const float*)params.update.samples + (u64)rows.sample(shuffle, shuffled, row) * SAMPLE_STRIDE;
        write_group(params.obs, at, obs);
#if INDICES
        if (at % GROUPS == 0u) write_indices(params.indices + (u64)row * INDICES, obs);
#endif
    }
}

KERNEL(rnd_loss, RndUpdateParams, THREADS, 1) {
    SHARED_ARENA(arena);
    const UpdateParams& update = params.update;
    const Rows rows(params);
    const float scale = 2.0f / ((float)whole_size(update, update.minibatch) * (float)NUMBERS);
    double mine[SUMS] = {}, all[SUMS];
    each_row(params.rows, [&](unsigned row) {
        const bool has = rows.has(row);
        Element* to = (Element*)params.gradient + (u64)row * NUMBERS;
        const float sum = each_difference(params.predicted, params.targets, row, [&](unsigned k, float difference) { to[k] = to_element(has ? difference * scale : 0.0f); });
        if (has) mine[0] += (double)sum / NUMBERS;
    });
    block_sum(mine, sum_room(arena), all);
    if (threadIdx.x != 0u) return;
#pragma unroll
    for (unsigned i = 0u; i < SUMS; ++i) update.losses[blockIdx.x * SUMS + i] = all[i];
}

// After both updates. Either counts in a row those with a minibatch that was not finite, from the same number on.
KERNEL(rnd_note, RndUpdateParams, THREADS, 1) {
    if (blockIdx.x != 0u || threadIdx.x != 0u) return;
    const u64 own = params.update.progress->nonfinite_in_a_row, policy = params.policy_progress->nonfinite_in_a_row;
    params.update.progress->nonfinite_in_a_row = params.policy_progress->nonfinite_in_a_row = own > policy ? own : policy;
    params.policy_report->nonfinite += params.update.report->nonfinite;
}

// Packs the parameters of predictor and target into weights that are zero: one thread per parameter.
KERNEL(gemm_pack, GemmWeightParams, THREADS, 1) {
    const unsigned p = blockIdx.x * blockDim.x + threadIdx.x;
    if (p < params.count) pack_parameter(p, params.parameters[p], params.weights);
}
