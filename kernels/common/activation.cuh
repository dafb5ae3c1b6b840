// The nonlinearity of hidden layers, ACTIVATION_RELU or tanh, and its slope.
#pragma once

__device__ __forceinline__ float activation(float x) {
    // Written so that NaN stays NaN.
    if (ACTIVATION_RELU) return x < 0.0f ? 0.0f : x;
    return PRECISION == F32 ? tanh_rational(x) : tanh_approximate(x);
}

// The derivative of the nonlinearity by its result.
__device__ __forceinline__ float slope(float activated) {
    return ACTIVATION_RELU ? (activated > 0.0f ? 1.0f : 0.0f) : fmaf(-activated, activated, 1.0f);
}
