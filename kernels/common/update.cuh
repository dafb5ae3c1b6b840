// The part of an update that the fused and the GEMM path share: buffers, statistics and state, and all phases except the gradient.
//
// An includer defines the kernels' parameters (PhaseParams, with the UpdateParams `update` and `weights`), the block's shared memory for
// sums (sum_room), how many blocks' losses and partial gradients of a minibatch count (busy_blocks), one parameter's gradient
// (gradient_of), and how a parameter is packed into the weights (pack_parameter). With REDUCE_BY_FOUR it also defines the sum of
// four neighbouring parameters' gradients over a range of blocks (gradients_of), and scratch space of REDUCE_SCRATCH float4 in shared memory (reduce_scratch).
#pragma once

// Steps of a sequence, of which minibatches are made. Without memory, as on the fused path, a sample is one.
#ifndef SEQUENCE
#define SEQUENCE 1u
#endif

// Numbers that a loss sums over samples. The loss is finite if the first three are; the fourth may be a divergence that ends the epochs.
constexpr unsigned SUMS = 5u;
static_assert(sizeof(UpdateReport::losses) == 8u * SUMS, "the host counts as the kernels do");

// With BLOCKED a minibatch takes the same share of each block of neighbouring environments, of which this device has ENV_BLOCKS. Sums over
// samples are those of blocks, added pairwise, so that devices which share the blocks of a run compute the same bits.
#ifdef ENV_BLOCKS
#define BLOCKED 1
#else
#define BLOCKED 0
#define ENV_BLOCKS 1u
#endif

// Options that the fused path does not have: epochs of the critic alone, values in running units (normalised returns), and sequences drawn by
// priority.
#ifndef CRITIC_EPOCHS
#define CRITIC_EPOCHS 0
#endif
#ifndef NORM_VALUE
#define NORM_VALUE 0
#endif
#ifndef DRAWS
#define DRAWS 0
#endif
#ifndef BINS
#define BINS 0u
#endif

#if NORM_VALUE
// Values and returns in the units of normalised returns, {mean, variance, count}, and back.
template <typename Norm>
__device__ __forceinline__ double deviation_of(const Norm& norm) {
    return sqrt(norm[1] + 1e-8);
}
template <typename Norm>
__device__ __forceinline__ float in_units(float value, const Norm& norm) {
    return (value - (float)norm[0]) * (float)(1.0 / deviation_of(norm));
}
template <typename Norm>
__device__ __forceinline__ float of_units(float value, const Norm& norm) {
    return fmaf(value, (float)deviation_of(norm), (float)norm[0]);
}
#endif

// Whether a phase's epoch trains the critic alone: those after the epochs of all networks, which target_kl does not end.
__device__ __forceinline__ bool is_of_critic(const UpdateParams& params) { return CRITIC_EPOCHS && params.epoch >= params.num_epochs; }

// Whether a phase has nothing to do, because target_kl has ended the epochs.
__device__ __forceinline__ bool is_over(const UpdateParams& params) { return params.progress->stopped != 0u && !is_of_critic(params); }

// The first position of a minibatch in a block: SEQUENCE x (minibatch x sequences / minibatches, rounded down). The host has divided: only sequences
// that do not fill all minibatches alike need a division here.
__device__ __forceinline__ unsigned bound(const UpdateParams& params, unsigned minibatch) {
    const unsigned begin = minibatch * params.minibatch_size;
    if (params.minibatch_rest == 0u) return begin * SEQUENCE;
    return (begin + (unsigned)((u64)minibatch * params.minibatch_rest / params.num_minibatches)) * SEQUENCE;
}

// Positions of a minibatch in a block.
__device__ __forceinline__ unsigned block_size(const UpdateParams& params, unsigned minibatch) {
    return bound(params, minibatch + 1u) - bound(params, minibatch);
}

// Samples of a minibatch, on all devices.
__device__ __forceinline__ unsigned whole_size(const UpdateParams& params, unsigned minibatch) {
    return block_size(params, minibatch) * (BLOCKED ? ENV_BLOCKS * params.devices : 1u);
}

