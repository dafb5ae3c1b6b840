// The stand-in for the CUDA driver: streams, events, and graphs made by capture.
#include "driver.h"

#include <algorithm>

namespace operant_host {
namespace {

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
    stream = handle ? handle : device->legacy;
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
    const std::lock_guard<std::mutex> one_at_a_time(stream.running);
    return command();
}

}  // namespace operant_host

using namespace operant_host;

EXPORT CUresult cuCtxSynchronize() {
    Device* device;
    TRY(current_device_outside_captures(device));
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
    Stream* stream = new Stream;
    stream->device = device;
    const std::lock_guard<std::mutex> lock(driver().mutex);
    driver().streams.insert(stream);
    *handle = stream;
    return CUDA_SUCCESS;
}

EXPORT CUresult cuStreamDestroy_v2(CUstream handle) {
    Stream* stream;
    TRY(stream_of(handle, stream));
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
    { const std::lock_guard<std::mutex> wait(stream->running); }
    Device* device;
    return current_device(device);
}

EXPORT CUresult cuStreamQuery(CUstream handle) {
    Stream* stream;
    TRY(stream_of(handle, stream));
    if (const auto capture = capture_of(*stream)) return spoil(*capture);
    const std::unique_lock<std::mutex> free(stream->running, std::try_to_lock);
    return free.owns_lock() ? CUDA_SUCCESS : CUDA_ERROR_NOT_READY;
}

EXPORT CUresult cuStreamWaitEvent(CUstream handle, CUevent waited, unsigned flags) {
    Stream* stream;
    Event* event;
    TRY(stream_of(handle, stream));
    TRY(event_of(waited, event));
    if (flags > 1) return CUDA_ERROR_INVALID_VALUE;
    const std::lock_guard<std::mutex> lock(driver().mutex);
    if (!event->capture) {
        // Whatever was recorded has been done; a stream in capture must not depend on the world outside.
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
    {
        const std::lock_guard<std::mutex> lock(driver().mutex);
        event->capture = stream->capture;
        event->stream = stream;
        event->position = stream->captured;
        event->recorded = !stream->capture;
        if (stream->capture) return stream->capture->invalid ? CUDA_ERROR_STREAM_CAPTURE_INVALIDATED : CUDA_SUCCESS;
    }
    return submit(*stream, [=] {
        event->time = std::chrono::steady_clock::now();
        return CUDA_SUCCESS;
    });
}

EXPORT CUresult cuEventQuery(CUevent handle) {
    Event* event;
    TRY(event_of(handle, event));
    return event->capture ? CUDA_ERROR_CAPTURED_EVENT : CUDA_SUCCESS;
}

EXPORT CUresult cuEventSynchronize(CUevent handle) { return cuEventQuery(handle); }

EXPORT CUresult cuEventElapsedTime(float* milliseconds, CUevent from, CUevent to) {
    Event *start, *stop;
    TRY(event_of(from, start));
    TRY(event_of(to, stop));
    if (!milliseconds) return CUDA_ERROR_INVALID_VALUE;
    if (!start->timed || !stop->timed || !start->recorded || !stop->recorded) return CUDA_ERROR_INVALID_HANDLE;
    *milliseconds = std::chrono::duration<float, std::milli>(stop->time - start->time).count();
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

EXPORT CUresult cuStreamIsCapturing(CUstream handle, unsigned* status) {
    Stream* stream;
    TRY(stream_of(handle, stream));
    if (!status) return CUDA_ERROR_INVALID_VALUE;
    const auto capture = capture_of(*stream);
    *status = !capture ? 0 : capture->invalid ? 2 : 1;
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
