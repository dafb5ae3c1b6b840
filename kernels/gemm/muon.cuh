// What update_adam does of Muon's step of hidden matrices, before muon.cu: momentum and decay. Twin of operant-learn's cpu/update/muon.rs.
// MUON are the ranges of their parameters, {first, end}; it is not defined for other optimisers.
#pragma once

#ifdef MUON

__device__ __forceinline__ bool is_muons(unsigned p) {
    static constexpr unsigned ranges[][2] = MUON;
    constexpr unsigned COUNT = sizeof(ranges) / sizeof(ranges[0]);
    bool is_inside = false;
    // Unrolled, so that the ranges are constants and not a table in memory.
#pragma unroll
    for (unsigned range = 0u; range < COUNT; ++range) is_inside = is_inside || (p >= ranges[range][0] && p < ranges[range][1]);
    return is_inside;
}

// Moves the momentum. Returns Nesterov's step ahead of it, which the rounds make orthogonal.
__device__ __forceinline__ float muon_ahead(const Adam& adam, const AdamStep& step, float gradient, float& momentum) {
    const float keep = (float)adam.muon_momentum, take = (float)(1.0 - adam.muon_momentum), g = gradient * step.scale;
    momentum = momentum * keep + g * take;
    return momentum * keep + g * take;
}

#endif
