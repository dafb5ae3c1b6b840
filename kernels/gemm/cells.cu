// Layers with memory between matrix products: the gates' arithmetic, forward and back through time. CELL is 0 for minimal gated recurrent
// units with a highway gate (mingru), 1 for PyTorch's GRUCell, 2 for its LSTMCell.
//
// Row (t, s) of a matrix is step t of sequence s, at t x sequences + s. Gate g of unit j is column g x width + j. The state is f32: h, and
// c after all h for lstm; `initial` (sequences, states) before the first step, `after` (steps, sequences, states) after each, already
// zero if the next step begins an episode.
//
//   gemm_see        copies h before the first step to the input of the product with the state
//   gemm_cell       the gates, the outputs, and the state after the step
//   gemm_cell_back  the gradients of the gates and of the state before a step, from the gradient of the outputs
//
// The gates of mingru do not depend on the state: one launch computes all steps, one thread for each unit of a sequence. For gru and lstm
// there is one launch for each step, after the product with the state. 256 sequences of 64 units are 64 blocks of 256 threads.
#include "common/common.cuh"
#include "params.cuh"
#include "common/mma.cuh"
#include "gemm/element.cuh"

constexpr unsigned MINGRU = 0u, GRU = 1u, LSTM = 2u;
constexpr bool SEES_STATE = CELL != MINGRU;
constexpr unsigned GATES = CELL == LSTM ? 4u : 3u, STATES_A_UNIT = CELL == LSTM ? 2u : 1u;

__device__ __forceinline__ float sigmoid(float x) { return fmaf(0.5f, tanh_rational(0.5f * x), 0.5f); }

// Gradients of the inputs of a sigmoid and a hyperbolic tangent, from their results.
__device__ __forceinline__ float of_sigmoid(float y, float dy) { return dy * (y * (1.0f - y)); }
__device__ __forceinline__ float of_tanh(float y, float dy) { return dy * fmaf(-y, y, 1.0f); }

struct Stepped {
    float gates[GATES], after[STATES_A_UNIT], y;
};

// One step of a unit: `z` and `hz` are the contributions of input and state to the gates, `x` the input that the highway gate mixes in.
__device__ __forceinline__ Stepped step_of(const float (&z)[GATES], const float (&hz)[GATES], const float (&before)[STATES_A_UNIT], float x) {
    Stepped made;
    if (CELL == MINGRU) {
        const float candidate = z[0] < 0.0f ? sigmoid(z[0]) : z[0] + 0.5f, update = sigmoid(z[1]), highway = sigmoid(z[2]);
        made.after[0] = fmaf(update, candidate - before[0], before[0]);
        made.gates[0] = candidate, made.gates[1] = update, made.gates[2] = highway;
        made.y = fmaf(highway, made.after[0] - x, x);
    } else if (CELL == GRU) {
        const float reset = sigmoid(z[0] + hz[0]), update = sigmoid(z[1] + hz[1]), candidate = tanh_rational(fmaf(reset, hz[2], z[2]));
        made.after[0] = made.y = fmaf(update, before[0] - candidate, candidate);
        made.gates[0] = reset, made.gates[1] = update, made.gates[2] = candidate;
    } else {
        constexpr unsigned C = STATES_A_UNIT - 1u, OUT = GATES - 1u;
        const float input = sigmoid(z[0] + hz[0]), forget = sigmoid(z[1] + hz[1]), candidate = tanh_rational(z[2] + hz[2]);
        const float output = sigmoid(z[OUT] + hz[OUT]);
        made.after[C] = fmaf(forget, before[C], input * candidate);
        made.after[0] = made.y = output * tanh_rational(made.after[C]);
        made.gates[0] = input, made.gates[1] = forget, made.gates[2] = candidate, made.gates[OUT] = output;
    }
    return made;
}

struct Slopes {
    // Gradients of the input's contribution to the gates, and of the state's contribution to the last gate.
    float gates[GATES], last_of_state;
    // Gradient of the state before the step, without its contribution through the gates.
    float before[STATES_A_UNIT];
    // Gradient of the input through the highway gate.
    float x;
};

