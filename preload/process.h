// The state of a process that the kernel sets up when it executes a program.

#ifndef TANTO_PRELOAD_PROCESS_H
#define TANTO_PRELOAD_PROCESS_H

#include <signal.h>

#include "frames.h"

#pragma GCC visibility push(hidden)

// Ends a fork whose parent has ended. Compilers remove temporary files first.
enum { END_SIGNAL = SIGTERM };

// Names this process and sets its environment as if it had executed the program.
void enter_program(const struct run *run);

#pragma GCC visibility pop

#endif
