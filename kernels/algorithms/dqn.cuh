// DQN's loss of one sample. Twin of operant-learn's cpu/off_policy/values.rs.
#pragma once

struct ActionValues {
    const float* coefficients;

    // The slope of the loss at an error: of its square, or beyond HUBER_DELTA of its absolute value.
    __device__ __forceinline__ float slope(float error) const {
        const float delta = coefficients[HUBER_DELTA];
        return delta > 0.0f ? clamp(error, -delta, delta) : error;
    }
};
