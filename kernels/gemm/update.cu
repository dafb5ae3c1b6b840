// The update of a network that runs as matrix products, with the loss of an algorithm (loss.cuh): the work around the products, and the phases that every update has
// (update.cuh).
//
//   update_gather  rows of observations of a minibatch's samples, as the first product reads them
//   update_loss    losses and the gradients of the outputs, one thread per sample
//   update_values, update_returns  where advantages are computed again: after a forward pass the values of its samples, and after those of all
//                  minibatches the advantages by them, one thread per environment
//   update_shares, update_draw  sequences drawn by priority (draws.cuh)
//   update_units, update_restore  values in the units of normalised returns (units.cuh)
//
// Between the two run the forward products, after them the backward ones, whose results are gradients in the layout of gemm/layout.cuh.
// A minibatch that is shorter than the longest by a sample, or with memory by a sequence, has rows whose weight is zero. Worked example: 32,768 samples a
// minibatch, 264 blocks of 128 threads take one sample or none a thread.
#define ONE_SAMPLE_A_THREAD
#include "common/common.cuh"
#include "params.cuh"
#include "common/philox.cuh"
#include "common/mma.cuh"
#include "common/packing.cuh"
#include "env.cuh"
#include "gemm/layout.cuh"
#include "common/head.cuh"
#include "common/sample.cuh"
#include "common/shuffle.cuh"
#include "common/adam.cuh"
#include "gemm/muon.cuh"

// Values of an observation.
constexpr unsigned VALUES = INTRINSIC_VALUE ? 2u : 1u;
// Parameters log_std follow the layers.
constexpr unsigned LOG_STD_AT = FLAT_LOG_STD, PARAMETERS = LOG_STD_AT + LOG_STDS;

typedef GemmUpdateParams PhaseParams;
typedef GemmWeightParams WeightParams;

#include "common/update.cuh"
#include "loss.cuh"
#if ACTION_VALUES
#include "gemm/action_values.cuh"
#endif
#include "gemm/value.cuh"

static_assert(PARAMETERS == EXPECTED_PARAMETERS && BLOCK_BYTES == (2u * 8u + round_up(OUTPUTS, 4u)) * 4u * (THREADS / WARP), "the host counts as the kernel does");

__device__ __forceinline__ double* sum_room(unsigned char* arena) { return (double*)arena; }

// Every block leaves losses, if only zeros; they are of no block of environments in particular.
__device__ __forceinline__ unsigned busy_blocks(const UpdateParams& params, unsigned) { return params.blocks / ENV_BLOCKS; }

// Matrices and biases come from products; log_std from the blocks' shares, in their order.
__device__ __forceinline__ float gradient_of(const PhaseParams& params, unsigned p, unsigned) {
    if (is_of_critic(params.update) && !is_value(p)) return 0.0f;
    if (p < LOG_STD_AT) return params.products[gemm_place(p)];
    const float* shares = params.log_std_shares + (p - LOG_STD_AT);
    float sum = 0.0f;
    for (unsigned block = 0u; block < params.update.blocks; ++block) sum += shares[block * ENV_ACTIONS];
    return sum;
}

// A minibatch: `size` samples of each block of environments from position `first` on. Row (t, s) of the network's is step t of sequence s,
// at t x sequences + s, where `sequences` is the count in the longest minibatch, block by block; sequences past a block's end repeat its last.
struct Minibatch {
    unsigned first, size, sequences;
    const UpdateParams& update;

    __device__ __forceinline__ Minibatch(const GemmUpdateParams& params) : update(params.update) {
        first = bound(update, update.minibatch);
        size = block_size(update, update.minibatch);
        sequences = params.rows / SEQUENCE;
    }

    __device__ __forceinline__ unsigned block(unsigned row) const { return row % sequences / (sequences / ENV_BLOCKS); }

    __device__ __forceinline__ bool has(unsigned row) const { return row % sequences % (sequences / ENV_BLOCKS) < size / SEQUENCE; }

    // Where a row's sample is in the order of the epoch of its block.
    __device__ __forceinline__ unsigned position(unsigned row) const {
        const unsigned last = size / SEQUENCE - 1u, sequence = row % sequences % (sequences / ENV_BLOCKS);
        return first + (sequence < last ? sequence : last) * SEQUENCE + row / sequences;
    }

