// Beta distributions on (0, 1) with alpha and beta above 1. Twin of operant-learn's beta.rs, which says where the numbers come from.
#pragma once

constexpr float BETA_MARGIN = 1e-6f;
constexpr float REST[] = {0.083333336f, -1.8223955e-7f, -2.7725245e-3f, -5.3434593e-5f, 1.0496381e-3f, -6.3367875e-4f, 1.3831774e-4f};
constexpr float REST_SLOPE[] = {-0.08333334f, 1.9176671e-6f, 8.287648e-3f, 4.2374755e-4f, -5.935221e-3f, 4.9373237e-3f, -1.8866664e-3f, 2.8892772e-4f};
constexpr float REST_CURVATURE[] = {0.16666673f, -1.0113154e-5f, -0.033072107f, -2.641956e-3f, 0.037255727f, -0.037192307f, 0.017166274f, -3.2381776e-3f};

template <unsigned COUNT>
__device__ __forceinline__ float polynomial(const float (&coefficients)[COUNT], float x) {
    float sum = 0.0f;
#pragma unroll
    for (unsigned k = COUNT; k > 0u; --k) sum = fmaf(sum, x, coefficients[k - 1u]);
    return sum;
}

// ln gamma(z) + z
__device__ __forceinline__ float log_gamma(float z) {
    const float t = 1.0f / z;
    return fmaf(z - 0.5f, logf(z), fmaf(polynomial(REST, t), t, HALF_LOG_TAU));
}

__device__ __forceinline__ float digamma(float z) {
    const float t = 1.0f / z;
    return fmaf(fmaf(polynomial(REST_SLOPE, t), t, -0.5f), t, logf(z));
}

__device__ __forceinline__ float trigamma(float z) {
    const float t = 1.0f / z;
    return fmaf(fmaf(polynomial(REST_CURVATURE, t), t, 0.5f), t, 1.0f) * t;
}

__device__ __forceinline__ float softplus(float x) { return max_nan(x, 0.0f) + logf(1.0f + expf(-fabsf(x))); }

struct Beta {
    // Alpha and beta.
    float shape[2];

    __device__ __forceinline__ Beta(float a, float b) {
        shape[0] = 1.0f + softplus(a);
        shape[1] = 1.0f + softplus(b);
    }

    // A draw from 4 x BETA_ROUNDS uniform numbers: two gamma variates, each the first accepted one or the last.
    __device__ __forceinline__ float sample(const float* uniforms) const {
        float gammas[2] = {1.0f, 1.0f};
        bool open[2] = {true, true};
        for (unsigned round = 0u; round < BETA_ROUNDS && (open[0] || open[1]); ++round, uniforms += 4u) {
            float normals[2];
            box_muller(uniforms, normals);
#pragma unroll
            for (unsigned side = 0u; side < 2u; ++side) {
                const float d = shape[side] - 1.0f / 3.0f, root = fmaf(1.0f / sqrtf(9.0f * d), normals[side], 1.0f);
                const float positive = max_nan(root, 1e-10f), v = positive * positive * positive;
                const float bound = fmaf(0.5f * normals[side], normals[side], d * (1.0f - v + 3.0f * logf(positive)));
                if (open[side]) gammas[side] = d * v;
                open[side] = open[side] && !(logf(1.0f - uniforms[2u + side]) < bound);
            }
        }
        return clamp(gammas[0] / (gammas[0] + gammas[1]), BETA_MARGIN, 1.0f - BETA_MARGIN);
    }

    // ln of the Beta function.
    __device__ __forceinline__ float log_norm() const { return log_gamma(shape[0]) + log_gamma(shape[1]) - log_gamma(shape[0] + shape[1]); }

    __device__ __forceinline__ float logprob(float x) const {
        return fmaf(shape[0] - 1.0f, logf(x), (shape[1] - 1.0f) * logf(1.0f - x)) - log_norm();
    }

    __device__ __forceinline__ float entropy() const {
        const float sum = shape[0] + shape[1];
        const float of_both = fmaf(shape[0] - 1.0f, digamma(shape[0]), (shape[1] - 1.0f) * digamma(shape[1]));
        return log_norm() + fmaf(sum - 2.0f, digamma(sum), -of_both);
    }

    // The gradient with respect to the output of one side, whose value is `output`; `x` is the action, or of the second side its distance from 1.
    __device__ __forceinline__ float gradient(unsigned side, float output, float x, float by_logprob, float by_entropy) const {
        const float sum = shape[0] + shape[1];
        const float d_logprob = logf(x) - digamma(shape[side]) + digamma(sum);
        const float d_entropy = fmaf(1.0f - shape[side], trigamma(shape[side]), (sum - 2.0f) * trigamma(sum));
        return fmaf(by_logprob, d_logprob, by_entropy * d_entropy) * fmaf(0.5f, tanh_rational(0.5f * output), 0.5f);
    }
};
