// The stand-in for cuBLASLt (libcublasLt.so.13): matrix products on the host, in the streams of the stand-in for the driver.
//
// It holds its callers to what the real library asks of them: descriptors that agree, an algorithm that the heuristic gave for
// them, addresses as aligned as was promised, memory that lives, a vector of the output's type, no planning while a stream is
// in capture. Sums are single precision; a long one is split over k into parts in the caller's workspace. Unless the
// caller restricts reduction schemes, parts are added in another order at every launch, or rounded to the output's type first.
//
// For tests of what the real library may lack: OPERANT_HOST_BLAS_REFUSES lists epilogues that no algorithm has (none, bias,
// relu_bias, bias_gradient), OPERANT_HOST_BLAS_RECANTS (1) is how many algorithms the heuristic proposes that a launch then refuses,
// and OPERANT_HOST_BLAS_VERSION (130000).
#include "driver_calls.h"

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <vector>

// Without it the inner loops stay scalar; it changes no bit, since they sum nothing across lanes.
#if defined(__GNUC__) && !defined(__clang__)
#define VECTORISED __attribute__((optimize("O3")))
#else
#define VECTORISED
#endif

// The numbers are part of the library's binary interface; nothing of its headers is needed.
enum Status : unsigned {
    SUCCESS = 0,
    NOT_INITIALIZED = 1,
    INVALID_VALUE = 7,
    EXECUTION_FAILED = 13,
    INTERNAL_ERROR = 14,
    NOT_SUPPORTED = 15,
};
constexpr int R_32F = 0, R_16BF = 14;
constexpr int COMPUTE_32F = 68, COMPUTE_32F_FAST_TF32 = 77;
constexpr unsigned DEFAULT = 1, BIAS = 4, RELU_BIAS = 6, BGRADA = 256, BGRADB = 512;
constexpr unsigned INPLACE = 1, COMPUTE_TYPE = 2, OUTPUT_TYPE = 4;

struct Algorithm {
    uint64_t data[8];
};

struct HeuristicResult {
    Algorithm algorithm;
    size_t workspace;
    unsigned state;
    float waves;
    int reserved[4];
};

namespace {

struct Handle {};

struct Operation {
    int compute, scale;
    int transposed[2] = {0, 0};
    unsigned epilogue = DEFAULT;
    uint64_t vector = 0;
    int vector_type = -1;
};

struct Layout {
    int type;
    uint64_t rows, columns;
    int64_t stride;
};

struct Preference {
    uint64_t workspace = 0;
    unsigned schemes = INPLACE | COMPUTE_TYPE | OUTPUT_TYPE;
    unsigned alignment[4] = {256, 256, 256, 256};
};

// The live objects of a kind; a call with any other returns INVALID_VALUE.
template <class T>
struct Live {
    std::mutex mutex;
    std::set<T*> all;

