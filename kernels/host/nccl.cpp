// The stand-in for NCCL (libnccl.so.2): sums and exchanges between the devices of the stand-in for the driver, in their streams.
//
// It holds its callers to what the real library asks of them: a communicator that lives, one device a rank, the same call with the same
// count from every rank, memory that lives. A rank waits in its stream until all others are there, so each needs its own host thread.
// Like the real library's rings it adds a part of the numbers in another order than the next: part k begins with the number of rank k.
//
// For tests of what the real library may lack: OPERANT_HOST_NCCL_VERSION (22703). A rank that waits for a minute fails.
#include "driver_calls.h"

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <vector>

// The numbers are part of the library's binary interface; nothing of its headers is needed.
enum Result : unsigned { SUCCESS = 0, UNHANDLED_CUDA_ERROR = 1, INVALID_ARGUMENT = 4, INVALID_USAGE = 5 };
constexpr int FLOAT32 = 7, FLOAT64 = 8, SUM = 0;

struct UniqueId {
    char bytes[128];
};

namespace {

constexpr std::chrono::minutes PATIENCE{1};

// What a rank brings to a round.
struct Part {
    bool gathers;
    int type;
    std::vector<char> bytes;

    bool fits(const Part& other) const {
        return gathers == other.gathers && type == other.type && bytes.size() == other.bytes.size();
    }
};

// The ranks of a communicator. Rounds follow each other: the next begins when all have left.
struct Group {
    std::mutex mutex;
    std::condition_variable changed;
    size_t size;
    std::set<void*> contexts;
    bool duplicate = false;
    std::vector<std::unique_ptr<Part>> parts;
    size_t arrived = 0, left = 0;
    uint64_t rounds = 0;

    explicit Group(size_t size) : size(size), parts(size) {}

    template <class Condition>
    bool wait(std::unique_lock<std::mutex>& lock, Condition condition) {
        return changed.wait_for(lock, PATIENCE, condition);
    }
};

struct Communicator {
    std::shared_ptr<Group> group;
    size_t rank;
    void* context;
};

// Everything that threads share. Never destroyed: threads may outlive the order of destruction.
struct State {
    std::mutex mutex;
    uint64_t named = 0;
    std::map<uint64_t, std::weak_ptr<Group>> groups;
    std::set<Communicator*> communicators;
};

State& state() {
    static State* const state = new State;
    return *state;
}

bool is_alive(Communicator* communicator) {
    const std::lock_guard<std::mutex> lock(state().mutex);
    return state().communicators.count(communicator) != 0;
}

// One call of one rank.
struct Work {
    std::shared_ptr<Group> group;
    size_t rank, count;
    int type;
    bool gathers;
    const void* from;
    void* to;

    size_t bytes() const { return count * (type == FLOAT64 ? 8 : 4); }
    size_t bytes_out() const { return gathers ? bytes() * group->size : bytes(); }
};

template <class T>
void add(const std::vector<std::unique_ptr<Part>>& parts, size_t count, T* to) {
    const size_t size = parts.size();
    for (size_t i = 0; i < count; ++i) {
        const size_t first = i * size / count;
        T sum = 0;
        for (size_t k = 0; k < size; ++k) {
            T number;
            memcpy(&number, parts[(first + k) % size]->bytes.data() + i * sizeof(T), sizeof(T));
            sum = k == 0 ? number : sum + number;
        }
        to[i] = sum;
    }
}

bool run(Work& work) {
    if (!driver()->is_live((uintptr_t)work.from, work.bytes()) || !driver()->is_live((uintptr_t)work.to, work.bytes_out())) return false;
    Group& group = *work.group;
    std::unique_lock<std::mutex> lock(group.mutex);
    if (!group.wait(lock, [&] { return !group.parts[work.rank]; })) return false;
    const char* const from = static_cast<const char*>(work.from);
    group.parts[work.rank].reset(new Part{work.gathers, work.type, {from, from + work.bytes()}});
    const uint64_t round = group.rounds;
    if (++group.arrived == group.size) {
        ++group.rounds;
        group.changed.notify_all();
    }
    if (!group.wait(lock, [&] { return group.rounds > round; })) return false;
    bool good = true;
    for (const auto& part : group.parts) good = good && part->fits(*group.parts[0]);
    if (good && work.gathers) {
        char* to = static_cast<char*>(work.to);
        for (const auto& part : group.parts) to = std::copy(part->bytes.begin(), part->bytes.end(), to);
    } else if (good && work.type == FLOAT64) {
        add(group.parts, work.count, static_cast<double*>(work.to));
    } else if (good) {
        add(group.parts, work.count, static_cast<float*>(work.to));
    }
    if (++group.left == group.size) {
        for (auto& part : group.parts) part.reset();
        group.arrived = group.left = 0;
        group.changed.notify_all();
    }
    return good;
}

Result enqueue(const void* from, void* to, size_t count, int type, bool gathers, Communicator* communicator, void* stream) {
    if (!is_alive(communicator) || !from || !to || (type != FLOAT32 && type != FLOAT64)) return INVALID_ARGUMENT;
    void* context = nullptr;
    if (driver()->current(&context) != 0 || context != communicator->context) return INVALID_USAGE;
    auto* work = new Work{communicator->group, communicator->rank, count, type, gathers, from, to};
    const unsigned result = driver()->enqueue(
        stream, [](void* state) { return run(*static_cast<Work*>(state)); }, [](void* state) { delete static_cast<Work*>(state); }, work);
    return result == 0 ? SUCCESS : UNHANDLED_CUDA_ERROR;
}

}  // namespace

