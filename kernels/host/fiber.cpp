// The switch between fibers, and the pool of their stacks.
#include "fiber.h"

#include <sys/mman.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <mutex>

#ifdef __SANITIZE_ADDRESS__
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#endif

namespace operant_host {
namespace {

void start_switch([[maybe_unused]] Fiber& from, [[maybe_unused]] const Fiber& to, [[maybe_unused]] bool last) {
#ifdef __SANITIZE_ADDRESS__
    __sanitizer_start_switch_fiber(last ? nullptr : &from.fake, to.stack, to.size);
#endif
}

void finish_switch([[maybe_unused]] void* fake, [[maybe_unused]] Fiber* from) {
#ifdef __SANITIZE_ADDRESS__
    // The host thread learns its own stack from the first fiber that it starts.
    const void* bottom = nullptr;
    size_t size = 0;
    __sanitizer_finish_switch_fiber(fake, &bottom, &size);
    if (from && !from->stack) {
        from->stack = const_cast<void*>(bottom);
        from->size = size;
    }
#endif
}

// A fiber ends inside its last functions, whose frames the sanitizer still guards when the stack is used again.
void forget_frames([[maybe_unused]] void* stack, [[maybe_unused]] size_t size) {
#ifdef __SANITIZE_ADDRESS__
    const size_t last = size < 8192 ? size : 8192;
    __asan_unpoison_memory_region(static_cast<char*>(stack) + size - last, last);
#endif
}

}  // namespace

#ifdef OPERANT_HOST_UCONTEXT

namespace {
void begin(unsigned entry_high, unsigned entry_low, unsigned argument_high, unsigned argument_low) {
    const auto pointer = [](unsigned high, unsigned low) { return (uintptr_t)(((uint64_t)high << 32) | low); };
    reinterpret_cast<void (*)(void*)>(pointer(entry_high, entry_low))((void*)pointer(argument_high, argument_low));
}
}  // namespace

void prepare(Fiber& fiber, void* stack, size_t size, void (*entry)(void*), void* argument) {
    forget_frames(stack, size);
    fiber.stack = stack;
    fiber.size = size;
    fiber.fake = nullptr;
    getcontext(&fiber.context);
    fiber.context.uc_stack.ss_sp = stack;
    fiber.context.uc_stack.ss_size = size;
    fiber.context.uc_link = nullptr;
    const uint64_t a = (uintptr_t)entry, b = (uintptr_t)argument;
    makecontext(&fiber.context, reinterpret_cast<void (*)()>(begin), 4, (unsigned)(a >> 32), (unsigned)a,
                (unsigned)(b >> 32), (unsigned)b);
}

static void jump(Fiber& from, Fiber& to) { swapcontext(&from.context, &to.context); }

#else

// operant_host_jump(&from.pointer, to.pointer): the registers that a function must preserve are saved on the old stack
// and comes from the new one. Rounding modes are not switched: kernels do not change them.
asm(R"(
    .text
    .globl operant_host_jump
    .hidden operant_host_jump
    .type operant_host_jump, @function
operant_host_jump:
    pushq %rbp
    pushq %rbx
    pushq %r12
    pushq %r13
    pushq %r14
    pushq %r15
    movq %rsp, (%rdi)
    movq %rsi, %rsp
    popq %r15
    popq %r14
    popq %r13
    popq %r12
    popq %rbx
    popq %rbp
    popq %rcx
    jmpq *%rcx
    .size operant_host_jump, .-operant_host_jump

    .globl operant_host_begin
    .hidden operant_host_begin
    .type operant_host_begin, @function
operant_host_begin:
    movq %r12, %rdi
    xorl %ebp, %ebp
    callq *%r13
    ud2
    .size operant_host_begin, .-operant_host_begin
)");
extern "C" void operant_host_jump(void** from, void* to);
extern "C" void operant_host_begin();

void prepare(Fiber& fiber, void* stack, size_t size, void (*entry)(void*), void* argument) {
    forget_frames(stack, size);
    // As operant_host_jump pops: r15, r14, r13, r12, rbx, rbp, address; then the stack is 16-byte aligned for the call.
    void** top = reinterpret_cast<void**>((reinterpret_cast<uintptr_t>(stack) + size) & ~(uintptr_t)15);
    *--top = nullptr;
    *--top = nullptr;
    *--top = reinterpret_cast<void*>(operant_host_begin);
    *--top = nullptr;
    *--top = nullptr;
    *--top = argument;
    *--top = reinterpret_cast<void*>(entry);
    *--top = nullptr;
    *--top = nullptr;
    fiber.pointer = top;
    fiber.stack = stack;
    fiber.size = size;
    fiber.fake = nullptr;
}

static void jump(Fiber& from, Fiber& to) { operant_host_jump(&from.pointer, to.pointer); }

#endif

void switch_fiber(Fiber& from, Fiber& to, bool last) {
    start_switch(from, to, last);
    jump(from, to);
    finish_switch(from.fake, nullptr);
}

void arrived(Fiber& from) { finish_switch(nullptr, &from); }

namespace {

constexpr size_t PAGE = 4096;
// A process may have about 65,530 mappings and a guarded stack takes two: beyond this number only every 64th has a guard.
constexpr size_t GUARDED = 8192;
constexpr size_t SLAB = 64;

struct Pool {
    std::mutex mutex;
    std::vector<void*> free;
    size_t made = 0;

    void grow(size_t count) {
        const size_t size = stack_size();
        while (count > 0) {
            const size_t stacks = made < GUARDED ? 1 : SLAB;
            void* slab = mmap(nullptr, PAGE + stacks * size, PROT_READ | PROT_WRITE,
                              MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
            if (slab == MAP_FAILED || mprotect(slab, PAGE, PROT_NONE) != 0) {
                fprintf(stderr, "operant's host engine: no memory for the stack of thread %zu (%zu bytes each)\n", made, size);
                abort();
            }
            // A huge page would make hundreds of KiB resident for each thread.
            madvise(slab, PAGE + stacks * size, MADV_NOHUGEPAGE);
            for (size_t i = 0; i < stacks; ++i) free.push_back(static_cast<char*>(slab) + PAGE + i * size);
            made += stacks;
            count -= stacks < count ? stacks : count;
        }
    }
};

Pool& pool() {
    static Pool* pool = new Pool;  // never destroyed: launches may outlast the order of destruction
    return *pool;
}

}  // namespace

size_t stack_size() {
    static const size_t size = [] {
#ifdef __SANITIZE_ADDRESS__
        size_t bytes = 256 * 1024;
#else
        size_t bytes = 64 * 1024;
#endif
        if (const char* text = getenv("OPERANT_HOST_STACK")) {
            const long long requested = atoll(text);
            if (requested < 16 * 1024) {
                fprintf(stderr, "operant's host engine: OPERANT_HOST_STACK=%s is not a number of bytes from 16384 on\n", text);
                abort();
            }
            bytes = (size_t)requested;
        }
        return (bytes + PAGE - 1) & ~(PAGE - 1);
    }();
    return size;
}

std::vector<void*> take_stacks(size_t count) {
    Pool& all = pool();
    const std::lock_guard<std::mutex> lock(all.mutex);
    if (all.free.size() < count) all.grow(count - all.free.size());
    std::vector<void*> taken(all.free.end() - (ptrdiff_t)count, all.free.end());
    all.free.resize(all.free.size() - count);
    return taken;
}

void give_stacks(const std::vector<void*>& stacks) {
    Pool& all = pool();
    const std::lock_guard<std::mutex> lock(all.mutex);
    all.free.insert(all.free.end(), stacks.begin(), stacks.end());
}

}  // namespace operant_host
