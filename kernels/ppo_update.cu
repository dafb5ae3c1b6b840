// PPO's update: all epochs and minibatches over the samples of a horizon.
//
// in   packed samples (B, SAMPLE_STRIDE) with their advantages; parameters, Adam's moments, and the packed weights
// out  parameters, moments and packed weights after the last minibatch; what the update reports
//
// ppo_update runs everything in one cooperative launch: blocks meet after each phase of a minibatch. Where a device has no
// such launch the kernels named after the phases run one after another; the phases are the same functions.
//
//   advantages  mean and deviation of each minibatch's advantages, before an epoch; part of a minibatch a block
//   gradient    forward, loss and backward of the minibatch's tiles, tile by tile to the blocks in turn (gradient_rows.cuh in fp32,
//              gradient_fragments.cuh on tensor cores)
//   reduce      the blocks' gradients added up in the order of the blocks, and the square of the norm
//   adam        clip, step, and the weights packed anew (adam.cuh); a minibatch whose loss or gradient is not finite is skipped
//
// Every sum has an order that the number of blocks alone decides, so the same device gives the same bits. Worked example:
// 1,048,576 samples in 32 minibatches and 4 epochs are 128 minibatches of 512 tiles; 132 blocks of 4 warps take 3 or 4 each.
#include "common.cuh"
#include "philox.cuh"
#include "mma.cuh"
#include "packing.cuh"
#include "actor_critic.cuh"
#include "env.cuh"
#include "head.cuh"
#include "sample.cuh"
#include "shuffle.cuh"
#include "loss.cuh"
#include "gradient.cuh"
#if PRECISION == 0
#include "gradient_rows.cuh"
#else
#include "gradient_fragments.cuh"
#endif
#include "adam.cuh"

// What an update reports: sums over the last epoch's minibatches of their means, skipped ones left out.
struct UpdateReport {
    double policy, value, entropy, kl, clipped, norms;
    double minibatches;      // that the sums are over
    double errors[2];        // sum of advantages, and of their squares about the first
    double returns[2];       // the same for returns
    double learning_rate;
    u64 nonfinite;           // minibatches skipped, over all epochs
    u64 epochs;              // done; fewer than asked for where target_kl stopped them
};

// Where an update stands, on the device.
struct Progress {
    u64 update;              // updates done
    u64 adam_steps;
    u64 nonfinite_in_a_row;  // updates with a skipped minibatch
    unsigned stopped;        // 1 once target_kl has ended this update's epochs
    unsigned finite;         // whether the minibatch's loss is
    double last_kl;
};

struct UpdateParams {
    const unsigned* samples;
    float* parameters;       // (P)
    float* exp_avg;          // (P)
    float* exp_avg_sq;       // (P)
    float* packed;           // (PACKED_WORDS)
    float* transposed;       // (TRANSPOSED_WORDS)
    float* gradient;         // (P)
    float* partials;         // (blocks, P)
    double* losses;          // (blocks, 5)
    double* norms;           // (blocks)
    double* moments;         // (parts, 2): sums of advantages and of squares; parts = minibatches x segments
    double* spreads;         // (blocks, 4)
    UpdateReport* report;    // (1)
    Progress* progress;      // (1)
    unsigned* barrier;       // (1): zero
    unsigned num_samples, num_minibatches, num_epochs;
    unsigned segments;       // parts of a minibatch whose advantages are summed apart
    unsigned blocks;         // of the launch, and of every phase's
    unsigned epoch, minibatch;  // of a phase that is launched alone
    unsigned norm_adv;
    Seed seed;
    LossCoefficients coefficients;
    double target_kl;        // 0 never stops
    Adam adam;
};

__device__ __forceinline__ unsigned bound(const UpdateParams& params, unsigned minibatch) {
    return (unsigned)((u64)minibatch * params.num_samples / params.num_minibatches);
}

// A block's shared memory: both forms of the weights where they fit, a warp's rows each, and room for sums.
constexpr unsigned WEIGHT_WORDS = WEIGHTS_AT == GLOBAL ? 0u : round_up(PACKED_WORDS, 4u) + round_up(TRANSPOSED_WORDS, 4u);
constexpr unsigned WARP_WORDS = WARP_ROWS * ROW;
constexpr unsigned SUM_WORDS = 2u * 8u * (THREADS / WARP) + round_up(ENV_ACTIONS, 4u) * (THREADS / WARP);
static_assert(4u * (WEIGHT_WORDS + FEATURE_WORDS + THREADS / WARP * WARP_WORDS + SUM_WORDS) == BLOCK_BYTES && PARAMETERS == EXPECTED_PARAMETERS &&
              TRANSPOSED_WORDS == EXPECTED_TRANSPOSED_WORDS && PACKED_WORDS == EXPECTED_PACKED_WORDS, "the host counts as the kernel does");

