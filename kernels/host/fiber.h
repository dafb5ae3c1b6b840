// Fibers: threads of execution that the engine switches by hand, so that thousands of GPU threads live on one host thread.
// On x86-64 a switch saves six registers and the stack pointer; elsewhere it is swapcontext. Both notify AddressSanitizer.
#pragma once
#include <cstddef>
#include <vector>

#if !defined(__x86_64__) && !defined(OPERANT_HOST_UCONTEXT)
#define OPERANT_HOST_UCONTEXT 1
#endif
#ifdef OPERANT_HOST_UCONTEXT
#include <ucontext.h>
#endif

namespace operant_host {

// A suspended thread of execution. The thread that starts the first switch needs none of the fields.
struct Fiber {
#ifdef OPERANT_HOST_UCONTEXT
    ucontext_t context;
#else
    void* pointer = nullptr;  // the stack pointer
#endif
    void* stack = nullptr;    // its lowest address
    size_t size = 0;
    void* fake = nullptr;     // AddressSanitizer's own stack for this fiber
};

// Prepares `fiber` to call entry(argument) on that stack at its first switch; entry never returns.
void prepare(Fiber& fiber, void* stack, size_t size, void (*entry)(void*), void* argument);

// Suspends the caller as `from` and continues `to`. `last`: `from` will never be continued.
void switch_fiber(Fiber& from, Fiber& to, bool last);

// To be called first in an entry, with the fiber that switched to it: on a first switch no other code can.
void arrived(Fiber& from);

// Asks the cache for the top of a stack that is soon continued: in a large grid it has gone cold.
inline void fetch([[maybe_unused]] const Fiber& fiber) {
#ifndef OPERANT_HOST_UCONTEXT
    const char* top = static_cast<const char*>(fiber.pointer);
    for (int line = 0; line < 3; ++line) __builtin_prefetch(top + 64 * line);
#endif
}

// Bytes of one stack, from OPERANT_HOST_STACK or a default that fits kernels with a few KiB of local arrays.
size_t stack_size();

// Stacks with a guard page below each; a crash just below one means that a kernel's local arrays do not fit
// OPERANT_HOST_STACK. Stacks are kept for later launches. Thread-safe.
std::vector<void*> take_stacks(size_t count);
void give_stacks(const std::vector<void*>& stacks);

}  // namespace operant_host
