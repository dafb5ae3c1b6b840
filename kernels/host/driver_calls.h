// The functions of the driver's stand-in that the stand-ins for NVIDIA's other libraries call.
#pragma once
#include <dlfcn.h>

#include <cstddef>
#include <cstdint>
#include <type_traits>

#define EXPORT extern "C" __attribute__((visibility("default")))

namespace {

struct Driver {
    unsigned (*enqueue)(void* stream, bool (*run)(void*), void (*drop)(void*), void* state);
    int (*captures)();
    int (*is_live)(uint64_t pointer, size_t size);
    unsigned (*current)(void** context);
};

// Null where another driver is loaded, or none.
const Driver* driver() {
    static const Driver* const found = []() -> const Driver* {
        void* library = dlopen("libcuda.so", RTLD_NOW | RTLD_NOLOAD);
        if (!library) return nullptr;
        static Driver driver;
        const auto find = [&](auto& function, const char* name) {
            function = reinterpret_cast<std::decay_t<decltype(function)>>(dlsym(library, name));
            return function != nullptr;
        };
        return find(driver.enqueue, "operant_host_enqueue") && find(driver.captures, "operant_host_captures") &&
                       find(driver.is_live, "operant_host_is_live") && find(driver.current, "cuCtxGetCurrent")
                   ? &driver
                   : nullptr;
    }();
    return found;
}

}  // namespace
