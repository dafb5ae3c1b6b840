// Normalisation of observations and rewards in the rollout: statistics frozen during a rollout, merged at its end.
//
// Specialised by NORM_OBS and NORM_REWARD. Quantity k < O is feature k; the last one is the discounted return.
#pragma once

constexpr unsigned NORM_FEATURES = NORM_OBS ? ENV_OBS : 0u;
constexpr unsigned NORMS = NORM_FEATURES + (NORM_REWARD ? 1u : 0u);

// Sums of one environment over a rollout, about the frozen shift, so that f32 keeps the variance. In the first rollout the shift
// is 0, and a quantity whose mean is a thousand times its deviation loses digits of it; the next rollout corrects that.
struct NormSums {
    float sum[NORMS > 0u ? NORMS : 1u], squares[NORMS > 0u ? NORMS : 1u];

    __device__ __forceinline__ void clear() {
#pragma unroll
        for (unsigned k = 0u; k < NORMS; ++k) sum[k] = squares[k] = 0.0f;
    }

    __device__ __forceinline__ void add(unsigned k, float distance) {
        sum[k] += distance;
        squares[k] = fmaf(distance, distance, squares[k]);
    }

    __device__ __forceinline__ void add_obs(const Normaliser& normaliser, unsigned k, float x) {
        if (NORM_OBS) add(k, x - normaliser.scales[k].x);
    }
};

__device__ __forceinline__ float normalise_obs(const Normaliser& normaliser, unsigned k, float x) {
    if (!NORM_OBS) return x;
    const float2 scale = normaliser.scales[k];
    return clamp(__fmul_rn(x - scale.x, scale.y), -normaliser.clip_obs, normaliser.clip_obs);
}

__device__ __forceinline__ float load_discounted(const Normaliser& normaliser, unsigned environment) {
    return NORM_REWARD ? normaliser.discounted[environment] : 0.0f;
}

__device__ __forceinline__ void store_discounted(const Normaliser& normaliser, unsigned environment, float discounted) {
    if (NORM_REWARD) normaliser.discounted[environment] = discounted;
}

// The reward that the learner sees; counts the discounted return and ends it with the episode.
__device__ __forceinline__ float normalise_reward(
    const Normaliser& normaliser, float reward, bool done, float gamma, float& discounted, NormSums& sums) {
    if (!NORM_REWARD) return reward;
    const float2 scale = normaliser.scales[NORM_FEATURES];
    discounted = fmaf(discounted, gamma, reward);
    sums.add(NORM_FEATURES, discounted - scale.x);
    if (done) discounted = 0.0f;
    return clamp(__fmul_rn(reward, scale.y), -normaliser.clip_reward, normaliser.clip_reward);
}

// Adds the block's sums into its partials, warp by warp. All threads call it; `warps` is shared memory for 2 NORMS doubles per
// warp, `stride` bytes apart.
__device__ __forceinline__ void merge_norm_warps(const NormSums& sums, const Normaliser& normaliser, double* warps, unsigned stride) {
    if (NORMS == 0u) return;
    double* mine = (double*)((unsigned char*)warps + threadIdx.x / WARP * stride);
#pragma unroll
    for (unsigned k = 0u; k < NORMS; ++k) {
        const double sum = warp_sum((double)sums.sum[k]), squares = warp_sum((double)sums.squares[k]);
        if (threadIdx.x % WARP == 0u) {
            mine[2u * k] = sum;
            mine[2u * k + 1u] = squares;
        }
    }
    __syncthreads();
    for (unsigned k = threadIdx.x; k < NORMS; k += blockDim.x) {
        double2 total = make_double2(0.0, 0.0);
        for (unsigned warp = 0u; warp < blockDim.x / WARP; ++warp) {
            const double* of_warp = (const double*)((const unsigned char*)warps + warp * stride);
            total.x += of_warp[2u * k];
            total.y += of_warp[2u * k + 1u];
        }
        normaliser.partials[blockIdx.x * NORMS + k] = total;
    }
}

// Merges all blocks' sums of `count` samples into the running statistics (Chan, Golub and LeVeque 1979) and freezes the scales
// of the next rollout. All threads of one block call it, after all others; `all_partials` are the partial sums of all devices, by rank.
__device__ __forceinline__ void merge_norm_blocks(const Normaliser& normaliser, unsigned blocks, u64 count) {
    const unsigned lane = threadIdx.x % WARP;
    for (unsigned k = threadIdx.x / WARP; k < NORMS; k += blockDim.x / WARP) {
        double sum = 0.0, squares = 0.0;
        for (unsigned block = lane; block < blocks; block += WARP) {
            const double2 partial = normaliser.all_partials[block * NORMS + k];
            sum += partial.x;
            squares += partial.y;
        }
        sum = warp_sum(sum);
        squares = warp_sum(squares);
        if (lane != 0u) continue;
        RunningNorm norm = normaliser.running[k];
        const double n = (double)count, total = norm.count + n;
        const double delta = (double)normaliser.scales[k].x + sum / n - norm.mean;
        const double spread = squares - sum * sum / n;
        norm.var = (norm.var * norm.count + (spread > 0.0 ? spread : 0.0) + delta * delta * (norm.count * n / total)) / total;
        norm.mean += delta * (n / total);
        norm.count = total;
        normaliser.running[k] = norm;
        normaliser.scales[k] = make_float2((float)norm.mean, (float)(1.0 / sqrt(norm.var + 1e-8)));
    }
}