    static Live& of() {
        static Live* const live = new Live;  // never destroyed: threads may outlive the order of destruction
        return *live;
    }
    static Status make(T** to, T value) {
        if (!to) return INVALID_VALUE;
        *to = new T(value);
        const std::lock_guard<std::mutex> lock(of().mutex);
        of().all.insert(*to);
        return SUCCESS;
    }
    static bool has(T* object) {
        const std::lock_guard<std::mutex> lock(of().mutex);
        return of().all.count(object) != 0;
    }
    static Status destroy(T* object) {
        const std::lock_guard<std::mutex> lock(of().mutex);
        if (of().all.erase(object) == 0) return INVALID_VALUE;
        delete object;
        return SUCCESS;
    }
};

template <class T>
Status set(T& attribute, const void* value, size_t bytes) {
    if (!value || bytes != sizeof(T)) return INVALID_VALUE;
    memcpy(&attribute, value, bytes);
    return SUCCESS;
}

float from_bf16(uint16_t bits) {
    const uint32_t word = (uint32_t)bits << 16;
    float value;
    memcpy(&value, &word, sizeof value);
    return value;
}

uint16_t to_bf16(float value) {
    uint32_t word;
    memcpy(&word, &value, sizeof word);
    if (value != value) return (uint16_t)(word >> 16 | 0x40);
    return (uint16_t)((word + 0x7fff + (word >> 16 & 1)) >> 16);  // to nearest, ties to even
}

// To nearest, ties away from zero, as cvt.rna does.
float to_tf32(float value) {
    uint32_t word;
    memcpy(&word, &value, sizeof word);
    if ((word & 0x7f800000) != 0x7f800000) word = (word + 0x1000) & ~0x1fffu;
    memcpy(&value, &word, sizeof value);
    return value;
}

size_t bytes_of(int type) { return type == R_16BF ? 2 : 4; }

float load(const void* memory, int type, size_t at) {
    return type == R_16BF ? from_bf16(static_cast<const uint16_t*>(memory)[at]) : static_cast<const float*>(memory)[at];
}

void store(void* memory, int type, size_t at, float value) {
    if (type == R_16BF) {
        static_cast<uint16_t*>(memory)[at] = to_bf16(value);
    } else {
        static_cast<float*>(memory)[at] = value;
    }
}

// D (m, n) = op(A) (m, k) op(B) (k, n), column-major.
struct ProductShape {
    uint64_t m, n, k;
};

Status shape_of(const Operation& operation, const Layout& a, const Layout& b, const Layout& c, const Layout& d, ProductShape& shape) {
    const auto turned = [](const Layout& layout, int transposed) {
        return transposed ? std::pair(layout.columns, layout.rows) : std::pair(layout.rows, layout.columns);
    };
    const auto [m, k] = turned(a, operation.transposed[0]);
    const auto [rows, n] = turned(b, operation.transposed[1]);
    if (rows != k || d.rows != m || d.columns != n || c.rows != m || c.columns != n) return INVALID_VALUE;
    for (const Layout* layout : {&a, &b, &c, &d}) {
        if (layout->rows == 0 || layout->columns == 0 || layout->stride < (int64_t)layout->rows) return INVALID_VALUE;
    }
    shape = {m, n, k};
    return SUCCESS;
}

const char* name_of(unsigned epilogue) {
    switch (epilogue) {
        case DEFAULT: return "none";
        case BIAS: return "bias";
        case RELU_BIAS: return "relu_bias";
        case BGRADA: case BGRADB: return "bias_gradient";
        default: return nullptr;
    }
}

bool is_refused(const char* epilogue) {
    const char* const list = getenv("OPERANT_HOST_BLAS_REFUSES");
    return list && (',' + std::string(list) + ',').find(',' + std::string(epilogue) + ',') != std::string::npos;
}

// The combinations of types that the real library documents.
bool is_supported(const Operation& operation, const Layout& a, const Layout& b, const Layout& c, const Layout& d) {
    const bool single = a.type == R_32F && d.type == R_32F;
    const bool half = a.type == R_16BF && (d.type == R_32F || d.type == R_16BF);
    const bool computed = (operation.compute == COMPUTE_32F && (single || half)) ||
                          (operation.compute == COMPUTE_32F_FAST_TF32 && single);
    const int vector_type = operation.vector_type == -1 ? d.type : operation.vector_type;
    const char* const epilogue = name_of(operation.epilogue);
    return computed && operation.scale == R_32F && b.type == a.type && c.type == d.type && epilogue && !is_refused(epilogue) &&
           (operation.epilogue == DEFAULT || vector_type == d.type);
}

// The best alignment of an address, up to 256 bytes.
uint64_t alignment_of(uint64_t pointer) { return pointer ? std::min<uint64_t>(pointer & -pointer, 256) : 256; }

// A number for all that an algorithm is chosen for.
uint64_t print_of(const Operation& operation, const Layout& a, const Layout& b, const Layout& c, const Layout& d) {
    uint64_t hash = 0xcbf29ce484222325u;
    const auto mix = [&](uint64_t word) { hash = (hash ^ word) * 0x100000001b3u; };
    for (const int word : {operation.compute, operation.transposed[0], operation.transposed[1], (int)operation.epilogue}) {
        mix((uint64_t)word);
    }
    for (const Layout* layout : {&a, &b, &c, &d}) {
        for (const uint64_t word : {(uint64_t)layout->type, layout->rows, layout->columns, (uint64_t)layout->stride}) mix(word);
    }
    return hash;
}

// The fields of an algorithm: their index in `data`.
enum Field { PRINT, WORKSPACE, PARTS, SCHEMES, ALIGN_A, ALIGN_B, ALIGN_D, ALIGN_VECTOR };

constexpr uint64_t MAX_PARTS = 4, MIN_PART = 16;

// All that a launch needs, copied when it is given to the stream.
struct Work {
    Operation operation;
    Layout a, b, c, d;
    ProductShape shape;
    Algorithm algorithm;
    float alpha, beta;
    const void *a_data, *b_data, *c_data;
    void *d_data, *vector;
    float* workspace;
};

// op(A) as (k, m) and op(B) as (k, n), row-major: the terms of a sum over k are a row apart.
std::vector<float> packed(const void* data, const Layout& layout, bool by_columns, bool tf32) {
    const uint64_t rows = by_columns ? layout.columns : layout.rows, length = by_columns ? layout.rows : layout.columns;
    std::vector<float> to(rows * length);
    for (uint64_t row = 0; row < rows; ++row) {
        for (uint64_t at = 0; at < length; ++at) {
            const uint64_t from = by_columns ? row * (uint64_t)layout.stride + at : at * (uint64_t)layout.stride + row;
            const float value = load(data, layout.type, from);
            to[row * length + at] = tf32 ? to_tf32(value) : value;
        }
    }
    return to;
}

// sums (m, n), column-major, of products over [from, to).
VECTORISED void sum(const ProductShape& shape, const float* a, const float* b, uint64_t from, uint64_t to, float* sums) {
    constexpr uint64_t COLUMNS = 4;  // at once, so that a row of A is read from the cache
    std::fill_n(sums, shape.m * shape.n, 0.0f);
    for (uint64_t first = 0; first < shape.n; first += COLUMNS) {
        const uint64_t last = std::min(first + COLUMNS, shape.n);
        for (uint64_t k = from; k < to; ++k) {
            const float* __restrict row = a + k * shape.m;
            for (uint64_t column = first; column < last; ++column) {
                const float factor = b[k * shape.n + column];
                float* __restrict into = sums + column * shape.m;
                for (uint64_t i = 0; i < shape.m; ++i) into[i] += row[i] * factor;
            }
        }
    }
}

// Sums over k of the elements as they are.
void bias_gradient(const Work& work, const void* data, const Layout& layout, bool by_columns) {
    const uint64_t length = by_columns ? layout.rows : layout.columns;
    const std::vector<float> values = packed(data, layout, by_columns, false);
    std::vector<float> sums(length, 0.0f);
    for (uint64_t k = 0; k < work.shape.k; ++k) {
        for (uint64_t i = 0; i < length; ++i) sums[i] += values[k * length + i];
    }
    for (uint64_t i = 0; i < length; ++i) store(work.vector, work.d.type, i, sums[i]);
}

void run(const Work& work) {
    static std::atomic<uint64_t> launches{0};
    const auto& [m, n, k] = work.shape;
    const bool tf32 = work.operation.compute == COMPUTE_32F_FAST_TF32;
    const bool a_by_columns = !work.operation.transposed[0], b_by_columns = work.operation.transposed[1];
    const std::vector<float> a = packed(work.a_data, work.a, a_by_columns, tf32);
    const std::vector<float> b = packed(work.b_data, work.b, b_by_columns, tf32);

    const uint64_t parts = work.algorithm.data[PARTS], size = m * n;
    const unsigned schemes = (unsigned)work.algorithm.data[SCHEMES];
    std::vector<float> own(parts == 1 ? size : 0);
    float* const sums = parts == 1 ? own.data() : work.workspace;
    for (uint64_t part = 0; part < parts; ++part) {
        sum(work.shape, a.data(), b.data(), k * part / parts, k * (part + 1) / parts, sums + part * size);
    }
    const uint64_t first = schemes & INPLACE ? launches++ : 0;
    const bool rounds = parts > 1 && schemes & OUTPUT_TYPE && work.d.type == R_16BF;
    const bool biased = work.operation.epilogue == BIAS || work.operation.epilogue == RELU_BIAS;
    for (uint64_t column = 0; column < n; ++column) {
        for (uint64_t row = 0; row < m; ++row) {
            float total = 0.0f;
            for (uint64_t part = 0; part < parts; ++part) {
                const float more = sums[(first + part) % parts * size + column * m + row];
                total += rounds ? from_bf16(to_bf16(more)) : more;
            }
            float value = work.alpha * total;
            if (work.beta != 0.0f) value += work.beta * load(work.c_data, work.c.type, column * (uint64_t)work.c.stride + row);
            if (biased) value += load(work.vector, work.d.type, row);
            if (work.operation.epilogue == RELU_BIAS && value < 0.0f) value = 0.0f;
            store(work.d_data, work.d.type, column * (uint64_t)work.d.stride + row, value);
        }
    }
    if (work.operation.epilogue == BGRADA) bias_gradient(work, work.a_data, work.a, a_by_columns);
    if (work.operation.epilogue == BGRADB) bias_gradient(work, work.b_data, work.b, b_by_columns);
}

bool lives(const void* data, size_t size, uint64_t alignment) {
    const uint64_t pointer = (uint64_t)(uintptr_t)data;
    return pointer && pointer % alignment == 0 && driver()->is_live(pointer, size);
}

bool lives(const void* data, const Layout& layout, uint64_t alignment) {
    return lives(data, ((layout.columns - 1) * (uint64_t)layout.stride + layout.rows) * bytes_of(layout.type), alignment);
}

// Whether all memory is allocated and aligned as the algorithm requires: checked when the work is enqueued, and when it runs.
bool has_its_memory(const Work& work) {
    const uint64_t* const chosen = work.algorithm.data;
    const unsigned epilogue = work.operation.epilogue;
    const size_t length = epilogue == BGRADB ? work.shape.n : work.shape.m;
    return lives(work.a_data, work.a, chosen[ALIGN_A]) && lives(work.b_data, work.b, chosen[ALIGN_B]) &&
           lives(work.d_data, work.d, chosen[ALIGN_D]) && (work.beta == 0.0f || lives(work.c_data, work.c, chosen[ALIGN_D])) &&
           (chosen[WORKSPACE] == 0 || lives(work.workspace, chosen[WORKSPACE], 256)) &&
           (epilogue == DEFAULT || lives(work.vector, length * bytes_of(work.d.type), chosen[ALIGN_VECTOR]));
}

}  // namespace

