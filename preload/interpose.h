// Declarations for the files that replace functions of the C library.

#ifndef TANTO_PRELOAD_INTERPOSE_H
#define TANTO_PRELOAD_INTERPOSE_H

#include <dlfcn.h>
#include <errno.h>

#include "record.h"

#pragma GCC visibility push(hidden)

// Declares `next`, the function that this one replaces.
#define NEXT(name)               \
  static __typeof__(&name) next; \
  if (!next) next = (__typeof__(&name))dlsym(RTLD_NEXT, #name)

// The error of a call that returns -1 or NULL.
static inline int of_number(long result) { return result < 0 ? errno : 0; }
static inline int of_pointer(const void *result) { return result ? 0 : errno; }

// Records that a file is opened with these flags.
void record_open(int at, const char *path, int flags, int error);

#pragma GCC visibility pop

#endif
