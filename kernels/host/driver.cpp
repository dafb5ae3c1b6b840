// The stand-in for the CUDA driver: initialisation, devices, contexts and the texts of errors. driver.h says what the
// devices are; driver_memory.cpp has memory, driver_streams.cpp streams, events and graphs, driver_modules.cpp launches.
#include "driver.h"

#include <cstdlib>
#include <cstring>

namespace operant_host {
namespace {

thread_local Device* current = nullptr;

int number_from(const char* variable, int otherwise) {
    const char* text = getenv(variable);
    return text ? atoi(text) : otherwise;
}

CUresult device_of(CUdevice ordinal, Device*& device) {
    Driver& all = driver();
    const std::lock_guard<std::mutex> lock(all.mutex);
    if (!all.initialised) return CUDA_ERROR_NOT_INITIALIZED;
    if (ordinal < 0 || (size_t)ordinal >= all.devices.size()) return CUDA_ERROR_INVALID_DEVICE;
    device = &all.devices[(size_t)ordinal];
    return CUDA_SUCCESS;
}

// CU_DEVICE_ATTRIBUTE_*, by number.
int attribute_of(const Device& device, int attribute) {
    switch (attribute) {
        case 1: return THREADS_PER_BLOCK;                // MAX_THREADS_PER_BLOCK
        case 2: case 3: return THREADS_PER_BLOCK;        // MAX_BLOCK_DIM_X, Y
        case 4: return 64;                               // MAX_BLOCK_DIM_Z
        case 5: return 2147483647;                       // MAX_GRID_DIM_X
        case 6: case 7: return 65535;                    // MAX_GRID_DIM_Y, Z
        case 8: return SHARED_BY_DEFAULT;                // MAX_SHARED_MEMORY_PER_BLOCK
        case 9: return 65536;                            // TOTAL_CONSTANT_MEMORY
        case 10: return 32;                              // WARP_SIZE
        case 12: return 65536;                           // MAX_REGISTERS_PER_BLOCK
        case 13: return 1000000;                         // CLOCK_RATE, kHz
        case 16: return MULTIPROCESSORS;                 // MULTIPROCESSOR_COUNT
        case 19: return 1;                               // CAN_MAP_HOST_MEMORY
        case 31: return 1;                               // CONCURRENT_KERNELS
        case 36: return 1000000;                         // MEMORY_CLOCK_RATE, kHz
        case 37: return 64;                              // GLOBAL_MEMORY_BUS_WIDTH, bits
        case 38: return 50 << 20;                        // L2_CACHE_SIZE
        case 39: return THREADS_PER_MULTIPROCESSOR;      // MAX_THREADS_PER_MULTIPROCESSOR
        case 40: return 1;                               // ASYNC_ENGINE_COUNT
        case 41: return 1;                               // UNIFIED_ADDRESSING
        case 75: return 9;                               // COMPUTE_CAPABILITY_MAJOR
        case 76: return 0;                               // COMPUTE_CAPABILITY_MINOR
        case 81: return SHARED_PER_MULTIPROCESSOR;       // MAX_SHARED_MEMORY_PER_MULTIPROCESSOR
        case 82: return 65536;                           // MAX_REGISTERS_PER_MULTIPROCESSOR
        case 95: return device.cooperative;              // COOPERATIVE_LAUNCH
        case 97: return SHARED_PER_BLOCK;                // MAX_SHARED_MEMORY_PER_BLOCK_OPTIN
        case 106: return BLOCKS_PER_MULTIPROCESSOR;      // MAX_BLOCKS_PER_MULTIPROCESSOR
        case 111: return SHARED_RESERVED;                // RESERVED_SHARED_MEMORY_PER_BLOCK
        default: return 0;                               // what the stand-in does not have
    }
}

constexpr int LAST_ATTRIBUTE = 150;

}  // namespace

Driver& driver() {
    static Driver* driver = new Driver;  // never destroyed: threads may outlive the order of destruction
    return *driver;
}

CUresult current_device(Device*& device) {
    Driver& all = driver();
    const std::lock_guard<std::mutex> lock(all.mutex);
    if (!all.initialised) return CUDA_ERROR_NOT_INITIALIZED;
    if (!current) return CUDA_ERROR_INVALID_CONTEXT;
    if (current->retained == 0) return CUDA_ERROR_CONTEXT_IS_DESTROYED;
    if (current->lost) return CUDA_ERROR_LAUNCH_FAILED;
    device = current;
    return CUDA_SUCCESS;
}

void destroy_context(Device& device) {
    Driver& all = driver();
    const auto discard = [&](auto& handles) {
        for (auto at = handles.begin(); at != handles.end();) {
            if ((*at)->device == &device) {
                delete *at;
                at = handles.erase(at);
            } else {
                ++at;
            }
        }
    };
    discard(all.graphs);
    discard(all.executables);
    discard(all.events);
    discard(all.streams);
    for (auto at = all.modules.begin(); at != all.modules.end();) {
        LoadedModule* module = *at;
        if (module->device != &device) {
            ++at;
            continue;
        }
        at = all.modules.erase(at);
        for (const auto& [name, function] : module->functions) all.functions.erase(function.get());
        unload(module);
    }
    for (auto at = all.allocations.begin(); at != all.allocations.end();) {
        if (at->second.device == &device) {
            free(reinterpret_cast<void*>(at->first));
            at = all.allocations.erase(at);
        } else {
            ++at;
        }
    }
    device.used = 0;
    device.launches = 0;
    device.lost = false;
    device.legacy = nullptr;
}

}  // namespace operant_host

