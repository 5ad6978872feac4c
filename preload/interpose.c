// Replaces functions of the C library by ones that record the call and its result.

#define _GNU_SOURCE
#include "interpose.h"

#include <dirent.h>
#include <fcntl.h>
#include <locale.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

// ---- open ----

void record_open(int at, const char *path, int flags, int error) {
  if (flags & O_DIRECTORY) {
    record_path(LISTED, error, at, path, NULL);
    return;
  }
  bool is_written = (flags & O_ACCMODE) != O_RDONLY || flags & O_TRUNC;
  // A file that is written, but neither emptied nor new, keeps some of its content: that is an input.
  if (!is_written || !(flags & (O_TRUNC | O_EXCL))) record_path(READ, error, at, path, NULL);
  if (is_written) record_path(WROTE, error, at, path, NULL);
}

// Reads the mode, which is only there if a file may be created.
#define MODE(flags)                                       \
  mode_t mode = 0;                                        \
  if ((flags) & (O_CREAT | (O_TMPFILE & ~O_DIRECTORY))) { \
    va_list rest;                                         \
    va_start(rest, flags);                                \
    mode = va_arg(rest, mode_t);                          \
    va_end(rest);                                         \
  }

#define OPEN(name)                                         \
  int name(const char *path, int flags, ...) {             \
    NEXT(name);                                            \
    MODE(flags)                                            \
    int result = next(path, flags, mode);                  \
    record_open(AT_FDCWD, path, flags, of_number(result)); \
    return result;                                         \
  }

OPEN(open)
OPEN(open64)

#define OPENAT(name)                                   \
  int name(int at, const char *path, int flags, ...) { \
    NEXT(name);                                        \
    MODE(flags)                                        \
    int result = next(at, path, flags, mode);          \
    record_open(at, path, flags, of_number(result));   \
    return result;                                     \
  }

OPENAT(openat)
OPENAT(openat64)

// Calls of programs compiled with _FORTIFY_SOURCE.
#define OPEN_2(name)                                       \
  int name(const char *path, int flags);                   \
  int name(const char *path, int flags) {                  \
    NEXT(name);                                            \
    int result = next(path, flags);                        \
    record_open(AT_FDCWD, path, flags, of_number(result)); \
    return result;                                         \
  }

OPEN_2(__open_2)
OPEN_2(__open64_2)

#define OPENAT_2(name)                               \
  int name(int at, const char *path, int flags);     \
  int name(int at, const char *path, int flags) {    \
    NEXT(name);                                      \
    int result = next(at, path, flags);              \
    record_open(at, path, flags, of_number(result)); \
    return result;                                   \
  }

OPENAT_2(__openat_2)
OPENAT_2(__openat64_2)

#define CREAT(name)                                              \
  int name(const char *path, mode_t mode) {                      \
    NEXT(name);                                                  \
    int result = next(path, mode);                               \
    record_path(WROTE, of_number(result), AT_FDCWD, path, NULL); \
    return result;                                               \
  }

CREAT(creat)
CREAT(creat64)

// The flags of open for a mode of fopen.
static int flags_of(const char *mode) {
  int access = strchr(mode, '+') ? O_RDWR : mode[0] == 'r' ? O_RDONLY : O_WRONLY;
  return access | (mode[0] == 'w' ? O_TRUNC : 0) | (strchr(mode, 'x') ? O_EXCL : 0);
}

#define FOPEN(name)                                                  \
  FILE *name(const char *restrict path, const char *restrict mode) { \
    NEXT(name);                                                      \
    FILE *result = next(path, mode);                                 \
    record_open(AT_FDCWD, path, flags_of(mode), of_pointer(result)); \
    return result;                                                   \
  }

FOPEN(fopen)
FOPEN(fopen64)

#define FREOPEN(name)                                                                       \
  FILE *name(const char *restrict path, const char *restrict mode, FILE *restrict stream) { \
    NEXT(name);                                                                             \
    FILE *result = next(path, mode, stream);                                                \
    record_open(AT_FDCWD, path, flags_of(mode), of_pointer(result));                        \
    return result;                                                                          \
  }