// The sum of COUNT numbers a thread over the block, in the order of lanes and warps, into `out`, which all threads see after.
template <unsigned COUNT>
__device__ __forceinline__ void block_sum(const double (&mine)[COUNT], double* room, double (&out)[COUNT]) {
#pragma unroll
    for (unsigned i = 0u; i < COUNT; ++i) {
        const double sum = warp_sum(mine[i]);
        if (threadIdx.x % WARP == 0u) room[threadIdx.x / WARP * COUNT + i] = sum;
    }
    __syncthreads();
#pragma unroll
    for (unsigned i = 0u; i < COUNT; ++i) {
        out[i] = 0.0;
        for (unsigned warp = 0u; warp < blockDim.x / WARP; ++warp) out[i] += room[warp * COUNT + i];
    }
    __syncthreads();
}

__device__ __forceinline__ double* sum_room(unsigned char* arena) {
    return (double*)(arena + 4u * (WEIGHT_WORDS + FEATURE_WORDS + blockDim.x / WARP * WARP_WORDS));
}

__device__ __forceinline__ float sample_float(const UpdateParams& params, unsigned index, unsigned field) {
    return __uint_as_float(params.samples[(u64)index * SAMPLE_STRIDE + field]);
}

// Sums that tell how well the values explained the returns; both about the first sample's, so that no digits cancel.
__device__ __forceinline__ void spread_phase(const UpdateParams& params, unsigned char* arena) {
    const double error0 = sample_float(params, 0u, SAMPLE_ADVANTAGE), return0 = error0 + sample_float(params, 0u, SAMPLE_VALUE);
    double mine[4] = {}, all[4];
    for (unsigned index = blockIdx.x * blockDim.x + threadIdx.x; index < params.num_samples; index += gridDim.x * blockDim.x) {
        const double error = sample_float(params, index, SAMPLE_ADVANTAGE);
        const double target = error + (double)sample_float(params, index, SAMPLE_VALUE);
        mine[0] += error - error0;
        mine[1] += (error - error0) * (error - error0);
        mine[2] += target - return0;
        mine[3] += (target - return0) * (target - return0);
    }
    block_sum(mine, sum_room(arena), all);
    if (threadIdx.x != 0u) return;
#pragma unroll
    for (unsigned i = 0u; i < 4u; ++i) params.spreads[blockIdx.x * 4u + i] = all[i];
}

// Starts the report. One block; after spread_phase.
__device__ __forceinline__ void begin_phase(const UpdateParams& params) {
    if (threadIdx.x != 0u) return;
    UpdateReport report = {};
    for (unsigned block = 0u; block < params.blocks; ++block) {
        report.errors[0] += params.spreads[block * 4u];
        report.errors[1] += params.spreads[block * 4u + 1u];
        report.returns[0] += params.spreads[block * 4u + 2u];
        report.returns[1] += params.spreads[block * 4u + 3u];
    }
    report.learning_rate = learning_rate(params.adam, params.progress->update);
    *params.report = report;
    params.progress->stopped = 0u;
}

// Sums of the advantages of one part of a minibatch, about the first advantage of the batch.
__device__ __forceinline__ void advantages_phase(const UpdateParams& params, unsigned epoch, unsigned char* arena) {
    const Shuffle shuffle(params.seed, params.progress->update, epoch, params.num_samples);
    const double pivot = sample_float(params, 0u, SAMPLE_ADVANTAGE);
    for (unsigned part = blockIdx.x; part < params.num_minibatches * params.segments; part += gridDim.x) {
        const unsigned minibatch = part / params.segments, segment = part % params.segments;
        const unsigned first = bound(params, minibatch), size = bound(params, minibatch + 1u) - first;
        const unsigned begin = first + (unsigned)((u64)segment * size / params.segments);
        const unsigned end = first + (unsigned)((u64)(segment + 1u) * size / params.segments);
        double mine[2] = {}, all[2];
        for (unsigned position = begin + threadIdx.x; position < end; position += blockDim.x) {
            const double advantage = sample_float(params, shuffle.index(position), SAMPLE_ADVANTAGE) - pivot;
            mine[0] += advantage;
            mine[1] += advantage * advantage;
        }
        block_sum(mine, sum_room(arena), all);
        if (threadIdx.x == 0u) {
            params.moments[part * 2u] = all[0];
            params.moments[part * 2u + 1u] = all[1];
        }
    }
}

