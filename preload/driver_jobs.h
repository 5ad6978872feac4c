// Forks for the jobs of a compiler driver. For a command with several jobs, such as one that compiles two files, clang
// executes itself for each.

#ifndef TANTO_PRELOAD_DRIVER_JOBS_H
#define TANTO_PRELOAD_DRIVER_JOBS_H

#include <stdbool.h>
#include <sys/types.h>

#include "frames.h"

#pragma GCC visibility push(hidden)

// Returns whether a command may have several jobs. A wrong answer costs time, nothing else.
bool may_have_several_jobs(const struct run *driver);

// Starts a child that stays as this process is now, before `main`, and makes copies of itself for jobs. Returns in this
// process, and in each copy with the command of its job in `run`.
void start_template(struct run *run);

// Returns true if the job now runs in a copy of the template. If not, it has to be executed.
bool fork_job(pid_t *process, const char *program, char *const words[], char *const variables[]);

// Ends the template of this process: the process ends.
void end_template(void);

#pragma GCC visibility pop

#endif