EXPORT size_t cublasLtGetVersion() {
    const char* const text = getenv("OPERANT_HOST_BLAS_VERSION");
    return text ? strtoull(text, nullptr, 10) : 130000;
}

EXPORT const char* cublasLtGetStatusName(unsigned status) {
    switch (status) {
        case SUCCESS: return "CUBLAS_STATUS_SUCCESS";
        case NOT_INITIALIZED: return "CUBLAS_STATUS_NOT_INITIALIZED";
        case INVALID_VALUE: return "CUBLAS_STATUS_INVALID_VALUE";
        case EXECUTION_FAILED: return "CUBLAS_STATUS_EXECUTION_FAILED";
        case INTERNAL_ERROR: return "CUBLAS_STATUS_INTERNAL_ERROR";
        case NOT_SUPPORTED: return "CUBLAS_STATUS_NOT_SUPPORTED";
        default: return "unknown";
    }
}

EXPORT const char* cublasLtGetStatusString(unsigned) { return "said by the stand-in on the host"; }

EXPORT unsigned cublasLtCreate(Handle** handle) {
    void* context = nullptr;
    if (!driver() || driver()->current(&context) != 0 || !context) return NOT_INITIALIZED;
    return Live<Handle>::make(handle, {});
}

EXPORT unsigned cublasLtDestroy(Handle* handle) { return Live<Handle>::destroy(handle); }

