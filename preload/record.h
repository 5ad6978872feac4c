// The record of a process: the files and variables that it has looked at. PROTOCOL.md describes the format.

#ifndef TANTO_PRELOAD_RECORD_H
#define TANTO_PRELOAD_RECORD_H

#include <stddef.h>
#include <sys/types.h>

#pragma GCC visibility push(hidden)

enum kind {
  BEGUN = 1,     // a program began in this process
  FORKED = 2,    // a fork began
  ENDED = 3,     // the program or fork ended
  EXECUTED = 4,  // it is replaced by a program
  SPAWNED = 5,   // it has started a program in another process
  FAILED = 6,    // the last EXECUTED or SPAWNED has failed
  LOOKED = 7,    // stat, access
  READ = 8,
  WROTE = 9,
  LISTED = 10,    // opendir
  LINK = 11,      // readlink; the value is the target
  RESOLVED = 12,  // realpath; the value is the result
  VARIABLE = 13,  // getenv; the value is that of the variable
  CALENDAR = 14,  // localtime and the like
  LOADED = 15,    // the dynamic loader loaded a library
};

// Set in a fork server.
#define SERVER_VARIABLE "TANTO_FORK_SERVER"

// Longer paths are not recorded: something is lost.
#define LONGEST_PATH 4096

// Records a path, relative to the directory `at` if it is not absolute. `error`: of the call; 0: it succeeded. `value`
// may be NULL. Keeps errno.
void record_path(enum kind kind, int error, int at, const char *path, const char *value);

// Records a variable; `value` is NULL if it is not set.
void record_variable(const char *name, const char *value);

// Records that the program asked for the date or the time of day.
void record_calendar(void);

// Finds a variable without recording that.
const char *find_variable(const char *name);

// Records the start of a program, before it replaces this one. Everything is written before.
void record_exec(const char *program);
void record_exec_failed(void);

// Records that a program was started in another process; 0 if that is unknown.
void record_spawn(pid_t started, const char *program);

// Writes everything: the process ends.
void record_end(void);

// Stops recording, and starts it again: calls of this library are none of the program.
void record_pause(void);
void record_resume(void);

// A fork of a fork server begins to run a command, in whose environment it already is. If that wants a record, what the
// server has recorded becomes a part of it: a process would have done the same.
void record_enter_program(void);

// Something cannot be recorded: the record is incomplete.
void record_lost(void);

#pragma GCC visibility pop

#endif