    // The sample of a row. A thread's next rows are mostly of the same block.
    __device__ __forceinline__ unsigned sample(Shuffle& shuffle, unsigned& shuffled, unsigned row) const {
        const unsigned own = block(row);
        if (BLOCKED && own != shuffled) {
            shuffle = shuffle_of(update, update.epoch, own);
            shuffled = own;
        }
        return sample_at(update, shuffle, own, position(row));
    }
};

#if DRAWS
// The weight of the advantage of a row's sample.
__device__ __forceinline__ float importance_of(const GemmUpdateParams& params, const Minibatch& minibatch, unsigned row) {
    return params.importance[(u64)minibatch.block(row) * block_sequences(params.update) + minibatch.position(row) / SEQUENCE];
}
#endif

#ifdef RPO_ALPHA
// Adds the noise of an epoch to the means of the sample of a row: uniform within plus or minus rpo_alpha. Twin of operant-learn's MeanNoise.
__device__ __forceinline__ void add_noise(const UpdateParams& update, const Minibatch& minibatch, unsigned row, float* means) {
    const float alpha = update.coefficients[RPO_ALPHA];
    if (ENV_DISCRETE || alpha == 0.0f) return;
    const unsigned block = BLOCKED ? update.first_block + minibatch.block(row) : 0u;
    const unsigned tag = (PURPOSE_MEAN_NOISE << 24u) | (update.epoch << 10u);
    Words words = {};
#pragma unroll
    for (unsigned k = 0u; k < ENV_ACTIONS; ++k) {
        if (k % 4u == 0u) words = philox(minibatch.position(row), block, (unsigned)update.progress->update, tag | k / 4u, update.seed.low, update.seed.high);
        means[k] += fmaf(unit(words.word[k % 4u]), 2.0f * alpha, -alpha);
    }
}
#endif

KERNEL(update_gather, GemmUpdateParams, THREADS, 1) {
    const UpdateParams& update = params.update;
    if (is_over(update)) return;
    constexpr unsigned GROUPS = OBS_ROW / PAD;
    Shuffle shuffle = shuffle_of(update, update.epoch, 0u);
    unsigned shuffled = 0u;
    const Minibatch minibatch(params);
    const u64 count = (u64)params.rows * GROUPS;
    for (u64 at = (u64)blockIdx.x * blockDim.x + threadIdx.x; at < count; at += (u64)gridDim.x * blockDim.x) {
        const unsigned row = (unsigned)(at / GROUPS), group = (unsigned)(at % GROUPS);
        const float* obs = (const float*)update.samples + (u64)minibatch.sample(shuffle, shuffled, row) * SAMPLE_STRIDE;
        Element* to = (Element*)params.obs + at * PAD;
#pragma unroll
        for (unsigned k = 0u; k < PAD; ++k) to[k] = to_element(feature(obs, group * PAD + k));
#if INDICES
        if (group == 0u) write_indices(params.indices + (u64)row * INDICES, obs);
#endif
#if STATES
        if (group == 0u) params.keep[row] = obs[SAMPLE_KEEP];
#endif
    }
#if STATES
    // The initial states of the rollout's sequences follow its samples: (sequences of an environment, N, STATES).
    const float* states = (const float*)update.samples + (u64)update.num_samples * SAMPLE_STRIDE;
    const u64 numbers = (u64)minibatch.sequences * STATES;
    for (u64 at = (u64)blockIdx.x * blockDim.x + threadIdx.x; at < numbers; at += (u64)gridDim.x * blockDim.x) {
        const unsigned s = (unsigned)(at / STATES), num_envs = update.num_envs;
        const unsigned sample = minibatch.sample(shuffle, shuffled, s);
        const u64 sequence = (u64)(sample / num_envs / SEQUENCE) * num_envs + sample % num_envs;
        params.initial[at] = states[sequence * STATES + at % STATES];
    }
#endif
}

