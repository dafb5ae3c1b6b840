// The value of an observation from the outputs of the value layer: the output itself, or with BINS the mean of a distribution over that many
// values, BIN_STEP apart from BIN_LEAST on, whose logits they are. Twin of operant-learn's layers/bins.
#pragma once

#ifndef BIN_STEP
#define BINS 0u
#define BIN_LEAST 0.0f
#define BIN_STEP 1.0f
#endif

__device__ __forceinline__ float value_in(const float* outputs) {
    if (BINS == 0u) return outputs[0];
    float greatest = outputs[0], total = 0.0f, sum = 0.0f;
    for (unsigned k = 1u; k < BINS; ++k) greatest = max_nan(greatest, outputs[k]);
    for (unsigned k = 0u; k < BINS; ++k) {
        const float share = expf(outputs[k] - greatest);
        total += share;
        sum = fmaf(share, fmaf((float)k, BIN_STEP, BIN_LEAST), sum);
    }
    return sum / total;
}
