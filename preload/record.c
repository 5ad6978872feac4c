#define _GNU_SOURCE

#include "record.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "libraries.h"

#define ROOM (64 << 10)
#define TABLES 5
#define FIRST_TABLE 256
#define SLOTS (FIRST_TABLE * ((1 << TABLES) - 1))

// Bytes before the name: length, kind, error, process, and the number of the program or fork.
struct head {
  uint16_t length;
  uint8_t kind;
  uint8_t error;
  uint32_t process;
  uint64_t image;
} __attribute__((packed));

static char file[LONGEST_PATH];  // empty: nothing is recorded, or only in memory
static bool is_server;           // records stay in memory, for the forks of this process
static bool is_paused;
static uint64_t image;  // the number of this program or fork
static pid_t process;
static char buffer[ROOM];
static size_t used;
static bool is_ending;  // each record is written at once
static bool is_lost;    // a record could not be written: the end is not recorded
// Hashes of what was recorded: tables of growing sizes, so that a short record needs little memory.
static uint64_t seen[SLOTS];
static size_t seen_counts[TABLES];

// The lock for all of the above. A mutex would block a signal handler that interrupts its own thread.
static _Thread_local char me;
static _Thread_local bool is_forking;
static _Atomic(char *) owner;

// Returns false if this thread has the lock, as in a signal handler: then an observation is lost.
static bool acquire(void) {
  char *other = NULL;
  while (!atomic_compare_exchange_weak(&owner, &other, &me)) {
    if (other == &me) {
      is_lost = true;
      return false;
    }
    other = NULL;
    sched_yield();
  }
  return true;
}

static void release(void) { atomic_store(&owner, NULL); }

// The functions of this library would record this.
static int open_raw(const char *path, int flags) { return (int)syscall(SYS_openat, AT_FDCWD, path, flags, 0); }

static void flush(void) {
  if (used == 0) return;
  if (is_server) {
    is_lost = true;
    used = 0;
    return;
  }
  int out = open_raw(file, O_WRONLY | O_APPEND | O_CLOEXEC);
  // One call: the records of other processes do not come between.
  is_lost |= out < 0 || write(out, buffer, used) != (ssize_t)used;
  if (out >= 0) close(out);
  used = 0;
}

// `of`: the process that the record is about.
static void append_of(pid_t of, enum kind kind, int error, const char *name, const char *value) {
  size_t name_length = strlen(name), value_length = value ? strlen(value) + 1 : 0;
  size_t length = sizeof(struct head) + name_length + value_length;
  if (length > UINT16_MAX) {
    is_lost = true;
    return;
  }
  if (used + length > ROOM) flush();
  struct head head = {(uint16_t)length, (uint8_t)kind, (uint8_t)error, (uint32_t)of, image};
  char *at = buffer + used;
  memcpy(at, &head, sizeof head);
  memcpy(at + sizeof head, name, name_length);
  if (value) {
    at[sizeof head + name_length] = '\0';
    memcpy(at + sizeof head + name_length + 1, value, value_length - 1);
  }
  used += length;
  if (is_ending) flush();
}

static void append(enum kind kind, int error, const char *name, const char *value) {
  append_of(process, kind, error, name, value);
}

static uint64_t mix(uint64_t hash, const char *text) {
  for (; *text; text++) hash = (hash ^ (uint8_t)*text) * 0x100000001b3;
  return (hash ^ 0xff) * 0x100000001b3;
}

// Returns the slot of a hash, or the free one where it would be.
static uint64_t *find_slot(uint64_t *table, size_t size, uint64_t hash) {
  size_t slot = (size_t)(hash >> 32) % size;
  while (table[slot] && table[slot] != hash) slot = (slot + 1) % size;
  return &table[slot];
}

// Returns whether the same was recorded before. Full tables forget nothing, and learn nothing.
static bool is_known(enum kind kind, int error, const char *name, const char *value) {
  // The random number keeps chosen names from having the same hash.
  uint64_t hash = mix(image + (uint64_t)kind * 256 + (uint64_t)error, name);
  hash = value ? mix(hash, value) : hash;
  hash = hash ? hash : 1;
  uint64_t *table = seen;
  for (size_t at = 0, size = FIRST_TABLE; at < TABLES; at++, table += size, size *= 2) {
    uint64_t *slot = find_slot(table, size, hash);
    if (*slot) return true;
    if (seen_counts[at] < size / 4 * 3) {
      *slot = hash;
      seen_counts[at]++;
      return false;
    }
  }
  return false;
}

// Writes the path of a descriptor's file.
static bool path_of(int descriptor, char *path) {
  char link[40] = "/proc/self/fd/";
  char *end = link + strlen(link), digits[12];
  int count = 0;
  do digits[count++] = (char)('0' + descriptor % 10);
  while (descriptor /= 10);
  while (count > 0) *end++ = digits[--count];
  *end = '\0';
  ssize_t length = syscall(SYS_readlink, link, path, LONGEST_PATH - 1);
  if (length < 0 || length >= LONGEST_PATH - 1) return false;
  path[length] = '\0';
  return true;
}