KERNEL(update_loss, GemmUpdateParams, THREADS, 1) {
    const UpdateParams& update = params.update;
    if (is_over(update)) return;
    SHARED_ARENA(arena);
    Shuffle shuffle = shuffle_of(update, update.epoch, 0u);
    unsigned shuffled = 0u;
    const Minibatch minibatch(params);
    Loss loss(update);
    float sums[SUMS] = {};
    float d_log_std[ENV_ACTIONS] = {}, log_std[ENV_ACTIONS];
#pragma unroll
    for (unsigned k = 0u; k < ENV_ACTIONS; ++k) log_std[k] = LOG_STDS > 0u ? update.parameters[LOG_STD_AT + k] : 0.0f;
    for (unsigned row = blockIdx.x * blockDim.x + threadIdx.x; row < params.rows; row += gridDim.x * blockDim.x) {
        const unsigned* words = update.samples + (u64)minibatch.sample(shuffle, shuffled, row) * SAMPLE_STRIDE;
        const float weight = minibatch.has(row) ? 1.0f / (float)whole_size(update, update.minibatch) : 0.0f;
        float out[OUTPUTS], of_sample[SUMS] = {}, of_log_std[ENV_ACTIONS] = {};
        const float* outputs = params.policy + (u64)row * POLICY_ROW;
#if ACTION_VALUES
        read_values(outputs, out);
#else
#pragma unroll
        for (unsigned k = 0u; k < OUTPUTS; ++k) out[k] = outputs[k];
#endif
#ifdef RPO_ALPHA
        add_noise(update, minibatch, row, out);
#endif
#if DRAWS
        loss.importance = importance_of(params, minibatch, row);
#endif
        // A network of action values has no value; then the loss does not write it.
        const float* values = params.values + (u64)row * VALUE_ROW + params.value_at;
        float by_values[VALUES];
#pragma unroll
        for (unsigned k = 0u; k < VALUES; ++k) by_values[k] = ACTION_VALUES || BINS ? 0.0f : values[k];
        loss.of_sample(words, weight, log_std, out, by_values, of_log_std, of_sample);
#if BINS
        // vf_coef times the cross-entropy from the return, which is divided between the two nearest values.
        const Shares shares(values);
        const float place = place_of(__uint_as_float(words[SAMPLE_ADVANTAGE]) + __uint_as_float(words[SAMPLE_VALUE]));
        const float by_loss = update.coefficients[VF_COEF] * weight;
        of_sample[1] += shares.cross_entropy([&](unsigned k) { return near(place, k); });
        auto value_gradient = [&](unsigned k) { return k < BINS ? (shares.of(k) - near(place, k)) * by_loss : 0.0f; };
#else
        auto value_gradient = [&](unsigned k) { return k < VALUES ? by_values[k] : 0.0f; };
#endif
        Element* to = (Element*)params.policy_gradient + (u64)row * POLICY_ROW;
#if ACTION_VALUES
#pragma unroll
        for (unsigned k = 0u; k < OUTPUTS; ++k) out[k] = weight > 0.0f ? out[k] : 0.0f;
        write_gradient(to, POLICY_ROW, out);
#else
#pragma unroll
        for (unsigned k = 0u; k < OUTPUTS; ++k) to[k] = to_element(weight > 0.0f ? out[k] : 0.0f);
#pragma unroll 8
        for (unsigned k = OUTPUTS; k < POLICY_ROW; ++k) to[k] = to_element(CHAINS == 1u && weight > 0.0f ? value_gradient(k - OUTPUTS) : 0.0f);
#endif
        if (CHAINS == 2u) {
            to = (Element*)params.value_gradient + (u64)row * VALUE_ROW;
#pragma unroll 8
            for (unsigned k = 0u; k < VALUE_ROW; ++k) to[k] = to_element(weight > 0.0f ? value_gradient(k) : 0.0f);
        }
        if (weight > 0.0f) {
#pragma unroll
            for (unsigned i = 0u; i < SUMS; ++i) sums[i] += of_sample[i];
#pragma unroll
            for (unsigned k = 0u; k < ENV_ACTIONS; ++k) d_log_std[k] += of_log_std[k];
        }
    }
    const unsigned warp = threadIdx.x / WARP, warps = blockDim.x / WARP;
    double mine[SUMS], all[SUMS];
#pragma unroll
    for (unsigned i = 0u; i < SUMS; ++i) mine[i] = sums[i];
    block_sum(mine, sum_room(arena), all);
    if (threadIdx.x == 0u) {
#pragma unroll
        for (unsigned i = 0u; i < SUMS; ++i) update.losses[blockIdx.x * SUMS + i] = all[i];
    }
    if (LOG_STDS > 0u) {
        float* room = (float*)(sum_room(arena) + 8u * warps);
#pragma unroll
        for (unsigned k = 0u; k < ENV_ACTIONS; ++k) {
            const float sum = warp_sum(d_log_std[k]);
            if (threadIdx.x % WARP == 0u) room[warp * ENV_ACTIONS + k] = sum;
        }
        __syncthreads();
        if (threadIdx.x < ENV_ACTIONS) {
            float sum = 0.0f;
            for (unsigned w = 0u; w < warps; ++w) sum += room[w * ENV_ACTIONS + threadIdx.x];
            params.log_std_shares[blockIdx.x * ENV_ACTIONS + threadIdx.x] = sum;
        }
    }
}