// Shift and scale of a minibatch's advantages: zero mean, and unit deviation with Bessel's correction.
__device__ __forceinline__ float2 advantage_scale(const UpdateParams& params, unsigned minibatch) {
    if (!params.norm_adv) return make_float2(0.0f, 1.0f);
    double sum = 0.0, squares = 0.0;
    for (unsigned segment = 0u; segment < params.segments; ++segment) {
        const double* part = params.moments + (minibatch * params.segments + segment) * 2u;
        sum += part[0];
        squares += part[1];
    }
    const double n = (double)(bound(params, minibatch + 1u) - bound(params, minibatch)), mean = sum / n;
    const double spread = squares - sum * mean;
    const double deviation = n > 1.0 && spread > 0.0 ? sqrt(spread / (n - 1.0)) : 0.0;
    const double pivot = sample_float(params, 0u, SAMPLE_ADVANTAGE);
    return make_float2((float)(mean + pivot), (float)(1.0 / (deviation + 1e-8)));
}

// Blocks that have tiles of a minibatch.
__device__ __forceinline__ unsigned busy_blocks(const UpdateParams& params, unsigned minibatch) {
    const unsigned size = bound(params, minibatch + 1u) - bound(params, minibatch), tile = blockDim.x / WARP * TILE;
    const unsigned tiles = (size + tile - 1u) / tile;
    return tiles < gridDim.x ? tiles : gridDim.x;
}

// Observations of 16 samples into the warp's rows, and what else their losses need; lane l < 16 takes sample l.
struct OwnSample {
    unsigned words[SAMPLE_STRIDE];
    float actions[ENV_COMPONENTS];
    float weight;
};

__device__ __forceinline__ void gather(const UpdateParams& params, const Shuffle& shuffle, unsigned position, unsigned end, unsigned size, float* rows, unsigned column, OwnSample& own) {
    const unsigned clamped = position < end ? position : end - 1u;
    const unsigned* from = params.samples + (u64)shuffle.index(clamped) * SAMPLE_STRIDE;
#pragma unroll
    for (unsigned word = 0u; word < SAMPLE_STRIDE; word += 4u) {
        const uint4 four = *(const uint4*)(from + word);
        own.words[word] = four.x;
        own.words[word + 1u] = four.y;
        own.words[word + 2u] = four.z;
        own.words[word + 3u] = four.w;
    }
#pragma unroll
    for (unsigned word = 0u; word < ENV_OBS_WORDS; ++word) rows[word * ROW + column] = __uint_as_float(own.words[word]);
#pragma unroll
    for (unsigned component = 0u; component < ENV_COMPONENTS; ++component) own.actions[component] = __uint_as_float(own.words[SAMPLE_ACTIONS + component]);
    own.weight = position < end ? 1.0f / (float)size : 0.0f;
}