FREOPEN(freopen)
FREOPEN(freopen64)

DIR *opendir(const char *path) {
  NEXT(opendir);
  DIR *result = next(path);
  record_path(LISTED, of_pointer(result), AT_FDCWD, path, NULL);
  return result;
}

#define SCANDIR(name, entry)                                                                               \
  int name(const char *restrict path, struct entry ***restrict names, int (*filter)(const struct entry *), \
           int (*compare)(const struct entry **, const struct entry **)) {                                 \
    NEXT(name);                                                                                            \
    int result = next(path, names, filter, compare);                                                       \
    record_path(LISTED, of_number(result), AT_FDCWD, path, NULL);                                          \
    return result;                                                                                         \
  }

SCANDIR(scandir, dirent)
SCANDIR(scandir64, dirent64)

// ---- stat and access ----

#define STAT(name, status)                                                 \
  int name(const char *restrict path, struct status *restrict result_of) { \
    NEXT(name);                                                            \
    int result = next(path, result_of);                                    \
    record_path(LOOKED, of_number(result), AT_FDCWD, path, NULL);          \
    return result;                                                         \
  }

STAT(stat, stat)
STAT(stat64, stat64)
STAT(lstat, stat)
STAT(lstat64, stat64)

// An empty path names the open file itself.
static void looked_at(int at, const char *path, int result) {
  if (path && path[0]) record_path(LOOKED, of_number(result), at, path, NULL);
}

#define FSTATAT(name, status)                                                                 \
  int name(int at, const char *restrict path, struct status *restrict result_of, int flags) { \
    NEXT(name);                                                                               \
    int result = next(at, path, result_of, flags);                                            \
    looked_at(at, path, result);                                                              \
    return result;                                                                            \
  }

FSTATAT(fstatat, stat)
FSTATAT(fstatat64, stat64)

// Programs linked with a glibc before 2.33 call these.
#define XSTAT(name, status)                                           \
  int name(int version, const char *path, struct status *result_of);  \
  int name(int version, const char *path, struct status *result_of) { \
    NEXT(name);                                                       \
    int result = next(version, path, result_of);                      \
    record_path(LOOKED, of_number(result), AT_FDCWD, path, NULL);     \
    return result;                                                    \
  }

XSTAT(__xstat, stat)
XSTAT(__xstat64, stat64)
XSTAT(__lxstat, stat)
XSTAT(__lxstat64, stat64)

#define FXSTATAT(name, status)                                                           \
  int name(int version, int at, const char *path, struct status *result_of, int flags);  \
  int name(int version, int at, const char *path, struct status *result_of, int flags) { \
    NEXT(name);                                                                          \
    int result = next(version, at, path, result_of, flags);                              \
    looked_at(at, path, result);                                                         \
    return result;                                                                       \
  }

FXSTATAT(__fxstatat, stat)
FXSTATAT(__fxstatat64, stat64)

int statx(int at, const char *restrict path, int flags, unsigned mask, struct statx *restrict result_of) {
  NEXT(statx);
  int result = next(at, path, flags, mask, result_of);
  looked_at(at, path, result);
  return result;
}

#define ACCESS(name)                                              \
  int name(const char *path, int mode) {                          \
    NEXT(name);                                                   \
    int result = next(path, mode);                                \
    record_path(LOOKED, of_number(result), AT_FDCWD, path, NULL); \
    return result;                                                \
  }

ACCESS(access)
ACCESS(euidaccess)
ACCESS(eaccess)

int faccessat(int at, const char *path, int mode, int flags) {
  NEXT(faccessat);
  int result = next(at, path, mode, flags);
  looked_at(at, path, result);
  return result;
}

// ---- links ----

#define LONGEST_LINK 4096

static void read_link(int at, const char *path, const char *target, size_t room, ssize_t length) {
  char text[LONGEST_LINK + 1];
  if (length < 0) {
    record_path(LINK, errno, at, path, NULL);
  } else if ((size_t)length < room && length <= LONGEST_LINK) {
    memcpy(text, target, (size_t)length);
    text[length] = '\0';
    record_path(LINK, 0, at, path, text);
  } else {
    // It may be truncated.
    record_path(LOOKED, 0, at, path, NULL);
  }
}

