// A minibatch from a replay: the work around the matrix products. Twin of operant-learn's cpu/off_policy/learner.rs.
//
//   minibatch_draw    which transitions it has; one thread per sample
//   minibatch_gather  their observations as the first products read them: before the step (turn 0) and after it (turn 1)
//   losses and gradients of the outputs, one thread per sample: minibatch_critics.cuh, or of the values of choices minibatch_choices.cuh
//   minibatch_reduce, minibatch_adam  the norm of a gradient, and the step along it: of critics or values (pass 0), or of policy and temperature (pass 1)
//   minibatch_follow  the targets go a share of the way to the parameters
//   with priorities, minibatch_sums, minibatch_weights and minibatch_renew (priorities.cuh)
//   minibatch_note    counters and report; minibatch_begin and minibatch_end are of an update
//
// M samples are rows of all matrices: 256 samples of 23 inputs are 256 x 24 numbers, which 264 blocks of 128 threads gather 8 a thread.
//
// With memory a sample is a sequence of rows of the replay: LEARNED_ROWS, of which the last SEQUENCE are learned from, and `n_step` whose values
// targets have. Row (t, s) of the matrices is row t of sequence s, at t x sequences + s.
#define ONE_SAMPLE_A_THREAD
#define OWN_STEPS 1
#define KL_RATE 0
#define NETWORKS 1u
#define VALUE_FIRST 0u
#define VALUE_END 0u
#include "common/common.cuh"
#include "params.cuh"
#include "common/philox.cuh"
#include "common/mma.cuh"
#include "common/packing.cuh"
#include "env.cuh"
#include "gemm/layout.cuh"
#include "common/head.cuh"
#include "common/adam.cuh"
#include "gemm/ring.cuh"
#include "gemm/value.cuh"
#include "loss.cuh"

// Sums of a block: of the losses in the order of the algorithm, and of the squares of the critics' and the policy's gradient.
constexpr unsigned SQUARES = 0u, VALUES = 1u, POLICY = 2u, NORM = 4u, PARTS = 6u;
static_assert(BLOCK_BYTES >= PARTS * 8u * (THREADS / WARP), "the sums of a block fit its shared memory");

// Rows of `outcomes`, (6, M). ERROR is the size of a row's error, WEIGHT makes up for draws of samples by priority, COUNTED is 1 where a row of a sequence is
// learned from.
enum : unsigned { REWARD, DISCOUNT, TARGET, LOGPROB, ERROR, WEIGHT, COUNTED = LOGPROB };

[[maybe_unused]] constexpr unsigned BURN_IN = LEARNED_ROWS - SEQUENCE;

__device__ __forceinline__ float& outcome_of(const MinibatchParams& params, unsigned which, u64 row) {
    return params.outcomes[(u64)which * params.samples + row];
}

// 1, or 0 for a row of a sequence that is not learned from.
__device__ __forceinline__ float count_of(const MinibatchParams& params, u64 row) { return STATES > 0u ? outcome_of(params, COUNTED, row) : 1.0f; }

// The steps that means are over.
__device__ __forceinline__ unsigned batch_size(const MinibatchParams& params) { return params.sequences * SEQUENCE; }

// Calls `f` with each of `count` numbers of the launch.
template <typename F>
__device__ __forceinline__ void each(u64 count, F f) {
    for (u64 at = (u64)blockIdx.x * blockDim.x + threadIdx.x; at < count; at += (u64)gridDim.x * blockDim.x) f(at);
}

// One of the first four words of a block, without an array in memory.
__device__ __forceinline__ unsigned word_of(const Words& words, unsigned place) {
    return place < 2u ? (place == 0u ? words.word[0] : words.word[1]) : (place == 2u ? words.word[2] : words.word[3]);
}

// Keeps the block's sums of COUNT numbers, from part `first` on.
template <unsigned COUNT>
__device__ __forceinline__ void keep_parts(const MinibatchParams& params, unsigned first, const double (&mine)[COUNT], unsigned char* arena) {
    double all[COUNT];
    block_sum(mine, (double*)arena, all);
    if (threadIdx.x != 0u) return;
#pragma unroll
    for (unsigned i = 0u; i < COUNT; ++i) params.parts[blockIdx.x * PARTS + first + i] = all[i];
}

