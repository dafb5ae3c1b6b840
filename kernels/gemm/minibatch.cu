// A minibatch from a replay, for an algorithm with a policy and two critics of its actions (loss.cuh): the work around the matrix products. Twin of
// operant-learn's cpu/off_policy/learner.rs.
//
//   minibatch_draw    which transitions it has; one thread per sample, as in the kernels from minibatch_next to minibatch_policy
//   minibatch_gather  their observations and actions, as the first products read them: before the step (turn 0) and after it (turn 1)
//   minibatch_next    the actions after the step, from the outputs of the policy or of its target
//   minibatch_target  what the critics learn, from the values of their targets
//   minibatch_critics the critics' losses and the gradients of their outputs
//   minibatch_actions the policy's actions, in the place of those of the samples
//   minibatch_values  the policy's loss, and the gradients of the critics' outputs
//   minibatch_policy  the gradient of the policy's outputs, through the actions
//   minibatch_reduce, minibatch_adam  the norm of a gradient, and the step along it: of the critics (pass 0), or of policy and temperature (pass 1)
//   minibatch_follow  the targets go a share of the way to the parameters
//   minibatch_note    counters and report; minibatch_begin and minibatch_end are of an update
//
// M samples are rows of all matrices: 256 samples of 23 inputs are 256 x 24 numbers, which 264 blocks of 128 threads gather 8 a thread.
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
#include "loss.cuh"

// Sums of a block: of the losses in the order of the algorithm, and of the squares of the critics' and the policy's gradient.
constexpr unsigned SQUARES = 0u, VALUES = 1u, POLICY = 2u, LOGPROBS = 3u, NORM = 4u, PARTS = 6u;
static_assert(BLOCK_BYTES >= PARTS * 8u * (THREADS / WARP), "the sums of a block fit its shared memory");

// Rows of `outcomes`, (4, M).
constexpr unsigned REWARD = 0u, DISCOUNT = 1u, TARGET = 2u, LOGPROB = 3u;

// Calls `f` with each of `count` numbers of the launch.
template <typename F>
__device__ __forceinline__ void each(u64 count, F f) {
    for (u64 at = (u64)blockIdx.x * blockDim.x + threadIdx.x; at < count; at += (u64)gridDim.x * blockDim.x) f(at);
}

__device__ __forceinline__ ActorCritic rules_of(const MinibatchParams& params) {
#ifdef LOG_ALPHA
    return {params.coefficients, expf(params.parameters[LOG_ALPHA])};
#else
    return {params.coefficients, 0.0f};
#endif
}

// One of the first four words of a block, without an array in memory.
__device__ __forceinline__ unsigned word_of(const Words& words, unsigned place) {
    return place < 2u ? (place == 0u ? words.word[0] : words.word[1]) : (place == 2u ? words.word[2] : words.word[3]);
}

// Standard normals for the actions of a sample, two words each.
__device__ __forceinline__ void draw_normals(const MinibatchParams& params, unsigned row, unsigned turn, float (&normals)[ENV_ACTIONS]) {
    const u64 number = params.progress->adam_steps;
    Words words = {};
#pragma unroll
    for (unsigned k = 0u; k < ENV_ACTIONS; ++k) {
        const unsigned tag = PURPOSE_UPDATE_ACTION << 24u | turn << 20u | k / 2u;
        if (k % 2u == 0u) words = philox(row, (unsigned)number, (unsigned)(number >> 32u), tag, params.seed.low, params.seed.high);
        const float uniforms[2] = {unit(words.word[k % 2u * 2u]), unit(words.word[k % 2u * 2u + 1u])};
        float both[2];
        box_muller(uniforms, both);
        normals[k] = both[0];
    }
}

__device__ __forceinline__ void read_outputs(const MinibatchParams& params, u64 row, float (&outputs)[OUTPUTS]) {
#pragma unroll
    for (unsigned k = 0u; k < OUTPUTS; ++k) outputs[k] = params.policy[row * POLICY_ROW + k];
}

// Writes actions of a sample into the critics' inputs.
__device__ __forceinline__ void put_actions(const MinibatchParams& params, u64 row, unsigned turn, const float (&actions)[ENV_ACTIONS]) {
    Element* to = (Element*)params.inputs + ((u64)turn * params.samples + row) * CRITIC_ROW + ENV_OBS;
#pragma unroll
    for (unsigned k = 0u; k < ENV_ACTIONS; ++k) to[k] = to_element(actions[k]);
}