using namespace operant_host;

EXPORT CUresult cuInit(unsigned flags) {
    if (flags != 0) return CUDA_ERROR_INVALID_VALUE;
    Driver& all = driver();
    const std::lock_guard<std::mutex> lock(all.mutex);
    if (all.initialised) return CUDA_SUCCESS;
    constexpr size_t PLENTY = (size_t)2 << 30;
    std::vector<Device> devices = {
        {0, "host, threads in order", Order::Forward, PLENTY, true, -1},
        {1, "host, threads in reverse", Order::Reverse, PLENTY, true, -1},
        {2, "host, threads shuffled", Order::Shuffled, PLENTY, true, -1},
        {3, "host, little memory", Order::Forward, (size_t)1 << 20, true, -1},
        {4, "host, no cooperative launch", Order::Forward, PLENTY, false, -1},
        {5, "host, lost device", Order::Forward, PLENTY, true, number_from("OPERANT_HOST_LAUNCHES", 3)},
    };
    const int requested = number_from("OPERANT_HOST_DEVICES", (int)devices.size());
    if (requested <= 0) return CUDA_ERROR_NO_DEVICE;
    if ((size_t)requested < devices.size()) devices.erase(devices.begin() + requested, devices.end());
    all.devices = std::move(devices);
    all.initialised = true;
    return CUDA_SUCCESS;
}

EXPORT CUresult cuDriverGetVersion(int* version) {
    if (!version) return CUDA_ERROR_INVALID_VALUE;
    *version = number_from("OPERANT_HOST_DRIVER_VERSION", 13000);
    return CUDA_SUCCESS;
}

EXPORT CUresult cuDeviceGetCount(int* count) {
    Driver& all = driver();
    const std::lock_guard<std::mutex> lock(all.mutex);
    if (!all.initialised) return CUDA_ERROR_NOT_INITIALIZED;
    if (!count) return CUDA_ERROR_INVALID_VALUE;
    *count = (int)all.devices.size();
    return CUDA_SUCCESS;
}

EXPORT CUresult cuDeviceGet(CUdevice* handle, int ordinal) {
    Device* device;
    TRY(device_of(ordinal, device));
    if (!handle) return CUDA_ERROR_INVALID_VALUE;
    *handle = ordinal;
    return CUDA_SUCCESS;
}