// The block's share of a minibatch's gradient and losses. Not inlined: in the loops around it the compiler would move addresses out
// of it until registers spill.
__device__ __noinline__ void gradient_phase(const UpdateParams& params, unsigned epoch, unsigned minibatch) {
    SHARED_ARENA(arena);
    const unsigned lane = threadIdx.x % WARP, warp = threadIdx.x / WARP, warps = blockDim.x / WARP;
    const unsigned first = bound(params, minibatch), end = bound(params, minibatch + 1u);
    if (blockIdx.x >= busy_blocks(params, minibatch)) return;
    const float* packed = params.packed;
    const float* transposed = params.transposed;
    if (WEIGHTS_AT != GLOBAL) {
        float* own = (float*)arena;
        for (unsigned word = threadIdx.x * 4u; word < PACKED_WORDS; word += blockDim.x * 4u) *(float4*)(own + word) = load4(packed + word);
        packed = own;
        own += round_up(PACKED_WORDS, 4u);
        for (unsigned word = threadIdx.x * 4u; word < TRANSPOSED_WORDS; word += blockDim.x * 4u) *(float4*)(own + word) = load4(transposed + word);
        transposed = own;
    }
    float* rows = (float*)arena + WEIGHT_WORDS + FEATURE_WORDS;
    float* own_rows = rows + warp * WARP_WORDS;
    float* partial = params.partials + (u64)blockIdx.x * PARAMETERS;
    BlockGradient gradient;
    gradient.packed = packed;
    gradient.transposed = transposed;
    gradient.rows = rows;
    gradient.partial = partial;
    gradient.begin();
    const Shuffle shuffle(params.seed, params.progress->update, epoch, params.num_samples);
    const float2 scale = advantage_scale(params, minibatch);
    LossSums sums = {};
    float d_log_std[ENV_ACTIONS] = {}, log_std[ENV_ACTIONS];
#pragma unroll
    for (unsigned k = 0u; k < ENV_ACTIONS; ++k) log_std[k] = ENV_DISCRETE ? 0.0f : params.parameters[LOG_STD_AT + k];

    bool first_tile = true;
#pragma unroll 1
    for (unsigned begin = first + blockIdx.x * warps * TILE; begin < end; begin += gridDim.x * warps * TILE) {
        // The tile before has been read by all, and the weights are there.
        __syncthreads();
        OwnSample own;
        if (lane < TILE) gather(params, shuffle, begin + warp * TILE + lane, end, end - first, own_rows, lane, own);
        __syncwarp();
        gradient.forward(own_rows, lane);
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
    __syncthreads();
    const double mine[5] = {sums.policy, sums.value, sums.entropy, sums.kl, sums.clipped};
    double all[5];
    block_sum(mine, sum_room(arena), all);
    if (threadIdx.x == 0u) {
#pragma unroll
        for (unsigned i = 0u; i < 5u; ++i) params.losses[blockIdx.x * 5u + i] = all[i];
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
            partial[LOG_STD_AT + threadIdx.x] = sum;
        }
    }
}

// The minibatch's gradient, a thread a parameter, and the block's share of the square of its norm.
__device__ __forceinline__ void reduce_phase(const UpdateParams& params, unsigned minibatch, unsigned char* arena) {
    const unsigned blocks = busy_blocks(params, minibatch);
    double mine[1] = {}, all[1];
    for (unsigned p = blockIdx.x * blockDim.x + threadIdx.x; p < PARAMETERS; p += gridDim.x * blockDim.x) {
        float sum = 0.0f;
#pragma unroll 8
        for (unsigned block = 0u; block < blocks; ++block) sum += params.partials[(u64)block * PARAMETERS + p];
        params.gradient[p] = sum;
        mine[0] += (double)sum * (double)sum;
    }
    block_sum(mine, sum_room(arena), all);
    if (threadIdx.x == 0u) params.norms[blockIdx.x] = all[0];
}

__device__ __forceinline__ bool is_finite(double x) { return x - x == 0.0; }

// The step along the gradient; the first block also keeps the report.
__device__ __forceinline__ void adam_phase(const UpdateParams& params, unsigned epoch, unsigned minibatch, unsigned char* arena) {
    // Every block adds up the same numbers in the same order.
    const unsigned blocks = busy_blocks(params, minibatch);
    double mine[6] = {}, all[6];
    for (unsigned block = threadIdx.x; block < gridDim.x; block += blockDim.x) {
        mine[0] += params.norms[block];
        if (block >= blocks) continue;
#pragma unroll
        for (unsigned i = 0u; i < 5u; ++i) mine[1u + i] += params.losses[block * 5u + i];
    }
    block_sum(mine, sum_room(arena), all);
    const double norm = sqrt(all[0]);
    const bool good = is_finite(norm) && is_finite(all[1] + all[2] + all[3]);
    const u64 step_number = params.progress->adam_steps + 1u;
    if (good) {
        const AdamStep step = adam_step(params.adam, params.report->learning_rate, norm, step_number);
        for (unsigned p = blockIdx.x * blockDim.x + threadIdx.x; p < PARAMETERS; p += gridDim.x * blockDim.x) {
            const float moved = adam_move(params.adam, step, params.parameters[p], params.gradient[p], params.exp_avg[p], params.exp_avg_sq[p]);
            params.parameters[p] = moved;
            pack_parameter(p, moved, params.packed, params.transposed);
        }
    }
    if (blockIdx.x == 0u && threadIdx.x == 0u) {
        params.progress->finite = good ? 1u : 0u;
        UpdateReport& report = *params.report;
        const double size = (double)(bound(params, minibatch + 1u) - bound(params, minibatch));
        if (minibatch == 0u) {
            report.policy = report.value = report.entropy = report.kl = report.clipped = report.norms = report.minibatches = 0.0;
            report.epochs = epoch + 1u;
            params.progress->last_kl = 0.0;
        }
        if (good) {
            report.policy += all[1] / size;
            report.value += all[2] / size;
            report.entropy += all[3] / size;
            report.kl += all[4] / size;
            report.clipped += all[5] / size;
            report.norms += norm;
            report.minibatches += 1.0;
            params.progress->last_kl = all[4] / size;
        } else {
            report.nonfinite += 1u;
        }
    }
}

