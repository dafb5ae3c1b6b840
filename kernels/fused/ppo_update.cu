// PPO's update: all epochs and minibatches over the samples of a rollout.
//
// in   packed samples (B, SAMPLE_STRIDE) with their advantages; parameters, Adam's moments, and the packed weights
// out  parameters, moments and packed weights after the last minibatch; the report
//
// ppo_update runs everything in one cooperative launch, with a grid barrier after each phase of a minibatch except `ahead`. On a device without
// cooperative launches the kernels named after the phases run one after another; the phases are the same functions.
//
//   advantages  mean and deviation of each minibatch's advantages, before an epoch; part of a minibatch per block
//   ahead       between arriving at the grid barrier after a gradient and waiting on it: the block's loss sums, Adam's step size, and for
//              the next gradient its first samples and the scale of its advantages; these two also before an epoch's first minibatch
//   gradient    forward, loss and backward of the minibatch's tiles, tile by tile to the blocks in turn (gradient_rows.cuh in fp32,
//              gradient_fragments.cuh on tensor cores)
//   tables      with embeddings: gradients of the tables and of the layer after them (tables.cuh)
//   reduce      the blocks' gradients added up by all blocks, each a contiguous range of parameters, and the square of the norm
//   adam        clip, step, and the weights packed again (repack.cuh); a minibatch whose loss or gradient is not finite is skipped
//   compose     with embeddings: the first layer's weights from tables and the layer after them
//
// The order of every sum depends only on the launch and the network, so the same device gives the same bits. Worked example:
// 1,048,576 samples in 32 minibatches and 4 epochs are 128 minibatches of 256 times 128 samples; 132 blocks of 8 warps take 1 or 2 of those each.
#include "common/common.cuh"
#include "params.cuh"
#include "common/philox.cuh"
#include "common/mma.cuh"
#include "common/packing.cuh"
#include "fused/tables.cuh"
#include "common/activation.cuh"
#include "fused/actor_critic.cuh"
#include "env.cuh"
#include "common/head.cuh"
#include "common/sample.cuh"
#include "common/shuffle.cuh"
#include "fused/gradient.cuh"
#if PRECISION == 0
#include "fused/gradient_rows.cuh"
#else
#include "fused/gradient_fragments.cuh"
#endif
#include "common/adam.cuh"
#include "fused/repack.cuh"

typedef FusedUpdateParams PhaseParams;
typedef FusedWeightParams WeightParams;
#if !defined(TABLES) && !defined(ENV_BLOCKS)
#define REDUCE_BY_FOUR
#endif

// A block's shared memory: both forms of the weights if they fit, rows for each warp, and space for sums.
constexpr unsigned WEIGHT_WORDS = WEIGHTS_AT == GLOBAL ? 0u : round_up(PACKED_WORDS, 4u) + round_up(TRANSPOSED_WORDS, 4u);
constexpr unsigned WARP_WORDS = WARP_ROWS * ROW;
constexpr unsigned ROWS_WORDS = THREADS / WARP * WARP_WORDS;
constexpr unsigned SUM_WORDS = 2u * 8u * (THREADS / WARP) + round_up(ENV_ACTIONS, 4u) * (THREADS / WARP);

#ifdef REDUCE_BY_FOUR
// Scratch space for the reduction, in shared memory that is free between two gradients. On tensor cores these are the features, since the
// next samples are already being copied to the rows; in fp32 there are no features and nothing is copied ahead, so the rows are free.
constexpr unsigned REDUCE_SCRATCH = (FEATURE_WORDS > 0u ? FEATURE_WORDS : ROWS_WORDS) / 4u;
#endif

#include "common/update.cuh"
#include "algorithms/ppo.cuh"

