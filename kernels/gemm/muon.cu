// Muon's step of hidden matrices: five rounds of Newton and Schulz's iteration, X <- a X + (b A + c A A) X with A = X X^T, all in f32. Twin of
// operant-learn's cpu/update/muon.rs.
//
//   update_adam   first, of update.cu: the momentum, and in `gradient` what is made orthogonal (muon.cuh)
//   muon_sums     sums of its squares, a part of a matrix per block
//   muon_product  one of a round's three products, of all matrices: a tile of 32 x 32 numbers per block. The last one takes the step.
//
// X has as many rows as the shorter side of its matrix: of a tall matrix it is the transposed one, by its strides. It is by turns in `gradient` and
// in `other`. A number of a product adds up its terms in their order, as on the CPU, so that no bit depends on the order of blocks.
//
// The host makes the list of each launch's tiles (muon.rs), and gives EDGE (32), PART (numbers whose squares a block adds up), THREADS and BLOCK_BYTES.
// Worked example, 4-512-512-(2+1): of 512 x 4 and 512 x 512 numbers the square has 1 + 136 tiles, since those below its diagonal are mirrored, the
// polynomial 1 + 256, and the next X 16 + 256; sums have 1 + 64 parts.
#include "common/common.cuh"
#include "params.cuh"
#include "common/mma.cuh"
#include "gemm/element.cuh"
#include "common/adam.cuh"

// From one row of a tile in shared memory to the next, and the rows and columns of a tile that a thread computes.
constexpr unsigned STRIDE = EDGE + 4u, ROWS = 4u, COLUMNS = 2u;
static_assert(ROWS * COLUMNS * THREADS == EDGE * EDGE && BLOCK_BYTES == 2u * EDGE * STRIDE * 4u, "the host counts as the kernel does");
// The products of a round: A = X X^T, F = b A + c A A, and the next X = a X + F X.
constexpr unsigned SQUARE = 0u, POLYNOMIAL = 1u, NEXT = 2u;
// Jordan's, which bring singular values near 1 in few rounds, and the root mean square of a step's numbers.
constexpr float A = 3.4445f, B = -4.7750f, C = 2.0315f;
constexpr double STEP = 0.2;

// Whether the minibatch takes no step.
__device__ __forceinline__ bool is_skipped(const GemmMuonParams& params) {
    return params.progress->stopped != 0u && params.critic == 0u || params.progress->finite == 0u;
}

KERNEL(muon_sums, GemmMuonParams, THREADS, 1) {
    SHARED_ARENA(arena);
    if (is_skipped(params)) return;
    const MuonTile part = params.tiles[blockIdx.x];
    const MuonMatrix matrix = params.matrices[part.matrix];
    const unsigned begin = part.row * PART, end = min(begin + PART, matrix.rows * matrix.columns);
    double mine[1] = {}, all[1];
    for (unsigned at = begin + threadIdx.x; at < end; at += blockDim.x) {
        const double x = params.gradient[matrix.first + at];
        mine[0] += x * x;
    }
    block_sum(mine, (double*)arena, all);
    if (threadIdx.x == 0u) params.sums[matrix.parts + part.row] = all[0];
}

// The factor by which the first round's X has norm 1.
__device__ __forceinline__ float scale_of(const GemmMuonParams& params, const MuonMatrix& matrix, unsigned char* arena) {
    double mine[1] = {}, all[1];
    for (unsigned part = threadIdx.x; part < matrix.num_parts; part += blockDim.x) mine[0] += params.sums[matrix.parts + part];
    block_sum(mine, (double*)arena, all);
    return (float)(1.0 / (sqrt(all[0]) + 1e-7));
}

// The size of a matrix's step, with the learning rate that update_adam had.
__device__ __forceinline__ float step_of(const GemmMuonParams& params, const MuonMatrix& matrix) {
    double rate = params.report->learning_rate;
    if (KL_RATE && params.critic == 0u) rate = rate_after(params.adam, rate, params.progress->last_kl);
    if (is_value(matrix.first)) rate = value_rate(params.adam, rate);
    return (float)(rate * STEP * sqrt((double)max(matrix.rows, matrix.columns)));
}

// A matrix by its strides: number (i, k) is at[i row_stride + k column_stride] x factor, and zero outside.
struct Operand {
    const float* at;
    unsigned rows, columns, row_stride, column_stride;
    float factor;

    __device__ __forceinline__ float number(unsigned i, unsigned k) const {
        return i < rows && k < columns ? at[i * row_stride + k * column_stride] * factor : 0.0f;
    }

    __device__ __forceinline__ Operand transposed() const { return {at, columns, rows, column_stride, row_stride, factor}; }
};

// A tile of an operand in registers, on its way to shared memory: neighbouring threads have neighbouring numbers.
struct Staged {
    float numbers[EDGE * EDGE / THREADS];

    // Row and column within the tile of a thread's number.
    static __device__ __forceinline__ uint2 place(const Operand& of, unsigned number) {
        const unsigned at = threadIdx.x + number * THREADS, slow = at / EDGE, fast = at % EDGE;
        return of.column_stride == 1u ? make_uint2(slow, fast) : make_uint2(fast, slow);
    }

    __device__ __forceinline__ void load(const Operand& of, unsigned row, unsigned column) {
#pragma unroll
        for (unsigned n = 0u; n < EDGE * EDGE / THREADS; ++n) {
            const uint2 own = place(of, n);
            numbers[n] = of.number(row + own.x, column + own.y);
        }
    }