// What one thread notes after every block has done its step: the count of steps, and the end of the epochs.
__device__ __forceinline__ void note_phase(const UpdateParams& params, unsigned minibatch) {
    if (blockIdx.x != 0u || threadIdx.x != 0u) return;
    if (params.progress->finite) params.progress->adam_steps += 1u;
    if (minibatch + 1u == params.num_minibatches && params.target_kl > 0.0 && params.progress->last_kl > params.target_kl) params.progress->stopped = 1u;
}

__device__ __forceinline__ void end_phase(const UpdateParams& params) {
    if (blockIdx.x != 0u || threadIdx.x != 0u) return;
    params.progress->nonfinite_in_a_row = params.report->nonfinite > 0u ? params.progress->nonfinite_in_a_row + 1u : 0u;
    params.progress->update += 1u;
}

KERNEL(ppo_update, UpdateParams, THREADS, 1) {
    SHARED_ARENA(arena);
    spread_phase(params, arena);
    GRID_BARRIER(params.barrier);
    if (blockIdx.x == 0u) begin_phase(params);
    GRID_BARRIER(params.barrier);
    for (unsigned epoch = 0u; epoch < params.num_epochs && params.progress->stopped == 0u; ++epoch) {
        if (params.norm_adv) {
            advantages_phase(params, epoch, arena);
            GRID_BARRIER(params.barrier);
        }
        for (unsigned minibatch = 0u; minibatch < params.num_minibatches; ++minibatch) {
            gradient_phase(params, epoch, minibatch);
            GRID_BARRIER(params.barrier);
            reduce_phase(params, minibatch, arena);
            GRID_BARRIER(params.barrier);
            adam_phase(params, epoch, minibatch, arena);
            GRID_BARRIER(params.barrier);
            note_phase(params, minibatch);
        }
        GRID_BARRIER(params.barrier);
    }
    end_phase(params);
}

// The phases one by one, for devices without cooperative launches.
KERNEL(update_spread, UpdateParams, THREADS, 1) {
    SHARED_ARENA(arena);
    spread_phase(params, arena);
}

KERNEL(update_begin, UpdateParams, THREADS, 1) { begin_phase(params); }

KERNEL(update_advantages, UpdateParams, THREADS, 1) {
    SHARED_ARENA(arena);
    if (params.progress->stopped == 0u) advantages_phase(params, params.epoch, arena);
}

KERNEL(update_gradient, UpdateParams, THREADS, 1) {
    if (params.progress->stopped == 0u) gradient_phase(params, params.epoch, params.minibatch);
}

KERNEL(update_reduce, UpdateParams, THREADS, 1) {
    SHARED_ARENA(arena);
    if (params.progress->stopped == 0u) reduce_phase(params, params.minibatch, arena);
}

KERNEL(update_adam, UpdateParams, THREADS, 1) {
    SHARED_ARENA(arena);
    if (params.progress->stopped == 0u) adam_phase(params, params.epoch, params.minibatch, arena);
}

KERNEL(update_note, UpdateParams, THREADS, 1) {
    if (params.progress->stopped == 0u) note_phase(params, params.minibatch);
}

// Packs parameters that came from elsewhere into memory that is zero: one thread a parameter.
struct UpdatePackParams {
    const float* parameters;
    float* packed;
    float* transposed;
};

KERNEL(update_pack, UpdatePackParams, THREADS, 1) {
    const unsigned p = blockIdx.x * blockDim.x + threadIdx.x;
    if (p < PARAMETERS) pack_parameter(p, params.parameters[p], params.packed, params.transposed);
}

KERNEL(update_end, UpdateParams, THREADS, 1) { end_phase(params); }