ssize_t readlink(const char *restrict path, char *restrict target, size_t room) {
  NEXT(readlink);
  ssize_t result = next(path, target, room);
  read_link(AT_FDCWD, path, target, room, result);
  return result;
}

ssize_t readlinkat(int at, const char *restrict path, char *restrict target, size_t room) {
  NEXT(readlinkat);
  ssize_t result = next(at, path, target, room);
  read_link(at, path, target, room, result);
  return result;
}

ssize_t __readlink_chk(const char *restrict path, char *restrict target, size_t room, size_t size);
ssize_t __readlink_chk(const char *restrict path, char *restrict target, size_t room, size_t size) {
  NEXT(__readlink_chk);
  ssize_t result = next(path, target, room, size);
  read_link(AT_FDCWD, path, target, room, result);
  return result;
}

ssize_t __readlinkat_chk(int at, const char *restrict path, char *restrict target, size_t room, size_t size);
ssize_t __readlinkat_chk(int at, const char *restrict path, char *restrict target, size_t room, size_t size) {
  NEXT(__readlinkat_chk);
  ssize_t result = next(at, path, target, room, size);
  read_link(at, path, target, room, result);
  return result;
}

char *realpath(const char *restrict path, char *restrict resolved) {
  // Of two versions, dlsym returns the older one, which refuses NULL.
  static __typeof__(&realpath) next;
  if (!next) next = (__typeof__(&realpath))dlvsym(RTLD_NEXT, "realpath", "GLIBC_2.3");
  if (!next) next = (__typeof__(&realpath))dlsym(RTLD_NEXT, "realpath");
  char *result = next(path, resolved);
  record_path(RESOLVED, of_pointer(result), AT_FDCWD, path, result);
  return result;
}

char *__realpath_chk(const char *restrict path, char *restrict resolved, size_t size);
char *__realpath_chk(const char *restrict path, char *restrict resolved, size_t size) {
  NEXT(__realpath_chk);
  char *result = next(path, resolved, size);
  record_path(RESOLVED, of_pointer(result), AT_FDCWD, path, result);
  return result;
}

char *canonicalize_file_name(const char *path) {
  NEXT(canonicalize_file_name);
  char *result = next(path);
  record_path(RESOLVED, of_pointer(result), AT_FDCWD, path, result);
  return result;
}

// ---- names that are replaced and removed ----

static void wrote(int at, const char *path, int error) { record_path(WROTE, error, at, path, NULL); }

static void renamed(int old_at, const char *old_path, int at, const char *path, int result) {
  int error = of_number(result);
  wrote(old_at, old_path, error);
  wrote(at, path, error);
}

int rename(const char *old_path, const char *path) {
  NEXT(rename);
  int result = next(old_path, path);
  renamed(AT_FDCWD, old_path, AT_FDCWD, path, result);
  return result;
}

int renameat(int old_at, const char *old_path, int at, const char *path) {
  NEXT(renameat);
  int result = next(old_at, old_path, at, path);
  renamed(old_at, old_path, at, path, result);
  return result;
}

int renameat2(int old_at, const char *old_path, int at, const char *path, unsigned flags) {
  NEXT(renameat2);
  int result = next(old_at, old_path, at, path, flags);
  renamed(old_at, old_path, at, path, result);
  return result;
}

// The new name has the content of the old one, which stays.
static void linked(int old_at, const char *old_path, int at, const char *path, int result) {
  int error = of_number(result);
  record_path(READ, error, old_at, old_path, NULL);
  wrote(at, path, error);
}

int link(const char *old_path, const char *path) {
  NEXT(link);
  int result = next(old_path, path);
  linked(AT_FDCWD, old_path, AT_FDCWD, path, result);
  return result;
}

