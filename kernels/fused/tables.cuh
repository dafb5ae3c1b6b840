// Embeddings in the fused kernels: the tables T and the layer W after them run as one layer C over the one-hot bits of the indices.
//
// in   parameters of a chain: T (TABLE_ROWS, TABLE_WIDTH), W (n, TABLE_INPUTS), b (n), then the other layers
// out  C (n, features): C[n][f] = scale sum_d W[n][column + d] T[row][d], where feature f is one row of one part's table at one position;
//      a feature that is no index keeps its column of W. The kernels run C as a first layer over bits (bag).
//
// The gradient goes back from C: dW[n][column + d] = sum over the features of this column of scale dC[n][f] T[row][d], and
// dT[row][d] = sum over positions and n of scale dC[n][f] W[n][column + d].
//
//   reduce_first_layer  dC, the blocks' partial gradients added up in the order of the blocks; one thread per number
//   tables_gradient     dT and dW from dC; one warp per parameter
//   compose_phase       C from T and W after each Adam step, where products read it; one thread per number
//
// Specialised by TABLES: for each part {first feature, positions, rows of its table, first input of W, inputs of W from one position to
// the next (0: positions are added up), first row of the table among all, scale}. Without TABLES the first layer is a separate layer.
//
// Worked example: MiniGrid's 49 cells with 20 values each and a direction with 4, embed_width 8, 64 units: T has 24 x 8 numbers, W 64 x 400
// and C 64 x 984. Each number of C is 8 multiply-adds. A sample adds 148 columns of C, instead of reading 148 rows of T and computing
// 64 x 400 products.
#pragma once

#ifdef TABLES

struct Table {
    unsigned first, positions, rows, column, step, row;
    float scale;
};

__device__ __forceinline__ constexpr Table table(unsigned part) {
    constexpr Table tables[] = TABLES;
    return tables[part];
}

constexpr unsigned TABLE_NUMBERS = TABLE_ROWS * TABLE_WIDTH;
// Inputs of W that come from tables.
constexpr unsigned EMBEDDED = TABLE_INPUTS - TABLE_PASSED;

// The number of T's and W's parameters of a chain.
__device__ __forceinline__ constexpr unsigned made_of(unsigned chain) { return TABLE_NUMBERS + TABLE_INPUTS * outputs(chain, 0u); }

// Numbers of T and W minus those of C, summed over the chains before `chains`; modulo 2^32, as C may be larger.
__device__ __forceinline__ constexpr unsigned fewer(unsigned chains) {
    unsigned numbers = 0u;
    for (unsigned chain = 0u; chain < chains; ++chain) numbers += made_of(chain) - inputs(0u) * outputs(chain, 0u);
    return numbers;
}

#else

__device__ __forceinline__ constexpr unsigned made_of(unsigned) { return 0u; }
__device__ __forceinline__ constexpr unsigned fewer(unsigned) { return 0u; }

#endif

// The offset of a layer in the flat parameters. The first layer begins with the tables if there are any.
__device__ __forceinline__ constexpr unsigned param_offset(unsigned chain, unsigned layer) {
    return flat_offset(chain, layer) + fewer(layer > 0u ? chain + 1u : chain);
}

// Whether p is a parameter of T or W.
__device__ __forceinline__ bool is_table_or_first_weight(unsigned p) {
    bool is = false;
#pragma unroll
    for (unsigned chain = 0u; chain < CHAINS; ++chain) is |= p - param_offset(chain, 0u) < made_of(chain);
    return is;
}

// The index of any other parameter in a partial gradient, which has C and whose layers lie at flat_offset.
__device__ __forceinline__ unsigned partial_index(unsigned p) {
    unsigned place = p;
#pragma unroll
    for (unsigned chain = 0u; chain < CHAINS; ++chain)
        if (p >= param_offset(chain, 0u) + made_of(chain)) place = p - fewer(chain + 1u);
    return place;
}

// Weight [n][f] of a chain's first layer.
__device__ inline float first_weight(const float* flat, unsigned chain, unsigned n, unsigned f) {
    const float* of_chain = flat + param_offset(chain, 0u);
#ifdef TABLES
    const float* w = of_chain + TABLE_NUMBERS + n * TABLE_INPUTS;
    unsigned passed = f;
#pragma unroll
    for (unsigned part = 0u; part < TABLE_PARTS; ++part) {
        const Table of = table(part);
        const unsigned at = f - of.first;
        if (at < of.positions * of.rows) {
            const float *row = of_chain + (of.row + at % of.rows) * TABLE_WIDTH, *column = w + of.column + at / of.rows * of.step;
            float sum = 0.0f;
#pragma unroll 8
            for (unsigned d = 0u; d < TABLE_WIDTH; ++d) sum = fmaf(column[d], row[d], sum);
            return sum * of.scale;
        }
        if (f > of.first) passed -= of.positions * of.rows;
    }
    return w[EMBEDDED + passed];
#else
    return of_chain[n * inputs(0u) + f];
#endif
}

// The offset of the bias of a chain's first layer.
__device__ __forceinline__ constexpr unsigned first_bias(unsigned chain) {
    return param_offset(chain, 0u) + (made_of(chain) > 0u ? made_of(chain) : inputs(0u) * outputs(chain, 0u));
}