// Sequences of a block of this device.
__device__ __forceinline__ unsigned block_sequences(const UpdateParams& params) { return params.num_samples / (SEQUENCE * ENV_BLOCKS); }

// What an epoch's random numbers for a block of this device are drawn by, besides the seed and the update.
__device__ __forceinline__ unsigned epoch_of_block(const UpdateParams& params, unsigned epoch, unsigned block) {
    return epoch | (BLOCKED ? params.first_block + block : 0u) << 16u;
}

// The order of an epoch's sequences of a block of this device.
__device__ __forceinline__ Shuffle shuffle_of(const UpdateParams& params, unsigned epoch, unsigned block) {
    return Shuffle(params.seed, params.progress->update, epoch_of_block(params, epoch, block), block_sequences(params));
}

// The sample (t, environment) of a step of a block's sequence.
__device__ __forceinline__ unsigned sample_of(const UpdateParams& params, unsigned block, unsigned sequence, unsigned step) {
    const unsigned environments = params.num_envs / ENV_BLOCKS, first = block * environments;
#if STATES
    return (sequence % SEQUENCES * SEQUENCE + step) * params.num_envs + first + sequence / SEQUENCES;
#else
    return BLOCKED ? sequence / environments * params.num_envs + first + sequence % environments : sequence;
#endif
}

// The sample at a position of an epoch in a block: the steps of a sequence follow each other.
__device__ __forceinline__ unsigned sample_at(const UpdateParams& params, const Shuffle& shuffle, unsigned block, unsigned position) {
#if DRAWS
    if (params.drawn) return sample_of(params, block, params.drawn[(u64)block * block_sequences(params) + position / SEQUENCE], position % SEQUENCE);
#endif
    return sample_of(params, block, shuffle.index(position / SEQUENCE), position % SEQUENCE);
}

// The sum of numbers, neighbours first, then their sums, and so on.
template <unsigned COUNT, typename T>
__device__ __forceinline__ T pairwise(T (&numbers)[COUNT]) {
#pragma unroll
    for (unsigned count = COUNT; count > 1u; count /= 2u) {
#pragma unroll
        for (unsigned i = 0u; i < COUNT / 2u; ++i)
            if (i < count / 2u) numbers[i] = numbers[2u * i] + numbers[2u * i + 1u];
    }
    return numbers[0];
}

// part x size / parts, rounded down; the square of `parts` fits in 32 bits.
__device__ __forceinline__ unsigned share(unsigned size, unsigned part, unsigned parts) {
    return part * (size / parts) + part * (size % parts) / parts;
}

__device__ __forceinline__ double* sum_room(unsigned char* arena);
__device__ __forceinline__ unsigned busy_blocks(const UpdateParams& params, unsigned minibatch);
__device__ __forceinline__ float gradient_of(const PhaseParams& params, unsigned p, unsigned blocks);
#ifdef REDUCE_BY_FOUR
__device__ __forceinline__ float4 gradients_of(const PhaseParams& params, unsigned p, unsigned begin, unsigned end);
__device__ __forceinline__ float* reduce_scratch(unsigned char* arena);
#endif

__device__ __forceinline__ float sample_float(const UpdateParams& params, unsigned index, unsigned field) {
    return __uint_as_float(params.samples[(u64)index * SAMPLE_STRIDE + field]);
}

// A number of the first sample, about which sums are taken so that no digits cancel. With BLOCKED it is 0: devices add their sums.
__device__ __forceinline__ double pivot_of(const UpdateParams& params, unsigned field) {
    return BLOCKED ? 0.0 : (double)sample_float(params, 0u, field);
}

// The value of a sample: with two, their sum.
__device__ __forceinline__ double value_of_sample(const UpdateParams& params, unsigned index) {
    const double value = sample_float(params, index, SAMPLE_VALUE);
    return INTRINSIC_VALUE ? value + (double)sample_float(params, index, SAMPLE_INTRINSIC) : value;
}

