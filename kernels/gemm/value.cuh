// The value of an observation or an action from the outputs of a value layer: the output itself, or with BINS the mean of a distribution over
// that many values, BIN_STEP apart from BIN_LEAST to BIN_GREATEST, whose logits they are. Twin of operant-learn's layers/bins.
#pragma once

#ifndef BIN_STEP
#define BINS 0u
#define BIN_LEAST 0.0f
#define BIN_GREATEST 0.0f
#define BIN_STEP 1.0f
#endif

__device__ __forceinline__ float bin_value(unsigned k) { return fmaf((float)k, BIN_STEP, BIN_LEAST); }

// The probabilities of logits.
struct Shares {
    const float* logits;
    float greatest, total = 0.0f, mean = 0.0f;

    __device__ __forceinline__ Shares(const float* of) : logits(of), greatest(of[0]) {
        for (unsigned k = 1u; k < BINS; ++k) greatest = max_nan(greatest, logits[k]);
        for (unsigned k = 0u; k < BINS; ++k) {
            const float share = expf(logits[k] - greatest);
            total += share;
            mean = fmaf(share, bin_value(k), mean);
        }
        mean /= total;
    }

    __device__ __forceinline__ float of(unsigned k) const { return expf(logits[k] - greatest) / total; }

    // The cross-entropy from the probabilities `target(k)`, which add up to 1.
    template <typename F>
    __device__ __forceinline__ float cross_entropy(F target) const {
        float along = 0.0f;
        for (unsigned k = 0u; k < BINS; ++k) along = fmaf(target(k), logits[k] - greatest, along);
        return logf(total) - along;
    }
};

__device__ __forceinline__ float value_in(const float* outputs) {
    if (BINS == 0u) return outputs[0];
    return Shares(outputs).mean;
}

// Where a number lies among the values, in steps from the least; outside at the nearest.
__device__ __forceinline__ float place_of(float number) { return (clamp(number, BIN_LEAST, BIN_GREATEST) - BIN_LEAST) * (1.0f / BIN_STEP); }

// The share of value k in what is at a place, which is divided between its two neighbours.
__device__ __forceinline__ float near(float place, unsigned k) { return fmaxf(1.0f - fabsf(place - (float)k), 0.0f); }

// The distribution of the reward and the discounted value of a distribution, BINS numbers.
__device__ __forceinline__ void project(const Shares& from, float reward, float discount, float* to) {
    for (unsigned k = 0u; k < BINS; ++k) to[k] = 0.0f;
    for (unsigned k = 0u; k < BINS; ++k) {
        const float place = place_of(fmaf(discount, bin_value(k), reward)), share = from.of(k);
        // 0 for what is no number.
        const unsigned below = place < (float)BINS ? (unsigned)place : 0u;
        to[below] = fmaf(share, near(place, below), to[below]);
        if (below + 1u < BINS) to[below + 1u] = fmaf(share, near(place, below + 1u), to[below + 1u]);
    }
}
