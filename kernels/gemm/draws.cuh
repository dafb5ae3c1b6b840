// Sequences drawn before an epoch with probabilities by the sums of their |advantages|, in place of a shuffle. Twin of operant-learn's
// cpu/update/priority.rs.
//
//   update_shares  the share of each sequence, added up within a part of a block of environments: a block of threads for each part
//   update_draw    the sequence at each position of the epoch, and the weight of its advantages: a thread for each position
//
// Sums are in double precision in one order, whatever runs first. Worked example: 262,144 sequences in 264 parts are 8 rounds of 128 threads.
#pragma once

// Added to the sum of a sequence's |advantages|, so that each can be drawn.
constexpr double LEAST_SUM = 1e-6;

// Parts of a block's sequences.
__device__ __forceinline__ unsigned draw_parts(const UpdateParams& update) { return update.blocks / ENV_BLOCKS; }

KERNEL(update_shares, GemmUpdateParams, THREADS, 1) {
    const UpdateParams& update = params.update;
    if (is_over(update)) return;
    SHARED_ARENA(arena);
    double* room = sum_room(arena);
    const unsigned count = block_sequences(update), parts = draw_parts(update), block = blockIdx.x / parts, part = blockIdx.x % parts;
    if (block >= ENV_BLOCKS) return;
    const unsigned first = share(count, part, parts), end = share(count, part + 1u, parts);
    const unsigned lane = threadIdx.x % WARP, warp = threadIdx.x / WARP, warps = blockDim.x / WARP;
    double before = 0.0;
    for (unsigned begin = first; begin < end; begin += blockDim.x) {
        const unsigned sequence = begin + threadIdx.x;
        double sum = 0.0;
        if (sequence < end) {
            for (unsigned t = 0u; t < SEQUENCE; ++t) sum += fabs((double)sample_float(update, sample_of(update, block, sequence, t), SAMPLE_ADVANTAGE));
            sum = pow(sum + LEAST_SUM, params.draw_powers[0]);
        }
#pragma unroll
        for (unsigned distance = 1u; distance < WARP; distance *= 2u) {
            const double lower = __shfl_sync(ALL_LANES, sum, (int)(lane >= distance ? lane - distance : lane));
            if (lane >= distance) sum += lower;
        }
        if (lane == WARP - 1u) room[warp] = sum;
        __syncthreads();
        double mine = before;
        for (unsigned other = 0u; other < warps; ++other) {
            if (other == warp) mine = before + sum;
            before += room[other];
        }
        if (sequence < end) params.draw_sums[(u64)block * count + sequence] = mine;
        __syncthreads();
    }
    if (threadIdx.x == 0u) params.draw_totals[blockIdx.x] = before;
}

KERNEL(update_draw, GemmUpdateParams, THREADS, 1) {
    const UpdateParams& update = params.update;
    if (is_over(update)) return;
    const unsigned count = block_sequences(update), parts = draw_parts(update);
    const double done = (double)update.progress->update / params.draw_powers[2];
    const double beta = params.draw_powers[1] + (1.0 - params.draw_powers[1]) * (done < 1.0 ? done : 1.0);
    for (unsigned block = 0u; block < ENV_BLOCKS; ++block) {
        const Shuffle shuffle = shuffle_of(update, update.epoch, block);
        const double start = Shuffle::fraction(update.seed, update.progress->update, epoch_of_block(update, update.epoch, block));
        const double* totals = params.draw_totals + block * parts;
        const double* sums = params.draw_sums + (u64)block * count;
        double total = 0.0;
        for (unsigned part = 0u; part < parts; ++part) total += totals[part];
        const bool finite = total - total == 0.0;
        for (unsigned position = blockIdx.x * blockDim.x + threadIdx.x; position < count; position += gridDim.x * blockDim.x) {
            // Evenly spaced from a random start, then shuffled: a sequence comes S p times, rounded down or up.
            const unsigned index = shuffle.index(position);
            unsigned drawn = index;
            float weight = 1.0f;
            if (finite) {
                const double at = ((double)index + start) / (double)count * total;
                double before = 0.0;
                unsigned part = 0u;
                while (part + 1u < parts && before + totals[part] <= at) before += totals[part++];
                const unsigned first = share(count, part, parts), last = share(count, part + 1u, parts) - 1u;
                unsigned low = first, high = last;
                while (low < high) {
                    const unsigned middle = low + (high - low) / 2u;
                    if (before + sums[middle] <= at) low = middle + 1u;
                    else high = middle;
                }
                drawn = low;
                const double own = sums[low] - (low > first ? sums[low - 1u] : 0.0);
                // Rounding may leave nothing of a share, where parts meet.
                if (own > 0.0) weight = (float)pow(own / total * (double)count, -beta);
            }
            params.update.drawn[(u64)block * count + position] = drawn;
            params.importance[(u64)block * count + position] = weight;
        }
    }
}
