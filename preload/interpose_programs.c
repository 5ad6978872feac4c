// Replaces functions of the C library that start a program or end a process.

#define _GNU_SOURCE
#include <fcntl.h>
#include <spawn.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "driver_jobs.h"
#include "interpose.h"

static bool is_dir(const char *path) {
  int dir = (int)syscall(SYS_openat, AT_FDCWD, path, O_PATH | O_DIRECTORY | O_CLOEXEC);
  if (dir >= 0) close(dir);
  return dir >= 0;
}

// Records where the C library looks for a program: its own calls are not seen.
static void search(const char *program) {
  if (!program || !program[0] || strchr(program, '/')) return;
  const char *dirs = find_variable("PATH");
  record_variable("PATH", dirs);
  char path[LONGEST_PATH];
  for (const char *dir = dirs ? dirs : "/bin:/usr/bin"; dir; dir = strchr(dir, ':') ? strchr(dir, ':') + 1 : NULL) {
    size_t length = strcspn(dir, ":");
    if (length + strlen(program) + 2 > sizeof path) continue;
    memcpy(path, dir, length);
    path[length] = '/';
    // An empty directory is the current one.
    strcpy(path + (length ? length + 1 : 0), program);
    int result = (int)syscall(SYS_faccessat, AT_FDCWD, path, X_OK);
    record_path(LOOKED, of_number(result), AT_FDCWD, path, NULL);
    if (result == 0 && !is_dir(path)) return;
  }
}

#define EXEC(name, parameters, arguments) \
  int name parameters {                   \
    NEXT(name);                           \
    record_exec(path);                    \
    int result = next arguments;          \
    record_exec_failed();                 \
    return result;                        \
  }

EXEC(execve, (const char *path, char *const words[], char *const variables[]), (path, words, variables))
EXEC(execv, (const char *path, char *const words[]), (path, words))

#define EXEC_IN_PATH(name, parameters, arguments) \
  int name parameters {                           \
    NEXT(name);                                   \
    search(path);                                 \
    record_exec(path);                            \
    int result = next arguments;                  \
    record_exec_failed();                         \
    return result;                                \
  }

EXEC_IN_PATH(execvp, (const char *path, char *const words[]), (path, words))
EXEC_IN_PATH(execvpe, (const char *path, char *const words[], char *const variables[]), (path, words, variables))

int fexecve(int descriptor, char *const words[], char *const variables[]) {
  NEXT(fexecve);
  record_exec("");
  int result = next(descriptor, words, variables);
  record_exec_failed();
  return result;
}

// Collects the words of execl and its relatives, from the stack.
#define WORDS(first)                    \
  va_list rest;                         \
  int count = 1;                        \
  va_start(rest, first);                \
  while (va_arg(rest, char *)) count++; \
  va_end(rest);                         \
  char *words[count + 1];               \
  words[0] = (char *)first;             \
  va_start(rest, first);                \
  for (int at = 1; at <= count; at++) words[at] = va_arg(rest, char *);

int execl(const char *path, const char *first, ...) {
  WORDS(first)
  va_end(rest);
  return execv(path, words);
}

int execlp(const char *path, const char *first, ...) {
  WORDS(first)
  va_end(rest);
  return execvp(path, words);
}

int execle(const char *path, const char *first, ...) {
  WORDS(first)
  char **variables = va_arg(rest, char **);
  va_end(rest);
  return execve(path, words, variables);
}

#define SPAWN(name, before)                                                                                        \
  int name(pid_t *restrict process, const char *restrict path, const posix_spawn_file_actions_t *restrict actions, \
           const posix_spawnattr_t *restrict attributes, char *const words[restrict],                              \
           char *const variables[restrict]) {                                                                      \
    NEXT(name);                                                                                                    \
    before;                                                                                                        \
    pid_t started = 0;                                                                                             \
    bool is_job = !actions && !attributes && fork_job(&started, path, words, variables);                           \
    int result = is_job ? 0 : next(&started, path, actions, attributes, words, variables);                         \
    if (result == 0) record_spawn(started, path);                                                                  \
    if (result == 0 && process) *process = started;                                                                \
    return result;                                                                                                 \
  }

// The new process opens it. Its directory is taken to be that of this one.
int posix_spawn_file_actions_addopen(posix_spawn_file_actions_t *restrict actions, int descriptor,
                                     const char *restrict path, int flags, mode_t mode) {
  NEXT(posix_spawn_file_actions_addopen);
  int error = flags & O_CREAT ? 0 : of_number(syscall(SYS_faccessat, AT_FDCWD, path, F_OK));
  record_open(AT_FDCWD, path, flags, error);
  return next(actions, descriptor, path, flags, mode);
}

SPAWN(posix_spawn, (void)0)
SPAWN(posix_spawnp, search(path))

int system(const char *line) {
  NEXT(system);
  int result = next(line);
  if (line && result != -1) record_spawn(0, "/bin/sh");
  return result;
}

FILE *popen(const char *line, const char *mode) {
  NEXT(popen);
  FILE *result = next(line, mode);
  if (result) record_spawn(0, "/bin/sh");
  return result;
}

// ---- ends that skip destructors ----

#define END(name)            \
  void name(int status) {    \
    NEXT(name);              \
    record_end();            \
    end_template();          \
    next(status);            \
    __builtin_unreachable(); \
  }

END(_exit)
END(_Exit)

void quick_exit(int status) {
  NEXT(quick_exit);
  record_end();
  end_template();
  next(status);
  __builtin_unreachable();
}