    // Column by column.
    __device__ __forceinline__ void store(const Operand& of, float* to) const {
#pragma unroll
        for (unsigned n = 0u; n < EDGE * EDGE / THREADS; ++n) {
            const uint2 own = place(of, n);
            to[own.y * STRIDE + own.x] = numbers[n];
        }
    }
};

// Adds to `sums`, numbers (row .., column ..) of left x right^T, their terms in their order.
__device__ __forceinline__ void add_product(
    const Operand& left, const Operand& right, const MuonTile& tile, unsigned char* arena, float (&sums)[ROWS][COLUMNS]) {
    float* const lefts = (float*)arena;
    float* const rights = lefts + EDGE * STRIDE;
    const float* const own_left = lefts + threadIdx.x / (EDGE / COLUMNS) * ROWS;
    const float* const own_right = rights + threadIdx.x % (EDGE / COLUMNS) * COLUMNS;
    const unsigned row = tile.row * EDGE, column = tile.column * EDGE;
    Staged of_left, of_right;
    of_left.load(left, row, 0u);
    of_right.load(right, column, 0u);
    for (unsigned first = 0u; first < left.columns; first += EDGE) {
        __syncthreads();
        of_left.store(left, lefts);
        of_right.store(right, rights);
        __syncthreads();
        // Those of the next terms arrive meanwhile.
        if (first + EDGE < left.columns) {
            of_left.load(left, row, first + EDGE);
            of_right.load(right, column, first + EDGE);
        }
#pragma unroll 8
        for (unsigned k = 0u; k < EDGE; ++k) {
            const float4 l = *(const float4*)(own_left + k * STRIDE);
            const float2 r = *(const float2*)(own_right + k * STRIDE);
            const float ls[ROWS] = {l.x, l.y, l.z, l.w}, rs[COLUMNS] = {r.x, r.y};
#pragma unroll
            for (unsigned i = 0u; i < ROWS; ++i)
#pragma unroll
                for (unsigned j = 0u; j < COLUMNS; ++j) sums[i][j] = fmaf(ls[i], rs[j], sums[i][j]);
        }
    }
}

KERNEL(muon_product, GemmMuonParams, THREADS, 4) {
    SHARED_ARENA(arena);
    if (is_skipped(params)) return;
    const MuonTile tile = params.tiles[blockIdx.x];
    const MuonMatrix matrix = params.matrices[tile.matrix];
    const unsigned product = params.product, columns = matrix.columns;
    const unsigned shortest = min(matrix.rows, columns), longest = max(matrix.rows, columns);
    const bool is_tall = matrix.rows > columns, is_odd = params.round % 2u == 1u;
    float* const in_gradient = params.gradient + matrix.first;
    float* const in_other = params.other + matrix.other;
    float* const squares = params.squares + matrix.square;
    float* const factors = params.factors + matrix.square;

    const float scale = params.round == 0u && product != POLYNOMIAL ? scale_of(params, matrix, arena) : 1.0f;
    const Operand x = {is_odd ? in_other : in_gradient, shortest, longest, is_tall ? 1u : columns, is_tall ? columns : 1u, scale};
    const Operand square = {squares, shortest, shortest, shortest, 1u, 1.0f};
    const Operand left = product == SQUARE ? x : Operand{product == NEXT ? factors : squares, shortest, shortest, shortest, 1u, product == NEXT ? 1.0f : C};
    const Operand right = product == SQUARE ? x : product == NEXT ? x.transposed() : square.transposed();

    const unsigned row = tile.row * EDGE + threadIdx.x / (EDGE / COLUMNS) * ROWS, column = tile.column * EDGE + threadIdx.x % (EDGE / COLUMNS) * COLUMNS;
    float sums[ROWS][COLUMNS];
#pragma unroll
    for (unsigned i = 0u; i < ROWS; ++i)
#pragma unroll
        for (unsigned j = 0u; j < COLUMNS; ++j)
            sums[i][j] = product == SQUARE ? 0.0f : product == NEXT ? A * x.number(row + i, column + j) : B * square.number(row + i, column + j);
    add_product(left, right, tile, arena, sums);

    const float step = params.last != 0u ? step_of(params, matrix) : 0.0f;
#pragma unroll
    for (unsigned i = 0u; i < ROWS; ++i) {
#pragma unroll
        for (unsigned j = 0u; j < COLUMNS; ++j) {
            const unsigned to_row = row + i, to_column = column + j;
            if (to_row >= shortest || to_column >= (product == NEXT ? longest : shortest)) continue;
            if (product == SQUARE) {
                squares[to_row * shortest + to_column] = sums[i][j];
                if (tile.row != tile.column) squares[to_column * shortest + to_row] = sums[i][j];
            } else if (product == POLYNOMIAL) {
                factors[to_row * shortest + to_column] = sums[i][j];
            } else {
                const unsigned at = to_row * x.row_stride + to_column * x.column_stride;
                if (params.last == 0u) {
                    (is_odd ? in_gradient : in_other)[at] = sums[i][j];
                } else {
                    const float moved = params.parameters[matrix.first + at] - __fmul_rn(step, sums[i][j]);
                    params.parameters[matrix.first + at] = moved;
                    write_element(params.weights.matrices, matrix.place + at / columns * matrix.row_stride + at % columns, moved);
                }
            }
        }
    }
}
