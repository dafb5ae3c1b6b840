// Packs the flat parameters of a network for the kernels that run it; see packing.cuh. Once per change of the parameters.
//
// in   parameters  (P) f32, in the order of the checkpoints' tensors
// out  packed      (PACKED_WORDS) words
//
// One thread a word; 4-64-64-(2+1) in bf16 takes 12 blocks of 256 threads for 2,952 words.
#include "common/common.cuh"
#include "params.cuh"
#include "common/mma.cuh"
#include "common/packing.cuh"
#include "fused/tables.cuh"

static_assert(PACKED_WORDS == EXPECTED_PACKED_WORDS, "the host counts as the kernel does");

// Packed word `index` of a layer.
__device__ inline unsigned packed_word(const float* flat, unsigned chain, unsigned layer, unsigned index) {
    const unsigned ins = inputs(layer), outs = outputs(chain, layer), columns = padded_outputs(chain, layer);
    const float* weight = flat + param_offset(chain, layer);
    const unsigned matrix = matrix_words(chain, layer);
    if (index >= matrix) {
        const unsigned n = index - matrix;
        return n < outs ? __float_as_uint(flat[(layer == 0u ? first_bias(chain) : param_offset(chain, layer) + ins * outs) + n]) : 0u;
    }
    auto at = [&](unsigned n, unsigned k) {
        return n >= outs || k >= ins ? 0.0f : layer == 0u ? first_weight(flat, chain, n, k) : weight[n * ins + k];
    };
    if (!is_fragments(layer)) return __float_as_uint(at(index % columns, index / columns));
    const unsigned tiles = columns / 8u, together = tiles % 2u == 0u ? 2u : 1u;
    const unsigned register_ = index % 2u, tile = index / 2u % together, lane = index / (2u * together) % WARP;
    const unsigned block = index / (2u * together * WARP);
    const unsigned n = (block % (tiles / together) * together + tile) * 8u + lane / 4u;
    const unsigned k = block / (tiles / together) * K_TILE + lane % 4u * 2u;
    if (PRECISION == BF16) return pack_bf16(at(n, k + 8u * register_), at(n, k + 8u * register_ + 1u));
    return to_tf32(at(n, k + register_));
}

KERNEL(pack, PackParams, 256, 1) {
    unsigned index = blockIdx.x * blockDim.x + threadIdx.x;
    unsigned* out = (unsigned*)params.packed + index;
    // Unrolled, so that the shapes of layers are constants and not a table in memory.
#pragma unroll
    for (unsigned chain = 0u; chain < CHAINS; ++chain) {
#pragma unroll
        for (unsigned layer = 0u; layer <= LAYERS; ++layer) {
            const unsigned words = layer_words(chain, layer);
            if (index < words) {
                *out = packed_word(params.parameters, chain, layer, index);
                return;
            }
            index -= words;
        }
    }
}
