// What the engine says when threads have gone astray.
#include "grid.h"

#include <cstdarg>
#include <cstdio>
#include <cstdlib>

namespace operant_host {

static const char* name_of(Meeting meeting) {
    switch (meeting) {
        case Meeting::None: return "nothing";
        case Meeting::SyncWarp: return "__syncwarp";
        case Meeting::Shuffle: return "a shuffle";
        case Meeting::Vote: return "a vote (any, all, ballot)";
        case Meeting::Reduce: return "a __reduce";
        case Meeting::HostWarp: return "a host_warp";
        case Meeting::SyncThreads: return "__syncthreads";
        case Meeting::GridBarrier: return "GRID_BARRIER";
        case Meeting::End: return "its end";
    }
    return "?";
}

Text where(const Place& place) {
    Text text;
    if (place.meeting == Meeting::End) snprintf(text.text, sizeof text.text, "has ended");
    else snprintf(text.text, sizeof text.text, "waits at %s (%s:%d)", name_of(place.meeting), place.file, place.line);
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