// The sums of all blocks, the same bits in each.
struct Totals {
    double parts[PARTS];

    __device__ __forceinline__ Totals(const MinibatchParams& params, unsigned char* arena) {
        double mine[PARTS] = {};
        for (unsigned block = threadIdx.x; block < params.blocks; block += blockDim.x)
#pragma unroll
            for (unsigned i = 0u; i < PARTS; ++i) mine[i] += params.parts[block * PARTS + i];
        block_sum(mine, (double*)arena, parts);
    }

    // Whether the losses and gradients of the passes up to this one are finite. A minibatch where one is not is skipped from there on.
    __device__ __forceinline__ bool are_finite(unsigned pass) const {
        const double sum = parts[SQUARES] + parts[NORM] + (pass == 1u ? parts[POLICY] + parts[NORM + 1u] : 0.0);
        return sum - sum == 0.0;
    }
};

#if PRIORITIES
#include "gemm/priorities.cuh"
#endif

KERNEL(minibatch_draw, MinibatchParams, THREADS, 1) {
    const Ring& ring = params.ring;
    const u64 number = params.progress->adam_steps;
#if PRIORITIES
    const double total = total_of(params);
#endif
    each(params.samples, [&](u64 row) {
        const unsigned sample = (unsigned)(row % params.sequences);
#if PRIORITIES
        // One sample from each of as many equal parts of the sum.
        const Words own = philox(sample, (unsigned)number, (unsigned)(number >> 32u), PURPOSE_REPLAY << 24u, params.seed.low, params.seed.high);
        const u64 chosen = row_for(params, ((double)sample + (double)unit(own.word[0])) / (double)params.sequences * total);
        const unsigned environment = (unsigned)(chosen / ring.rows);
        const u64 head = ring.heads[environment];
        u64 age = (head % ring.rows + ring.rows - chosen % ring.rows) % ring.rows;
#else
        unsigned drawn = 0u;
        Words words = {};
        auto below = [&](unsigned count) {
            if (drawn % 4u == 0u)
                words = philox(sample, (unsigned)number, (unsigned)(number >> 32u), PURPOSE_REPLAY << 24u | drawn / 4u, params.seed.low, params.seed.high);
            return __umulhi(word_of(words, drawn++ % 4u), count);
        };
        unsigned environment;
        u64 head, age;
        do {
            environment = below(ring.num_envs);
            head = ring.heads[environment];
            age = LEARNED_ROWS + below(window_of(ring, head) + 1u - LEARNED_ROWS);
        } while (row_of(ring, environment, head - age)[ROW_END] == FINAL);
#endif
        unsigned steps = params.n_step;
#if STATES
        // Rows after the newest repeat it.
        const unsigned t = (unsigned)(row / params.sequences);
        age = age > t ? age - t : 0u;
        const unsigned before = t > 0u ? row_of(ring, environment, head - age - 1u)[ROW_END] : GOES_ON;
        params.keep[row] = before == TERMINATED || before == FINAL ? 0.0f : 1.0f;
        const bool counted = t >= BURN_IN && t < LEARNED_ROWS && row_of(ring, environment, head - age)[ROW_END] != FINAL;
        outcome_of(params, COUNTED, row) = counted ? 1.0f : 0.0f;
        if (!counted) steps = 0u;
        const u64 own_age = age;
#endif
        const u64 first = row_at(ring, environment, head - age);
        bool terminated = false;
        float reward = 0.0f, discount = 1.0f;
        for (unsigned step = 1u; step <= steps; ++step) {
            const unsigned* of = row_of(ring, environment, head - age);
            reward = fmaf(discount, __uint_as_float(of[ROW_REWARD]), reward);
            discount *= params.gamma;
            age -= 1u;
            terminated = of[ROW_END] == TERMINATED;
            // The row that is being written has an observation, but no reward yet.
            if (of[ROW_END] != GOES_ON || age == 0u) break;
        }
        params.rows[row] = first;
#if STATES
        params.rows[params.samples + row] = row + (terminated ? 0u : own_age - age) * params.sequences;
#else
        params.rows[params.samples + row] = terminated ? first : row_at(ring, environment, head - age);
#endif
        outcome_of(params, REWARD, row) = reward;
        outcome_of(params, DISCOUNT, row) = terminated ? 0.0f : discount;
    });
}

