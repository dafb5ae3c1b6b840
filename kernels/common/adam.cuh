// Adam with a clipped norm, one thread per parameter. Twin of operant-learn's adam.
#pragma once

// Whether steps have what the fused path does not support: a learning rate that each minibatch's divergence changes (KL_RATE), decay of
// weights, or two NETWORKS with steps of their own, of which the value's parameters are VALUE_FIRST .. VALUE_END.
#ifndef OWN_STEPS
#define OWN_STEPS 0
#define KL_RATE 0
#define NETWORKS 1u
#define VALUE_FIRST 0u
#define VALUE_END 0u
#endif

__device__ __forceinline__ double learning_rate(const Adam& adam, u64 update) {
    const u64 done = update < adam.updates ? update : adam.updates;
    const double rate = adam.updates == 0u ? adam.learning_rate : adam.learning_rate * (1.0 - (double)done / (double)adam.updates);
    const double warm = (double)update + 1.0;
    return warm < adam.warmup ? rate * (warm / adam.warmup) : rate;
}

// The learning rate of a separate value network where the policy's is `rate`.
__device__ __forceinline__ double value_rate(const Adam& adam, double rate) {
    if (adam.value_learning_rate == 0.0) return rate;
    return KL_RATE ? adam.value_learning_rate : adam.value_learning_rate * (rate / adam.learning_rate);
}

// With lr_schedule = "kl": the learning rate after a minibatch of divergence kl.
__device__ __forceinline__ double rate_after(const Adam& adam, double rate, double kl) {
    constexpr double FACTOR = 1.5;
    if (kl > 2.0 * adam.desired_kl) return rate / FACTOR > adam.lr_min ? rate / FACTOR : adam.lr_min;
    if (kl < adam.desired_kl / 2.0) return rate * FACTOR < adam.lr_max ? rate * FACTOR : adam.lr_max;
    return rate;
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
    // What decay leaves of a parameter.
    float keep;
};

// Whether a parameter is of the second network.
__device__ __forceinline__ bool is_value(unsigned p) { return NETWORKS == 2u && p >= VALUE_FIRST && p < VALUE_END; }

// The new value of a parameter; moves its moments.
__device__ __forceinline__ float adam_move(
    const Adam& adam, const AdamStep& step, float param, float gradient, float& exp_avg, float& exp_avg_sq) {
    const float g = gradient * step.scale;
    exp_avg = exp_avg * (float)adam.beta1 + g * (float)(1.0 - adam.beta1);
    exp_avg_sq = exp_avg_sq * (float)adam.beta2 + g * g * (float)(1.0 - adam.beta2);
    if (OWN_STEPS) param *= step.keep;
    const float eps = step.rate.root == 0.0f ? 1.0f : (float)adam.eps;
    return param - step.rate.step_size * exp_avg / (sqrtf(exp_avg_sq) * step.rate.root + eps);
}
