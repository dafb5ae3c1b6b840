// The stand-in for the CUDA driver: streams, events, and graphs made by capture.
#include "driver.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <utility>

namespace operant_host {
namespace {

// The seed of OPERANT_HOST_STREAMS; none where streams run their commands at once.
bool deferred(uint64_t* seed = nullptr) {
    static const char* const text = getenv("OPERANT_HOST_STREAMS");
    if (text && seed) *seed = strtoull(text, nullptr, 10);
    return text && *text;
}

// The next number of a sequence that the seed decides. The mutex is held.
uint64_t draw() {
    static uint64_t state = [] {
        uint64_t seed = 0;
        deferred(&seed);
        return seed;
    }();
    uint64_t z = state += 0x9e3779b97f4a7c15u;  // splitmix64
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

// Whether its event is over. The mutex is held.
bool passed(const std::shared_ptr<Mark>& mark) { return !mark || mark->passed; }

bool ready(const Stream& stream) {
    if (stream.steps.empty()) return false;
    return passed(stream.steps.front().waits_for);
}

// Takes steps of the device's streams, those of a stream in order, until `over`, which is asked with the mutex held.
CUresult advance(Device& device, const std::function<bool()>& over) {
    Driver& all = driver();
    const std::lock_guard<std::mutex> alone(all.stepping);
    static Stream* last = nullptr;  // compared only
    for (;;) {
        Command command;
        {
            const std::lock_guard<std::mutex> lock(all.mutex);
            if (device.lost) return CUDA_ERROR_LAUNCH_FAILED;
            if (over()) return CUDA_SUCCESS;
            std::vector<Stream*> choices;
            for (Stream* stream : all.streams) {
                if (stream->device == &device && ready(*stream)) choices.push_back(stream);
            }
            if (choices.empty()) {
                fprintf(stderr, "operant's host driver: streams wait for each other\n");
                abort();
            }
            std::sort(choices.begin(), choices.end(), [](Stream* a, Stream* b) { return a->number < b->number; });
            // Mostly the same stream again, so that one gets far ahead of another.
            const bool again = std::count(choices.begin(), choices.end(), last) != 0 && draw() % 4 != 0;
            if (!again) last = choices[draw() % choices.size()];
            command = std::move(last->steps.front().command);
            last->steps.pop_front();
        }
        if (!command || command() == CUDA_SUCCESS) continue;
        const std::lock_guard<std::mutex> lock(all.mutex);
        device.lost = true;
        for (Stream* stream : all.streams) {
            if (stream->device == &device) stream->steps.clear();
        }
    }
}

template <class T>
CUresult event_of(T* handle, T*& event) {
    Device* device;
    TRY(current_device(device));
    if (!alive(driver().events, handle)) return CUDA_ERROR_INVALID_HANDLE;
    event = handle;
    return CUDA_SUCCESS;
}

// All of the capture's streams go back to running their commands. The mutex is held.
void end(Capture& capture) {
    capture.ended = true;
    for (Stream* member : capture.members) {
        member->capture.reset();
        member->captured = 0;
    }
}

// A call that capture forbids spoils it.
CUresult spoil(Capture& capture) {
    const std::lock_guard<std::mutex> lock(driver().mutex);
    capture.invalid = true;
    return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
}

std::shared_ptr<Capture> capture_of(const Stream& stream) {
    const std::lock_guard<std::mutex> lock(driver().mutex);
    return stream.capture;
}

}  // namespace

CUresult current_device_outside_captures(Device*& device) {
    TRY(current_device(device));
    Driver& all = driver();
    const std::lock_guard<std::mutex> lock(all.mutex);
    for (const Stream* stream : all.streams) {
        if (stream->device != device || !stream->capture) continue;
        Capture& capture = *stream->capture;
        const bool mine = capture.thread == std::this_thread::get_id();
        if (capture.mode == CU_STREAM_CAPTURE_MODE_GLOBAL || (capture.mode == CU_STREAM_CAPTURE_MODE_THREAD_LOCAL && mine)) {
            capture.invalid = true;
            return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
        }
    }
    return CUDA_SUCCESS;
}

CUresult stream_of(CUstream handle, Stream*& stream) {
    Device* device;
    TRY(current_device(device));
    const std::lock_guard<std::mutex> lock(driver().mutex);
    // Null and 1 are the legacy default stream, and 2 is the thread's; here all threads have the same.
    stream = (uintptr_t)handle > 2 ? handle : device->legacy;
    if (driver().streams.count(stream) == 0) return CUDA_ERROR_INVALID_HANDLE;
    return stream->device == device ? CUDA_SUCCESS : CUDA_ERROR_INVALID_CONTEXT;
}

CUresult submit(Stream& stream, Command command) {
    {
        const std::lock_guard<std::mutex> lock(driver().mutex);
        if (Capture* capture = stream.capture.get()) {
            if (capture->invalid) return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
            capture->commands.push_back(std::move(command));
            ++stream.captured;
            if (&stream != capture->origin) capture->unjoined.insert(&stream);
            return CUDA_SUCCESS;
        }
    }
    if (deferred()) {
        const std::lock_guard<std::mutex> lock(driver().mutex);
        stream.steps.push_back({std::move(command), nullptr});
        return CUDA_SUCCESS;
    }
    const std::lock_guard<std::mutex> one_at_a_time(stream.running);
    return command();
}

Stream* new_stream(Device& device) {
    Stream* stream = new Stream;
    stream->device = &device;
    stream->number = driver().streams_made++;
    driver().streams.insert(stream);
    return stream;
}

CUresult settle(Stream& stream) {
    if (deferred()) return advance(*stream.device, [&] { return stream.steps.empty(); });
    // Another thread's command ends before the stream can be locked.
    { const std::lock_guard<std::mutex> wait(stream.running); }
    return CUDA_SUCCESS;
}

CUresult settle(Device& device) {
    if (!deferred()) return CUDA_SUCCESS;
    return advance(device, [&] {
        const auto rests = [&](const Stream* stream) { return stream->device != &device || stream->steps.empty(); };
        return std::all_of(driver().streams.begin(), driver().streams.end(), rests);
    });
}

}  // namespace operant_host

using namespace operant_host;

EXPORT CUresult cuCtxSynchronize() {
    Device* device;
    TRY(current_device_outside_captures(device));
    TRY(settle(*device));
    // Another thread's command ends before its stream can be locked.
    std::vector<Stream*> streams;
    {
        const std::lock_guard<std::mutex> lock(driver().mutex);
        for (Stream* stream : driver().streams) {
            if (stream->device == device) streams.push_back(stream);
        }
    }
    for (Stream* stream : streams) const std::lock_guard<std::mutex> wait(stream->running);
    return current_device(device);
}

EXPORT CUresult cuStreamCreate(CUstream* handle, unsigned flags) {
    Device* device;
    TRY(current_device(device));
    if (!handle || flags > 1) return CUDA_ERROR_INVALID_VALUE;
    const std::lock_guard<std::mutex> lock(driver().mutex);
    *handle = new_stream(*device);
    return CUDA_SUCCESS;
}

EXPORT CUresult cuStreamDestroy_v2(CUstream handle) {
    Stream* stream;
    TRY(stream_of(handle, stream));
    TRY(settle(*stream));
    const std::lock_guard<std::mutex> lock(driver().mutex);
    if (stream == stream->device->legacy) return CUDA_ERROR_INVALID_HANDLE;
    if (stream->capture) {
        const std::shared_ptr<Capture> capture = stream->capture;
        capture->invalid = true;
        if (stream == capture->origin) end(*capture);
        capture->members.erase(stream);
        capture->unjoined.erase(stream);
    }
    driver().streams.erase(stream);
    delete stream;
    return CUDA_SUCCESS;
}

EXPORT CUresult cuStreamSynchronize(CUstream handle) {
    Stream* stream;
    TRY(stream_of(handle, stream));
    if (const auto capture = capture_of(*stream)) return spoil(*capture);
    TRY(settle(*stream));
    Device* device;
    return current_device(device);
}

EXPORT CUresult cuStreamWaitEvent(CUstream handle, CUevent waited, unsigned flags) {
    Stream* stream;
    Event* event;
    TRY(stream_of(handle, stream));
    TRY(event_of(waited, event));
    if (flags > 1) return CUDA_ERROR_INVALID_VALUE;
    const std::lock_guard<std::mutex> lock(driver().mutex);
    if (!event->capture) {
        // Whatever was recorded has been done, or is to be waited for; a stream in capture must not depend on the world outside.
        if (!stream->capture && deferred()) stream->steps.push_back({nullptr, event->mark});
        if (!stream->capture || !event->recorded) return CUDA_SUCCESS;
        stream->capture->invalid = true;
        return CUDA_ERROR_STREAM_CAPTURE_ISOLATION;
    }
    const std::shared_ptr<Capture>& capture = event->capture;
    if (stream->capture && stream->capture != capture) {
        stream->capture->invalid = capture->invalid = true;
        return CUDA_ERROR_STREAM_CAPTURE_MERGE;
    }
    // The capture of that event may be over: then there is nothing that could be waited for.
    if (capture->ended) return CUDA_ERROR_CAPTURED_EVENT;
    if (!stream->capture) {
        if (stream == stream->device->legacy) return CUDA_ERROR_STREAM_CAPTURE_IMPLICIT;
        stream->capture = capture;
        capture->members.insert(stream);
        capture->unjoined.insert(stream);
    }
    if (event->stream != stream && capture->members.count(event->stream) && event->stream->captured == event->position) {
        capture->unjoined.erase(event->stream);
    }
    return CUDA_SUCCESS;
}

EXPORT CUresult cuEventCreate(CUevent* handle, unsigned flags) {
    Device* device;
    TRY(current_device(device));
    if (!handle || flags > 7) return CUDA_ERROR_INVALID_VALUE;
    Event* event = new Event;
    event->device = device;
    event->timed = (flags & CU_EVENT_DISABLE_TIMING) == 0;
    const std::lock_guard<std::mutex> lock(driver().mutex);
    driver().events.insert(event);
    *handle = event;
    return CUDA_SUCCESS;
}

EXPORT CUresult cuEventDestroy_v2(CUevent handle) {
    Event* event;
    TRY(event_of(handle, event));
    const std::lock_guard<std::mutex> lock(driver().mutex);
    driver().events.erase(event);
    delete event;
    return CUDA_SUCCESS;
}

EXPORT CUresult cuEventRecord(CUevent handle, CUstream recorded) {
    Stream* stream;
    Event* event;
    TRY(event_of(handle, event));
    TRY(stream_of(recorded, stream));
    if (event->device != stream->device) return CUDA_ERROR_INVALID_HANDLE;
    std::shared_ptr<Mark> mark;
    {
        const std::lock_guard<std::mutex> lock(driver().mutex);
        event->capture = stream->capture;
        event->stream = stream;
        event->position = stream->captured;
        event->recorded = !stream->capture;
        if (stream->capture) return stream->capture->invalid ? CUDA_ERROR_STREAM_CAPTURE_INVALIDATED : CUDA_SUCCESS;
        event->mark = mark = std::make_shared<Mark>();
    }
    return submit(*stream, [mark] {
        const std::lock_guard<std::mutex> lock(driver().mutex);
        mark->passed = true;
        mark->time = std::chrono::steady_clock::now();
        return CUDA_SUCCESS;
    });
}

EXPORT CUresult cuEventQuery(CUevent handle) {
    Event* event;
    TRY(event_of(handle, event));
    if (event->capture) return CUDA_ERROR_CAPTURED_EVENT;
    if (!deferred()) return CUDA_SUCCESS;
    bool asked = false;
    TRY(advance(*event->device, [&] { return passed(event->mark) || std::exchange(asked, true); }));
    const std::lock_guard<std::mutex> lock(driver().mutex);
    return passed(event->mark) ? CUDA_SUCCESS : CUDA_ERROR_NOT_READY;
}

EXPORT CUresult cuEventSynchronize(CUevent handle) {
    Event* event;
    TRY(event_of(handle, event));
    if (event->capture) return CUDA_ERROR_CAPTURED_EVENT;
    if (!deferred()) return CUDA_SUCCESS;
    return advance(*event->device, [&] { return passed(event->mark); });
}

EXPORT CUresult cuEventElapsedTime(float* milliseconds, CUevent from, CUevent to) {
    Event *start, *stop;
    TRY(event_of(from, start));
    TRY(event_of(to, stop));
    if (!milliseconds) return CUDA_ERROR_INVALID_VALUE;
    if (!start->timed || !stop->timed || !start->recorded || !stop->recorded) return CUDA_ERROR_INVALID_HANDLE;
    const std::lock_guard<std::mutex> lock(driver().mutex);
    if (!passed(start->mark) || !passed(stop->mark)) return CUDA_ERROR_NOT_READY;
    *milliseconds = std::chrono::duration<float, std::milli>(stop->mark->time - start->mark->time).count();
    return CUDA_SUCCESS;
}

EXPORT CUresult cuStreamBeginCapture_v2(CUstream handle, CUstreamCaptureMode mode) {
    Stream* stream;
    TRY(stream_of(handle, stream));
    if (mode > CU_STREAM_CAPTURE_MODE_RELAXED) return CUDA_ERROR_INVALID_VALUE;
    const std::lock_guard<std::mutex> lock(driver().mutex);
    if (stream == stream->device->legacy) return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
    if (stream->capture) return CUDA_ERROR_INVALID_VALUE;
    stream->capture = std::make_shared<Capture>();
    stream->capture->origin = stream;
    stream->capture->mode = mode;
    stream->capture->thread = std::this_thread::get_id();
    stream->capture->members.insert(stream);
    stream->captured = 0;
    return CUDA_SUCCESS;
}

EXPORT CUresult cuStreamEndCapture(CUstream handle, CUgraph* graph) {
    Stream* stream;
    TRY(stream_of(handle, stream));
    if (!graph) return CUDA_ERROR_INVALID_VALUE;
    *graph = nullptr;
    const std::lock_guard<std::mutex> lock(driver().mutex);
    const std::shared_ptr<Capture> capture = stream->capture;
    if (!capture) return CUDA_ERROR_INVALID_VALUE;
    if (capture->origin != stream) return CUDA_ERROR_STREAM_CAPTURE_UNMATCHED;
    if (capture->mode != CU_STREAM_CAPTURE_MODE_RELAXED && capture->thread != std::this_thread::get_id()) {
        return CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD;
    }
    end(*capture);
    if (capture->invalid) return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
    if (!capture->unjoined.empty()) return CUDA_ERROR_STREAM_CAPTURE_UNJOINED;
    *graph = new Graph{stream->device, std::move(capture->commands)};
    driver().graphs.insert(*graph);
    return CUDA_SUCCESS;
}

EXPORT CUresult cuGraphInstantiateWithFlags(CUgraphExec* executable, CUgraph graph, unsigned long long) {
    Device* device;
    TRY(current_device(device));
    if (!executable || !alive(driver().graphs, graph)) return CUDA_ERROR_INVALID_VALUE;
    *executable = new Executable{graph->device, graph->commands};
    const std::lock_guard<std::mutex> lock(driver().mutex);
    driver().executables.insert(*executable);
    return CUDA_SUCCESS;
}

EXPORT CUresult cuGraphLaunch(CUgraphExec executable, CUstream handle) {
    Stream* stream;
    TRY(stream_of(handle, stream));
    if (!alive(driver().executables, executable)) return CUDA_ERROR_INVALID_VALUE;
    return submit(*stream, [commands = executable->commands] {
        for (const Command& command : commands) TRY(command());
        return CUDA_SUCCESS;
    });
}

EXPORT CUresult cuGraphDestroy(CUgraph graph) {
    const std::lock_guard<std::mutex> lock(driver().mutex);
    if (driver().graphs.erase(graph) == 0) return CUDA_ERROR_INVALID_VALUE;
    delete graph;
    return CUDA_SUCCESS;
}

EXPORT CUresult cuGraphExecDestroy(CUgraphExec executable) {
    const std::lock_guard<std::mutex> lock(driver().mutex);
    if (driver().executables.erase(executable) == 0) return CUDA_ERROR_INVALID_VALUE;
    delete executable;
    return CUDA_SUCCESS;
}