// Inputs of a minibatch's gradient and Adam step that can be computed before the weights and the gradient are ready.
struct Ahead {
    // The order of the epoch's samples.
    Shuffle shuffle;
    // Adam steps taken so far.
    u64 steps;
    // Shift and scale of the minibatch's advantages.
    float2 scale;
    // Adam's step size for the next step.
    AdamRate rate;
};
constexpr unsigned AHEAD_WORDS = 16u;
static_assert(sizeof(Ahead) <= 4u * AHEAD_WORDS);
static_assert(4u * (WEIGHT_WORDS + FEATURE_WORDS + ROWS_WORDS + SUM_WORDS + AHEAD_WORDS) == BLOCK_BYTES && PARAMETERS == EXPECTED_PARAMETERS &&
              PARTIAL == EXPECTED_PARTIAL && TRANSPOSED_WORDS == EXPECTED_TRANSPOSED_WORDS && PACKED_WORDS == EXPECTED_PACKED_WORDS, "the host counts as the kernel does");

__device__ __forceinline__ double* sum_room(unsigned char* arena) {
    return (double*)(arena + 4u * (WEIGHT_WORDS + FEATURE_WORDS + ROWS_WORDS));
}

// Blocks that have tiles of a minibatch, of those of a block of environments.
__device__ __forceinline__ unsigned busy_blocks(const UpdateParams& params, unsigned minibatch) {
    const unsigned size = block_size(params, minibatch), tile = blockDim.x / WARP * TILE;
    const unsigned tiles = (size + tile - 1u) / tile, apart = BLOCKED ? params.blocks / ENV_BLOCKS : gridDim.x;
    return tiles < apart ? tiles : apart;
}

// One number of the blocks' partial gradients, added up in the order of the blocks, then pairwise over the blocks of environments. Loads
// go ahead of the sum.
__device__ __forceinline__ float partial_sum(const PhaseParams& params, unsigned place, unsigned blocks) {
    const unsigned apart = params.update.blocks / ENV_BLOCKS;
    float sums[ENV_BLOCKS];
#pragma unroll
    for (unsigned env_block = 0u; env_block < ENV_BLOCKS; ++env_block) {
        const float* partials = params.partials + (u64)(env_block * apart) * PARTIAL + place;
        float sum = 0.0f;
#pragma unroll 32
        for (unsigned block = 0u; block < blocks; ++block) sum += partials[(u64)block * PARTIAL];
        sums[env_block] = sum;
    }
    return pairwise(sums);
}

// A parameter's gradient. tables_gradient has stored the gradients of T and W.
__device__ __forceinline__ float gradient_of(const PhaseParams& params, unsigned p, unsigned blocks) {
    return is_table_or_first_weight(p) ? params.update.gradient[p] : partial_sum(params, partial_index(p), blocks);
}

// The gradients of parameters p .. p + 3 of blocks `begin` .. `end`. A network without tables has its parameters in the order of the
// partial gradients.
__device__ __forceinline__ float4 gradients_of(const PhaseParams& params, unsigned p, unsigned begin, unsigned end) {
    constexpr unsigned AT_ONCE = 16u;
    float4 sum = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
    const float* partials = params.partials + (u64)begin * PARTIAL + p;
#pragma unroll 1
    for (unsigned block = begin; block < end; block += AT_ONCE, partials += AT_ONCE * PARTIAL) {
        float4 numbers[AT_ONCE];
#pragma unroll
        for (unsigned i = 0u; i < AT_ONCE; ++i) numbers[i] = block + i < end ? load4(partials + i * PARTIAL) : make_float4(0.0f, 0.0f, 0.0f, 0.0f);
#pragma unroll
        for (unsigned i = 0u; i < AT_ONCE; ++i) sum = add4(sum, numbers[i]);
    }
    return sum;
}

#ifdef TABLES

