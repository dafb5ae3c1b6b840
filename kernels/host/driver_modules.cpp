// The stand-in for the CUDA driver: modules (shared objects in memory), functions and launches.
#include "driver.h"

#include <dlfcn.h>
#include <elf.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstring>

EXPORT CUresult cuDriverGetVersion(int* version);

namespace operant_host {
namespace {

#if defined(__x86_64__)
constexpr unsigned MACHINE = EM_X86_64;
#elif defined(__aarch64__)
constexpr unsigned MACHINE = EM_AARCH64;
#else
#error "which ELF machine is this?"
#endif

#ifdef __SANITIZE_ADDRESS__
constexpr bool SANITIZED = true;
#else
constexpr bool SANITIZED = false;
#endif

// The size of a shared object from its own headers: cuModuleLoadData does not get it.
CUresult size_of_image(const unsigned char* image, size_t& size) {
    Elf64_Ehdr header;
    if (memcmp(image, ELFMAG, SELFMAG) != 0 || image[EI_CLASS] != ELFCLASS64) return CUDA_ERROR_INVALID_IMAGE;
    memcpy(&header, image, sizeof header);
    if (header.e_machine != MACHINE) return CUDA_ERROR_NO_BINARY_FOR_GPU;
    if (header.e_type != ET_DYN || header.e_shentsize != sizeof(Elf64_Shdr)) return CUDA_ERROR_INVALID_IMAGE;
    size = header.e_shoff + (size_t)header.e_shnum * header.e_shentsize;
    for (unsigned i = 0; i < header.e_shnum; ++i) {
        Elf64_Shdr section;
        memcpy(&section, image + header.e_shoff + i * sizeof section, sizeof section);
        if (section.sh_type != SHT_NOBITS) size = std::max(size, (size_t)(section.sh_offset + section.sh_size));
    }
    return CUDA_SUCCESS;
}

bool write_all(int file, const unsigned char* bytes, size_t size) {
    while (size > 0) {
        const ssize_t written = write(file, bytes, size);
        if (written <= 0) return false;
        bytes += written;
        size -= (size_t)written;
    }
    return true;
}

void complain(const char* what, const char* more) {
    fprintf(stderr, "operant's host driver: %s%s%s\n", what, more ? ": " : "", more ? more : "");
}

CUresult load(LoadedModule& module, const unsigned char* image) {
    size_t size;
    TRY(size_of_image(image, size));
    module.file = memfd_create("operant kernels", MFD_CLOEXEC);
    if (module.file < 0 || !write_all(module.file, image, size)) return CUDA_ERROR_OPERATING_SYSTEM;
    // The file has no name, and keeps its number while it is loaded, so that two modules never share a path and a sanitizer
    // finds the lines of the kernel in it.
    const std::string path = "/proc/self/fd/" + std::to_string(module.file);
    module.handle = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (!module.handle) {
        complain("a module cannot be loaded", dlerror());
        return CUDA_ERROR_INVALID_IMAGE;
    }
    module.module = static_cast<const Module*>(dlsym(module.handle, "operant_host_module"));
    if (!module.module || module.module->version != ENGINE_VERSION || module.module->sanitized != SANITIZED) {
        complain("a module was compiled by another version of the stand-in for NVRTC; empty the cache of kernels", nullptr);
        return CUDA_ERROR_NO_BINARY_FOR_GPU;
    }
    int version;
    TRY(cuDriverGetVersion(&version));
    if (module.module->compiler > version) return CUDA_ERROR_UNSUPPORTED_PTX_VERSION;
    module.module->attach(engine_table());
    return CUDA_SUCCESS;
}

CUresult function_of(CUfunction handle, Function*& function) {
    Device* device;
    TRY(current_device(device));
    if (!alive(driver().functions, handle)) return CUDA_ERROR_INVALID_HANDLE;
    function = handle;
    return CUDA_SUCCESS;
}

struct LaunchShape {
    unsigned grid[3], block[3];
    unsigned shared;
};

// Counts the launch; the device that loses itself fails here.
CUresult count_launch(Device& device) {
    const std::lock_guard<std::mutex> lock(driver().mutex);
    if (device.lost) return CUDA_ERROR_LAUNCH_FAILED;
    if (device.loses >= 0 && device.launches >= (unsigned)device.loses) {
        device.lost = true;
        return CUDA_ERROR_LAUNCH_FAILED;
    }
    ++device.launches;
    return CUDA_SUCCESS;
}

CUresult launch(CUfunction handle, const LaunchShape& shape, CUstream stream_handle, void** params, bool cooperative) {
    Function* function;
    Stream* stream;
    TRY(function_of(handle, function));
    TRY(stream_of(stream_handle, stream));
    Device& device = *stream->device;
    if (function->module->device != &device) return CUDA_ERROR_INVALID_HANDLE;
    if (stream->capture && !function->loaded) {
        stream->capture->invalid = true;
        return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
    }
    function->loaded = true;
    const unsigned blocks = shape.grid[0], threads = shape.block[0];
    for (unsigned i = 0; i < 3; ++i) {
        if (shape.grid[i] == 0 || shape.block[i] == 0) return CUDA_ERROR_INVALID_VALUE;
        if (i > 0 && (shape.grid[i] != 1 || shape.block[i] != 1)) {
            complain("the stand-in runs grids and blocks of one dimension", nullptr);
            return CUDA_ERROR_NOT_SUPPORTED;
        }
    }
    if (blocks > 2147483647u || threads > function->kernel->max_threads || shape.shared > function->dynamic) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    if (threads % WARP != 0) {
        complain("the stand-in runs blocks of whole warps", nullptr);
        return CUDA_ERROR_NOT_SUPPORTED;
    }
    if (!params || !params[0]) return CUDA_ERROR_INVALID_VALUE;
    if (cooperative) {
        if (!device.cooperative) return CUDA_ERROR_NOT_SUPPORTED;
        const int resident = occupancy(*function, (int)threads, shape.shared) * MULTIPROCESSORS;
        if (blocks > (unsigned)resident) return CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE;
    }
    const unsigned char* bytes = static_cast<const unsigned char*>(params[0]);
    std::vector<unsigned char> copy(bytes, bytes + function->kernel->params_size);
    return submit(*stream, [=, &device, copy = std::move(copy)] {
        TRY(count_launch(device));
        Launch request;
        request.kernel = function->kernel;
        request.name = function->name.c_str();
        request.current = function->module->module->current();
        request.params = copy.data();
        request.blocks = blocks;
        request.threads = threads;
        request.shared = shape.shared;
        request.cooperative = cooperative;
        request.order = device.order;
        run_grid(request);
        return CUDA_SUCCESS;
    });
}

}  // namespace

int occupancy(const Function& function, int threads, size_t shared) {
    if ((unsigned)threads > function.kernel->max_threads || shared > function.dynamic) return 0;
    const int warps = (threads + 31) / 32;
    const int by_threads = THREADS_PER_MULTIPROCESSOR / (32 * warps);
    const int by_shared = (int)((size_t)SHARED_PER_MULTIPROCESSOR / (shared + SHARED_RESERVED));
    return std::min({BLOCKS_PER_MULTIPROCESSOR, by_threads, by_shared});
}

void unload(LoadedModule* module) {
    bool gone = true;
    if (module->handle) {
        const std::string path = "/proc/self/fd/" + std::to_string(module->file);
        dlclose(module->handle);
        // Where the loader keeps it after all, the number must stay taken.
        if (void* still = dlopen(path.c_str(), RTLD_NOW | RTLD_NOLOAD)) {
            dlclose(still);
            gone = false;
        }
    }
    if (gone && module->file >= 0) close(module->file);
    delete module;
}

}  // namespace operant_host

