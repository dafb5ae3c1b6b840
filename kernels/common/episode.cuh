// One environment in the middle of its episode, and the step that every kernel takes: time limit, auto-reset and episode
// statistics around the emitted rules. Twin of operant-env's `Current::step`.
#pragma once

// The environment's own metrics of episodes; most have none.
#ifndef ENV_METRICS
#define ENV_METRICS 0
#endif
// Slots of an environment's table of counts, for rewards for exploring; on the GEMM path only.
#ifndef COUNTS
#define COUNTS 0
#endif
// 1: rewards for exploring by random network distillation; on the GEMM path only.
#ifndef RND
#define RND 0
#endif
// Metrics whose sums and counts are kept: those of the environment, then the reward for exploring.
#define METRICS (ENV_METRICS + (COUNTS > 0 || RND ? 1 : 0))

// Rows of words that a running environment takes between launches: its state, the episode's length and return.
constexpr unsigned RUNNING_WORDS = ENV_STATE_WORDS + 2u;

struct Running {
    EnvState state;
    unsigned elapsed;
    float episodic_return;
};

__device__ __forceinline__ void load_running(const unsigned* words, unsigned stride, Running& running) {
    env_load(words, stride, running.state);
    running.elapsed = words[(u64)ENV_STATE_WORDS * stride];
    running.episodic_return = __uint_as_float(words[(u64)(ENV_STATE_WORDS + 1u) * stride]);
}

__device__ __forceinline__ void store_running(const Running& running, unsigned* words, unsigned stride) {
    env_store(running.state, words, stride);
    words[(u64)ENV_STATE_WORDS * stride] = running.elapsed;
    words[(u64)(ENV_STATE_WORDS + 1u) * stride] = __float_as_uint(running.episodic_return);
}

// Episodes of one environment that ended in one launch: few, so that single precision holds their sums.
struct EpisodeSums {
    unsigned count, length;
    float sum, squares, min, max;
#if METRICS
    float metrics[METRICS];
    unsigned measured[METRICS];  // episodes, or steps, of each sum: a NaN is not counted
#endif

    __device__ __forceinline__ void clear() {
        count = length = 0u;
        sum = squares = 0.0f;
        min = __uint_as_float(0x7f800000u);
        max = -min;
#if METRICS
        for (unsigned k = 0u; k < METRICS; ++k) metrics[k] = 0.0f, measured[k] = 0u;
#endif
    }

    __device__ __forceinline__ void add(float episodic_return, unsigned episodic_length) {
        count += 1u;
        length += episodic_length;
        sum += episodic_return;
        squares = fmaf(episodic_return, episodic_return, squares);
        min = fminf(min, episodic_return);
        max = fmaxf(max, episodic_return);
    }

#if ENV_METRICS
    __device__ __forceinline__ void measure(const EnvState& last, float reward, bool terminated) {
        float values[ENV_METRICS];
        env_metrics(last, reward, terminated, values);
        for (unsigned k = 0u; k < ENV_METRICS; ++k) {
            if (values[k] != values[k]) continue;
            metrics[k] += values[k];
            measured[k] += 1u;
        }
    }
#endif
};

__device__ __forceinline__ EpisodeTotals no_episodes() {
    const float infinite = __uint_as_float(0x7f800000u);
    return {0.0, 0.0, 0.0, 0.0, infinite, -infinite};
}

__device__ __forceinline__ void merge(EpisodeTotals& into, const EpisodeTotals& other) {
    into.count += other.count;
    into.sum += other.sum;
    into.squares += other.squares;
    into.length += other.length;
    into.min = fminf(into.min, other.min);
    into.max = fmaxf(into.max, other.max);
}

__device__ __forceinline__ EpisodeTotals widened(const EpisodeSums& mine) {
    return {(double)mine.count, (double)mine.sum, (double)mine.squares, (double)mine.length, mine.min, mine.max};
}

__device__ __forceinline__ EpisodeTotals warp_merge(const EpisodeTotals& mine) {
    return {warp_sum(mine.count), warp_sum(mine.sum), warp_sum(mine.squares), warp_sum(mine.length),
            warp_min(mine.min), warp_max(mine.max)};
}

// The outcome of a step.
struct Outcome {
    float reward;
    bool terminated, truncated;
    EnvState after;         // the state that the step led to, before any reset
    float episodic_return;  // up to and with the step
};

// One step of one environment, without auto-reset.
__device__ __forceinline__ Outcome advance(Running& running, const EnvAction* action, Seed seed, unsigned environment, u64 time) {
    Outcome outcome;
    env_step(running.state, action, seed.low, seed.high, environment, (unsigned)time, (unsigned)(time >> 32u), PURPOSE_STEP,
             outcome.after, outcome.reward, outcome.terminated);
    running.elapsed += 1u;
    running.episodic_return += outcome.reward;
    outcome.truncated = running.elapsed >= ENV_TIME_LIMIT;
    running.state = outcome.after;
    outcome.episodic_return = running.episodic_return;
    return outcome;
}

// The first state of an episode: of the first one (PURPOSE_INIT), or of one that follows another (PURPOSE_RESET).
__device__ __forceinline__ void begin(Running& running, Seed seed, unsigned environment, u64 time, unsigned purpose) {
    running.elapsed = 0u;
    running.episodic_return = 0.0f;
    env_reset(seed.low, seed.high, environment, (unsigned)time, (unsigned)(time >> 32u), purpose, running.state);
}

