// Adam with a clipped global norm, one thread per parameter. Twin of operant-learn's adam.
#pragma once

__device__ __forceinline__ double learning_rate(const Adam& adam, u64 update) {
    if (adam.updates == 0u) return adam.learning_rate;
    const u64 done = update < adam.updates ? update : adam.updates;
    return adam.learning_rate * (1.0 - (double)done / (double)adam.updates);
}

// b to the power of n, by squaring.
__device__ __forceinline__ double power(double b, u64 n) {
    double result = 1.0;
    for (; n > 0u; n >>= 1u) {
        if (n & 1u) result *= b;
        b *= b;
    }
    return result;
}

// Of step number `step`, from 1.
__device__ __forceinline__ AdamRate adam_rate(const Adam& adam, double rate, u64 step) {
    const double power2 = power(adam.beta2, step), step_size = rate / (1.0 - power(adam.beta1, step));
    const float root = (float)(1.0 / sqrt(1.0 - power2));
    if (adam.rectified == 0u) return {(float)step_size, root};
    const double last = 2.0 / (1.0 - adam.beta2) - 1.0, now = last - 2.0 * (double)step * power2 / (1.0 - power2);
    if (now <= 5.0) return {(float)step_size, 0.0f};
    const double part = (now - 4.0) * (now - 2.0) / now, whole = (last - 4.0) * (last - 2.0) / last;
    return {(float)(step_size * sqrt(part / whole)), root};
}

// The factor that keeps a gradient of norm `norm` within the limit.
__device__ __forceinline__ float gradient_scale(const Adam& adam, double norm) {
    const double limit = adam.max_grad_norm / (norm + 1e-6);
    return (float)(limit < 1.0 ? limit : 1.0);
}

struct AdamStep {
    float scale;
    AdamRate rate;
};

// The new value of a parameter; moves its moments.
__device__ __forceinline__ float adam_move(
    const Adam& adam, const AdamStep& step, float param, float gradient, float& exp_avg, float& exp_avg_sq) {
    const float g = gradient * step.scale;
    exp_avg = exp_avg * (float)adam.beta1 + g * (float)(1.0 - adam.beta1);
    exp_avg_sq = exp_avg_sq * (float)adam.beta2 + g * g * (float)(1.0 - adam.beta2);
    const float eps = step.rate.root == 0.0f ? 1.0f : (float)adam.eps;
    return param - step.rate.step_size * exp_avg / (sqrtf(exp_avg_sq) * step.rate.root + eps);
}
