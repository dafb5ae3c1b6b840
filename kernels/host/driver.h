// The stand-in for the CUDA driver (libcuda.so): its state. Memory is the host's heap, a module is a shared object, a stream
// runs each command before the call returns, and the engine runs the kernels.
//
// With OPERANT_HOST_STREAMS=SEED streams are deferred, as on a real GPU: a call returns before its work is done. Work is done when
// the host waits or asks, and each next step comes from a stream that the seed draws from those whose next step waits for
// nothing. So concurrent work may run long before or after other work, and a missing wait for an event changes results.
//
//   device  name                            what is special
//   0       host, threads in order
//   1       host, threads in reverse
//   2       host, threads shuffled          a new order at every pass, the same in every process
//   3       host, little memory             1 MiB
//   4       host, no cooperative launch
//   5       host, lost device               the fourth launch fails, and every call after it, until the context is gone; with
//                                           OPERANT_HOST_LAUNCHES=N the one after N
//
// For tests of what a real machine may lack: OPERANT_HOST_DRIVER_VERSION (13000) and OPERANT_HOST_DEVICES (6).
#pragma once
#include <chrono>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "cuda_types.h"
#include "launch.h"

#define EXPORT extern "C" __attribute__((visibility("default")))

// Returns the failure of `call`, if it fails.
#define TRY(call)                                                        \
    do {                                                                 \
        if (const CUresult result_ = (call); result_ != CUDA_SUCCESS) return result_; \
    } while (false)

namespace operant_host {

constexpr int MULTIPROCESSORS = 132;
constexpr int THREADS_PER_MULTIPROCESSOR = 2048;
constexpr int BLOCKS_PER_MULTIPROCESSOR = 32;
constexpr int THREADS_PER_BLOCK = 1024;
constexpr int SHARED_PER_MULTIPROCESSOR = 228 * 1024;
constexpr int SHARED_PER_BLOCK = 227 * 1024;  // after cuFuncSetAttribute
constexpr int SHARED_BY_DEFAULT = 48 * 1024;
constexpr int SHARED_RESERVED = 1024;  // by the system, of each block

// A device and its primary context, which share a handle.
struct Device {
    int ordinal;
    const char* name;
    Order order;
    size_t memory;
    bool cooperative;
    int loses;  // fails after this many launches; -1 never does
    unsigned retained = 0;
    size_t used = 0;
    unsigned launches = 0;
    bool lost = false;
    Stream* legacy = nullptr;  // the stream whose handle is null
};

struct Allocation {
    size_t size;
    Device* device;
    bool host;  // pinned
};

using Command = std::function<CUresult()>;

// The commands recorded between cuStreamBeginCapture and cuStreamEndCapture. Streams that wait for an event of a capturing one
// take part; the commands are in the order of their calls, which respects every dependency.
struct Capture {
    Stream* origin;
    CUstreamCaptureMode mode;
    std::thread::id thread;
    bool invalid = false;
    bool ended = false;
    std::vector<Command> commands;
    std::set<Stream*> members, unjoined;
};

// One recording of an event: whether its stream has reached it, and when. It outlives the event where streams wait for it.
struct Mark {
    bool passed = false;
    std::chrono::steady_clock::time_point time;
};

// A pending step of a deferred stream: run a command, or wait for a mark.
struct Step {
    Command command;
    std::shared_ptr<Mark> waits_for;
};

struct Stream {
    Device* device;
    uint64_t number = 0;  // in the order of their making
    std::mutex running;
    std::deque<Step> steps;
    std::shared_ptr<Capture> capture;
    size_t captured = 0;  // commands of this stream in its capture
};

struct Event {
    Device* device;
    bool timed;
    bool recorded = false;
    std::shared_ptr<Mark> mark;  // of the last time that it was recorded
    // The capture in which it was last recorded, if any.
    std::shared_ptr<Capture> capture;
    Stream* stream = nullptr;
    size_t position = 0;
};

struct Function {
    LoadedModule* module;
    std::string name;
    const Kernel* kernel;
    size_t dynamic = SHARED_BY_DEFAULT;  // the most dynamic shared memory that a launch may ask for
    bool loaded = false;                 // whether its code is: a capture does not allow that to happen
};

struct LoadedModule {
    Device* device;
    void* handle;
    int file;
    const Module* module;
    std::map<std::string, std::unique_ptr<Function>> functions;
};

struct Graph {
    Device* device;
    std::vector<Command> commands;
};

struct Executable {
    Device* device;
    std::vector<Command> commands;
};

// Everything that calls of several threads share. `mutex` is held for moments only, never while a command runs.
struct Driver {
    std::mutex mutex;
    std::mutex stepping;     // held by the thread that runs the steps of deferred streams; taken before `mutex`
    uint64_t streams_made = 0;
    bool initialised = false;
    std::vector<Device> devices;
    std::map<uintptr_t, Allocation> allocations;
    // The live handles; a call with any other returns CUDA_ERROR_INVALID_HANDLE.
    std::set<Stream*> streams;
    std::set<Event*> events;
    std::set<LoadedModule*> modules;
    std::set<Function*> functions;
    std::set<Graph*> graphs;
    std::set<Executable*> executables;
};

Driver& driver();

// The device whose context is current on this thread, unless it is lost.
CUresult current_device(Device*& device);

// The same for calls that a stream in capture forbids.
CUresult current_device_outside_captures(Device*& device);

// The stream of a handle, which may be null for the context's own.
CUresult stream_of(CUstream handle, Stream*& stream);

// Runs the command now, or later where streams are deferred, or records it where the stream is in capture.
CUresult submit(Stream& stream, Command command);

// A stream that is not yet known to anybody. The mutex is held.
Stream* new_stream(Device& device);

// Waits until the stream has done all that it was given.
CUresult settle(Stream& stream);

// Where streams are deferred: waits until all of the device's have done so.
CUresult settle(Device& device);

// Whether all of [pointer, pointer + size) lies in one live allocation.
bool is_live(CUdeviceptr pointer, size_t size);

// The end of a context: all that it owns goes. The mutex is held.
void destroy_context(Device& device);
void unload(LoadedModule* module);

// Blocks of that size that one multiprocessor holds.
int occupancy(const Function& function, int threads, size_t shared);

template <class T>
bool alive(const std::set<T*>& handles, T* handle) {
    const std::lock_guard<std::mutex> lock(driver().mutex);
    return handles.count(handle) != 0;
}

}  // namespace operant_host
