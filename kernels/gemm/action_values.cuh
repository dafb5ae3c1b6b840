// Networks of action values, Q(s, a) for each choice: the actions that a rollout takes, and V. Twin of operant-learn's heads.
#pragma once

#include "gemm/value.cuh"

// The share of random actions in the rollout of an update, rounded as the host rounds it.
template <typename Exploration>
__device__ __forceinline__ float share_of(const Exploration& exploration, u64 update) {
    const double done = exploration.updates > 0.0 ? min((double)update / exploration.updates, 1.0) : 1.0;
    return (float)__dadd_rn(exploration.start, __dmul_rn(exploration.end - exploration.start, done));
}

#if DUELING
// Subtracts from the numbers of each component their mean.
__device__ __forceinline__ void centre(float (&numbers)[OUTPUTS]) {
#pragma unroll
    for (unsigned component = 0u; component < ENV_COMPONENTS; ++component) {
        const unsigned first = first_logit(component), count = env_choices(component);
        float sum = 0.0f;
#pragma unroll
        for (unsigned k = 0u; k < OUTPUTS; ++k)
            if (k >= first && k < first + count) sum += numbers[k];
#pragma unroll
        for (unsigned k = 0u; k < OUTPUTS; ++k)
            if (k >= first && k < first + count) numbers[k] -= sum / (float)count;
    }
}
#endif

// The action values of a row of outputs. With a dueling head a row has advantages, and after them the state's value; with BINS the logits of each
// choice's distribution.
__device__ __forceinline__ void read_values(const float* row, float (&values)[OUTPUTS]) {
#pragma unroll
    for (unsigned k = 0u; k < OUTPUTS; ++k) values[k] = value_in(row + k * (BINS > 0u ? BINS : 1u));
#if DUELING
    centre(values);
#pragma unroll
    for (unsigned k = 0u; k < OUTPUTS; ++k) values[k] += row[OUTPUTS];
#endif
}

// Writes the gradient of a row of `width` outputs from that of its action values.
__device__ __forceinline__ void write_gradient(Element* row, unsigned width, float (&by_values)[OUTPUTS]) {
    float sum = 0.0f;
#if DUELING
#pragma unroll
    for (unsigned k = 0u; k < OUTPUTS; ++k) sum += by_values[k];
    centre(by_values);
#endif
#pragma unroll
    for (unsigned k = 0u; k < OUTPUTS; ++k) row[k] = to_element(by_values[k]);
    for (unsigned k = OUTPUTS; k < width; ++k) row[k] = to_element(k == OUTPUTS ? sum : 0.0f);
}

// `legal` has one bit per choice; null where all are legal.
__device__ __forceinline__ bool is_legal(const unsigned* legal, unsigned k) { return !legal || (legal[k / 32u] >> k % 32u & 1u) != 0u; }

struct Greatest {
    float value;
    unsigned choice;
};

// The greatest value of a component's legal choices, and the first choice that has it.
__device__ __forceinline__ Greatest greatest_of(const float* values, const unsigned* legal, unsigned component) {
    const unsigned first = first_logit(component), count = env_choices(component);
    Greatest greatest = {};
#pragma unroll
    for (unsigned k = 0u; k < ENV_ACTIONS; ++k) {
        if (k >= count) continue;
        const float value = is_legal(legal, first + k) ? values[first + k] : ILLEGAL;
        if (k > 0u && value > greatest.value) greatest.choice = k;
        greatest.value = k == 0u ? value : max_nan(greatest.value, value);
    }
    return greatest;
}

// V: the mean over the components of their greatest values. Where a component has no legal choice it is not a number, so that the
// error is detected.
__device__ __forceinline__ float greatest_value(const float* values, const unsigned* legal) {
    constexpr float SHARE = 1.0f / (float)ENV_COMPONENTS;
    float mean = 0.0f;
#pragma unroll
    for (unsigned component = 0u; component < ENV_COMPONENTS; ++component) {
        const float value = greatest_of(values, legal, component).value;
        mean = fmaf(legal && value <= ILLEGAL ? __uint_as_float(0x7fc00000u) : value, SHARE, mean);
    }
    return mean;
}

// For each component the choice with the greatest value, or with probability epsilon any legal one.
__device__ __forceinline__ void epsilon_greedy(
    const float* values, const unsigned* legal, float epsilon, const float* uniforms, EnvAction* action, float* stored) {
#pragma unroll
    for (unsigned component = 0u; component < ENV_COMPONENTS; ++component) {
        const unsigned first = first_logit(component), count = env_choices(component);
        unsigned choice = greatest_of(values, legal, component).choice;
        if (uniforms[component] < epsilon) {
            // uniform / epsilon is uniform in [0, 1) and selects a legal choice.
            float total = 0.0f, sum = 0.0f;
            unsigned before = 0u, last = 0u;
#pragma unroll
            for (unsigned k = 0u; k < ENV_ACTIONS; ++k)
                if (k < count && is_legal(legal, first + k)) total += 1.0f;
            const float threshold = uniforms[component] / epsilon * total;
#pragma unroll
            for (unsigned k = 0u; k < ENV_ACTIONS; ++k) {
                if (k >= count) continue;
                if (is_legal(legal, first + k)) {
                    sum += 1.0f;
                    last = k;
                }
                if (sum <= threshold) ++before;
            }
            choice = before < last ? before : last;
        }
        action[component] = choice;
        stored[component] = (float)choice;
    }
}