// The gradient dC of the first layers: one thread per number.
__device__ __forceinline__ void reduce_first_layer(const PhaseParams& params, unsigned minibatch) {
    const unsigned blocks = busy_blocks(params.update, minibatch);
#pragma unroll
    for (unsigned chain = 0u; chain < CHAINS; ++chain) {
        const unsigned count = inputs(0u) * outputs(chain, 0u), first = flat_offset(chain, 0u);
        for (unsigned at = blockIdx.x * blockDim.x + threadIdx.x; at < count; at += gridDim.x * blockDim.x)
            params.first_gradient[first + at] = partial_sum(params, first + at, blocks);
    }
}

// The feature that input EMBEDDED + `passed` of W reads.
__device__ __forceinline__ unsigned passed_feature(unsigned passed) {
    unsigned feature = passed;
#pragma unroll
    for (unsigned part = 0u; part < TABLE_PARTS; ++part)
        if (feature >= table(part).first) feature += table(part).positions * table(part).rows;
    return feature;
}

// The gradients of T and W from dC: one warp per parameter. Neighbouring lanes read neighbouring positions.
__device__ __forceinline__ void tables_gradient(const PhaseParams& params) {
    const unsigned lane = threadIdx.x % WARP, warps = blockDim.x / WARP;
#pragma unroll
    for (unsigned chain = 0u; chain < CHAINS; ++chain) {
        const float *tables = params.update.parameters + param_offset(chain, 0u), *w = tables + TABLE_NUMBERS;
        const float* by_first = params.first_gradient + flat_offset(chain, 0u);
        const unsigned outs = outputs(chain, 0u), features = inputs(0u);
        for (unsigned own = blockIdx.x * warps + threadIdx.x / WARP; own < made_of(chain); own += gridDim.x * warps) {
            const unsigned row = own / TABLE_WIDTH, n = (own - TABLE_NUMBERS) / TABLE_INPUTS, input = (own - TABLE_NUMBERS) % TABLE_INPUTS;
            float sum = 0.0f;
            if (own >= TABLE_NUMBERS && input >= EMBEDDED) sum = lane == 0u ? by_first[n * features + passed_feature(input - EMBEDDED)] : 0.0f;
#pragma unroll
            for (unsigned part = 0u; part < TABLE_PARTS; ++part) {
                const Table of = table(part);
                const unsigned inputs_of_part = of.step > 0u ? of.positions * of.step : TABLE_WIDTH;
                if (own < TABLE_NUMBERS && row - of.row < of.rows) {
                    for (unsigned term = lane; term < of.positions * outs; term += WARP) {
                        const unsigned position = term % of.positions, k = term / of.positions;
                        sum = fmaf(by_first[k * features + of.first + position * of.rows + (row - of.row)],
                                   w[k * TABLE_INPUTS + of.column + position * of.step + own % TABLE_WIDTH], sum);
                    }
                    sum *= of.scale;
                } else if (own >= TABLE_NUMBERS && input < EMBEDDED && input - of.column < inputs_of_part) {
                    const unsigned d = (input - of.column) % TABLE_WIDTH, position = (input - of.column) / TABLE_WIDTH;
                    const unsigned first = of.first + position * of.rows, terms = (of.step > 0u ? 1u : of.positions) * of.rows;
                    for (unsigned term = lane; term < terms; term += WARP)
                        sum = fmaf(by_first[n * features + first + term], tables[(of.row + term % of.rows) * TABLE_WIDTH + d], sum);
                    sum *= of.scale;
                }
            }
            sum = warp_sum(sum);
            if (lane == 0u) params.update.gradient[param_offset(chain, 0u) + own] = sum;
        }
    }
}

// C from T and W, one thread per number; after all blocks' Adam steps.
__device__ __forceinline__ void compose_phase(const float* parameters, const FusedWeights& weights) {
#pragma unroll
    for (unsigned chain = 0u; chain < CHAINS; ++chain) {
        const unsigned columns = padded_outputs(chain, 0u), outs = outputs(chain, 0u);
        for (unsigned at = blockIdx.x * blockDim.x + threadIdx.x; at < matrix_words(chain, 0u); at += gridDim.x * blockDim.x) {
            const unsigned n = at % columns;
            if (n < outs) weights.packed[packed_offset(chain, 0u) + at] = first_weight(parameters, chain, n, at / columns);
        }
    }
}

