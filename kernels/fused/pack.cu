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

static_assert(PACKED_WORDS == EXPECTED_PACKED_WORDS, "the host counts as the kernel does");

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
