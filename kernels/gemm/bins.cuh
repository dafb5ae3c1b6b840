// The loss of a distribution over values: vf_coef times the cross-entropy from the return, which is divided between the two nearest values.
#pragma once

struct BinsLoss {
    float greatest, scale, place, by_loss;

    // Adds the cross-entropy to the value's sum of a sample, where `weight` is 1 / M.
    __device__ __forceinline__ BinsLoss(const UpdateParams& update, const float* logits, const unsigned* words, float weight, float (&sums)[SUMS]) {
        const float returns = __uint_as_float(words[SAMPLE_ADVANTAGE]) + __uint_as_float(words[SAMPLE_VALUE]);
        place = (clamp(returns, BIN_LEAST, BIN_GREATEST) - BIN_LEAST) * (1.0f / BIN_STEP);
        by_loss = update.coefficients[VF_COEF] * weight;
        greatest = logits[0];
        for (unsigned k = 1u; k < BINS; ++k) greatest = max_nan(greatest, logits[k]);
        float total = 0.0f, along = 0.0f;
        for (unsigned k = 0u; k < BINS; ++k) {
            const float over = logits[k] - greatest;
            total += expf(over);
            along = fmaf(near(k), over, along);
        }
        scale = 1.0f / total;
        sums[1] += logf(total) - along;
    }

    // The share of value k in the return.
    __device__ __forceinline__ float near(unsigned k) const { return fmaxf(1.0f - fabsf(place - (float)k), 0.0f); }

    // The gradient of a logit.
    __device__ __forceinline__ float gradient(float logit, unsigned k) const { return (expf(logit - greatest) * scale - near(k)) * by_loss; }
};
