// The interface between a kernel compiled for the host and the engine that runs it: the position of a thread, and the calls
// that a thread makes at synchronisation points. The driver passes this table to a module when it loads it (cuda_on_host.h).
#pragma once
#include <cstddef>
#include <cstdint>

namespace operant_host {

// Raised whenever something below changes; a module of another number is not loaded.
constexpr unsigned ENGINE_VERSION = 2;

constexpr unsigned WARP = 32;

struct Index {
    unsigned x, y, z;
};

// The data shared by the threads of one block that a kernel can read.
struct Block {
    Index index;           // blockIdx
    Index dim;             // blockDim
    Index grid;            // gridDim
    unsigned char* arena;  // the dynamic shared memory: a heap block of exactly the launch's size
};

// One thread.
struct Lane {
    Index index;     // threadIdx
    unsigned lane;   // index.x % 32
    Block* block;
};

// The synchronisation points. One is identified by its kind and its line: lanes that are at different ones have diverged.
enum class SyncPoint : unsigned {
    None,
    SyncWarp,
    Shuffle,
    Vote,
    HostWarp,
    SyncThreads,
    GridBarrier,
    End,
};

struct ThreadPosition {
    SyncPoint sync_point;
    int line;
    const char* file;
};

using WarpFunction = void (*)(const void* const in[32], void* const out[32]);

// The engine's functions. Each parks the calling lane until all that it waits for have arrived at the same place.
struct Engine {
    // The 32 values that the lanes of the warp brought; the pointer is valid until the lane's next synchronisation point.
    const uint64_t* (*gather)(Lane*, uint64_t value, ThreadPosition);
    // Bit i: lane i brought true.
    unsigned (*vote)(Lane*, bool value, ThreadPosition);
    // How many threads of the block brought true.
    unsigned (*sync_threads)(Lane*, bool value, ThreadPosition);
    void (*sync_grid)(Lane*, ThreadPosition);
    // The last lane computes for all; the inputs are copied before, so that `out` may be `in`.
    void (*host_warp)(Lane*, const void* in, size_t in_size, void* out, size_t out_size, WarpFunction, ThreadPosition);
    // Ends the process with a message about this lane.
    [[noreturn]] void (*fail)(Lane*, const char* what, ThreadPosition);
};

// A module's export under the name `operant_host_module`.
struct Module {
    unsigned version;             // ENGINE_VERSION
    bool sanitized;               // compiled under AddressSanitizer
    void (*attach)(const Engine*);
    Lane** (*current)();          // where the calling host thread keeps the lane that it runs
    int compiler;                 // the version of what compiled it: 13000 is 13.0
};

// A module's export for each kernel, under the kernel's name and `_host`.
struct Kernel {
    void (*run)(const void* params);
    size_t params_size;
    size_t params_align;
    unsigned max_threads;  // __launch_bounds__
};

}  // namespace operant_host
