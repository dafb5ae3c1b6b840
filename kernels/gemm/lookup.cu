// Embedding tables: lookup, and the gradient of the tables with a fixed order of additions.
//
// in, out  indices (rows, index_row): of each item of an observation the row of its table; a table (table_rows, width) in f32; obs
//          (rows, obs_row): inputs that are no indices; out (rows, out_row), as products read them
//
// A part's table makes `places` vectors of a sample, each the sum of `entries` of its rows times `scale`: 49 cells of three indices are 49
// places of three entries, or one of 147 where all are added up.
//
//   gemm_lookup       one thread per number
//   gemm_lookup_back  partial gradients (chunks, table_rows, width), one warp for each chunk of samples and table row: it reads 32 indices
//                     at a time and adds, in order, the gradients of those equal to its row. 441 rows and 19 chunks are 8,379 warps.
#include "common/common.cuh"
#include "params.cuh"
#include "common/mma.cuh"
#include "gemm/element.cuh"

KERNEL(gemm_lookup, GemmLookupParams, 256, 1) {
    const u64 count = params.rows * params.columns;
    for (u64 at = (u64)blockIdx.x * blockDim.x + threadIdx.x; at < count; at += (u64)gridDim.x * blockDim.x) {
        const u64 row = at / params.columns;
        const unsigned j = (unsigned)(at % params.columns), made = params.places * params.width;
        float x = 0.0f;
        if (j < made) {
            const unsigned* entries = params.indices + row * params.index_row + params.first_index + j / params.width * params.entries;
            for (unsigned entry = 0u; entry < params.entries; ++entry) x += params.table[(u64)entries[entry] * params.width + j % params.width];
            x *= params.scale;
        } else if (j - made < params.passed) {
            x = read_element(params.obs, row * params.obs_row + (j - made));
        }
        write_element(params.out, row * params.out_row + params.first + j, x);
    }
}

KERNEL(gemm_lookup_back, GemmLookupParams, 256, 1) {
    const unsigned lane = threadIdx.x % WARP, all = params.places * params.entries;
    const u64 warps = (u64)gridDim.x * (blockDim.x / WARP), count = (u64)params.table_rows * params.chunks;
    for (u64 own = (u64)blockIdx.x * (blockDim.x / WARP) + threadIdx.x / WARP; own < count; own += warps) {
        const unsigned table_row = (unsigned)(own % params.table_rows);
        const u64 chunk = own / params.table_rows, begin = chunk * params.rows / params.chunks;
        const unsigned numbers = (unsigned)((chunk + 1u) * params.rows / params.chunks - begin) * all;
        for (unsigned first = 0u; first < params.width; first += WARP) {
            const unsigned w = first + lane;
            float sum = 0.0f;
            for (unsigned base = 0u; base < numbers; base += WARP) {
                const unsigned at = base + lane;
                const bool hit = at < numbers && params.indices[(begin + at / all) * params.index_row + params.first_index + at % all] == table_row;
                for (unsigned hits = __ballot_sync(ALL_LANES, hit); hits != 0u; hits &= hits - 1u) {
                    const unsigned found = base + (unsigned)__ffs((int)hits) - 1u;
                    const u64 from = (begin + found / all) * params.out_row + params.first + found % all / params.entries * params.width;
                    if (w < params.width) sum += read_element(params.out, from + w);
                }
            }
            if (w < params.width) params.shares[own * params.width + w] = sum * params.scale;
        }
    }
}