KERNEL(minibatch_gather, MinibatchParams, THREADS, 1) {
    constexpr unsigned GROUPS = (ACTION_VALUES ? OBS_ROW : CRITIC_ROW) / PAD, OBS_GROUPS = OBS_ROW / PAD;
    constexpr u64 TURNS = STATES > 0u ? 1u : 2u;
    each(TURNS * params.samples * GROUPS, [&](u64 at) {
        const u64 row = at / GROUPS;
        const unsigned first = (unsigned)(at % GROUPS) * PAD;
        const float* of = (const float*)params.ring.words + params.rows[row] * REPLAY_STRIDE;
#if INDICES
        if (first == 0u) write_indices(params.indices + row * INDICES, of);
#endif
        Element* obs = (Element*)params.obs + row * OBS_ROW + first;
#pragma unroll
        for (unsigned i = 0u; i < PAD; ++i) {
            const unsigned k = first + i;
            float x = feature(of, k);
#if NORM_OBS
            if (k < ENV_OBS) x = clamp(__fmul_rn(x - params.scales[k].x, params.scales[k].y), -params.clip_obs, params.clip_obs);
#endif
            if (first / PAD < OBS_GROUPS) obs[i] = to_element(x);
#if !ACTION_VALUES
            if (k >= ENV_OBS && k < ENV_OBS + ENV_ACTIONS) x = of[ROW_ACTIONS + k - ENV_OBS];
            ((Element*)params.inputs)[at * PAD + i] = to_element(x);
#endif
        }
    });
#if STATES
    each((u64)params.sequences * STATES, [&](u64 at) {
        params.initial[at] = __uint_as_float(params.ring.words[params.rows[at / STATES] * REPLAY_STRIDE + ROW_STATE + at % STATES]);
    });
#endif
}

// What an error of a row's value weighs.
__device__ __forceinline__ float weight_of(const MinibatchParams& params, u64 row) {
    const float weight = count_of(params, row) / (float)batch_size(params);
    return PRIORITIES ? weight * outcome_of(params, WEIGHT, row % params.sequences) : weight;
}

// The distribution that a sample's value is to have, BINS numbers.
__device__ __forceinline__ float* distribution_of(const MinibatchParams& params, u64 row) { return params.distributions + row * BINS; }

#if ACTION_VALUES
#include "gemm/minibatch_choices.cuh"
#else
#include "gemm/minibatch_critics.cuh"
#endif

KERNEL(minibatch_reduce, MinibatchParams, THREADS, 1) {
    SHARED_ARENA(arena);
    double squares[1] = {};
    each(params.end - params.first, [&](u64 at) {
        const unsigned p = params.first + (unsigned)at;
        const float gradient = params.products[gemm_place(p)];
        params.gradient[p] = gradient;
        squares[0] += (double)gradient * (double)gradient;
    });
    keep_parts(params, NORM + params.pass, squares, arena);
}

__device__ __forceinline__ void move(const MinibatchParams& params, const AdamStep& step, unsigned p, float gradient) {
    float exp_avg = params.exp_avg[p], exp_avg_sq = params.exp_avg_sq[p];
    const float moved = adam_move(params.adam, step, params.parameters[p], gradient, exp_avg, exp_avg_sq);
    params.parameters[p] = moved;
    params.exp_avg[p] = exp_avg;
    params.exp_avg_sq[p] = exp_avg_sq;
    pack_parameter(p, moved, params.weights);
}