EXPORT unsigned cublasLtMatmulDescCreate(Operation** operation, int compute, int scale) {
    Operation made{};
    made.compute = compute;
    made.scale = scale;
    return Live<Operation>::make(operation, made);
}

EXPORT unsigned cublasLtMatmulDescDestroy(Operation* operation) { return Live<Operation>::destroy(operation); }

EXPORT unsigned cublasLtMatmulDescSetAttribute(Operation* operation, int attribute, const void* value, size_t bytes) {
    if (!Live<Operation>::has(operation)) return INVALID_VALUE;
    switch (attribute) {
        case 3: return set(operation->transposed[0], value, bytes);  // TRANSA
        case 4: return set(operation->transposed[1], value, bytes);  // TRANSB
        case 7: return set(operation->epilogue, value, bytes);       // EPILOGUE
        case 8: return set(operation->vector, value, bytes);         // BIAS_POINTER
        case 26: return set(operation->vector_type, value, bytes);   // BIAS_DATA_TYPE
        default: return INVALID_VALUE;
    }
}

EXPORT unsigned cublasLtMatrixLayoutCreate(Layout** layout, int type, uint64_t rows, uint64_t columns, int64_t stride) {
    return Live<Layout>::make(layout, {type, rows, columns, stride});
}

EXPORT unsigned cublasLtMatrixLayoutDestroy(Layout* layout) { return Live<Layout>::destroy(layout); }

EXPORT unsigned cublasLtMatmulPreferenceCreate(Preference** preference) { return Live<Preference>::make(preference, {}); }

EXPORT unsigned cublasLtMatmulPreferenceDestroy(Preference* preference) { return Live<Preference>::destroy(preference); }

EXPORT unsigned cublasLtMatmulPreferenceSetAttribute(Preference* preference, int attribute, const void* value, size_t bytes) {
    if (!Live<Preference>::has(preference)) return INVALID_VALUE;
    switch (attribute) {
        case 1: return set(preference->workspace, value, bytes);  // MAX_WORKSPACE_BYTES
        case 3: return set(preference->schemes, value, bytes);    // REDUCTION_SCHEME_MASK
        case 5: case 6: case 7: case 8:                           // MIN_ALIGNMENT_A_BYTES to D
            return set(preference->alignment[attribute - 5], value, bytes);
        default: return INVALID_VALUE;
    }
}