EXPORT unsigned ncclGetVersion(int* version) {
    if (!version) return INVALID_ARGUMENT;
    const char* const text = getenv("OPERANT_HOST_NCCL_VERSION");
    *version = text ? atoi(text) : 22703;
    return SUCCESS;
}

EXPORT const char* ncclGetErrorString(unsigned result) {
    switch (result) {
        case SUCCESS: return "no error";
        case UNHANDLED_CUDA_ERROR: return "unhandled cuda error";
        case INVALID_ARGUMENT: return "invalid argument";
        case INVALID_USAGE: return "invalid usage";
        default: return "unknown result code";
    }
}

EXPORT unsigned ncclGetUniqueId(UniqueId* id) {
    if (!id) return INVALID_ARGUMENT;
    const std::lock_guard<std::mutex> lock(state().mutex);
    *id = {};
    const uint64_t name = ++state().named;
    memcpy(id->bytes, &name, sizeof name);
    return SUCCESS;
}

EXPORT unsigned ncclCommInitRank(Communicator** communicator, int size, UniqueId id, int rank) {
    void* context = nullptr;
    if (!driver() || driver()->current(&context) != 0 || !context) return UNHANDLED_CUDA_ERROR;
    if (!communicator || size < 1 || rank < 0 || rank >= size) return INVALID_ARGUMENT;
    uint64_t name;
    memcpy(&name, id.bytes, sizeof name);
    std::shared_ptr<Group> group;
    {
        const std::lock_guard<std::mutex> lock(state().mutex);
        if (name == 0 || name > state().named) return INVALID_ARGUMENT;
        std::weak_ptr<Group>& known = state().groups[name];
        group = known.lock();
        if (!group) known = group = std::make_shared<Group>((size_t)size);
    }
    if (group->size != (size_t)size) return INVALID_USAGE;
    {
        std::unique_lock<std::mutex> lock(group->mutex);
        group->duplicate |= !group->contexts.insert(context).second;
        group->changed.notify_all();
        const bool all = group->wait(lock, [&] { return group->duplicate || group->contexts.size() == group->size; });
        if (!all || group->duplicate) return INVALID_USAGE;
    }
    const std::lock_guard<std::mutex> lock(state().mutex);
    *communicator = new Communicator{group, (size_t)rank, context};
    state().communicators.insert(*communicator);
    return SUCCESS;
}

EXPORT unsigned ncclCommDestroy(Communicator* communicator) {
    const std::lock_guard<std::mutex> lock(state().mutex);
    if (state().communicators.erase(communicator) == 0) return INVALID_ARGUMENT;
    delete communicator;
    return SUCCESS;
}

EXPORT unsigned ncclAllReduce(const void* from, void* to, size_t count, int type, int operation, Communicator* communicator, void* stream) {
    return operation == SUM ? enqueue(from, to, count, type, false, communicator, stream) : INVALID_ARGUMENT;
}

EXPORT unsigned ncclAllGather(const void* from, void* to, size_t count, int type, Communicator* communicator, void* stream) {
    return enqueue(from, to, count, type, true, communicator, stream);
}