// Writes the gradient of a critic's value.
__device__ __forceinline__ void put_by_value(float* gradient, u64 row, float by_value) {
    Element* to = (Element*)gradient + row * VALUE_ROW;
#pragma unroll
    for (unsigned k = 0u; k < VALUE_ROW; ++k) to[k] = to_element(k == 0u ? by_value : 0.0f);
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

KERNEL(minibatch_draw, MinibatchParams, THREADS, 1) {
    const Ring& ring = params.ring;
    const u64 number = params.progress->adam_steps;
    each(params.samples, [&](u64 row) {
        unsigned drawn = 0u;
        Words words = {};
        auto below = [&](unsigned count) {
            if (drawn % 4u == 0u)
                words = philox((unsigned)row, (unsigned)number, (unsigned)(number >> 32u), PURPOSE_REPLAY << 24u | drawn / 4u, params.seed.low, params.seed.high);
            return __umulhi(word_of(words, drawn++ % 4u), count);
        };
        unsigned environment;
        u64 head, age;
        do {
            environment = below(ring.num_envs);
            head = ring.heads[environment];
            age = 1u + below(window_of(ring, head));
        } while (row_of(ring, environment, head - age)[ROW_END] == FINAL);
        const u64 first = row_at(ring, environment, head - age);
        bool terminated = false;
        float reward = 0.0f, discount = 1.0f;
        for (unsigned step = 1u; step <= params.n_step; ++step) {
            const unsigned* of = row_of(ring, environment, head - age);
            reward = fmaf(discount, __uint_as_float(of[ROW_REWARD]), reward);
            discount *= params.gamma;
            age -= 1u;
            terminated = of[ROW_END] == TERMINATED;
            // The row that is being written has an observation, but no reward yet.
            if (of[ROW_END] != GOES_ON || age == 0u) break;
        }
        params.rows[row] = first;
        params.rows[params.samples + row] = terminated ? first : row_at(ring, environment, head - age);
        params.outcomes[REWARD * params.samples + row] = reward;
        params.outcomes[DISCOUNT * params.samples + row] = terminated ? 0.0f : discount;
    });
}

KERNEL(minibatch_gather, MinibatchParams, THREADS, 1) {
    constexpr unsigned GROUPS = CRITIC_ROW / PAD, OBS_GROUPS = OBS_ROW / PAD;
    each(2u * (u64)params.samples * GROUPS, [&](u64 at) {
        const u64 row = at / GROUPS;
        const unsigned first = (unsigned)(at % GROUPS) * PAD;
        const float* of = (const float*)params.ring.words + params.rows[row] * REPLAY_STRIDE;
        Element* inputs = (Element*)params.inputs + at * PAD;
        Element* obs = (Element*)params.obs + row * OBS_ROW + first;
#pragma unroll
        for (unsigned i = 0u; i < PAD; ++i) {
            const unsigned k = first + i;
            float x = feature(of, k);
#if NORM_OBS
            if (k < ENV_OBS) x = clamp(__fmul_rn(x - params.scales[k].x, params.scales[k].y), -params.clip_obs, params.clip_obs);
#endif
            if (first / PAD < OBS_GROUPS) obs[i] = to_element(x);
            if (k >= ENV_OBS && k < ENV_OBS + ENV_ACTIONS) x = of[ROW_ACTIONS + k - ENV_OBS];
            inputs[i] = to_element(x);
        }
    });
}

// Puts actions that `choose` makes of the policy's outputs and the normals of draw DRAW into the inputs of turn TURN, and its result into row ROW.
template <unsigned DRAW, unsigned ROW, unsigned TURN, typename F>
__device__ __forceinline__ void act(const MinibatchParams& params, F choose) {
    each(params.samples, [&](u64 row) {
        float outputs[OUTPUTS], normals[ENV_ACTIONS], actions[ENV_ACTIONS];
        read_outputs(params, row, outputs);
        draw_normals(params, (unsigned)row, DRAW, normals);
        params.outcomes[ROW * params.samples + row] = choose(outputs, normals, actions);
        put_actions(params, row, TURN, actions);
    });
}

KERNEL(minibatch_next, MinibatchParams, THREADS, 1) {
    const ActorCritic rules = rules_of(params);
    act<0u, TARGET, 1u>(params, [&](const float* outputs, const float* normals, float* actions) { return rules.next_actions(outputs, normals, actions); });
}

KERNEL(minibatch_target, MinibatchParams, THREADS, 1) {
    each(params.samples, [&](u64 row) {
        const float a = params.first_values[row * VALUE_ROW], b = params.second_values[row * VALUE_ROW];
        float& target = params.outcomes[TARGET * params.samples + row];
        const float discount = params.outcomes[DISCOUNT * params.samples + row];
        target = fmaf(discount, (a < b ? a : b) + target, params.outcomes[REWARD * params.samples + row]);
    });
}

KERNEL(minibatch_critics, MinibatchParams, THREADS, 1) {
    SHARED_ARENA(arena);
    const float weight = 1.0f / (float)params.samples;
    double sums[2] = {};
    each(params.samples, [&](u64 row) {
        const float target = params.outcomes[TARGET * params.samples + row];
        const float values[2] = {params.first_values[row * VALUE_ROW], params.second_values[row * VALUE_ROW]};
        put_by_value(params.first_gradient, row, (values[0] - target) * weight);
        put_by_value(params.second_gradient, row, (values[1] - target) * weight);
#pragma unroll
        for (unsigned k = 0u; k < 2u; ++k) sums[SQUARES] += 0.5 * (double)((values[k] - target) * (values[k] - target));
        sums[VALUES] += (double)values[0];
    });
    keep_parts(params, SQUARES, sums, arena);
}

KERNEL(minibatch_actions, MinibatchParams, THREADS, 1) {
    const ActorCritic rules = rules_of(params);
    act<1u, LOGPROB, 0u>(params, [&](const float* outputs, const float* normals, float* actions) { return rules.actions(outputs, normals, actions); });
}

KERNEL(minibatch_values, MinibatchParams, THREADS, 1) {
    SHARED_ARENA(arena);
    const float weight = 1.0f / (float)params.samples, alpha = rules_of(params).alpha;
    double sums[2] = {};
    each(params.samples, [&](u64 row) {
        const float a = params.first_values[row * VALUE_ROW], b = TAKES_LEAST ? params.second_values[row * VALUE_ROW] : a;
        put_by_value(params.first_gradient, row, a <= b ? -weight : 0.0f);
        if (TAKES_LEAST) put_by_value(params.second_gradient, row, a <= b ? 0.0f : -weight);
        const float logprob = params.outcomes[LOGPROB * params.samples + row];
        sums[POLICY - POLICY] += (double)(alpha * logprob - (a < b ? a : b));
        sums[LOGPROBS - POLICY] += (double)logprob;
    });
    keep_parts(params, POLICY, sums, arena);
}

KERNEL(minibatch_policy, MinibatchParams, THREADS, 1) {
    const ActorCritic rules = rules_of(params);
    const float weight = 1.0f / (float)params.samples;
    each(params.samples, [&](u64 row) {
        float outputs[OUTPUTS], normals[ENV_ACTIONS], actions[ENV_ACTIONS], by_action[ENV_ACTIONS];
        read_outputs(params, row, outputs);
        draw_normals(params, (unsigned)row, 1u, normals);
        rules.actions(outputs, normals, actions);
#pragma unroll
        for (unsigned k = 0u; k < ENV_ACTIONS; ++k) {
            const u64 at = row * CRITIC_ROW + ENV_OBS + k;
            by_action[k] = read_element(params.first_by_input, at);
            if (TAKES_LEAST) by_action[k] += read_element(params.second_by_input, at);
        }
        rules.gradient(outputs, normals, actions, by_action, weight);
        Element* to = (Element*)params.policy_gradient + row * POLICY_ROW;
#pragma unroll
        for (unsigned k = 0u; k < POLICY_ROW; ++k) to[k] = to_element(k < OUTPUTS ? outputs[k < OUTPUTS ? k : 0u] : 0.0f);
    });
}

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
    if (threadIdx.x != 0u) return;
    UpdateReport& report = *params.report;
    const bool trains = params.trains_policy != 0u;
    if (totals.are_finite(trains ? 1u : 0u)) {
        for (unsigned i = 0u; i < (trains ? NORM : POLICY); ++i) report.losses[i] += totals.parts[i] / (double)params.samples;
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
    report.alpha = (double)rules_of(params).alpha;
    report.epochs = report.minibatches + (double)report.nonfinite > 0.0 ? 1u : 0u;
    params.progress->nonfinite_in_a_row = report.nonfinite > 0u ? params.progress->nonfinite_in_a_row + 1u : 0u;
    params.progress->update += 1u;
}

// Packs parameters that came from elsewhere into weights that are zero: one thread per parameter.
KERNEL(gemm_pack, GemmWeightParams, THREADS, 1) {
    const unsigned p = blockIdx.x * blockDim.x + threadIdx.x;
    if (p < params.count) pack_parameter(p, params.parameters[p], params.weights);
}
