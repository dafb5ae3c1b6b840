// Packs one parameter after a step: for the forward products, and transposed for the gradients of inputs.
#pragma once

// Puts W[n][k] where a product over k with this many columns reads it: a row's word, or half or all of a fragment's.
__device__ __forceinline__ void store_packed(float* matrix, bool fragments, unsigned columns, unsigned n, unsigned k, float value) {
    if (!fragments) {
        matrix[k * columns + n] = value;
        return;
    }
    const unsigned tiles = columns / 8u, together = tiles % 2u == 0u ? 2u : 1u;
    const unsigned block = k / K_TILE * (tiles / together) + n / 8u / together, lane = n % 8u * 4u + k % 8u / 2u;
    const unsigned register_ = PRECISION == BF16 ? k % 16u / 8u : k % 2u;
    const unsigned word = ((block * WARP + lane) * together + n / 8u % together) * 2u + register_;
    if (PRECISION == BF16) {
        ((unsigned short*)matrix)[word * 2u + k % 2u] = (unsigned short)pack_bf16(value, 0.0f);
    } else {
        ((unsigned*)matrix)[word] = to_tf32(value);
    }
}

// Puts parameter `index` of the flat vector where products read it: in the forward pass, and transposed for the gradient of the
// inputs. compose_phase packs tables and the weights after them.
__device__ inline void pack_parameter(unsigned index, float value, const FusedWeights& weights) {
    if (is_table_or_first_weight(index)) return;
    index = partial_index(index);
    // Unrolled, so that the shapes of layers are constants and not a table in memory.
#pragma unroll
    for (unsigned chain = 0u; chain < CHAINS; ++chain) {
#pragma unroll
        for (unsigned layer = 0u; layer <= LAYERS; ++layer) {
            const unsigned ins = inputs(layer), outs = outputs(chain, layer), words = (ins + 1u) * outs;
            if (index >= words) {
                index -= words;
                continue;
            }
            float* of_layer = weights.packed + packed_offset(chain, layer);
            if (index >= ins * outs) {
                of_layer[matrix_words(chain, layer) + index - ins * outs] = value;
                return;
            }
            const unsigned n = index / ins, k = index % ins;
            store_packed(of_layer, is_fragments(layer), padded_outputs(chain, layer), n, k, value);
            if (layer > 0u) store_packed(weights.transposed + transposed_offset(chain, layer), PRECISION != F32, padded_inputs(layer), k, n, value);
            return;
        }
    }
}