#endif

// Copies words with all threads of the block; they are there after await_copies and a barrier.
template <unsigned WORDS>
__device__ __forceinline__ void copy_words(const float* from, float* to) {
#pragma unroll 4
    for (unsigned first = threadIdx.x * 4u; first < WORDS; first += THREADS * 4u) copy_ahead(from + first, to + first);
}

#ifdef REDUCE_BY_FOUR
__device__ __forceinline__ float* reduce_scratch(unsigned char* arena) { return (float*)arena + WEIGHT_WORDS; }
#endif

__device__ __forceinline__ Ahead& ahead_of(unsigned char* arena) { return *(Ahead*)((float*)sum_room(arena) + SUM_WORDS); }

// The block of environments that this block of threads works on, its number `part` among the `parts` that share it, and whether it has
// a tile of the minibatch (`busy`).
struct Share {
    unsigned env_block, part, parts;
    bool busy;
};

__device__ __forceinline__ Share share_of(const UpdateParams& params, unsigned minibatch) {
    const unsigned parts = gridDim.x / ENV_BLOCKS, part = BLOCKED ? blockIdx.x % parts : blockIdx.x;
    return {BLOCKED ? blockIdx.x / parts : 0u, part, parts, part < busy_blocks(params, minibatch)};
}

// Whether a tile's samples are copied to where its warp's observations will be while the tile before is worked on.
constexpr bool COPIES_AHEAD = FEATURE_WORDS > 0u && !OBS_BITS && TILE * SAMPLE_STRIDE <= OUTPUTS_AT * ROW;

// The position of a sample, or the last one past the end.
__device__ __forceinline__ const unsigned* sample_from(const UpdateParams& params, const Shuffle& shuffle, unsigned env_block, unsigned position, unsigned end) {
    return params.samples + (u64)sample_at(params, shuffle, env_block, position < end ? position : end - 1u) * SAMPLE_STRIDE;
}

// Begins to copy the samples of a warp's tile from `position` on.
__device__ __forceinline__ void copy_samples(const UpdateParams& params, const Shuffle& shuffle, unsigned env_block, unsigned position, unsigned end, float* rows, unsigned lane) {
    if constexpr (COPIES_AHEAD) {
        constexpr unsigned PIECES = SAMPLE_STRIDE / 4u;
#pragma unroll 1
        for (unsigned place = lane; place < TILE * PIECES; place += WARP)
            copy_ahead((const float*)sample_from(params, shuffle, env_block, position + place / PIECES, end) + place % PIECES * 4u, rows + place * 4u);
    }
}

// The work for the next gradient that reads no weights: begins to copy the first samples, and computes the scale of the advantages; with
// `begins` also the epoch's order. The block has to synchronise before gradient_phase.
__device__ __forceinline__ void ahead_phase(const UpdateParams& params, unsigned epoch, unsigned minibatch, bool begins, unsigned char* arena) {
    const Share share = share_of(params, minibatch);
    Ahead& ahead = ahead_of(arena);
    if (begins) {
        if (threadIdx.x == 0u) ahead.shuffle = shuffle_of(params, epoch, share.env_block);
        __syncthreads();
    }
    const unsigned warp = threadIdx.x / WARP, position = bound(params, minibatch) + (share.part * (THREADS / WARP) + warp) * TILE;
    float* rows = (float*)arena + WEIGHT_WORDS + FEATURE_WORDS + warp * WARP_WORDS;
    if (share.busy) copy_samples(params, ahead.shuffle, share.env_block, position, bound(params, minibatch + 1u), rows, threadIdx.x % WARP);
    // Not thread 0, which polls the grid barrier.
    if (threadIdx.x == THREADS - 1u) ahead.scale = advantage_scale(params, minibatch);
}

