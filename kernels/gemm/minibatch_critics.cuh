// A minibatch of an algorithm with a policy and two critics of its actions (loss.cuh). Twin of operant-learn's cpu/off_policy/learner.rs.
//
//   minibatch_next    the actions after the step, from the outputs of the policy or of its target
//   minibatch_target  what the critics learn, from the values of their targets
//   minibatch_errors  the critics' losses and the gradients of their outputs
//   minibatch_actions the policy's actions, in the place of those of the samples
//   minibatch_values  the policy's loss, and the gradients of the critics' outputs
//   minibatch_policy  the gradient of the policy's outputs, through the actions
#pragma once

// The policy's sum of a block.
constexpr unsigned LOGPROBS = 3u;

__device__ __forceinline__ ActorCritic rules_of(const MinibatchParams& params) {
#ifdef LOG_ALPHA
    return {params.coefficients, expf(params.parameters[LOG_ALPHA])};
#else
    return {params.coefficients, 0.0f};
#endif
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

// Writes the gradient of a critic's outputs.
template <typename F>
__device__ __forceinline__ void put_gradient(float* gradient, u64 row, F of_output) {
    Element* to = (Element*)gradient + row * VALUE_ROW;
#pragma unroll 8
    for (unsigned k = 0u; k < VALUE_ROW; ++k) to[k] = to_element(k < (BINS > 0u ? BINS : 1u) ? of_output(k) : 0.0f);
}

// The same from the gradient of its value.
__device__ __forceinline__ void put_by_value(float* gradient, const float* values, u64 row, float by_value) {
#if BINS
    const Shares shares(values + row * VALUE_ROW);
    put_gradient(gradient, row, [&](unsigned k) { return shares.of(k) * (bin_value(k) - shares.mean) * by_value; });
#else
    put_gradient(gradient, row, [&](unsigned) { return by_value; });
#endif
}

// The value of a row of a critic's outputs.
__device__ __forceinline__ float read_value(const float* values, u64 row) { return value_in(values + row * VALUE_ROW); }

// Puts actions that `choose` makes of the policy's outputs and the normals of draw DRAW into the inputs of turn TURN, and its result into row ROW.
template <unsigned DRAW, unsigned ROW, unsigned TURN, typename F>
__device__ __forceinline__ void act(const MinibatchParams& params, F choose) {
    each(params.samples, [&](u64 row) {
        float outputs[OUTPUTS], normals[ENV_ACTIONS], actions[ENV_ACTIONS];
        read_outputs(params, row, outputs);
        draw_normals(params, (unsigned)row, DRAW, normals);
        outcome_of(params, ROW, row) = choose(outputs, normals, actions);
        put_actions(params, row, TURN, actions);
    });
}

KERNEL(minibatch_next, MinibatchParams, THREADS, 1) {
    const ActorCritic rules = rules_of(params);
    act<0u, TARGET, 1u>(params, [&](const float* outputs, const float* normals, float* actions) { return rules.next_actions(outputs, normals, actions); });
}

KERNEL(minibatch_target, MinibatchParams, THREADS, 1) {
    each(params.samples, [&](u64 row) {
        const float a = read_value(params.first_values, row), b = read_value(params.second_values, row);
        float& target = outcome_of(params, TARGET, row);
        const float discount = outcome_of(params, DISCOUNT, row), reward = outcome_of(params, REWARD, row);
#if BINS
        project(Shares((a <= b ? params.first_values : params.second_values) + row * VALUE_ROW), fmaf(discount, target, reward), discount, distribution_of(params, row));
#endif
        target = fmaf(discount, (a < b ? a : b) + target, reward);
    });
}

KERNEL(minibatch_errors, MinibatchParams, THREADS, 1) {
    SHARED_ARENA(arena);
    double sums[2] = {};
    each(params.samples, [&](u64 row) {
        const float weight = weight_of(params, row);
        float both = 0.0f;
#pragma unroll
        for (unsigned critic = 0u; critic < 2u; ++critic) {
            const float* values = critic == 0u ? params.first_values : params.second_values;
            float* gradient = critic == 0u ? params.first_gradient : params.second_gradient;
#if BINS
            const float* target = distribution_of(params, row);
            const Shares shares(values + row * VALUE_ROW);
            const float value = shares.mean, size = shares.cross_entropy([&](unsigned k) { return target[k]; }), loss = size;
            put_gradient(gradient, row, [&](unsigned k) { return (shares.of(k) - target[k]) * weight; });
#else
            const float value = values[row * VALUE_ROW], error = value - outcome_of(params, TARGET, row), size = fabsf(error), loss = error * error;
            put_by_value(gradient, values, row, error * weight);
#endif
            both += size * 0.5f;
            sums[SQUARES] += 0.5 * (double)loss;
            if (critic == 0u) sums[VALUES] += (double)value;
        }
        outcome_of(params, ERROR, row) = both;
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
        const float a = read_value(params.first_values, row), b = TAKES_LEAST ? read_value(params.second_values, row) : a;
        put_by_value(params.first_gradient, params.first_values, row, a <= b ? -weight : 0.0f);
        if (TAKES_LEAST) put_by_value(params.second_gradient, params.second_values, row, a <= b ? 0.0f : -weight);
        const float logprob = outcome_of(params, LOGPROB, row);
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
