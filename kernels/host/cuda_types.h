// The types and numbers of the CUDA driver's interface that the stand-in answers with. The numbers are part of CUDA's stable
// binary interface; nothing of its headers is needed.
#pragma once
#include <cstddef>
#include <cstdint>

#define CUDA_ERRORS(X)                                                                             \
    X(SUCCESS, 0, "no error")                                                                      \
    X(ERROR_INVALID_VALUE, 1, "invalid argument")                                                  \
    X(ERROR_OUT_OF_MEMORY, 2, "out of memory")                                                     \
    X(ERROR_NOT_INITIALIZED, 3, "initialization error")                                            \
    X(ERROR_NO_DEVICE, 100, "no CUDA-capable device is detected")                                  \
    X(ERROR_INVALID_DEVICE, 101, "invalid device ordinal")                                         \
    X(ERROR_INVALID_IMAGE, 200, "device kernel image is invalid")                                  \
    X(ERROR_INVALID_CONTEXT, 201, "invalid device context")                                        \
    X(ERROR_NO_BINARY_FOR_GPU, 209, "no kernel image is available for execution on the device")    \
    X(ERROR_UNSUPPORTED_PTX_VERSION, 222, "the provided PTX was compiled with an unsupported toolchain.") \
    X(ERROR_OPERATING_SYSTEM, 304, "OS call failed or operation not supported on this OS")         \
    X(ERROR_INVALID_HANDLE, 400, "invalid resource handle")                                        \
    X(ERROR_NOT_FOUND, 500, "named symbol not found")                                              \
    X(ERROR_NOT_READY, 600, "device not ready")                                                    \
    X(ERROR_CONTEXT_IS_DESTROYED, 709, "context is destroyed")                                     \
    X(ERROR_LAUNCH_FAILED, 719, "unspecified launch failure")                                      \
    X(ERROR_COOPERATIVE_LAUNCH_TOO_LARGE, 720, "too many blocks in cooperative launch")            \
    X(ERROR_NOT_SUPPORTED, 801, "operation not supported")                                         \
    X(ERROR_STREAM_CAPTURE_UNSUPPORTED, 900, "operation not permitted when stream is capturing")   \
    X(ERROR_STREAM_CAPTURE_INVALIDATED, 901, "operation failed due to a previous error during capture") \
    X(ERROR_STREAM_CAPTURE_MERGE, 902, "operation would result in a merge of separate capture sequences") \
    X(ERROR_STREAM_CAPTURE_UNMATCHED, 903, "capture was not ended in the same stream as it began") \
    X(ERROR_STREAM_CAPTURE_UNJOINED, 904, "capturing stream has unjoined work")                    \
    X(ERROR_STREAM_CAPTURE_ISOLATION, 905, "dependency created on uncaptured work in another stream") \
    X(ERROR_STREAM_CAPTURE_IMPLICIT, 906, "operation would make the legacy stream depend on a capturing blocking stream") \
    X(ERROR_CAPTURED_EVENT, 907, "operation not permitted on an event last recorded in a capturing stream") \
    X(ERROR_STREAM_CAPTURE_WRONG_THREAD, 908, "attempt to terminate a thread-local capture sequence from another thread") \
    X(ERROR_UNKNOWN, 999, "unknown error")

enum CUresult : unsigned {
#define X(NAME, CODE, TEXT) CUDA_##NAME = CODE,
    CUDA_ERRORS(X)
#undef X
};

namespace operant_host {
struct Device;
struct Stream;
struct Event;
struct LoadedModule;
struct Function;
struct Graph;
struct Executable;
}  // namespace operant_host

using CUdevice = int;
using CUdeviceptr = unsigned long long;
using CUcontext = operant_host::Device*;
using CUstream = operant_host::Stream*;
using CUevent = operant_host::Event*;
using CUmodule = operant_host::LoadedModule*;
using CUfunction = operant_host::Function*;
using CUgraph = operant_host::Graph*;
using CUgraphExec = operant_host::Executable*;

struct CUuuid {
    char bytes[16];
};

enum CUstreamCaptureMode : unsigned {
    CU_STREAM_CAPTURE_MODE_GLOBAL = 0,
    CU_STREAM_CAPTURE_MODE_THREAD_LOCAL = 1,
    CU_STREAM_CAPTURE_MODE_RELAXED = 2,
};

constexpr unsigned CU_EVENT_DISABLE_TIMING = 2;

constexpr int CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK = 0;
constexpr int CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES = 1;
constexpr int CU_FUNC_ATTRIBUTE_CONST_SIZE_BYTES = 2;
constexpr int CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES = 3;
constexpr int CU_FUNC_ATTRIBUTE_NUM_REGS = 4;
constexpr int CU_FUNC_ATTRIBUTE_PTX_VERSION = 5;
constexpr int CU_FUNC_ATTRIBUTE_BINARY_VERSION = 6;
constexpr int CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES = 8;
constexpr int CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT = 9;