// A sample of a tile, of lane l < 16 the l-th.
struct OwnSample {
    unsigned words[SAMPLE_STRIDE];
    float actions[ENV_COMPONENTS];
    float weight;

    __device__ __forceinline__ void load(const unsigned* from) {
#pragma unroll
        for (unsigned word = 0u; word < SAMPLE_STRIDE; word += 4u) {
            const uint4 four = *(const uint4*)(from + word);
            words[word] = four.x;
            words[word + 1u] = four.y;
            words[word + 2u] = four.z;
            words[word + 3u] = four.w;
        }
#pragma unroll
        for (unsigned component = 0u; component < ENV_COMPONENTS; ++component) actions[component] = __uint_as_float(words[SAMPLE_ACTIONS + component]);
    }

    // Observations into the warp's rows.
    __device__ __forceinline__ void observe(float* rows, unsigned column) const {
#if ENV_PACKED
        unsigned input[ENV_INPUT_WORDS];
        env_input(words, input);
#pragma unroll
        for (unsigned word = 0u; word < ENV_INPUT_WORDS; ++word) rows[word * ROW + column] = __uint_as_float(input[word]);
#else
#pragma unroll
        for (unsigned word = 0u; word < ENV_OBS_WORDS; ++word) rows[word * ROW + column] = __uint_as_float(words[word]);
#endif
    }
};

