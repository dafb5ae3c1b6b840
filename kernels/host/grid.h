// The engine's state: the threads, warps and blocks of the grid that runs.
#pragma once
#include <cstdint>
#include <utility>
#include <vector>

#include "fiber.h"
#include "launch.h"

namespace operant_host {

struct Warp;
struct Team;
struct Grid;

struct Thread : Lane {
    Fiber fiber;
    Warp* warp;
};

enum class State { Ready, AtBlock, AtGrid, Done };

struct Warp {
    Team* team;
    Thread* threads;            // 32 of them
    State state;
    unsigned char order[WARP];  // of this pass
    unsigned position;          // how many lanes have parked in this pass
    ThreadPosition place;                // where the first of them did
    unsigned first;             // its lane
    // Two alternating buffers: a lane takes its result before it can reach the synchronisation point after the next.
    unsigned turn;
    uint64_t values[2][WARP];
    unsigned votes[2];
    const void* in[WARP];
    void* out[WARP];
    size_t in_size, out_size;
    WarpFunction compute;
};

// The threads of one block.
struct Team : Block {
    Grid* owner;
    Warp* warps;
    unsigned warp_count;
    unsigned arrived;  // warps at the barrier
    ThreadPosition place;       // where the first is
    unsigned first;    // its number
    unsigned turn;
    unsigned votes[2];
};

struct Grid {
    const Launch* launch;
    Fiber host;
    const void* params;
    size_t stack;
    std::vector<Team> teams;
    std::vector<Warp> warps;
    std::vector<Thread> threads;
    std::vector<Warp*> round;
    unsigned arrived;  // warps at the grid barrier
    ThreadPosition place;
    const Warp* first;
    unsigned done;
    uint64_t random;
    Fiber* last;       // who switched to a fiber that starts

    // splitmix64
    uint64_t draw() {
        uint64_t z = random += 0x9e3779b97f4a7c15ull;
        z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
        z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
        return z ^ (z >> 31);
    }
    // Below `limit`; the bias of the product does not matter here.
    unsigned below(unsigned limit) { return (unsigned)(((draw() >> 32) * limit) >> 32); }
    template <class T>
    void shuffle(T* items, size_t count) {
        for (size_t i = count; i > 1; --i) std::swap(items[i - 1], items[below((unsigned)i)]);
    }
};

// The position of a thread, for a message: `waits at __syncthreads (rollout.cu:12)`.
struct Text {
    char text[400];
};
Text where(const ThreadPosition& place);

// Ends the process with a message that names the kernel.
[[noreturn]] __attribute__((format(printf, 2, 3))) void die(const Grid& grid, const char* format, ...);

}  // namespace operant_host