// Sums for the explained variance of the returns.
__device__ __forceinline__ void spread_phase(const UpdateParams& params, unsigned char* arena) {
    const double error0 = pivot_of(params, SAMPLE_ADVANTAGE), return0 = error0 + pivot_of(params, SAMPLE_VALUE);
    double mine[4] = {}, all[4];
    for (unsigned index = blockIdx.x * blockDim.x + threadIdx.x; index < params.num_samples; index += gridDim.x * blockDim.x) {
        const double error = sample_float(params, index, SAMPLE_ADVANTAGE);
        const double target = error + value_of_sample(params, index);
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
#if KL_RATE
    if (params.progress->learning_rate > 0.0) report.learning_rate = params.progress->learning_rate;
#endif
    *params.report = report;
#if NORM_VALUE
    params.returns[0] = report.returns[0];
    params.returns[1] = report.returns[1];
    params.returns[2] = pivot_of(params, SAMPLE_ADVANTAGE) + pivot_of(params, SAMPLE_VALUE);
#endif
    params.progress->stopped = 0u;
}

// Sums of the advantages of one part of a minibatch: with BLOCKED of a block of environments.
__device__ __forceinline__ void advantages_phase(const UpdateParams& params, unsigned epoch, unsigned char* arena) {
    const double pivot = pivot_of(params, SAMPLE_ADVANTAGE);
    for (unsigned part = blockIdx.x; part < params.num_minibatches * params.segments; part += gridDim.x) {
        const unsigned minibatch = part / params.segments, segment = part % params.segments, block = BLOCKED ? segment : 0u;
        const unsigned first = bound(params, minibatch), size = block_size(params, minibatch);
        const unsigned begin = BLOCKED ? first : first + share(size, segment, params.segments);
        const unsigned end = BLOCKED ? first + size : first + share(size, segment + 1u, params.segments);
        const Shuffle shuffle = shuffle_of(params, epoch, block);
        double mine[2] = {}, all[2];
        // Samples are scattered in memory, so each thread issues eight loads before it uses the first value.
        constexpr unsigned AT_ONCE = 8u;
        for (unsigned first = begin + threadIdx.x; first < end; first += AT_ONCE * blockDim.x) {
            float advantages[AT_ONCE];
#pragma unroll
            for (unsigned i = 0u; i < AT_ONCE; ++i) {
                const unsigned position = first + i * blockDim.x;
                advantages[i] = sample_float(params, sample_at(params, shuffle, block, position < end ? position : first), SAMPLE_ADVANTAGE);
            }
#pragma unroll
            for (unsigned i = 0u; i < AT_ONCE; ++i) {
                const double advantage = first + i * blockDim.x < end ? advantages[i] - pivot : 0.0;
                mine[0] += advantage;
                mine[1] += advantage * advantage;
            }
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
    for (unsigned device = 0u; device < (BLOCKED ? params.devices : 1u); ++device) {
        for (unsigned segment = 0u; segment < params.segments; ++segment) {
            const double* part = params.all_moments + ((device * params.num_minibatches + minibatch) * params.segments + segment) * 2u;
            sum += part[0];
            squares += part[1];
        }
    }
    const double n = (double)whole_size(params, minibatch), mean = sum / n;
    const double spread = squares - sum * mean;
    const double deviation = n > 1.0 && spread > 0.0 ? sqrt(spread / (n - 1.0)) : 0.0;
    const double pivot = pivot_of(params, SAMPLE_ADVANTAGE);
    return make_float2((float)(mean + pivot), (float)(1.0 / (deviation + 1e-8)));
}

// Stores Adam's step size for the update_adam launch that follows. One thread of the grid does it.
__device__ __forceinline__ void rate_of_step(const UpdateParams& params) {
    if (blockIdx.x != 0u || threadIdx.x != 0u) return;
    params.progress->rate = adam_rate(params.adam, params.report->learning_rate, params.progress->adam_steps + 1u);
}

// The contiguous range of parameters that a block owns: its largest length, and [first, end).
__device__ __forceinline__ unsigned own_count() { return round_up((PARAMETERS + gridDim.x - 1u) / gridDim.x, 4u); }
__device__ __forceinline__ uint2 own_parameters() {
    const unsigned own = own_count(), first = blockIdx.x * own;
    return make_uint2(first, first + own < PARAMETERS ? first + own : PARAMETERS);
}

// Adds the square of a parameter's gradient to the sum of its network; sums are not indexed, so that they stay in registers.
__device__ __forceinline__ void add_square(double (&squares)[NETWORKS], unsigned p, float gradient) {
    const double square = (double)gradient * (double)gradient;
    if (NETWORKS == 2u) squares[NETWORKS - 1u] += is_value(p) ? square : 0.0;
    squares[0] += NETWORKS == 2u && is_value(p) ? 0.0 : square;
}

// Keeps a part of the squared norm of each network's gradient.
__device__ __forceinline__ void keep_norms(const UpdateParams& params, unsigned part, const double (&squares)[NETWORKS]) {
#pragma unroll
    for (unsigned network = 0u; network < NETWORKS; ++network) params.norms[part * NETWORKS + network] = squares[network];
}

#if BLOCKED

// The gradient of this device's samples, one thread per parameter, and the sums of their losses, both to be added to those of other
// devices.
__device__ __forceinline__ void sum_phase(const PhaseParams& phase, unsigned minibatch) {
    const UpdateParams& params = phase.update;
    const unsigned blocks = busy_blocks(params, minibatch), own = blockIdx.x * blockDim.x + threadIdx.x;
    for (unsigned p = own; p < PARAMETERS; p += gridDim.x * blockDim.x) params.gradient[p] = gradient_of(phase, p, blocks);
    if (own >= SUMS) return;
    const unsigned apart = params.blocks / ENV_BLOCKS;
    double sums[ENV_BLOCKS];
#pragma unroll
    for (unsigned env_block = 0u; env_block < ENV_BLOCKS; ++env_block) {
        sums[env_block] = 0.0;
        for (unsigned block = 0u; block < blocks; ++block) sums[env_block] += params.losses[(env_block * apart + block) * SUMS + own];
    }
    params.sums[own] = pairwise(sums);
}

// Adds the gradients and sums of all devices pairwise: one thread per number.
__device__ __forceinline__ void add_phase(const UpdateParams& params) {
    for (unsigned at = blockIdx.x * blockDim.x + threadIdx.x; at < PARAMETERS + SUMS; at += gridDim.x * blockDim.x) {
        const bool is_loss = at >= PARAMETERS;
        float gradients[MAX_DEVICES] = {};
        double losses[MAX_DEVICES] = {};
        for (unsigned device = 0u; device < params.devices; ++device) {
            if (is_loss) losses[device] = params.all_sums[device * SUMS + at - PARAMETERS];
            else gradients[device] = params.all_gradients[(u64)device * PARAMETERS + at];
        }
        // Like `pairwise`, for a number of devices that is known only at run time; entries past it are 0 and are skipped.
        for (unsigned count = params.devices; count > 1u; count /= 2u) {
            for (unsigned i = 0u; i < count / 2u; ++i) {
                gradients[i] = gradients[2u * i] + gradients[2u * i + 1u];
                losses[i] = losses[2u * i] + losses[2u * i + 1u];
            }
        }
        if (is_loss) params.sums[at - PARAMETERS] = losses[0];
        else params.gradient[at] = gradients[0];
    }
}

// The squared norm of the gradient, in the same number of parts for any number of devices.
__device__ __forceinline__ void norm_phase(const UpdateParams& params, unsigned char* arena) {
    for (unsigned part = blockIdx.x; part < params.norm_parts; part += gridDim.x) {
        double mine[NETWORKS] = {}, all[NETWORKS];
        for (unsigned p = part * blockDim.x + threadIdx.x; p < PARAMETERS; p += params.norm_parts * blockDim.x)
            add_square(mine, p, params.gradient[p]);
        block_sum(mine, sum_room(arena), all);
        if (threadIdx.x == 0u) keep_norms(params, part, all);
    }
}

#else

// The minibatch's gradient, and the block's part of its squared norm.
__device__ __forceinline__ void reduce_phase(const PhaseParams& phase, unsigned minibatch, unsigned char* arena) {
    const UpdateParams& params = phase.update;
    const unsigned blocks = busy_blocks(params, minibatch), first = own_parameters().x, end = own_parameters().y;
    double mine[NETWORKS] = {}, all[NETWORKS];
    auto keep = [&](unsigned p, float sum) {
        params.gradient[p] = sum;
        add_square(mine, p, sum);
    };
#ifdef REDUCE_BY_FOUR
    // Each thread adds up four parameters over a range of blocks; the threads of part 0 then add the parts.
    float4* room = (float4*)reduce_scratch(arena);
    const unsigned threads = blockDim.x < REDUCE_SCRATCH ? blockDim.x : REDUCE_SCRATCH;
    const unsigned fours = own_count() / 4u, across = fours < threads ? fours : threads;
    const unsigned fit = threads / across, parts = fit < blocks ? fit : blocks, part = threadIdx.x / across;
#pragma unroll 1
    for (unsigned begin = first; begin < end; begin += across * 4u) {
        const unsigned p = begin + threadIdx.x % across * 4u;
        const bool busy = part < parts && p < end;
        if (busy) room[threadIdx.x] = gradients_of(phase, p, share(blocks, part, parts), share(blocks, part + 1u, parts));
        __syncthreads();
        if (busy && part == 0u) {
            float4 sum = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
            for (unsigned other = 0u; other < parts; ++other) sum = add4(sum, room[other * across + threadIdx.x]);
            const float sums[4] = {sum.x, sum.y, sum.z, sum.w};
#pragma unroll
            for (unsigned i = 0u; i < 4u; ++i)
                if (p + i < end) keep(p + i, sums[i]);
        }
        __syncthreads();
    }
#else
    for (unsigned p = first + threadIdx.x; p < end; p += blockDim.x) keep(p, gradient_of(phase, p, blocks));
#endif
    block_sum(mine, sum_room(arena), all);
    if (threadIdx.x == 0u) keep_norms(params, blockIdx.x, all);
}

#endif

// The inputs of a step besides the gradient: the sums of the minibatch's losses, and the gradient's norm.
struct Totals {
    double losses[SUMS], norm, norms[NETWORKS];

    // Whether loss and gradient are finite. A minibatch where they are not is skipped.
    __device__ __forceinline__ bool are_finite() const {
        const double sum = norm + losses[0] + losses[1] + losses[2];
        return sum - sum == 0.0;
    }
};

// Every block computes the same sums (five losses and the squared norms) in the same order, so all blocks get the same bits. Each warp
// computes one sum at a time.
__device__ __forceinline__ Totals totals_of(const UpdateParams& params, unsigned minibatch, unsigned char* arena) {
    constexpr unsigned AT_ONCE = 8u;
    const unsigned lane = threadIdx.x % WARP, parts = BLOCKED ? params.norm_parts : gridDim.x;
    double* room = sum_room(arena);
    for (unsigned number = threadIdx.x / WARP; number < SUMS + NETWORKS; number += blockDim.x / WARP) {
        const bool is_norm = number >= SUMS;
        const double* from = is_norm ? params.norms + (number - SUMS) : BLOCKED ? params.sums + number : params.losses + number;
        const unsigned count = is_norm ? parts : BLOCKED ? 1u : busy_blocks(params, minibatch), stride = is_norm ? NETWORKS : SUMS;
        double sum = 0.0;
#pragma unroll 1
        for (unsigned first = lane; first < count; first += AT_ONCE * WARP) {
            double numbers[AT_ONCE];
#pragma unroll
            for (unsigned i = 0u; i < AT_ONCE; ++i) numbers[i] = first + i * WARP < count ? from[(first + i * WARP) * stride] : 0.0;
#pragma unroll
            for (unsigned i = 0u; i < AT_ONCE; ++i) sum += numbers[i];
        }
        sum = warp_sum(sum);
        if (lane == 0u) room[number] = sum;
    }
    __syncthreads();
    Totals totals;
#pragma unroll
    for (unsigned i = 0u; i < SUMS; ++i) totals.losses[i] = room[i];
    totals.norm = sqrt(NETWORKS == 1u ? room[SUMS] : room[SUMS] + room[SUMS + NETWORKS - 1u]);
#pragma unroll
    for (unsigned network = 0u; network < NETWORKS; ++network) totals.norms[network] = sqrt(room[SUMS + network]);
    __syncthreads();
    return totals;
}

// The step along the gradient of a minibatch. All threads get its totals.
__device__ __forceinline__ Totals adam_phase(const PhaseParams& phase, unsigned minibatch, const AdamRate& rate, unsigned char* arena) {
    const UpdateParams& params = phase.update;
    const uint2 own = own_parameters();
    struct {
        float parameter, gradient, exp_avg, exp_avg_sq;
    } at = {};
    auto load = [&](unsigned p) {
        at.parameter = params.parameters[p];
        at.gradient = params.gradient[p];
        at.exp_avg = params.exp_avg[p];
        at.exp_avg_sq = params.exp_avg_sq[p];
    };
    // Loaded before the sums are computed, to hide the latency.
    if (own.x + threadIdx.x < own.y) load(own.x + threadIdx.x);
    const Totals totals = totals_of(params, minibatch, arena);
    if (!totals.are_finite()) return totals;
#if OWN_STEPS
    double learning_rate = params.report->learning_rate;
    if (KL_RATE && !is_of_critic(params)) learning_rate = rate_after(params.adam, learning_rate, totals.losses[3] / (double)whole_size(params, minibatch));
    AdamStep steps[NETWORKS];
#pragma unroll
    for (unsigned network = 0u; network < NETWORKS; ++network) {
        const double own_rate = network == 0u ? learning_rate : value_rate(params.adam, learning_rate);
        const double norm = params.adam.clips_apart != 0u ? totals.norms[network] : totals.norm;
        steps[network] = {
            gradient_scale(params.adam, norm),
            adam_rate(params.adam, own_rate, params.progress->adam_steps + 1u),
            (float)(1.0 - own_rate * params.adam.weight_decay),
        };
    }
#else
    const AdamStep steps[NETWORKS] = {{gradient_scale(params.adam, totals.norm), rate, 1.0f}};
#endif
    for (unsigned p = own.x + threadIdx.x; p < own.y; p += blockDim.x) {
        if (p >= own.x + blockDim.x) load(p);
        if (is_of_critic(params) && !is_value(p)) continue;
        const AdamStep step = is_value(p) ? steps[NETWORKS - 1u] : steps[0];
#ifdef MUON
        if (is_muons(p)) {
            params.gradient[p] = muon_ahead(params.adam, step, at.gradient, at.exp_avg);
            params.exp_avg[p] = at.exp_avg;
            params.parameters[p] = at.parameter * step.keep;
            continue;
        }
#endif
        const float moved = adam_move(params.adam, step, at.parameter, at.gradient, at.exp_avg, at.exp_avg_sq);
        params.parameters[p] = moved;
        params.exp_avg[p] = at.exp_avg;
        params.exp_avg_sq[p] = at.exp_avg_sq;
        pack_parameter(p, moved, phase.weights);
    }
    return totals;
}

// Keeps the report of a minibatch; one thread.
__device__ __forceinline__ void report_phase(const UpdateParams& params, unsigned epoch, unsigned minibatch, const Totals& totals) {
    if (blockIdx.x != 0u || threadIdx.x != 0u) return;
    const bool good = totals.are_finite();
    params.progress->finite = good ? 1u : 0u;
    UpdateReport& report = *params.report;
    if (is_of_critic(params)) {
        report.nonfinite += good ? 0u : 1u;
        return;
    }
    const double size = (double)whole_size(params, minibatch);
    if (minibatch == 0u) {
        for (double& loss : report.losses) loss = 0.0;
        report.norms = report.minibatches = 0.0;
        report.epochs = epoch + 1u;
        params.progress->last_kl = 0.0;
    }
    if (good) {
        for (unsigned i = 0u; i < SUMS; ++i) report.losses[i] += totals.losses[i] / size;
        report.norms += totals.norm;
        report.minibatches += 1.0;
        params.progress->last_kl = totals.losses[3] / size;
    } else {
        report.nonfinite += 1u;
    }
}

// Updates the counters after every block has done its step (one thread): the number of steps, and the end of the epochs.
__device__ __forceinline__ void note_phase(const UpdateParams& params, unsigned minibatch) {
    if (blockIdx.x != 0u || threadIdx.x != 0u) return;
    if (params.progress->finite) params.progress->adam_steps += 1u;
    if (is_of_critic(params)) return;
#if KL_RATE
    if (params.progress->finite) {
        params.report->learning_rate = rate_after(params.adam, params.report->learning_rate, params.progress->last_kl);
        params.progress->learning_rate = params.report->learning_rate;
    }
#endif
    if (minibatch + 1u == params.num_minibatches && params.target_kl > 0.0 && params.progress->last_kl > params.target_kl) params.progress->stopped = 1u;
}

__device__ __forceinline__ void end_phase(const UpdateParams& params) {
    if (blockIdx.x != 0u || threadIdx.x != 0u) return;
    params.progress->nonfinite_in_a_row = params.report->nonfinite > 0u ? params.progress->nonfinite_in_a_row + 1u : 0u;
    params.progress->update += 1u;
}

// The phases one by one, where they do not all run in one launch.
KERNEL(update_spread, PhaseParams, THREADS, 1) {
    SHARED_ARENA(arena);
    spread_phase(params.update, arena);
}

KERNEL(update_begin, PhaseParams, THREADS, 1) { begin_phase(params.update); }

KERNEL(update_advantages, PhaseParams, THREADS, 1) {
    SHARED_ARENA(arena);
    if (!is_over(params.update)) advantages_phase(params.update, params.update.epoch, arena);
}

#if BLOCKED

KERNEL(update_sum, PhaseParams, THREADS, 1) {
    if (!is_over(params.update)) sum_phase(params, params.update.minibatch);
}

KERNEL(update_add, PhaseParams, THREADS, 1) {
    if (!is_over(params.update)) add_phase(params.update);
}

KERNEL(update_norm, PhaseParams, THREADS, 1) {
    SHARED_ARENA(arena);
    if (is_over(params.update)) return;
    norm_phase(params.update, arena);
    rate_of_step(params.update);
}

#else

KERNEL(update_reduce, PhaseParams, THREADS, 1) {
    SHARED_ARENA(arena);
    if (is_over(params.update)) return;
    reduce_phase(params, params.update.minibatch, arena);
    rate_of_step(params.update);
}

#endif

KERNEL(update_adam, PhaseParams, THREADS, 1) {
    SHARED_ARENA(arena);
    if (is_over(params.update)) return;
    const unsigned minibatch = params.update.minibatch;
    report_phase(params.update, params.update.epoch, minibatch, adam_phase(params, minibatch, params.update.progress->rate, arena));
}

KERNEL(update_note, PhaseParams, THREADS, 1) {
    if (!is_over(params.update)) note_phase(params.update, params.update.minibatch);
}

// Packs parameters that came from elsewhere into weights that are zero: one thread per parameter.
KERNEL(update_pack, WeightParams, THREADS, 1) {
    const unsigned p = blockIdx.x * blockDim.x + threadIdx.x;
    if (p < PARAMETERS) pack_parameter(p, params.parameters[p], params.weights);
}

KERNEL(update_end, PhaseParams, THREADS, 1) { end_phase(params.update); }