// The block's part of a minibatch's gradient, and in sum_room the loss sums of each warp. Call it after ahead_phase. Not inlined: the
// compiler would hoist address computations out of the caller's loops until registers spill.
__device__ __noinline__ void gradient_phase(const PhaseParams& phase, unsigned minibatch) {
    SHARED_ARENA(arena);
    const UpdateParams& params = phase.update;
    const unsigned lane = threadIdx.x % WARP, warp = threadIdx.x / WARP, warps = blockDim.x / WARP;
    const unsigned first = bound(params, minibatch), end = bound(params, minibatch + 1u);
    const Share share = share_of(params, minibatch);
    if (!share.busy) return;
    const float* packed = phase.weights.packed;
    const float* transposed = phase.weights.transposed;
    if (WEIGHTS_AT != GLOBAL) {
        float* own = (float*)arena;
        copy_words<PACKED_WORDS>(packed, own);
        packed = own;
        own += round_up(PACKED_WORDS, 4u);
        copy_words<TRANSPOSED_WORDS>(transposed, own);
        transposed = own;
    }
    float* rows = (float*)arena + WEIGHT_WORDS + FEATURE_WORDS;
    float* own_rows = rows + warp * WARP_WORDS;
    float* partial = phase.partials + (u64)blockIdx.x * PARTIAL;
    BlockGradient gradient;
    gradient.packed = packed;
    gradient.transposed = transposed;
    gradient.rows = rows;
    gradient.partial = partial;
    gradient.begin();
    const Ahead& ahead = ahead_of(arena);
    const float2 scale = ahead.scale;
    const unsigned size = BLOCKED ? whole_size(params, minibatch) : end - first;
    LossSums sums = {};
    float d_log_std[ENV_ACTIONS] = {}, log_std[ENV_ACTIONS];
#pragma unroll
    for (unsigned k = 0u; k < ENV_ACTIONS; ++k) log_std[k] = ENV_DISCRETE ? 0.0f : params.parameters[LOG_STD_AT + k];

    bool first_tile = true;
#pragma unroll 1
    for (unsigned begin = first + share.part * warps * TILE; begin < end; begin += share.parts * warps * TILE) {
        // Where every warp reads the observations of all warps: all have finished the tile before.
        if (PRECISION == F32 || OBS_BITS) __syncthreads();
        const unsigned position = begin + warp * TILE + lane;
        OwnSample own;
        own.weight = position < end ? 1.0f / (float)size : 0.0f;
        await_copies();
        __syncwarp();
        if (lane < TILE) own.load(COPIES_AHEAD ? (const unsigned*)own_rows + lane * SAMPLE_STRIDE : sample_from(params, ahead.shuffle, share.env_block, position, end));
        __syncwarp();
        if (lane < TILE) own.observe(own_rows, lane);
        // All warps have read the features of the tile before, and the weights are there.
        __syncthreads();
        gradient.forward(own_rows, lane);
        __syncwarp();
        const unsigned next = begin + (share.parts * warps + warp) * TILE;
        if (next - warp * TILE < end) copy_samples(params, ahead.shuffle, share.env_block, next, end, own_rows, lane);
        if (lane < TILE) {
            float* out = own_rows + OUTPUTS_AT * ROW + lane;
            LossInput input;
            input.actions = own.actions;
            input.mask = own.words + SAMPLE_MASK;
            input.logprob = __uint_as_float(own.words[SAMPLE_LOGPROB]);
            input.value = __uint_as_float(own.words[SAMPLE_VALUE]);
            const float advantage = __uint_as_float(own.words[SAMPLE_ADVANTAGE]);
            input.returns = advantage + input.value;
            input.advantage = (advantage - scale.x) * scale.y;
            LossSums of_sample = {};
            float of_log_std[ENV_ACTIONS] = {};
            const float by_value = value_loss(params.coefficients, input, out[VALUE_ROW * ROW], of_sample) * own.weight;
            policy_gradient(params.coefficients, input, log_std, own.weight, out, of_log_std, of_sample);
            // Rows that only pad the products.
#pragma unroll
            for (unsigned row = 0u; row < DELTA_ROWS; ++row)
                if (row >= OUTPUTS && row != VALUE_ROW) out[row * ROW] = 0.0f;
            out[VALUE_ROW * ROW] = by_value;
            if (own.weight > 0.0f) {
                sums.policy += of_sample.policy;
                sums.value += of_sample.value;
                sums.entropy += of_sample.entropy;
                sums.kl += of_sample.kl;
                sums.clipped += of_sample.clipped;
#pragma unroll
                for (unsigned k = 0u; k < ENV_ACTIONS; ++k) d_log_std[k] += of_log_std[k];
            }
        }
        gradient.backward(own_rows, lane, first_tile);
        first_tile = false;
    }
    gradient.end();
    const double mine[5] = {sums.policy, sums.value, sums.entropy, sums.kl, sums.clipped};
#pragma unroll
    for (unsigned i = 0u; i < 5u; ++i) {
        const double sum = warp_sum(mine[i]);
        if (lane == 0u) sum_room(arena)[warp * 5u + i] = sum;
    }
    if (!ENV_DISCRETE) {
        float* room = (float*)(sum_room(arena) + 8u * warps);
#pragma unroll
        for (unsigned k = 0u; k < ENV_ACTIONS; ++k) {
            const float sum = warp_sum(d_log_std[k]);
            if (lane == 0u) room[warp * ENV_ACTIONS + k] = sum;
        }
        __syncthreads();
        if (threadIdx.x < ENV_ACTIONS) {
            float sum = 0.0f;
            for (unsigned w = 0u; w < warps; ++w) sum += room[w * ENV_ACTIONS + threadIdx.x];
            partial[PARTIAL_LOG_STD_AT + threadIdx.x] = sum;
        }
    }
}

// Adds up the loss sums of the block's warps. A block without a tile stores the contents of its shared memory, which are never read.
__device__ __forceinline__ void losses_phase(const UpdateParams& params, unsigned char* arena) {
    if (threadIdx.x >= 5u) return;
    double sum = 0.0;
    for (unsigned warp = 0u; warp < blockDim.x / WARP; ++warp) sum += sum_room(arena)[warp * 5u + threadIdx.x];
    params.losses[blockIdx.x * 5u + threadIdx.x] = sum;
}

