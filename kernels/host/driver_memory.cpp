// The stand-in for the CUDA driver: memory and copies.
#include "driver.h"

#include <cstdlib>
#include <cstring>

namespace operant_host {
namespace {

// Memory of a real GPU is never zero by chance: neither is this.
CUresult allocate(size_t align, size_t size, void*& memory) {
    if (posix_memalign(&memory, align, size) != 0) return CUDA_ERROR_OUT_OF_MEMORY;
    memset(memory, 0xff, size);
    return CUDA_SUCCESS;
}

CUresult release(uintptr_t pointer, bool host) {
    Device* device;
    TRY(current_device_outside_captures(device));
    TRY(settle(*device));
    Driver& all = driver();
    const std::lock_guard<std::mutex> lock(all.mutex);
    const auto found = all.allocations.find(pointer);
    if (found == all.allocations.end() || found->second.host != host) return CUDA_ERROR_INVALID_VALUE;
    if (!host) found->second.device->used -= found->second.size;
    all.allocations.erase(found);
    free(reinterpret_cast<void*>(pointer));
    return CUDA_SUCCESS;
}

// Accesses must also stay within host memory that the driver allocated; other host memory is not checked.
bool host_range_is_good(const void* pointer, size_t size) {
    Driver& all = driver();
    {
        const std::lock_guard<std::mutex> lock(all.mutex);
        const auto after = all.allocations.upper_bound((uintptr_t)pointer);
        if (after == all.allocations.begin()) return pointer || size == 0;
        const auto& [start, allocation] = *std::prev(after);
        if ((uintptr_t)pointer - start >= allocation.size) return true;
    }
    return is_live((CUdeviceptr)(uintptr_t)pointer, size);
}

CUresult copy(void* to, const void* from, size_t size, Stream* stream) {
    return submit(*stream, [=] {
        if (size) memcpy(to, from, size);
        return CUDA_SUCCESS;
    });
}

void* host_pointer(CUdeviceptr pointer) { return reinterpret_cast<void*>((uintptr_t)pointer); }

}  // namespace

bool is_live(CUdeviceptr pointer, size_t size) {
    Driver& all = driver();
    const std::lock_guard<std::mutex> lock(all.mutex);
    const auto after = all.allocations.upper_bound((uintptr_t)pointer);
    if (after == all.allocations.begin()) return false;
    const auto& [start, allocation] = *std::prev(after);
    const size_t offset = (uintptr_t)pointer - start;
    return offset <= allocation.size && size <= allocation.size - offset;
}

}  // namespace operant_host

using namespace operant_host;

EXPORT CUresult cuMemGetInfo_v2(size_t* left, size_t* total) {
    Device* device;
    TRY(current_device(device));
    if (!left || !total) return CUDA_ERROR_INVALID_VALUE;
    const std::lock_guard<std::mutex> lock(driver().mutex);
    *left = device->memory - device->used;
    *total = device->memory;
    return CUDA_SUCCESS;
}

EXPORT CUresult cuMemAlloc_v2(CUdeviceptr* pointer, size_t size) {
    Device* device;
    TRY(current_device_outside_captures(device));
    if (!pointer || size == 0) return CUDA_ERROR_INVALID_VALUE;
    Driver& all = driver();
    {
        const std::lock_guard<std::mutex> lock(all.mutex);
        if (size > device->memory - device->used) return CUDA_ERROR_OUT_OF_MEMORY;
        device->used += size;
    }
    void* memory;
    const CUresult result = allocate(256, size, memory);
    const std::lock_guard<std::mutex> lock(all.mutex);
    if (result != CUDA_SUCCESS) {
        device->used -= size;
        return result;
    }
    all.allocations[(uintptr_t)memory] = {size, device, false};
    *pointer = (uintptr_t)memory;
    return CUDA_SUCCESS;
}

EXPORT CUresult cuMemFree_v2(CUdeviceptr pointer) { return pointer ? release((uintptr_t)pointer, false) : CUDA_SUCCESS; }

EXPORT CUresult cuMemHostAlloc(void** pointer, size_t size, unsigned flags) {
    Device* device;
    TRY(current_device_outside_captures(device));
    if (!pointer || size == 0 || flags > 7) return CUDA_ERROR_INVALID_VALUE;
    void* memory;
    TRY(allocate(64, size, memory));
    Driver& all = driver();
    const std::lock_guard<std::mutex> lock(all.mutex);
    all.allocations[(uintptr_t)memory] = {size, device, true};
    *pointer = memory;
    return CUDA_SUCCESS;
}

EXPORT CUresult cuMemFreeHost(void* pointer) { return release((uintptr_t)pointer, true); }

EXPORT CUresult cuMemcpyHtoDAsync_v2(CUdeviceptr to, const void* from, size_t size, CUstream handle) {
    Stream* stream;
    TRY(stream_of(handle, stream));
    if (!is_live(to, size) || !host_range_is_good(from, size)) return CUDA_ERROR_INVALID_VALUE;
    return copy(host_pointer(to), from, size, stream);
}

EXPORT CUresult cuMemcpyDtoHAsync_v2(void* to, CUdeviceptr from, size_t size, CUstream handle) {
    Stream* stream;
    TRY(stream_of(handle, stream));
    if (!is_live(from, size) || !host_range_is_good(to, size)) return CUDA_ERROR_INVALID_VALUE;
    return copy(to, host_pointer(from), size, stream);
}

EXPORT CUresult cuMemcpyDtoDAsync_v2(CUdeviceptr to, CUdeviceptr from, size_t size, CUstream handle) {
    Stream* stream;
    TRY(stream_of(handle, stream));
    if (!is_live(from, size) || !is_live(to, size)) return CUDA_ERROR_INVALID_VALUE;
    return copy(host_pointer(to), host_pointer(from), size, stream);
}

EXPORT CUresult cuMemsetD8Async(CUdeviceptr to, unsigned char byte, size_t size, CUstream handle) {
    Stream* stream;
    TRY(stream_of(handle, stream));
    if (!is_live(to, size)) return CUDA_ERROR_INVALID_VALUE;
    void* memory = host_pointer(to);
    return submit(*stream, [=] {
        memset(memory, byte, size);
        return CUDA_SUCCESS;
    });
}