int linkat(int old_at, const char *old_path, int at, const char *path, int flags) {
  NEXT(linkat);
  int result = next(old_at, old_path, at, path, flags);
  linked(old_at, old_path, at, path, result);
  return result;
}

int symlink(const char *target, const char *path) {
  NEXT(symlink);
  int result = next(target, path);
  wrote(AT_FDCWD, path, of_number(result));
  return result;
}

int symlinkat(const char *target, int at, const char *path) {
  NEXT(symlinkat);
  int result = next(target, at, path);
  wrote(at, path, of_number(result));
  return result;
}

int mkdir(const char *path, mode_t mode) {
  NEXT(mkdir);
  int result = next(path, mode);
  wrote(AT_FDCWD, path, of_number(result));
  return result;
}

int mkdirat(int at, const char *path, mode_t mode) {
  NEXT(mkdirat);
  int result = next(at, path, mode);
  wrote(at, path, of_number(result));
  return result;
}

// Keeps the beginning of the file.
#define TRUNCATE(name, size)                                  \
  int name(const char *path, size length) {                   \
    NEXT(name);                                               \
    int result = next(path, length);                          \
    record_open(AT_FDCWD, path, O_WRONLY, of_number(result)); \
    return result;                                            \
  }

TRUNCATE(truncate, off_t)
TRUNCATE(truncate64, off64_t)

#define REMOVE(name)                          \
  int name(const char *path) {                \
    NEXT(name);                               \
    int result = next(path);                  \
    wrote(AT_FDCWD, path, of_number(result)); \
    return result;                            \
  }

REMOVE(unlink)
REMOVE(remove)
REMOVE(rmdir)

int unlinkat(int at, const char *path, int flags) {
  NEXT(unlinkat);
  int result = next(at, path, flags);
  wrote(at, path, of_number(result));
  return result;
}

// ---- variables ----

#define GETENV(name)                   \
  char *name(const char *variable) {   \
    NEXT(name);                        \
    char *result = next(variable);     \
    record_variable(variable, result); \
    return result;                     \
  }

GETENV(getenv)
GETENV(secure_getenv)

// Records the variables that the C library reads for a locale that is named by an empty text.
static void record_locale(const char *name) {
  static const char *const variables[] = {"LC_ALL",     "LC_COLLATE", "LC_CTYPE", "LC_MESSAGES", "LC_MONETARY",
                                          "LC_NUMERIC", "LC_TIME",    "LANG",     "LANGUAGE",    "LOCPATH"};
  if (!name || name[0]) return;
  for (size_t at = 0; at < sizeof variables / sizeof *variables; at++)
    record_variable(variables[at], find_variable(variables[at]));
}

char *setlocale(int category, const char *locale) {
  NEXT(setlocale);
  record_locale(locale);
  return next(category, locale);
}

locale_t newlocale(int categories, const char *locale, locale_t base) {
  NEXT(newlocale);
  record_locale(locale);
  return next(categories, locale, base);
}

// ---- other processes ----

// Another process could read files for this one.
int connect(int descriptor, const struct sockaddr *address, socklen_t length) {
  NEXT(connect);
  record_lost();
  return next(descriptor, address, length);
}

// ---- the calendar ----

// Programs that need the date or the time of day call these; `time` and `clock_gettime` also seed random numbers and
// measure durations.
#define CALENDAR_TIME(name, type)    \
  type name(const time_t *seconds) { \
    NEXT(name);                      \
    record_calendar();               \
    return next(seconds);            \
  }

CALENDAR_TIME(localtime, struct tm *)
CALENDAR_TIME(gmtime, struct tm *)
CALENDAR_TIME(ctime, char *)

#define CALENDAR_TIME_R(name, type, room)                           \
  type name(const time_t *restrict seconds, room restrict result) { \
    NEXT(name);                                                     \
    record_calendar();                                              \
    return next(seconds, result);                                   \
  }

CALENDAR_TIME_R(localtime_r, struct tm *, struct tm *)
CALENDAR_TIME_R(gmtime_r, struct tm *, struct tm *)
CALENDAR_TIME_R(ctime_r, char *, char *)