KERNEL(minibatch_adam, MinibatchParams, THREADS, 1) {
    SHARED_ARENA(arena);
    const Totals totals(params, arena);
    if (!totals.are_finite(params.pass)) return;
    const bool of_critics = params.pass == 0u;
    const double rate = params.report->learning_rate, own_rate = of_critics ? value_rate(params.adam, rate) : rate;
    const u64 number = params.progress->adam_steps, step = (of_critics ? number : number / params.delay) + 1u;
    const double norm = sqrt(of_critics ? totals.parts[NORM] : totals.parts[NORM + 1u]);
    const AdamStep own = {gradient_scale(params.adam, norm), adam_rate(params.adam, own_rate, step), (float)(1.0 - own_rate * params.adam.weight_decay)};
    each(params.end - params.first, [&](u64 at) {
        const unsigned p = params.first + (unsigned)at;
        move(params, own, p, params.gradient[p]);
    });
#ifdef LOG_ALPHA
    if (of_critics || blockIdx.x != 0u || threadIdx.x != 0u || params.coefficients[AUTOTUNE] == 0.0f) return;
    const double by = rules_of(params).by_log_alpha(totals.parts[LOGPROBS] / (double)params.samples);
    move(params, {gradient_scale(params.adam, fabs(by)), own.rate, 1.0f}, LOG_ALPHA, (float)by);
#endif
}

KERNEL(minibatch_follow, MinibatchParams, THREADS, 1) {
    SHARED_ARENA(arena);
    if (TARGETS_WAIT && !Totals(params, arena).are_finite(0u)) return;
    each(params.end - params.first, [&](u64 at) {
        const unsigned p = params.first + (unsigned)at;
        const float target = params.targets[p], moved = fmaf(params.parameters[p] - target, params.tau, target);
        params.targets[p] = moved;
        pack_parameter(p, moved, params.target_weights);
    });
}

// One block.
KERNEL(minibatch_note, MinibatchParams, THREADS, 1) {
    SHARED_ARENA(arena);
    const Totals totals(params, arena);
#if PRIORITIES
    if (totals.are_finite(params.trains_policy)) keep_greatest(params, arena);
#endif
    if (threadIdx.x != 0u) return;
    UpdateReport& report = *params.report;
    const bool trains = params.trains_policy != 0u;
    if (totals.are_finite(trains ? 1u : 0u)) {
        for (unsigned i = 0u; i < (trains ? NORM : POLICY); ++i) report.losses[i] += totals.parts[i] / (double)batch_size(params);
        report.norms += sqrt(totals.parts[NORM]);
        report.minibatches += 1.0;
        report.policy_minibatches += trains ? 1.0 : 0.0;
    } else {
        report.nonfinite += 1u;
    }
    params.progress->adam_steps += 1u;
}

// One block.
KERNEL(minibatch_begin, MinibatchParams, THREADS, 1) {
    if (threadIdx.x != 0u) return;
    UpdateReport report = {};
    report.learning_rate = learning_rate(params.adam, params.progress->update);
    *params.report = report;
}

// One block.
KERNEL(minibatch_end, MinibatchParams, THREADS, 1) {
    SHARED_ARENA(arena);
    double mine[1] = {}, all[1];
    for (unsigned environment = threadIdx.x; environment < params.ring.num_envs; environment += blockDim.x)
        mine[0] += (double)window_of(params.ring, params.ring.heads[environment]);
    block_sum(mine, (double*)arena, all);
    if (threadIdx.x != 0u) return;
    UpdateReport& report = *params.report;
    report.replay_size = all[0];
#if !ACTION_VALUES
    report.alpha = (double)rules_of(params).alpha;
#endif
    report.epochs = report.minibatches + (double)report.nonfinite > 0.0 ? 1u : 0u;
    params.progress->nonfinite_in_a_row = report.nonfinite > 0u ? params.progress->nonfinite_in_a_row + 1u : 0u;
    params.progress->update += 1u;
}

// Packs parameters that came from elsewhere into weights that are zero: one thread per parameter.
KERNEL(gemm_pack, GemmWeightParams, THREADS, 1) {
    const unsigned p = blockIdx.x * blockDim.x + threadIdx.x;
    if (p < params.count) pack_parameter(p, params.parameters[p], params.weights);
}
