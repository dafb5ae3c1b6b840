// The barriers and collectives of a block and of a warp under their CUDA names, for a kernel on the host. Part of cuda_on_host.h. Every
// function notes the line of the kernel that called it, so that the engine can say where lanes have parted.
#pragma once
#include <cstring>

#define OPERANT_PLACE const char *file = __builtin_FILE(), int line = __builtin_LINE()

inline void __syncthreads(OPERANT_PLACE) {
    operant_host::engine->sync_threads(operant_host::lane(), false, {operant_host::SyncPoint::SyncThreads, line, file});
}
inline int __syncthreads_count(int value, OPERANT_PLACE) {
    return (int)operant_host::engine->sync_threads(operant_host::lane(), value != 0,
                                                   {operant_host::SyncPoint::SyncThreads, line, file});
}

namespace operant_host {

// Collectives of part of a warp are not part of the contract.
inline void whole_warp(unsigned mask, const ThreadPosition& place) {
    if (mask != 0xffffffffu) engine->fail(lane(), "the mask of a collective does not name all 32 lanes", place);
}

// The value of lane `source`, for any type of at most eight bytes.
template <class T>
inline T shuffle(unsigned mask, T value, unsigned source, const ThreadPosition& place) {
    static_assert(sizeof(T) <= 8, "a shuffle moves at most eight bytes");
    whole_warp(mask, place);
    uint64_t word = 0;
    std::memcpy(&word, &value, sizeof value);
    word = engine->gather(lane(), word, place)[source];
    std::memcpy(&value, &word, sizeof value);
    return value;
}

inline unsigned vote(unsigned mask, bool value, const ThreadPosition& place) {
    whole_warp(mask, place);
    return engine->vote(lane(), value, place);
}

}  // namespace operant_host

inline void __syncwarp(unsigned mask = 0xffffffffu, OPERANT_PLACE) {
    const operant_host::ThreadPosition place = {operant_host::SyncPoint::SyncWarp, line, file};
    operant_host::whole_warp(mask, place);
    operant_host::engine->vote(operant_host::lane(), false, place);
}

template <class T>
inline T __shfl_sync(unsigned mask, T value, int source, int width = 32, OPERANT_PLACE) {
    const unsigned lane = operant_host::lane()->lane;
    const unsigned from = (lane & ~(unsigned)(width - 1)) | ((unsigned)source & (unsigned)(width - 1));
    return operant_host::shuffle(mask, value, from, {operant_host::SyncPoint::Shuffle, line, file});
}
template <class T>
inline T __shfl_xor_sync(unsigned mask, T value, int lanes, int width = 32, OPERANT_PLACE) {
    const unsigned lane = operant_host::lane()->lane;
    const unsigned other = (lane ^ (unsigned)lanes) & 31u;
    // A lane of a later segment may be read from an earlier one, not the other way round.
    const unsigned from = other > (lane | (unsigned)(width - 1)) ? lane : other;
    return operant_host::shuffle(mask, value, from, {operant_host::SyncPoint::Shuffle, line, file});
}
template <class T>
inline T __shfl_down_sync(unsigned mask, T value, unsigned lanes, int width = 32, OPERANT_PLACE) {
    const unsigned lane = operant_host::lane()->lane;
    const unsigned from = lane + lanes > (lane | (unsigned)(width - 1)) ? lane : lane + lanes;
    return operant_host::shuffle(mask, value, from, {operant_host::SyncPoint::Shuffle, line, file});
}

inline unsigned __ballot_sync(unsigned mask, int value, OPERANT_PLACE) {
    return operant_host::vote(mask, value != 0, {operant_host::SyncPoint::Vote, line, file});
}
inline int __any_sync(unsigned mask, int value, OPERANT_PLACE) { return __ballot_sync(mask, value, file, line) != 0; }
inline int __all_sync(unsigned mask, int value, OPERANT_PLACE) {
    return __ballot_sync(mask, value, file, line) == 0xffffffffu;
}

// The twin of an instruction that a whole warp executes (mma, ldmatrix): every lane brings `in` and takes `out`; `compute`,
// which captures nothing, sees all 32 of both. `in` is copied before, so `out` may be the same memory.
inline void host_warp(const void* in, size_t in_size, void* out, size_t out_size, operant_host::WarpFunction compute,
                      OPERANT_PLACE) {
    operant_host::engine->host_warp(operant_host::lane(), in, in_size, out, out_size, compute,
                                    {operant_host::SyncPoint::HostWarp, line, file});
}