// The gradient of a step: `dy` is dL/d(output), `after` is dL/d(state after the step); `hz` is the state's contribution to the last gate.
__device__ __forceinline__ Slopes slopes_of(const float (&gates)[GATES], float hz, const float (&before)[STATES_A_UNIT], float x, float dy,
                                            const float (&after)[STATES_A_UNIT]) {
    Slopes made = {};
    if (CELL == MINGRU) {
        const float candidate = gates[0], update = gates[1], highway = gates[2], h = before[0];
        const float now = fmaf(update, candidate - h, h), d = fmaf(dy, highway, after[0]), by_candidate = d * update;
        made.gates[0] = candidate < 0.5f ? of_sigmoid(candidate, by_candidate) : by_candidate;
        made.gates[1] = of_sigmoid(update, d * (candidate - h));
        made.gates[2] = of_sigmoid(highway, dy * (now - x));
        made.before[0] = d * (1.0f - update);
        made.x = dy * (1.0f - highway);
    } else if (CELL == GRU) {
        const float reset = gates[0], update = gates[1], candidate = gates[2], d = dy + after[0];
        const float by_candidate = of_tanh(candidate, d * (1.0f - update));
        made.gates[0] = of_sigmoid(reset, by_candidate * hz);
        made.gates[1] = of_sigmoid(update, d * (before[0] - candidate));
        made.gates[2] = by_candidate;
        made.last_of_state = by_candidate * reset;
        made.before[0] = d * update;
    } else {
        constexpr unsigned C = STATES_A_UNIT - 1u, OUT = GATES - 1u;
        const float input = gates[0], forget = gates[1], candidate = gates[2], output = gates[OUT], d = dy + after[0];
        const float squashed = tanh_rational(fmaf(forget, before[C], input * candidate));
        const float by_cell = after[C] + of_tanh(squashed, d * output);
        made.gates[0] = of_sigmoid(input, by_cell * candidate);
        made.gates[1] = of_sigmoid(forget, by_cell * before[C]);
        made.gates[2] = of_tanh(candidate, by_cell * input);
        made.gates[OUT] = made.last_of_state = of_sigmoid(output, d * squashed);
        made.before[0] = 0.0f;
        made.before[C] = by_cell * forget;
    }
    return made;
}

// The state of unit `j` of sequence `s` before step `t`.
__device__ __forceinline__ void state_before(const GemmCellParams& params, unsigned t, u64 s, unsigned j, float (&state)[STATES_A_UNIT]) {
    const float* from = t == 0u ? params.initial + s * params.states : params.after + ((t - 1u) * params.sequences + s) * params.states;
#pragma unroll
    for (unsigned k = 0u; k < STATES_A_UNIT; ++k) state[k] = from[params.state + k * params.width + j];
}

// Whether row `row` continues the episode of the previous step.
__device__ __forceinline__ bool goes_on(const GemmCellParams& params, u64 row) { return !params.keep || params.keep[row] > 0.0f; }

// Zeros the padding columns, which the next product reads.
__device__ __forceinline__ void clear_past(void* to, u64 row, unsigned columns, unsigned width) {
    for (unsigned k = columns; k < width; ++k) write_element(to, row * width + k, 0.0f);
}

KERNEL(gemm_see, GemmCellParams, 256, 1) {
    const u64 count = params.sequences * params.out_row;
    for (u64 at = (u64)blockIdx.x * blockDim.x + threadIdx.x; at < count; at += (u64)gridDim.x * blockDim.x) {
        const u64 s = at / params.out_row;
        const unsigned j = (unsigned)(at % params.out_row);
        write_element(params.seen, at, j < params.width ? params.initial[s * params.states + params.state + j] : 0.0f);
    }
}