// Writes the absolute path. Components such as `..` remain.
static bool absolute(int at, const char *path, char *result) {
  size_t length = 0;
  if (path[0] != '/') {
    if (at == AT_FDCWD) {
      // Not remembered: the child of vfork, which shares this memory, may have another one.
      if (syscall(SYS_getcwd, result, LONGEST_PATH) < 0) return false;
    } else if (at < 0 || !path_of(at, result)) {
      return false;
    }
    length = strlen(result);
    bool is_root = length == 1;
    if (path[0] && !is_root && length + 1 < LONGEST_PATH) result[length++] = '/';
  }
  size_t more = strlen(path);
  if (length + more >= LONGEST_PATH) return false;
  memcpy(result + length, path, more + 1);
  return true;
}

// Makes records that are not yet written those of this process.
static void adopt(void) {
  struct head head;
  for (size_t at = 0; at < used; at += head.length) {
    memcpy(&head, buffer + at, sizeof head);
    head.process = (uint32_t)process;
    head.image = image;
    memcpy(buffer + at, &head, sizeof head);
  }
}

static void new_image(enum kind kind) {
  char program[LONGEST_PATH] = "?";
  ssize_t length = syscall(SYS_readlink, "/proc/self/exe", program, sizeof program - 1);
  if (length >= 0) program[length] = '\0';
  process = (pid_t)syscall(SYS_getpid);
  if (getrandom(&image, sizeof image, GRND_NONBLOCK) != sizeof image) is_lost = true;
  adopt();
  append(kind, 0, program, NULL);
  // If the process is killed, its end is missing.
  flush();
}

const char *find_variable(const char *name) {
  extern char **environ;
  size_t length = strlen(name);
  for (char **it = environ; it && *it; it++)
    if (strncmp(*it, name, length) == 0 && (*it)[length] == '=') return *it + length + 1;
  return NULL;
}

// Finds the file to which this process appends. Returns false if there is none.
static bool find_file(void) {
  const char *named = find_variable("TANTO_RECORD");
  if (!named || named[0] != '/' || strlen(named) >= sizeof file) return false;
  strcpy(file, named);
  return true;
}

static bool is_recording(void);

static void before_fork(void) {
  if (!is_recording()) return;
  record_libraries();
  is_forking = acquire();
  if (is_forking) flush();
}

static void in_parent(void) {
  if (is_forking) release();
  is_forking = false;
}

static void in_fork(void) {
  // In a signal handler, its end is not recorded, because is_lost is set.
  if (is_recording()) new_image(FORKED);
  in_parent();
}

static void begin(void) {
  is_server = find_variable(SERVER_VARIABLE);
  if (!is_server) {
    if (!find_file()) return;
    new_image(BEGUN);
  }
  pthread_atfork(before_fork, in_parent, in_fork);
}

// Functions of this library may be called before its constructor.
static bool is_recording(void) {
  static pthread_once_t once = PTHREAD_ONCE_INIT;
  pthread_once(&once, begin);
  return (file[0] || is_server) && !is_paused;
}

__attribute__((constructor)) static void load(void) {
  if (is_recording()) record_libraries();
}

// Functions registered with atexit may run after this.
__attribute__((destructor)) static void unload(void) { record_end(); }

static void add(enum kind kind, int error, const char *name, const char *value) {
  if (!is_known(kind, error, name, value)) append(kind, error, name, value);
}

void record_path(enum kind kind, int error, int at, const char *path, const char *value) {
  int saved = errno;
  char name[LONGEST_PATH];
  if (path && is_recording()) {
    if (acquire()) {
      if (absolute(at, path, name)) {
        add(kind, error, name, value);
      } else if (error == 0) {
        // A path that is too long, or a directory that was removed.
        is_lost = true;
      }
      release();
    }
  }
  errno = saved;
}

void record_variable(const char *name, const char *value) {
  int saved = errno;
  if (name && is_recording() && acquire()) {
    add(VARIABLE, value ? 0 : ENOENT, name, value);
    release();
  }
  errno = saved;
}

void record_calendar(void) {
  int saved = errno;
  if (is_recording() && acquire()) {
    add(CALENDAR, 0, "", NULL);
    release();
  }
  errno = saved;
}

void record_lost(void) { is_lost = true; }

void record_pause(void) { is_paused = true; }
void record_resume(void) { is_paused = false; }

void record_enter_program(void) {
  is_server = false;
  is_paused = false;
  if (find_file())
    new_image(BEGUN);
  else
    used = 0;
}

static void record_program(enum kind kind, pid_t of, const char *program) {
  int saved = errno;
  if (is_recording() && acquire()) {
    append_of(of, kind, 0, program ? program : "", NULL);
    flush();
    release();
  }
  errno = saved;
}

void record_exec(const char *program) {
  // The child of vfork shares this memory, and the process continues.
  pid_t current = (pid_t)syscall(SYS_getpid);
  bool is_child = is_recording() && process != current;
  if (is_recording() && !is_child) record_libraries();
  record_program(is_child ? SPAWNED : EXECUTED, current, program);
}

void record_exec_failed(void) { record_program(FAILED, (pid_t)syscall(SYS_getpid), ""); }

void record_spawn(pid_t started, const char *program) { record_program(SPAWNED, started, program); }

void record_end(void) {
  if (!is_recording() || process != (pid_t)syscall(SYS_getpid)) return;
  record_libraries();
  if (!acquire()) return;
  is_ending = true;
  flush();
  if (!is_lost) append(ENDED, 0, "", NULL);
  release();
}