using namespace operant_host;

EXPORT CUresult cuModuleLoadData(CUmodule* handle, const void* image) {
    Device* device;
    TRY(current_device(device));
    if (!handle || !image) return CUDA_ERROR_INVALID_VALUE;
    LoadedModule* module = new LoadedModule{device, nullptr, -1, nullptr, {}};
    if (const CUresult result = load(*module, static_cast<const unsigned char*>(image)); result != CUDA_SUCCESS) {
        unload(module);
        return result;
    }
    const std::lock_guard<std::mutex> lock(driver().mutex);
    driver().modules.insert(module);
    *handle = module;
    return CUDA_SUCCESS;
}

EXPORT CUresult cuModuleUnload(CUmodule handle) {
    Device* device;
    TRY(current_device(device));
    TRY(settle(*device));
    {
        Driver& all = driver();
        const std::lock_guard<std::mutex> lock(all.mutex);
        if (all.modules.erase(handle) == 0) return CUDA_ERROR_INVALID_HANDLE;
        for (const auto& [name, function] : handle->functions) all.functions.erase(function.get());
    }
    unload(handle);
    return CUDA_SUCCESS;
}

EXPORT CUresult cuModuleGetFunction(CUfunction* handle, CUmodule module, const char* name) {
    Device* device;
    TRY(current_device(device));
    if (!handle || !name) return CUDA_ERROR_INVALID_VALUE;
    Driver& all = driver();
    const std::lock_guard<std::mutex> lock(all.mutex);
    if (all.modules.count(module) == 0) return CUDA_ERROR_INVALID_HANDLE;
    std::unique_ptr<Function>& function = module->functions[name];
    if (!function) {
        const std::string symbol = std::string(name) + "_host";
        const Kernel* kernel = static_cast<const Kernel*>(dlsym(module->handle, symbol.c_str()));
        if (!kernel) {
            module->functions.erase(name);
            return CUDA_ERROR_NOT_FOUND;
        }
        function.reset(new Function{module, name, kernel});
        all.functions.insert(function.get());
    }
    *handle = function.get();
    return CUDA_SUCCESS;
}

