// Values in the units of normalised returns (PopArt; van Hasselt et al. 2016): the network computes (V - mean) / deviation with the running mean
// and deviation of all returns. Twin of operant-learn's Learning::add_returns and Network::set_units.
//
//   update_units    merges the returns of an update, and gives the value layer the parameters with which V is what it was
//   update_restore  packs a value layer that computes V itself, for rollouts
//
// One block of threads each: the value layer alone changes, whose weights are parameters VALUE_WEIGHT .. + VALUE_WEIGHTS, and its bias VALUE_BIAS.
#pragma once

// Calls `change(p, is_bias)` for each parameter of the value layer.
template <typename F>
__device__ __forceinline__ void each_value_parameter(F change) {
    for (unsigned k = threadIdx.x; k <= VALUE_WEIGHTS; k += blockDim.x) change(k < VALUE_WEIGHTS ? VALUE_WEIGHT + k : VALUE_BIAS, k == VALUE_WEIGHTS);
}

// A parameter of a value layer that computes V itself, of one in these units.
__device__ __forceinline__ float restored(float parameter, bool is_bias, const double (&norm)[3]) {
    if (norm[2] == 0.0) return parameter;
    const double scaled = (double)parameter * deviation_of(norm);
    return (float)(is_bias ? scaled + norm[0] : scaled);
}

KERNEL(update_units, ValueUnitParams, THREADS, 1) {
    Progress& progress = *params.progress;
    double sum = 0.0, squares = 0.0;
    for (unsigned device = 0u; device < params.devices; ++device) {
        sum += params.all_returns[device * 3u];
        squares += params.all_returns[device * 3u + 1u];
    }
    const double n = params.samples, distance = sum / n;
    const double spread = squares - sum * distance, mean = params.all_returns[2] + distance;
    const double before[3] = {progress.value_norm[0], progress.value_norm[1], progress.value_norm[2]};
    double norm[3] = {before[0], before[1], before[2]};
    if (before[2] == 0.0) {
        // Mean 0 and variance 1 with almost no weight.
        norm[1] = 1.0;
        norm[2] = 1e-4;
    }
    // One return that is no number would spoil the statistics of all later ones.
    if (spread - spread == 0.0) {
        const double total = norm[2] + n, delta = mean - norm[0];
        const double all = norm[1] * norm[2] + (spread > 0.0 ? spread : 0.0) + delta * delta * (norm[2] * n / total);
        norm[0] += delta * (n / total);
        norm[1] = all / total;
        norm[2] = total;
    }
    __syncthreads();
    each_value_parameter([&](unsigned p, bool is_bias) {
        const double value = restored(params.parameters[p], is_bias, before);
        const float moved = (float)((is_bias ? value - norm[0] : value) / deviation_of(norm));
        params.parameters[p] = moved;
        pack_parameter(p, moved, params.weights);
    });
    if (threadIdx.x != 0u) return;
#pragma unroll
    for (unsigned i = 0u; i < 3u; ++i) progress.value_norm[i] = norm[i];
}

KERNEL(update_restore, ValueUnitParams, THREADS, 1) {
    const double norm[3] = {params.progress->value_norm[0], params.progress->value_norm[1], params.progress->value_norm[2]};
    each_value_parameter([&](unsigned p, bool is_bias) { pack_parameter(p, restored(params.parameters[p], is_bias, norm), params.weights); });
}
