// Samples of a replay drawn by priority (Schaul et al. 2016). Twin of operant-learn's cpu/off_policy/priorities.rs.
//
//   minibatch_sums     sums of SPAN neighbouring numbers of the level below; a warp for each. Level 0 are the rows' priorities, in the order of the
//                      leaves of the host's tree: those of a tree over R rows begin with the first that has the greatest depth.
//   minibatch_weights  what the samples' errors weigh, which makes up for the draws
//   minibatch_renew    the samples get the priorities of their errors
//
// Sums are those of the numbers, in one order, whatever was set before. Worked example: 1,048,576 rows have 16,384, 256 and 4 sums.
#pragma once

constexpr unsigned SPAN = 64u;

// The row that is leaf `at` of the host's tree.
__device__ __forceinline__ u64 row_of_leaf(const MinibatchParams& params, u64 at) { return (at + params.first_leaf) % params.level_counts[0]; }

// A number of a level.
__device__ __forceinline__ double number_of(const MinibatchParams& params, unsigned level, u64 at) {
    return level == 0u ? params.ring.priorities[row_of_leaf(params, at)] : params.sums[params.level_first[level] + at];
}

KERNEL(minibatch_sums, MinibatchParams, THREADS, 1) {
    const unsigned lane = threadIdx.x % WARP, warps = blockDim.x / WARP, level = params.level;
    const u64 count = params.level_counts[level - 1u];
    for (u64 at = (u64)blockIdx.x * warps + threadIdx.x / WARP; at < params.level_counts[level]; at += (u64)gridDim.x * warps) {
        double sum = 0.0;
#pragma unroll
        for (unsigned i = 0u; i < SPAN / WARP; ++i) {
            const u64 number = at * SPAN + i * WARP + lane;
            if (number < count) sum += number_of(params, level - 1u, number);
        }
        sum = warp_sum(sum);
        if (lane == 0u) params.sums[params.level_first[level] + at] = sum;
    }
}

__device__ __forceinline__ double total_of(const MinibatchParams& params) {
    const unsigned top = params.levels - 1u;
    double total = 0.0;
    for (u64 at = 0u; at < params.level_counts[top]; ++at) total += number_of(params, top, at);
    return total;
}

// The row that `at`, of 0 to the total, falls into; never one whose priority is zero, if another's is not.
__device__ __forceinline__ u64 row_for(const MinibatchParams& params, double at) {
    u64 node = 0u;
    for (unsigned level = params.levels; level-- > 0u;) {
        const u64 first = node * SPAN, count = params.level_counts[level], end = first + SPAN < count ? first + SPAN : count;
        double left = at;
        node = first;
        for (u64 child = first; child < end; ++child) {
            const double number = number_of(params, level, child);
            if (number == 0.0) continue;
            node = child;
            left = at;
            if (at < number) break;
            at -= number;
        }
        at = left;
    }
    return row_of_leaf(params, node);
}

KERNEL(minibatch_weights, MinibatchParams, THREADS, 1) {
    SHARED_ARENA(arena);
    double* room = (double*)arena;
    double least = 1e300;
    for (unsigned row = threadIdx.x; row < params.sequences; row += blockDim.x) {
        const double priority = params.ring.priorities[params.rows[row]];
        least = priority < least ? priority : least;
    }
#pragma unroll
    for (unsigned distance = WARP / 2u; distance > 0u; distance /= 2u) {
        const double other = __shfl_xor_sync(ALL_LANES, least, distance);
        least = other < least ? other : least;
    }
    if (threadIdx.x % WARP == 0u) room[threadIdx.x / WARP] = least;
    __syncthreads();
    for (unsigned warp = 0u; warp < blockDim.x / WARP; ++warp) least = room[warp] < least ? room[warp] : least;
    const double done = params.beta[2] > 0.0 ? (double)params.progress->update / params.beta[2] : 1.0;
    const double beta = params.beta[0] + (params.beta[1] - params.beta[0]) * (done < 1.0 ? done : 1.0);
    each(params.sequences, [&](u64 row) { outcome_of(params, WEIGHT, row) = (float)pow(least / params.ring.priorities[params.rows[row]], beta); });
}

// Added to each error, so that every transition can be sampled.
constexpr double LEAST_ERROR = 1e-6;

// The size of a sample's error; of a sequence 0.9 of the greatest of its steps' and 0.1 of their mean.
__device__ __forceinline__ float error_of(const MinibatchParams& params, u64 sample) {
    float greatest = 0.0f, total = 0.0f, steps = 0.0f;
    for (unsigned t = BURN_IN; t < LEARNED_ROWS; ++t) {
        const u64 row = (u64)t * params.sequences + sample;
        const float error = outcome_of(params, ERROR, row);
        greatest = fmaxf(greatest, error);
        total += error;
        steps += count_of(params, row);
    }
    const float mean = total / fmaxf(steps, 1.0f);
    return STATES > 0u ? fmaf(0.9f, greatest - mean, mean) : greatest;
}

KERNEL(minibatch_renew, MinibatchParams, THREADS, 1) {
    SHARED_ARENA(arena);
    if (!Totals(params, arena).are_finite(params.trains_policy)) return;
    each(params.sequences, [&](u64 row) {
        // Draws are in the order of leaves. Of one that was drawn again the last error counts.
        if (row + 1u < params.sequences && params.rows[row + 1u] == params.rows[row]) return;
        params.ring.priorities[params.rows[row]] = priority_power(params.ring, (double)error_of(params, row) + LEAST_ERROR);
    });
}

// The greatest priority so far; one block, after the samples have theirs.
__device__ __forceinline__ void keep_greatest(const MinibatchParams& params, unsigned char* arena) {
    float* room = (float*)arena;
    float greatest = 0.0f;
    for (unsigned row = threadIdx.x; row < params.sequences; row += blockDim.x) greatest = fmaxf(greatest, error_of(params, row));
    greatest = warp_max(greatest);
    if (threadIdx.x % WARP == 0u) room[threadIdx.x / WARP] = greatest;
    __syncthreads();
    if (threadIdx.x != 0u) return;
    for (unsigned warp = 1u; warp < blockDim.x / WARP; ++warp) greatest = fmaxf(greatest, room[warp]);
    const double priority = (double)greatest + LEAST_ERROR;
    if (priority > *params.ring.greatest) *params.ring.greatest = priority;
}