#if RECOMPUTES

// The value of a minibatch's row; and, until update_returns, the ratio of probabilities in the place of the advantage.
KERNEL(update_values, GemmUpdateParams, THREADS, 1) {
    const UpdateParams& update = params.update;
    if (is_over(update)) return;
    Shuffle shuffle = shuffle_of(update, update.epoch, 0u);
    unsigned shuffled = 0u;
    const Minibatch minibatch(params);
    for (unsigned row = blockIdx.x * blockDim.x + threadIdx.x; row < params.rows; row += gridDim.x * blockDim.x) {
        if (!minibatch.has(row)) continue;
        unsigned* words = params.again + (u64)minibatch.sample(shuffle, shuffled, row) * SAMPLE_STRIDE;
        const float* out = params.policy + (u64)row * POLICY_ROW;
#if ACTION_VALUES
        float values[OUTPUTS];
        read_values(out, values);
        const float value = greatest_value(values, ENV_MASKED ? words + SAMPLE_MASK : 0);
#else
        float value = value_in(params.values + (u64)row * VALUE_ROW + params.value_at);
#if NORM_VALUE
        value = of_units(value, update.progress->value_norm);
#endif
        if (params.weight_clips[0] > 0.0f || params.weight_clips[1] > 0.0f) {
            const float logprob = logprob_of(out, words + SAMPLE_MASK, update.parameters + LOG_STD_AT, (const float*)words + SAMPLE_ACTIONS);
            words[SAMPLE_ADVANTAGE] = __float_as_uint(expf(logprob - __uint_as_float(words[SAMPLE_LOGPROB])));
        }
#endif
        words[SAMPLE_VALUE] = __float_as_uint(value);
    }
}

KERNEL(update_returns, GemmUpdateParams, THREADS, 1) {
    const UpdateParams& update = params.update;
    if (is_over(update)) return;
    const unsigned num_envs = update.num_envs;
    const float* outcomes = (const float*)outcomes_of(params.again, update.num_samples, num_envs);
    const float rho = params.weight_clips[0], c = params.weight_clips[1];
    for (unsigned environment = blockIdx.x * blockDim.x + threadIdx.x; environment < num_envs; environment += gridDim.x * blockDim.x) {
        float next = 0.0f, next_value = outcomes[2u * (u64)update.num_samples + environment];
        for (unsigned at = update.num_samples - num_envs + environment; at < update.num_samples; at -= num_envs) {
            unsigned* words = params.again + (u64)at * SAMPLE_STRIDE;
            const float value = __uint_as_float(words[SAMPLE_VALUE]), ratio = __uint_as_float(words[SAMPLE_ADVANTAGE]);
            const float reward = outcomes[2u * (u64)at], goes_on = outcomes[2u * (u64)at + 1u];
            const float delta = fmaf(params.discounts.gamma * goes_on, next_value, reward) - value;
            next = fmaf(params.discounts.decay * goes_on * (c > 0.0f ? fminf(ratio, c) : 1.0f), next, (rho > 0.0f ? fminf(ratio, rho) : 1.0f) * delta);
            words[SAMPLE_ADVANTAGE] = __float_as_uint(next);
            next_value = value;
        }
    }
}

#endif

#if DRAWS
#include "gemm/draws.cuh"
#endif
#if NORM_VALUE
#include "gemm/units.cuh"
#endif