// Steps from `first` on, `steps` of them, of all `length`.
KERNEL(gemm_cell, GemmCellParams, 256, 1) {
    const u64 count = params.sequences * params.width;
    for (u64 at = (u64)blockIdx.x * blockDim.x + threadIdx.x; at < count; at += (u64)gridDim.x * blockDim.x) {
        const u64 s = at / params.width;
        const unsigned j = (unsigned)(at % params.width);
        for (unsigned t = params.first; t < params.first + params.steps; ++t) {
            const u64 row = t * params.sequences + s, gates = row * params.gate_row + j;
            float z[GATES], hz[GATES], before[STATES_A_UNIT];
#pragma unroll
            for (unsigned g = 0u; g < GATES; ++g) {
                z[g] = params.gates[gates + g * params.width];
                hz[g] = SEES_STATE ? params.of_state[gates + g * params.width] : 0.0f;
            }
            state_before(params, t, s, j, before);
            const Stepped made = step_of(z, hz, before, SEES_STATE ? 0.0f : read_element(params.input, row * params.input_row + j));
#pragma unroll
            for (unsigned g = 0u; g < GATES; ++g) params.gates[gates + g * params.width] = made.gates[g];
            const bool has_next = t + 1u < params.length, kept = !has_next || goes_on(params, row + params.sequences);
#pragma unroll
            for (unsigned k = 0u; k < STATES_A_UNIT; ++k)
                params.after[row * params.states + params.state + k * params.width + j] = kept ? made.after[k] : 0.0f;
            write_element(params.out, row * params.out_row + j, made.y);
            if (j == 0u) clear_past(params.out, row, params.width, params.out_row);
            if (!SEES_STATE || !has_next) continue;
            write_element(params.seen, (row + params.sequences) * params.out_row + j, kept ? made.after[0] : 0.0f);
            if (j == 0u) clear_past(params.seen, row + params.sequences, params.width, params.out_row);
        }
    }
}

// The same steps, last to first.
KERNEL(gemm_cell_back, GemmCellParams, 256, 1) {
    const u64 count = params.sequences * params.width;
    for (u64 at = (u64)blockIdx.x * blockDim.x + threadIdx.x; at < count; at += (u64)gridDim.x * blockDim.x) {
        const u64 s = at / params.width;
        const unsigned j = (unsigned)(at % params.width);
        // The gradient of the state after a step. Nothing depends on the state after the last one.
        float after[STATES_A_UNIT] = {};
        float* carried = SEES_STATE ? params.d_state + s * (STATES_A_UNIT * params.width) + j : (float*)0;
        if (SEES_STATE && params.first + params.steps < params.length) {
#pragma unroll
            for (unsigned k = 0u; k < STATES_A_UNIT; ++k) after[k] = carried[k * params.width];
            after[0] += params.back[s * params.out_row + j];
        }
        for (unsigned t = params.first + params.steps; t-- > params.first;) {
            const u64 row = t * params.sequences + s, gates = row * params.gate_row + j;
            const bool kept = t + 1u == params.length || goes_on(params, row + params.sequences);
            float values[GATES], before[STATES_A_UNIT];
#pragma unroll
            for (unsigned g = 0u; g < GATES; ++g) values[g] = params.gates[gates + g * params.width];
#pragma unroll
            for (unsigned k = 0u; k < STATES_A_UNIT; ++k) after[k] = kept ? after[k] : 0.0f;
            state_before(params, t, s, j, before);
            const float hz = CELL == GRU ? params.of_state[gates + (GATES - 1u) * params.width] : 0.0f;
            const float x = SEES_STATE ? 0.0f : read_element(params.input, row * params.input_row + j);
            const Slopes made = slopes_of(values, hz, before, x, read_element(params.delta, row * params.out_row + j), after);
#pragma unroll
            for (unsigned g = 0u; g < GATES; ++g) write_element(params.d_gates, gates + g * params.width, made.gates[g]);
            if (j == 0u) clear_past(params.d_gates, row, GATES * params.width, params.gate_row);
            if (CELL == GRU) {
#pragma unroll
                for (unsigned g = 0u; g < GATES; ++g)
                    write_element(params.d_of_state, gates + g * params.width, g + 1u < GATES ? made.gates[g] : made.last_of_state);
                if (j == 0u) clear_past(params.d_of_state, row, GATES * params.width, params.gate_row);
            }
            if (!SEES_STATE) {
                params.through[row * params.input_row + j] = made.x;
                if (j == 0u)
                    for (unsigned k = params.width; k < params.input_row; ++k) params.through[row * params.input_row + k] = 0.0f;
            }
#pragma unroll
            for (unsigned k = 0u; k < STATES_A_UNIT; ++k) after[k] = made.before[k];
        }
        if (SEES_STATE) {
#pragma unroll
            for (unsigned k = 0u; k < STATES_A_UNIT; ++k) carried[k * params.width] = after[k];
        }
    }
}