EXPORT CUresult cuDeviceGetName(char* name, int length, CUdevice handle) {
    Device* device;
    TRY(device_of(handle, device));
    if (!name || length <= 0) return CUDA_ERROR_INVALID_VALUE;
    strncpy(name, device->name, (size_t)length - 1);
    name[length - 1] = 0;
    return CUDA_SUCCESS;
}

EXPORT CUresult cuDeviceGetUuid_v2(CUuuid* uuid, CUdevice handle) {
    Device* device;
    TRY(device_of(handle, device));
    if (!uuid) return CUDA_ERROR_INVALID_VALUE;
    memcpy(uuid->bytes, "operant on host", 15);
    uuid->bytes[15] = (char)device->ordinal;
    return CUDA_SUCCESS;
}

EXPORT CUresult cuDeviceGetAttribute(int* value, int attribute, CUdevice handle) {
    Device* device;
    TRY(device_of(handle, device));
    if (!value || attribute < 1 || attribute > LAST_ATTRIBUTE) return CUDA_ERROR_INVALID_VALUE;
    *value = attribute_of(*device, attribute);
    return CUDA_SUCCESS;
}

EXPORT CUresult cuDeviceTotalMem_v2(size_t* bytes, CUdevice handle) {
    Device* device;
    TRY(device_of(handle, device));
    if (!bytes) return CUDA_ERROR_INVALID_VALUE;
    *bytes = device->memory;
    return CUDA_SUCCESS;
}

EXPORT CUresult cuDevicePrimaryCtxRetain(CUcontext* context, CUdevice handle) {
    Device* device;
    TRY(device_of(handle, device));
    if (!context) return CUDA_ERROR_INVALID_VALUE;
    Driver& all = driver();
    const std::lock_guard<std::mutex> lock(all.mutex);
    if (device->retained++ == 0) {
        device->legacy = new_stream(*device);
    }
    *context = device;
    return CUDA_SUCCESS;
}

EXPORT CUresult cuDevicePrimaryCtxRelease_v2(CUdevice handle) {
    Device* device;
    TRY(device_of(handle, device));
    const std::lock_guard<std::mutex> lock(driver().mutex);
    if (device->retained == 0) return CUDA_ERROR_INVALID_CONTEXT;
    if (--device->retained == 0) destroy_context(*device);
    return CUDA_SUCCESS;
}

EXPORT CUresult cuCtxSetCurrent(CUcontext context) {
    Driver& all = driver();
    const std::lock_guard<std::mutex> lock(all.mutex);
    if (!all.initialised) return CUDA_ERROR_NOT_INITIALIZED;
    bool known = !context;
    for (Device& device : all.devices) known |= &device == context;
    if (!known) return CUDA_ERROR_INVALID_CONTEXT;
    if (context && context->retained == 0) return CUDA_ERROR_CONTEXT_IS_DESTROYED;
    current = context;
    return CUDA_SUCCESS;
}

EXPORT CUresult cuCtxGetCurrent(CUcontext* context) {
    if (!context) return CUDA_ERROR_INVALID_VALUE;
    *context = current;
    return CUDA_SUCCESS;
}

namespace {
struct ErrorText {
    unsigned code;
    const char *name, *text;
};
constexpr ErrorText ERRORS[] = {
#define X(NAME, CODE, TEXT) {CODE, "CUDA_" #NAME, TEXT},
    CUDA_ERRORS(X)
#undef X
};

CUresult describe(unsigned code, const char** text, const char* ErrorText::*field) {
    if (!text) return CUDA_ERROR_INVALID_VALUE;
    *text = nullptr;
    for (const ErrorText& error : ERRORS) {
        if (error.code == code) *text = error.*field;
    }
    return *text ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}
}  // namespace

EXPORT CUresult cuGetErrorName(unsigned code, const char** text) { return describe(code, text, &ErrorText::name); }
EXPORT CUresult cuGetErrorString(unsigned code, const char** text) { return describe(code, text, &ErrorText::text); }