// The step whose draws make the first state of the episode that begins within the step `time`, which `running` has counted.
__device__ __forceinline__ u64 reset_time(const Running& running, u64 time) {
#ifdef ENV_AHEAD
    return time + 1u - running.elapsed;
#else
    return time;
#endif
}

// The start of the next episode within the step `time`: a copy of its first state if that was made ahead of time (play/ahead.cu), `next` at
// `place`, of `stride` environments.
__device__ __forceinline__ void begin_next(
    Running& running, Seed seed, unsigned environment, u64 time, const NextStates& next, unsigned place, unsigned stride) {
    const u64 drawn = reset_time(running, time);
#ifdef ENV_AHEAD
    if (next.made && next.made[place] == drawn + 1u) {
        running.elapsed = 0u;
        running.episodic_return = 0.0f;
        env_load(next.states + place, stride, running.state);
        return;
    }
#endif
    (void)next, (void)place, (void)stride;
    begin(running, seed, environment, drawn, PURPOSE_RESET);
}

// One step of one environment, with auto-reset. It is number `place` of `stride` here, and number `environment` of all devices.
__device__ __forceinline__ Outcome step(
    Running& running, const EnvAction* action, Seed seed, unsigned environment, u64 time, EpisodeSums& episodes, const NextStates& next,
    unsigned place, unsigned stride) {
    const Outcome outcome = advance(running, action, seed, environment, time);
    if (outcome.terminated || outcome.truncated) {
        episodes.add(running.episodic_return, running.elapsed);
#if ENV_METRICS
        episodes.measure(outcome.after, outcome.reward, outcome.terminated);
#endif
        begin_next(running, seed, environment, time, next, place, stride);
    }
    return outcome;
}

// The entry of a warp in shared memory, `stride` bytes from one to the next.
__device__ __forceinline__ EpisodeTotals& entry(EpisodeTotals* warps, unsigned stride, unsigned warp) {
    return *(EpisodeTotals*)((unsigned char*)warps + warp * stride);
}

__device__ __forceinline__ EpisodeTotals merge_entries(EpisodeTotals* warps, unsigned stride) {
    EpisodeTotals sum = no_episodes();
    for (unsigned warp = 0u; warp < blockDim.x / WARP; ++warp) merge(sum, entry(warps, stride, warp));
    return sum;
}

// Merges the episodes of the block's warps into `partials[blockIdx.x]`, warp by warp. All threads call it; `warps` is shared
// memory for one entry per warp, `stride` bytes apart.
__device__ __forceinline__ void merge_warps(const EpisodeTotals& of_warp, EpisodeTotals* warps, unsigned stride, EpisodeTotals* partials) {
    if (threadIdx.x % WARP == 0u) entry(warps, stride, threadIdx.x / WARP) = of_warp;
    __syncthreads();
    if (threadIdx.x == 0u) partials[blockIdx.x] = merge_entries(warps, stride);
}

// Merges the partials of all blocks, in an order that does not depend on which block is the last; all threads of the last block
// call it.
__device__ __forceinline__ void merge_blocks(const EpisodeTotals* partials, EpisodeTotals* warps, unsigned stride, EpisodeTotals* totals) {
    EpisodeTotals sum = no_episodes();
    for (unsigned block = threadIdx.x; block < gridDim.x; block += blockDim.x) merge(sum, partials[block]);
    sum = warp_merge(sum);
    if (threadIdx.x % WARP == 0u) entry(warps, stride, threadIdx.x / WARP) = sum;
    __syncthreads();
    if (threadIdx.x == 0u) *totals = merge_entries(warps, stride);
}

#if METRICS
// Merges the environment's own metrics of a warp into its entry of `partials`, (entries, METRICS) sums and counts, where an entry
// is a warp of the launch. All threads call it, before `is_last_block`.
__device__ __forceinline__ void merge_metrics_of_warp(const EpisodeSums& mine, double2* partials) {
    double2* entry = partials + (u64)(blockIdx.x * (blockDim.x / WARP) + threadIdx.x / WARP) * METRICS;
    for (unsigned k = 0u; k < METRICS; ++k) {
        const double sum = warp_sum((double)mine.metrics[k]), count = warp_sum((double)mine.measured[k]);
        if (threadIdx.x % WARP == 0u) entry[k] = make_double2(sum, count);
    }
}

// Merges all entries into `totals`, (METRICS) sums and counts, in an order that does not depend on which block is the last; the
// first warp of the last block calls it.
__device__ __forceinline__ void merge_metrics(const double2* partials, double2* totals) {
    const unsigned entries = gridDim.x * (blockDim.x / WARP);
    for (unsigned k = 0u; k < METRICS; ++k) {
        double sum = 0.0, count = 0.0;
        for (unsigned entry = threadIdx.x; entry < entries; entry += WARP) {
            const double2 part = partials[(u64)entry * METRICS + k];
            sum += part.x;
            count += part.y;
        }
        sum = warp_sum(sum);
        count = warp_sum(count);
        if (threadIdx.x == 0u) totals[k] = make_double2(sum, count);
    }
}
#endif