EXPORT CUresult cuFuncLoad(CUfunction handle) {
    Function* function;
    TRY(function_of(handle, function));
    Device* device;
    TRY(current_device_outside_captures(device));
    function->loaded = true;
    return CUDA_SUCCESS;
}

EXPORT CUresult cuFuncGetAttribute(int* value, int attribute, CUfunction handle) {
    Function* function;
    TRY(function_of(handle, function));
    if (!value) return CUDA_ERROR_INVALID_VALUE;
    switch (attribute) {
        case CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK: *value = (int)function->kernel->max_threads; break;
        case CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES: *value = (int)function->dynamic; break;
        case CU_FUNC_ATTRIBUTE_PTX_VERSION:
        case CU_FUNC_ATTRIBUTE_BINARY_VERSION: *value = 90; break;
        case CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT: *value = -1; break;
        // A host program reports no registers, and has no memory but the arena and the stack.
        case CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES:
        case CU_FUNC_ATTRIBUTE_CONST_SIZE_BYTES:
        case CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES:
        case CU_FUNC_ATTRIBUTE_NUM_REGS: *value = 0; break;
        default: return CUDA_ERROR_INVALID_VALUE;
    }
    return CUDA_SUCCESS;
}

EXPORT CUresult cuFuncSetAttribute(CUfunction handle, int attribute, int value) {
    Function* function;
    TRY(function_of(handle, function));
    switch (attribute) {
        case CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES:
            if (value < 0 || value > SHARED_PER_BLOCK) return CUDA_ERROR_INVALID_VALUE;
            function->dynamic = (size_t)value;
            return CUDA_SUCCESS;
        case CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT:
            return value < -1 || value > 100 ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
        default: return CUDA_ERROR_INVALID_VALUE;
    }
}

EXPORT CUresult cuFuncGetParamInfo(CUfunction handle, size_t index, size_t* offset, size_t* size) {
    Function* function;
    TRY(function_of(handle, function));
    if (index != 0 || !offset) return CUDA_ERROR_INVALID_VALUE;
    *offset = 0;
    if (size) *size = function->kernel->params_size;
    return CUDA_SUCCESS;
}

EXPORT CUresult cuOccupancyMaxActiveBlocksPerMultiprocessor(int* blocks, CUfunction handle, int threads, size_t shared) {
    Function* function;
    TRY(function_of(handle, function));
    if (!blocks || threads <= 0) return CUDA_ERROR_INVALID_VALUE;
    *blocks = occupancy(*function, threads, shared);
    return CUDA_SUCCESS;
}

EXPORT CUresult cuLaunchKernel(CUfunction function, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x,
                               unsigned block_y, unsigned block_z, unsigned shared, CUstream stream, void** params,
                               void** extra) {
    if (extra) return CUDA_ERROR_INVALID_VALUE;
    return launch(function, {{grid_x, grid_y, grid_z}, {block_x, block_y, block_z}, shared}, stream, params, false);
}

EXPORT CUresult cuLaunchCooperativeKernel(CUfunction function, unsigned grid_x, unsigned grid_y, unsigned grid_z,
                                          unsigned block_x, unsigned block_y, unsigned block_z, unsigned shared,
                                          CUstream stream, void** params) {
    return launch(function, {{grid_x, grid_y, grid_z}, {block_x, block_y, block_z}, shared}, stream, params, true);
}

// For a library that has work of its own for a stream (blas.cpp): counts as a launch, and runs or is captured as one does.
// `run` says whether it could; `drop` takes the state back when nothing can run it any more.
EXPORT CUresult operant_host_enqueue(CUstream handle, bool (*run)(void*), void (*drop)(void*), void* state) {
    const std::shared_ptr<void> kept(state, drop);
    Stream* stream;
    TRY(stream_of(handle, stream));
    return submit(*stream, [device = stream->device, run, kept] {
        TRY(count_launch(*device));
        return run(kept.get()) ? CUDA_SUCCESS : CUDA_ERROR_LAUNCH_FAILED;
    });
}

// Whether this thread has a stream of the current device in capture.
EXPORT int operant_host_captures() {
    Device* device;
    if (current_device(device) != CUDA_SUCCESS) return 0;
    const std::lock_guard<std::mutex> lock(driver().mutex);
    return std::any_of(driver().streams.begin(), driver().streams.end(), [&](const Stream* stream) {
        return stream->device == device && stream->capture && stream->capture->thread == std::this_thread::get_id();
    });
}

EXPORT int operant_host_is_live(uint64_t pointer, size_t size) { return is_live(pointer, size); }