EXPORT unsigned cublasLtMatmulAlgoGetHeuristic(Handle* handle, Operation* operation, Layout* a, Layout* b, Layout* c, Layout* d,
                                               Preference* preference, int requested, HeuristicResult* results, int* found) {
    if (!Live<Handle>::has(handle) || !Live<Operation>::has(operation) || !Live<Preference>::has(preference) || requested <= 0 ||
        !results || !found) {
        return INVALID_VALUE;
    }
    for (Layout* layout : {a, b, c, d}) {
        if (!Live<Layout>::has(layout)) return INVALID_VALUE;
    }
    *found = 0;
    if (driver()->captures()) return INTERNAL_ERROR;
    ProductShape shape;
    if (const Status status = shape_of(*operation, *a, *b, *c, *d, shape); status != SUCCESS) return status;
    if (!is_supported(*operation, *a, *b, *c, *d)) return NOT_SUPPORTED;

    uint64_t parts = preference->schemes == 0 ? 1 : std::clamp<uint64_t>(shape.k / MIN_PART, 1, MAX_PARTS);
    const auto needed = [&] { return parts == 1 ? 0 : parts * shape.m * shape.n * sizeof(float); };
    while (needed() > preference->workspace) --parts;
    // The first proposal is none, as the real library's may be.
    int at = 0;
    if (requested > 1) {
        results[at] = {};
        results[at++].state = NOT_SUPPORTED;
    }
    // So may be those that come next, which a launch refuses.
    const char* const text = getenv("OPERANT_HOST_BLAS_RECANTS");
    for (int left = text ? atoi(text) : 1; left > 0 && at + 1 < requested; --left) {
        results[at] = {};
        results[at++].state = SUCCESS;
    }
    HeuristicResult& result = results[at++];
    result = {};
    result.workspace = needed();
    result.state = SUCCESS;
    result.waves = 1.0f;
    uint64_t* const data = result.algorithm.data;
    data[PRINT] = print_of(*operation, *a, *b, *c, *d);
    data[WORKSPACE] = needed();
    data[PARTS] = parts;
    data[SCHEMES] = preference->schemes;
    data[ALIGN_A] = preference->alignment[0];
    data[ALIGN_B] = preference->alignment[1];
    data[ALIGN_D] = std::max(preference->alignment[2], preference->alignment[3]);
    data[ALIGN_VECTOR] = alignment_of(operation->vector);
    *found = at;
    return SUCCESS;
}

EXPORT unsigned cublasLtMatmul(Handle* handle, Operation* operation, const void* alpha, const void* a, Layout* a_layout,
                               const void* b, Layout* b_layout, const void* beta, const void* c, Layout* c_layout, void* d,
                               Layout* d_layout, const Algorithm* algorithm, void* workspace, size_t workspace_bytes,
                               void* stream) {
    if (!Live<Handle>::has(handle) || !Live<Operation>::has(operation) || !alpha || !beta || !algorithm) return INVALID_VALUE;
    for (Layout* layout : {a_layout, b_layout, c_layout, d_layout}) {
        if (!Live<Layout>::has(layout)) return INVALID_VALUE;
    }
    const uint64_t* const chosen = algorithm->data;
    if (chosen[PRINT] == 0) return NOT_SUPPORTED;
    if (chosen[PRINT] != print_of(*operation, *a_layout, *b_layout, *c_layout, *d_layout)) return INVALID_VALUE;
    std::unique_ptr<Work> work(new Work{});
    work->operation = *operation;
    work->a = *a_layout, work->b = *b_layout, work->c = *c_layout, work->d = *d_layout;
    const Status status = shape_of(*operation, work->a, work->b, work->c, work->d, work->shape);
    if (status != SUCCESS) return status;
    work->algorithm = *algorithm;
    memcpy(&work->alpha, alpha, sizeof(float));
    memcpy(&work->beta, beta, sizeof(float));
    work->a_data = a, work->b_data = b, work->c_data = c, work->d_data = d;
    work->workspace = static_cast<float*>(workspace);
    work->vector = reinterpret_cast<void*>((uintptr_t)operation->vector);
    if (chosen[WORKSPACE] > workspace_bytes || !has_its_memory(*work)) return INVALID_VALUE;
    const auto run_it = [](void* state) {
        const Work& work = *static_cast<Work*>(state);
        const bool good = has_its_memory(work);
        if (good) run(work);
        return good;
    };
    const unsigned result =
        driver()->enqueue(stream, run_it, [](void* state) { delete static_cast<Work*>(state); }, work.release());
    return result == 0 ? SUCCESS : EXECUTION_FAILED;
}
