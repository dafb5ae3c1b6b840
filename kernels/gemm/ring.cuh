// The replay: the last rows of every environment, [environment][row][word]. Twin of operant-learn's cpu/off_policy/replay.rs.
//
// A row is obs, as the environment gives it | mask | action, within -1 and 1, or choices | reward | end | state of layers with memory before the
// step | zeros up to REPLAY_STRIDE. Row number n that an environment ever began is at n % rows; `heads` count those that were completed. The observation
// after a step is that of the next row, or of a FINAL row where a time limit cut the episode off. After a CUT row the next row has another step.
#pragma once

constexpr unsigned ROW_MASK = ENV_OBS_WORDS, ROW_ACTIONS = ROW_MASK + MASK_WORDS, ROW_REWARD = ROW_ACTIONS + ENV_COMPONENTS, ROW_END = ROW_REWARD + 1u, ROW_STATE = ROW_END + 1u;
constexpr unsigned GOES_ON = 0u, TERMINATED = 1u, TRUNCATED = 2u, FINAL = 3u, CUT = 4u;
static_assert(ROW_STATE + STATES <= REPLAY_STRIDE, "a row fits its stride");

// The place of an environment's row among all.
__device__ __forceinline__ u64 row_at(const Ring& ring, unsigned environment, u64 number) {
    return (u64)environment * ring.rows + number % ring.rows;
}

__device__ __forceinline__ unsigned* row_of(const Ring& ring, unsigned environment, u64 number) {
    return ring.words + row_at(ring, environment, number) * REPLAY_STRIDE;
}

#if PRIORITIES
// A priority as draws count it.
__device__ __forceinline__ double priority_power(const Ring& ring, double priority) {
    const double power = pow(priority, ring.priority_exponent);
    return power < 1e-200 ? 1e-200 : power > 1e200 ? 1e200 : power;
}

// How many of the first rows of an environment can be the first of LEARNED_ROWS completed ones.
__device__ __forceinline__ u64 entered(u64 head) { return head + 1u > LEARNED_ROWS ? head + 1u - LEARNED_ROWS : 0u; }

// The rows `first .. head` of an environment were completed: samples can begin with steps that are now followed by enough rows. Later rows have no priority.
__device__ __forceinline__ void enter(const Ring& ring, unsigned environment, u64 first, u64 head) {
    for (u64 number = entered(first); number < entered(head); ++number) {
        const bool is_step = row_of(ring, environment, number)[ROW_END] != FINAL;
        ring.priorities[row_at(ring, environment, number)] = is_step ? priority_power(ring, *ring.greatest) : 0.0;
    }
    for (u64 number = entered(head) > first ? entered(head) : first; number <= head; ++number) ring.priorities[row_at(ring, environment, number)] = 0.0;
}
#endif

// Completed rows that are still there: the row that is being written has the place of the oldest.
__device__ __forceinline__ unsigned window_of(const Ring& ring, u64 head) {
    return (unsigned)(head < ring.rows - 1u ? head : ring.rows - 1u);
}