// Counts Adam's steps and computes the step size. With at least three warps it is in another warp than thread 0, which polls the grid
// barrier, and thread THREADS - 1, which computes the scale of the advantages.
constexpr unsigned RATE_THREAD = THREADS > 2u * WARP ? WARP : THREADS - 2u;

KERNEL(ppo_update, FusedUpdateParams, THREADS, 1) {
    SHARED_ARENA(arena);
    const UpdateParams& update = params.update;
    Ahead& ahead = ahead_of(arena);
    unsigned passed = 0u;
    spread_phase(update, arena);
    GRID_BARRIER(update.barrier, passed);
    if (blockIdx.x == 0u) begin_phase(update);
    if (threadIdx.x == RATE_THREAD) ahead.steps = update.progress->adam_steps;
    GRID_BARRIER(update.barrier, passed);
    for (unsigned epoch = 0u; epoch < update.num_epochs && update.progress->stopped == 0u; ++epoch) {
        if (update.norm_adv) {
            advantages_phase(update, epoch, arena);
            GRID_BARRIER(update.barrier, passed);
        }
        ahead_phase(update, epoch, 0u, true, arena);
        __syncthreads();
        for (unsigned minibatch = 0u; minibatch < update.num_minibatches; ++minibatch) {
            gradient_phase(params, minibatch);
#if BLOCKED
            // sum_phase reads the losses of all blocks right after this barrier.
            __syncthreads();
            losses_phase(update, arena);
#endif
            GRID_ARRIVE(update.barrier, passed);
#if !BLOCKED
            losses_phase(update, arena);
#endif
            if (threadIdx.x == RATE_THREAD) ahead.rate = adam_rate(update.adam, update.report->learning_rate, ahead.steps + 1u);
            if (minibatch + 1u < update.num_minibatches) ahead_phase(update, epoch, minibatch + 1u, false, arena);
            GRID_WAIT(update.barrier, passed);
#ifdef TABLES
            reduce_first_layer(params, minibatch);
            GRID_BARRIER(update.barrier, passed);
            tables_gradient(params);
            GRID_BARRIER(update.barrier, passed);
#endif
#if BLOCKED
            sum_phase(params, minibatch);
            GRID_BARRIER(update.barrier, passed);
            norm_phase(update, arena);
#else
            reduce_phase(params, minibatch, arena);
#endif
            GRID_BARRIER(update.barrier, passed);
            const Totals totals = adam_phase(params, minibatch, ahead.rate, arena);
            GRID_ARRIVE(update.barrier, passed);
            if (threadIdx.x == RATE_THREAD && totals.are_finite()) ahead.steps += 1u;
            report_phase(update, epoch, minibatch, totals);
            note_phase(update, minibatch);
            GRID_WAIT(update.barrier, passed);
#ifdef TABLES
            compose_phase(update.parameters, params.weights);
            GRID_BARRIER(update.barrier, passed);
#endif
        }
        GRID_BARRIER(update.barrier, passed);
    }
    end_phase(update);
}

// The gradient alone, for devices without cooperative launches.
KERNEL(update_gradient, FusedUpdateParams, THREADS, 1) {
    SHARED_ARENA(arena);
    if (params.update.progress->stopped != 0u) return;
    ahead_phase(params.update, params.update.epoch, params.update.minibatch, true, arena);
    __syncthreads();
    gradient_phase(params, params.update.minibatch);
    __syncthreads();
    losses_phase(params.update, arena);
}

#ifdef TABLES

KERNEL(update_first_layer, FusedUpdateParams, THREADS, 1) {
    if (params.update.progress->stopped == 0u) reduce_first_layer(params, params.update.minibatch);
}

KERNEL(update_tables, FusedUpdateParams, THREADS, 1) {
    if (params.update.progress->stopped == 0u) tables_gradient(params);
}

KERNEL(update_compose, FusedWeightParams, THREADS, 1) { compose_phase(params.parameters, params.weights); }

#endif
