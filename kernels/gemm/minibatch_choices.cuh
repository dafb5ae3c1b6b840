// A minibatch of an algorithm that learns the values of choices (loss.cuh). Twin of operant-learn's cpu/off_policy/values.rs.
//
//   minibatch_next    the choices after the step, from the values of the network or of its target
//   minibatch_target  what the network learns, from its target's values of these choices
//   minibatch_errors  the loss, and the gradient of the values
#pragma once

#include "gemm/action_values.cuh"

// The mean over the components of the value of each one's choice.
template <typename F>
__device__ __forceinline__ float value_of(const float (&values)[OUTPUTS], F choice_of) {
    constexpr float SHARE = 1.0f / (float)ENV_COMPONENTS;
    float value = 0.0f;
#pragma unroll
    for (unsigned component = 0u; component < ENV_COMPONENTS; ++component) {
        const unsigned first = first_logit(component), count = env_choices(component), choice = choice_of(component);
#pragma unroll
        for (unsigned k = 0u; k < ENV_ACTIONS; ++k)
            if (k >= first && k < first + count && k - first == choice) value = fmaf(values[k], SHARE, value);
    }
    return value;
}

// The row of a sample in the replay, before the step (turn 0) or, without memory, after it (turn 1).
__device__ __forceinline__ const unsigned* sample_row(const MinibatchParams& params, u64 row, unsigned turn) {
    return params.ring.words + params.rows[(u64)turn * params.samples + row] * REPLAY_STRIDE;
}

KERNEL(minibatch_next, MinibatchParams, THREADS, 1) {
    each(params.samples, [&](u64 row) {
        float values[OUTPUTS];
        read_values(params.policy + row * POLICY_ROW, values);
        const unsigned* legal = ENV_MASKED ? sample_row(params, row, STATES > 0u ? 0u : 1u) + ROW_MASK : 0;
#pragma unroll
        for (unsigned component = 0u; component < ENV_COMPONENTS; ++component)
            params.choices[row * ENV_COMPONENTS + component] = greatest_of(values, legal, component).choice;
    });
}

KERNEL(minibatch_target, MinibatchParams, THREADS, 1) {
    each(params.samples, [&](u64 row) {
        // The values after a step of a sequence are those of a later row.
        const u64 after = STATES > 0u ? params.rows[params.samples + row] : row;
        const unsigned* choices = params.choices + after * ENV_COMPONENTS;
        const float discount = outcome_of(params, DISCOUNT, row), reward = outcome_of(params, REWARD, row);
#if BINS
        project(Shares(params.policy + after * POLICY_ROW + choices[0] * BINS), reward, discount, distribution_of(params, row));
#else
        float values[OUTPUTS];
        read_values(params.policy + after * POLICY_ROW, values);
        const float value = value_of(values, [&](unsigned component) { return choices[component]; });
        outcome_of(params, TARGET, row) = fmaf(discount, value, reward);
#endif
    });
}

KERNEL(minibatch_errors, MinibatchParams, THREADS, 1) {
    SHARED_ARENA(arena);
    double sums[2] = {};
    each(params.samples, [&](u64 row) {
        const float weight = weight_of(params, row), count = count_of(params, row);
#if STATES
        // The state after the burn-in is a constant.
        if (row / params.sequences == BURN_IN) params.keep[row] = 0.0f;
#endif
        const unsigned* of = sample_row(params, row, 0u) + ROW_ACTIONS;
        Element* to = (Element*)params.policy_gradient + row * POLICY_ROW;
#if BINS
        const float* target = distribution_of(params, row);
        const unsigned first = (unsigned)__uint_as_float(of[0]) * BINS;
        const Shares shares(params.policy + row * POLICY_ROW + first);
        const float loss = shares.cross_entropy([&](unsigned k) { return target[k]; });
        for (unsigned k = 0u; k < POLICY_ROW; ++k)
            to[k] = to_element(k >= first && k < first + BINS ? (shares.of(k - first) - target[k - first]) * weight : 0.0f);
        outcome_of(params, ERROR, row) = count * loss;
        sums[SQUARES] += (double)(count * loss);
        sums[VALUES] += (double)(count * shares.mean);
#else
        constexpr float SHARE = 1.0f / (float)ENV_COMPONENTS;
        const ActionValues rules = {params.coefficients};
        float values[OUTPUTS];
        read_values(params.policy + row * POLICY_ROW, values);
        auto taken = [&](unsigned component) { return (unsigned)__uint_as_float(of[component]); };
        const float value = value_of(values, taken), error = value - outcome_of(params, TARGET, row);
        const float by_value = rules.slope(error) * (SHARE * weight);
#pragma unroll
        for (unsigned component = 0u; component < ENV_COMPONENTS; ++component) {
            const unsigned first = first_logit(component), count = env_choices(component), choice = taken(component);
#pragma unroll
            for (unsigned k = 0u; k < ENV_ACTIONS; ++k)
                if (k >= first && k < first + count) values[k] = k - first == choice ? by_value : 0.0f;
        }
        write_gradient(to, POLICY_ROW, values);
        outcome_of(params, ERROR, row) = count * fabsf(error);
        sums[SQUARES] += (double)(count * error * error);
        sums[VALUES] += (double)(count * value);
#endif
    });
    keep_parts(params, SQUARES, sums, arena);
}
