// What every way of forming gradients shares of PPO's update: what it reads, reports and keeps, and its phases but for the gradient.
//
// An includer says where a block's room for sums is (sum_room), how many blocks leave losses and partial gradients of a minibatch
// (busy_blocks), what one parameter's gradient is (gradient_of), and how a parameter is packed anew (pack_parameter).
#pragma once

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

__device__ __forceinline__ double* sum_room(unsigned char* arena);
__device__ __forceinline__ unsigned busy_blocks(const UpdateParams& params, unsigned minibatch);
__device__ __forceinline__ float gradient_of(const UpdateParams& params, unsigned p, unsigned blocks);

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

// The minibatch's gradient, a thread a parameter, and the block's share of the square of its norm.
__device__ __forceinline__ void reduce_phase(const UpdateParams& params, unsigned minibatch, unsigned char* arena) {
    const unsigned blocks = busy_blocks(params, minibatch);
    double mine[1] = {}, all[1];
    for (unsigned p = blockIdx.x * blockDim.x + threadIdx.x; p < PARAMETERS; p += gridDim.x * blockDim.x) {
        const float sum = gradient_of(params, p, blocks);
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

// The phases one by one, for whoever does not run them all in one launch.
KERNEL(update_spread, UpdateParams, THREADS, 1) {
    SHARED_ARENA(arena);
    spread_phase(params, arena);
}

KERNEL(update_begin, UpdateParams, THREADS, 1) { begin_phase(params); }

KERNEL(update_advantages, UpdateParams, THREADS, 1) {
    SHARED_ARENA(arena);
    if (params.progress->stopped == 0u) advantages_phase(params, params.epoch, arena);
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
