// The libraries that the dynamic loader has loaded, and where it looked for them.

#ifndef TANTO_PRELOAD_LIBRARIES_H
#define TANTO_PRELOAD_LIBRARIES_H

#pragma GCC visibility push(hidden)

// Records them, unless nothing was loaded since the last call. Keeps errno.
void record_libraries(void);

#pragma GCC visibility pop

#endif
