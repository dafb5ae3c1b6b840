// Error messages of the engine about diverged threads.
#include "grid.h"

#include <cstdarg>
#include <cstdio>
#include <cstdlib>

namespace operant_host {

static const char* name_of(SyncPoint sync_point) {
    switch (sync_point) {
        case SyncPoint::None: return "nothing";
        case SyncPoint::SyncWarp: return "__syncwarp";
        case SyncPoint::Shuffle: return "a shuffle";
        case SyncPoint::Vote: return "a vote (any, all, ballot)";
        case SyncPoint::HostWarp: return "a host_warp";
        case SyncPoint::SyncThreads: return "__syncthreads";
        case SyncPoint::GridBarrier: return "GRID_BARRIER";
        case SyncPoint::End: return "its end";
    }
    return "?";
}

Text where(const ThreadPosition& place) {
    Text text;
    if (place.sync_point == SyncPoint::End) snprintf(text.text, sizeof text.text, "has ended");
    else snprintf(text.text, sizeof text.text, "waits at %s (%s:%d)", name_of(place.sync_point), place.file, place.line);
    return text;
}

void die(const Grid& grid, const char* format, ...) {
    char text[1500];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    fprintf(stderr, "operant's host engine: kernel %s, %u blocks of %u threads: %s\n", grid.launch->name,
            grid.launch->blocks, grid.launch->threads, text);
    fflush(stderr);
    abort();
}

}  // namespace operant_host
