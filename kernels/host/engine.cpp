// Runs a grid: every thread is a fiber that runs until a synchronisation point. The lanes of a warp run one after another until each
// is parked at the same synchronisation point; a warp that waits for its block or for the grid goes back to the scheduler, which runs
// the warps that are ready, round after round. In a cooperative launch all blocks are alive at once; in an ordinary one they run one
// after another, on a shuffled device two at a time.
//
// Example: 64 threads, `if (threadIdx.x == 0) arena[0] = 7; __syncthreads(); x = __shfl_sync(~0u, arena[0], 5);`
//   round 1: lanes 0..31 of warp 0 park at __syncthreads, then those of warp 1; all are there, so both become ready
//   round 2: lanes 0..31 of warp 0 park at __shfl_sync; the last settles it, each takes lane 5's value and ends; warp 1
//
// Errors that end the process with a message: lanes of a warp, warps of a block or blocks of a grid that wait at different
// synchronisation points, a thread that ended while others wait, GRID_BARRIER in an ordinary launch.
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <vector>

#include "grid.h"

namespace operant_host {
namespace {

bool same(const ThreadPosition& a, const ThreadPosition& b) {
    return a.sync_point == b.sync_point && a.line == b.line && (a.file == b.file || strcmp(a.file, b.file) == 0);
}

void go(Thread& thread, Fiber& to, bool last) { switch_fiber(thread.fiber, to, last); }

void go(Thread& from, Thread& to, bool last) {
    Grid& grid = *from.warp->team->owner;
    grid.last = &from.fiber;
    *grid.launch->current = &to;
    switch_fiber(from.fiber, to.fiber, last);
}

void begin_pass(Grid& grid, Warp& warp) {
    warp.position = 0;
    if (grid.launch->order == Order::Shuffled) grid.shuffle(warp.order, WARP);
}

void arrive_at_block(Warp& warp) {
    Team& team = *warp.team;
    Grid& grid = *team.owner;
    const unsigned number = (unsigned)(&warp - team.warps);
    if (team.arrived == 0) {
        team.place = warp.place;
        team.first = number;
    } else if (!same(team.place, warp.place)) {
        die(grid, "the warps of block %u have diverged: warp %u %s, warp %u %s", team.index.x, team.first,
            where(team.place).text, number, where(warp.place).text);
    }
    warp.state = State::AtBlock;
    if (++team.arrived < team.warp_count) return;
    team.arrived = 0;
    team.turn ^= 1;
    team.votes[team.turn] = 0;
    for (unsigned i = 0; i < team.warp_count; ++i) team.warps[i].state = State::Ready;
}

void arrive_at_grid(Warp& warp) {
    Grid& grid = *warp.team->owner;
    if (!grid.launch->cooperative) {
        die(grid, "GRID_BARRIER (%s:%d) in an ordinary launch: launch it cooperatively", warp.place.file, warp.place.line);
    }
    if (grid.arrived == 0) {
        grid.place = warp.place;
        grid.first = &warp;
    } else if (!same(grid.place, warp.place)) {
        die(grid, "the blocks have diverged: block %u %s, block %u %s", grid.first->team->index.x, where(grid.place).text,
            warp.team->index.x, where(warp.place).text);
    }
    warp.state = State::AtGrid;
    if (++grid.arrived < grid.warps.size()) return;
    grid.arrived = 0;
    for (Warp& each : grid.warps) each.state = State::Ready;
}

// All lanes wait at warp.place. True: the warp continues at once.
bool settle(Grid& grid, Warp& warp) {
    switch (warp.place.sync_point) {
        case SyncPoint::SyncThreads: arrive_at_block(warp); return false;
        case SyncPoint::GridBarrier: arrive_at_grid(warp); return false;
        case SyncPoint::End:
            warp.state = State::Done;
            ++grid.done;
            return false;
        case SyncPoint::HostWarp: {
            // A copy of exactly the size, so that a read beyond an input is seen.
            const size_t bytes = warp.in_size ? warp.in_size : 1;
            const std::unique_ptr<unsigned char[]> copies(new unsigned char[WARP * bytes]);
            const void* in[WARP];
            for (unsigned i = 0; i < WARP; ++i) {
                unsigned char* copy = copies.get() + i * bytes;
                memcpy(copy, warp.in[i], warp.in_size);
                in[i] = copy;
            }
            warp.compute(in, warp.out);
            break;
        }
        default: break;
    }
    warp.turn ^= 1;
    warp.votes[warp.turn] = 0;
    // A shuffled device also changes the warp now and then.
    return grid.launch->order != Order::Shuffled || grid.below(8) != 0;
}

// The calling lane waits at `place` until all lanes of the synchronisation point have arrived.
void park(Thread& thread, const ThreadPosition& place) {
    Warp& warp = *thread.warp;
    Grid& grid = *warp.team->owner;
    if (warp.position == 0) {
        warp.place = place;
        warp.first = thread.lane;
    } else if (!same(warp.place, place)) {
        const unsigned number = (unsigned)(&warp - warp.team->warps);
        die(grid, "the lanes of warp %u of block %u have diverged: thread %u %s, thread %u %s", number,
            warp.team->index.x, warp.threads[warp.first].index.x, where(warp.place).text, thread.index.x,
            where(place).text);
    }
    const bool ends = place.sync_point == SyncPoint::End;
    if (++warp.position < WARP) {
        if (warp.position + 2 < WARP) fetch(warp.threads[warp.order[warp.position + 2]].fiber);
        go(thread, warp.threads[warp.order[warp.position]], ends);
        return;
    }
    const bool on = settle(grid, warp);
    begin_pass(grid, warp);
    if (!on) {
        go(thread, grid.host, ends);
        return;
    }
    Thread& next = warp.threads[warp.order[0]];
    if (&next != &thread) go(thread, next, false);
}

#ifdef __SANITIZE_ADDRESS__
#define NOT_SANITIZED __attribute__((no_sanitize("address")))
#else
#define NOT_SANITIZED
#endif

NOT_SANITIZED void thread_main(void* argument) {
    Thread& thread = *static_cast<Thread*>(argument);
    Grid& grid = *thread.warp->team->owner;
    arrived(*grid.last);
    grid.launch->kernel->run(grid.params);
    park(thread, {SyncPoint::End, 0, ""});
    die(grid, "an ended thread was continued");
}

// Threads and warps of `team` as if they were new, for the block of that number.
void begin_block(Grid& grid, Team& team, unsigned index, const std::vector<void*>& stacks) {
    const Launch& launch = *grid.launch;
    team.index = {index, 0, 0};
    team.arrived = team.turn = 0;
    team.votes[0] = team.votes[1] = 0;
    memset(team.arena, 0xff, launch.shared);
    for (unsigned w = 0; w < team.warp_count; ++w) {
        Warp& warp = team.warps[w];
        warp.state = State::Ready;
        warp.turn = 0;
        warp.votes[0] = warp.votes[1] = 0;
        for (unsigned i = 0; i < WARP; ++i) {
            warp.order[i] = (unsigned char)(launch.order == Order::Reverse ? WARP - 1 - i : i);
            Thread& thread = warp.threads[i];
            const size_t number = (size_t)(&thread - grid.threads.data());
            thread.index = {w * WARP + i, 0, 0};
            thread.lane = i;
            thread.block = &team;
            // Staggered, or the tops of all stacks would fall into the same few sets of the cache.
            const size_t offset = number % 21 * 192;
            prepare(thread.fiber, stacks[number], grid.stack - offset, thread_main, &thread);
        }
        begin_pass(grid, warp);
    }
}

[[noreturn]] void stuck(const Grid& grid) {
    const Warp *waits = nullptr, *other = nullptr;
    for (const Warp& warp : grid.warps) {
        if (warp.state != State::Done && !waits) waits = &warp;
    }
    for (const Warp& warp : grid.warps) {
        if (warp.state != waits->state && !other) other = &warp;
    }
    if (!other) other = waits;
    die(grid, "threads wait for ever: warp %u of block %u %s, but warp %u of block %u %s",
        (unsigned)(waits - waits->team->warps), waits->team->index.x, where(waits->place).text,
        (unsigned)(other - other->team->warps), other->team->index.x, where(other->place).text);
}

// Runs the warps that are ready, in rounds, until all have ended.
void run_rounds(Grid& grid) {
    grid.arrived = 0;
    grid.done = (unsigned)std::count_if(grid.warps.begin(), grid.warps.end(),
                                        [](const Warp& warp) { return warp.state == State::Done; });
    while (grid.done < grid.warps.size()) {
        grid.round.clear();
        for (Warp& warp : grid.warps) {
            if (warp.state == State::Ready) grid.round.push_back(&warp);
        }
        if (grid.round.empty()) stuck(grid);
        if (grid.launch->order == Order::Reverse) std::reverse(grid.round.begin(), grid.round.end());
        if (grid.launch->order == Order::Shuffled) {
            grid.shuffle(grid.round.data(), grid.round.size());
            // Some wait for a later round: a block may be far ahead of another one.
            grid.round.resize(1 + grid.below((unsigned)grid.round.size()));
        }
        for (Warp* warp : grid.round) {
            Thread& thread = warp->threads[warp->order[0]];
            grid.last = &grid.host;
            *grid.launch->current = &thread;
            switch_fiber(grid.host, thread.fiber, false);
        }
    }
}

Thread& of(Lane* lane) { return *static_cast<Thread*>(lane); }

const uint64_t* gather(Lane* lane, uint64_t value, ThreadPosition place) {
    Warp& warp = *of(lane).warp;
    uint64_t* values = warp.values[warp.turn];
    values[lane->lane] = value;
    park(of(lane), place);
    return values;
}

unsigned vote(Lane* lane, bool value, ThreadPosition place) {
    Warp& warp = *of(lane).warp;
    unsigned& votes = warp.votes[warp.turn];
    votes |= (unsigned)value << lane->lane;
    park(of(lane), place);
    return votes;
}

unsigned sync_threads(Lane* lane, bool value, ThreadPosition place) {
    Team& team = *of(lane).warp->team;
    unsigned& votes = team.votes[team.turn];
    votes += value;
    park(of(lane), place);
    return votes;
}

void sync_grid(Lane* lane, ThreadPosition place) { park(of(lane), place); }

[[noreturn]] void fail(Lane* lane, const char* what, ThreadPosition place) {
    die(*of(lane).warp->team->owner, "thread %u of block %u: %s (%s:%d)", lane->index.x, lane->block->index.x, what,
        place.file, place.line);
}

void host_warp(Lane* lane, const void* in, size_t in_size, void* out, size_t out_size, WarpFunction compute, ThreadPosition place) {
    Warp& warp = *of(lane).warp;
    if (warp.position == 0) {
        warp.in_size = in_size;
        warp.out_size = out_size;
        warp.compute = compute;
    } else if (warp.in_size != in_size || warp.out_size != out_size || warp.compute != compute) {
        fail(lane, "the lanes of a host_warp bring different sizes or functions", place);
    }
    warp.in[lane->lane] = in;
    warp.out[lane->lane] = out;
    park(of(lane), place);
}

// The same order for the same launch, in every process; OPERANT_HOST_SEED gives another.
uint64_t seed_of(const Launch& launch) {
    const char* seed = getenv("OPERANT_HOST_SEED");
    uint64_t hash = 0xcbf29ce484222325ull ^ (seed ? strtoull(seed, nullptr, 0) : 0);
    for (const char* c = launch.name; *c; ++c) hash = (hash ^ (unsigned char)*c) * 0x100000001b3ull;
    return hash ^ ((uint64_t)launch.blocks << 32) ^ launch.threads;
}

void* allocate(size_t align, size_t size) {
    void* memory = nullptr;
    if (posix_memalign(&memory, align < 16 ? 16 : align, size) != 0) {
        fprintf(stderr, "operant's host engine: no memory for %zu bytes\n", size);
        abort();
    }
    return memory;
}

}  // namespace

const Engine* engine_table() {
    static const Engine table = {gather, vote, sync_threads, sync_grid, host_warp, fail};
    return &table;
}

void run_grid(const Launch& launch) {
    // A shuffled device has two blocks of an ordinary launch at once, others one after another.
    const unsigned alive = launch.cooperative                ? launch.blocks
                           : launch.order == Order::Shuffled ? std::min(launch.blocks, 2u)
                                                             : 1;
    const unsigned warps = launch.threads / WARP;
    Grid grid;
    grid.launch = &launch;
    grid.random = seed_of(launch);
    grid.stack = stack_size();
    grid.teams.resize(alive);
    grid.warps.resize((size_t)alive * warps);
    grid.threads.resize((size_t)alive * launch.threads);
    // Parameters and arenas are heap blocks of their exact sizes: a sanitizer sees every access beyond them.
    void* params = allocate(launch.kernel->params_align, launch.kernel->params_size);
    memcpy(params, launch.params, launch.kernel->params_size);
    grid.params = params;
    for (unsigned t = 0; t < alive; ++t) {
        Team& team = grid.teams[t];
        team.owner = &grid;
        team.warps = &grid.warps[(size_t)t * warps];
        team.warp_count = warps;
        team.dim = {launch.threads, 1, 1};
        team.grid = {launch.blocks, 1, 1};
        team.arena = static_cast<unsigned char*>(allocate(16, launch.shared));
        for (unsigned w = 0; w < warps; ++w) {
            Warp& warp = team.warps[w];
            warp.team = &team;
            warp.threads = &grid.threads[((size_t)t * warps + w) * WARP];
            for (unsigned i = 0; i < WARP; ++i) warp.threads[i].warp = &warp;
        }
    }
    const std::vector<void*> stacks = take_stacks(grid.threads.size());
    Lane* const before = *launch.current;
    if (launch.cooperative) {
        for (unsigned b = 0; b < launch.blocks; ++b) begin_block(grid, grid.teams[b], b, stacks);
        run_rounds(grid);
    } else {
        std::vector<unsigned> blocks(launch.blocks);
        for (unsigned b = 0; b < launch.blocks; ++b) {
            blocks[b] = launch.order == Order::Reverse ? launch.blocks - 1 - b : b;
        }
        if (launch.order == Order::Shuffled) grid.shuffle(blocks.data(), blocks.size());
        for (unsigned first = 0; first < launch.blocks; first += alive) {
            const unsigned count = std::min(alive, launch.blocks - first);
            for (unsigned t = 0; t < count; ++t) begin_block(grid, grid.teams[t], blocks[first + t], stacks);
            run_rounds(grid);
        }
    }
    *launch.current = before;
    give_stacks(stacks);
    for (Team& team : grid.teams) free(team.arena);
    free(params);
}

}  // namespace operant_host
