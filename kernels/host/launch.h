// The engine's interface to the driver: runs one grid to its end, on the calling thread.
#pragma once
#include <cstddef>

#include "engine.h"

namespace operant_host {

// The order in which threads run between two barriers. If a result depends on it, a barrier is missing.
enum class Order { Forward, Reverse, Shuffled };

struct Launch {
    const Kernel* kernel;
    const char* name;
    Lane** current;  // the module's place for the lane that runs on this host thread
    const void* params;
    unsigned blocks, threads;
    size_t shared;
    bool cooperative;
    Order order;
};

// The table that modules are attached to.
const Engine* engine_table();

void run_grid(const Launch& launch);

}  // namespace operant_host
