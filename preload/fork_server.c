// Stops a program before its constructors and `main`, and forks it for each command. PROTOCOL.md describes the frames.

#define _GNU_SOURCE
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <link.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "driver_jobs.h"
#include "frames.h"
#include "huge_pages.h"
#include "process.h"
#include "record.h"

enum {
  MAX_FORKS = 4096,
  MAX_DESCRIPTORS = 16,
  // Working directory, standard input, output and error; files of control groups follow.
  FIRST_CGROUP = 4,
  BLOCK = 512,  // bytes, in `rusage`
};

// Time for a fork to end after END_SIGNAL.
static const int END_MS = 2000;

struct fork {
  uint64_t id;
  pid_t process;  // 0: unused
};

static int server_socket = -1;
static int child_events = -1;
static bool moves_code;
static size_t inherited_count;  // descriptors that every process inherits, besides the standard ones
static pid_t server;
static sigset_t original_signals;
static struct fork forks[MAX_FORKS];
// In shared memory: whether each fork has reached `main`.
static volatile char *has_begun;
static char received[MAX_FRAME + 1];
static char *words[MAX_POINTERS];
static struct frame frame;

// ---- frames ----

static bool send_frame(void) { return frame_send(&frame, server_socket); }

static bool send_started(uint64_t id, pid_t process) {
  frame_begin(&frame, STARTED_FRAME);
  frame_add_number(&frame, id, 8);
  frame_add_number(&frame, (uint64_t)process, 4);
  return send_frame();
}

static bool send_declined(uint64_t id, const char *reason) {
  frame_begin(&frame, DECLINED);
  frame_add_number(&frame, id, 8);
  frame_add_text(&frame, reason);
  return send_frame();
}

static uint64_t microseconds(struct timeval time) { return (uint64_t)time.tv_sec * 1000000 + (uint64_t)time.tv_usec; }

static void send_ended(uint64_t id, int status, const struct rusage *used) {
  frame_begin(&frame, ENDED_FRAME);
  frame_add_number(&frame, id, 8);
  frame_add_number(&frame, (uint64_t)status, 4);
  frame_add_number(&frame, microseconds(used->ru_utime), 8);
  frame_add_number(&frame, microseconds(used->ru_stime), 8);
  frame_add_number(&frame, (uint64_t)used->ru_maxrss, 8);
  frame_add_number(&frame, (uint64_t)used->ru_inblock * BLOCK, 8);
  frame_add_number(&frame, (uint64_t)used->ru_oublock * BLOCK, 8);
  send_frame();
}

static void send_gone(uint64_t id, int status) {
  frame_begin(&frame, GONE);
  frame_add_number(&frame, id, 8);
  frame_add_number(&frame, (uint64_t)status, 4);
  send_frame();
}

// ---- what the server depends on ----

static uint64_t cpu_us(const struct rusage *used) {
  return microseconds(used->ru_utime) + microseconds(used->ru_stime);
}

// Measures a fork that ends at once.
static uint64_t measure_fork(void) {
  struct rusage before, after, child;
  int status;
  getrusage(RUSAGE_SELF, &before);
  pid_t process = fork();
  if (process == 0) syscall(SYS_exit_group, 0);
  if (process < 0 || wait4(process, &status, 0, &child) != process) return UINT32_MAX;
  getrusage(RUSAGE_SELF, &after);
  return cpu_us(&after) - cpu_us(&before) + cpu_us(&child);
}

static int add_loaded_file(struct dl_phdr_info *info, size_t size, void *list) {
  (void)size;
  // The program itself and the kernel's library are no paths; this library is in memory.
  if (strchr(info->dlpi_name, '/') && strncmp(info->dlpi_name, "/proc/", 6) != 0)
    frame_add_to_list(&frame, list, info->dlpi_name);
  return 0;
}

static void add_search_dirs(struct list *list, void *library) {
  Dl_serinfo size;
  if (dlinfo(library, RTLD_DI_SERINFOSIZE, &size) != 0) return;
  Dl_serinfo *dirs = malloc(size.dls_size);
  if (dirs && dlinfo(library, RTLD_DI_SERINFOSIZE, dirs) == 0 && dlinfo(library, RTLD_DI_SERINFO, dirs) == 0)
    for (unsigned at = 0; at < dirs->dls_cnt; at++) frame_add_to_list(&frame, list, dirs->dls_serpath[at].dls_name);
  free(dirs);
}

static size_t count_entries(const char *path) {
  size_t count = 0;
  DIR *dir = opendir(path);
  for (const struct dirent *entry; dir && (entry = readdir(dir));) count += entry->d_name[0] != '.';
  if (dir) closedir(dir);
  return count;
}

// Returns why the program cannot be forked; an empty text if it can.
static const char *reason_against_forks(void) {
  // The standard ones, the socket, the events, and the directory that is read.
  enum { OWN_DESCRIPTORS = 6 };
  if (count_entries("/proc/self/task") != 1) return "its libraries start threads";
  if (count_entries("/proc/self/fd") != OWN_DESCRIPTORS + inherited_count) return "its libraries open files";
  return "";
}

static bool send_ready(void) {
  struct rusage used;
  getrusage(RUSAGE_SELF, &used);
  uint64_t fork_us = measure_fork();
  frame_begin(&frame, READY);
  frame_add_number(&frame, PROTOCOL_VERSION, 4);
  frame_add_text(&frame, reason_against_forks());
  frame_add_number(&frame, cpu_us(&used), 8);
  frame_add_number(&frame, fork_us, 8);
  struct list files = frame_begin_list(&frame);
  dl_iterate_phdr(add_loaded_file, &files);
  frame_end_list(&frame, &files);
  struct list dirs = frame_begin_list(&frame);
  void *program = dlopen(NULL, RTLD_LAZY);
  for (struct link_map *library = program; library; library = library->l_next) add_search_dirs(&dirs, library);
  frame_end_list(&frame, &dirs);
  return send_frame();
}

// ---- a fork ----

static void enter_cgroup(int descriptor) {
  int file = openat(descriptor, "cgroup.procs", O_WRONLY | O_CLOEXEC);
  ssize_t written = write(file < 0 ? descriptor : file, "0", 1);
  (void)written;  // a group that refuses the process is ignored
  if (file >= 0) close(file);
}

// Sets up a fork as if the program had just been executed. Returns false if that fails.
static bool set_up_fork(const struct run *run, const int *descriptors, size_t count) {
  prctl(PR_SET_PDEATHSIG, END_SIGNAL);
  if (getppid() != server) return false;
  setpgid(0, 0);
  for (size_t at = FIRST_CGROUP; at < count; at++) enter_cgroup(descriptors[at]);
  bool is_ok = fchdir(descriptors[0]) == 0;
  for (int at = 0; at < 3; at++) is_ok = is_ok && dup2(descriptors[at + 1], at) == at;
  for (size_t at = 0; at < count; at++) close(descriptors[at]);
  close(server_socket);
  close(child_events);
  umask((mode_t)run->umask);
  enter_program(run);
  sigprocmask(SIG_SETMASK, &original_signals, NULL);
  return is_ok;
}

// ---- the server ----

static size_t free_slot(void) {
  size_t slot = 0;
  while (slot < MAX_FORKS && forks[slot].process) slot++;
  return slot;
}

// Receives a frame and its descriptors. Returns its length; 0: no more follow.
static size_t receive(int *descriptors, size_t *count) {
  char control[CMSG_SPACE(sizeof(int) * MAX_DESCRIPTORS)];
  struct iovec bytes = {received, MAX_FRAME};
  struct msghdr message = {
      .msg_iov = &bytes, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof control};
  ssize_t length;
  do length = recvmsg(server_socket, &message, MSG_CMSG_CLOEXEC);
  while (length < 0 && errno == EINTR);
  *count = 0;
  if (length <= 0) return 0;
  for (struct cmsghdr *part = CMSG_FIRSTHDR(&message); part; part = CMSG_NXTHDR(&message, part))
    if (part->cmsg_level == SOL_SOCKET && part->cmsg_type == SCM_RIGHTS) {
      *count = (part->cmsg_len - CMSG_LEN(0)) / sizeof(int);
      memcpy(descriptors, CMSG_DATA(part), *count * sizeof(int));
    }
  return message.msg_flags & (MSG_TRUNC | MSG_CTRUNC) ? 0 : (size_t)length;
}

enum served { CONTINUE, STOP, IN_FORK };

// Forks for one command.
static enum served serve_command(struct run *run) {
  int descriptors[MAX_DESCRIPTORS];
  size_t count, length = receive(descriptors, &count), slot = free_slot();
  bool is_valid = length > 0 && decode_run(received, length, words, MAX_POINTERS, run) && count >= FIRST_CGROUP;
  pid_t process = -1;
  if (is_valid && moves_code) move_code();
  if (is_valid && slot < MAX_FORKS) {
    has_begun[slot] = 0;
    process = fork();
  }
  if (process == 0) {
    if (!set_up_fork(run, descriptors, count)) syscall(SYS_exit_group, 1);
    has_begun[slot] = 1;
    return IN_FORK;
  }
  for (size_t at = 0; at < count; at++) close(descriptors[at]);
  if (!is_valid) return STOP;
  if (process < 0) return send_declined(run->id, "the fork server cannot fork") ? CONTINUE : STOP;
  // The fork does the same: whichever comes first.
  setpgid(process, process);
  forks[slot] = (struct fork){run->id, process};
  return send_started(run->id, process) ? CONTINUE : STOP;
}

// Reports forks that have ended. Returns how many are left.
static size_t reap(void) {
  struct signalfd_siginfo ignored;
  while (read(child_events, &ignored, sizeof ignored) > 0) continue;
  size_t left = 0;
  for (size_t slot = 0; slot < MAX_FORKS; slot++) {
    struct rusage used;
    int status;
    pid_t process = forks[slot].process;
    if (!process) continue;
    if (wait4(process, &status, WNOHANG, &used) != process) {
      left++;
      continue;
    }
    // One that has ended before `main` runs again as a process.
    if (has_begun[slot]) send_ended(forks[slot].id, status, &used);
    send_gone(forks[slot].id, status);
    forks[slot].process = 0;
  }
  return left;
}

static void signal_forks(int signal) {
  for (size_t slot = 0; slot < MAX_FORKS; slot++)
    if (forks[slot].process) kill(-forks[slot].process, signal);
}

// The client has gone, or has sent nonsense. Nothing more is reported: that a fork was ended here is no result of its
// command.
static void end_forks(void) {
  close(server_socket);
  server_socket = -1;
  signal_forks(END_SIGNAL);
  for (int waited = 0; reap() > 0 && waited < END_MS; waited += 10) {
    struct pollfd watch = {child_events, POLLIN, 0};
    poll(&watch, 1, 10);
  }
  signal_forks(SIGKILL);
  while (reap() > 0) poll(NULL, 0, 10);
}

static bool prepare(void) {
  server = getpid();
  has_begun = mmap(NULL, MAX_FORKS, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  sigset_t ends;
  sigemptyset(&ends);
  sigaddset(&ends, SIGCHLD);
  sigprocmask(SIG_BLOCK, &ends, &original_signals);
  child_events = signalfd(-1, &ends, SFD_CLOEXEC | SFD_NONBLOCK);
  return has_begun != MAP_FAILED && child_events >= 0;
}

// Returns in a fork, and never in the server.
static void serve(struct run *run) {
  for (;;) {
    struct pollfd watches[] = {{server_socket, POLLIN, 0}, {child_events, POLLIN, 0}};
    if (poll(watches, 2, -1) < 0) continue;
    if (watches[1].revents) reap();
    if (!watches[0].revents) continue;
    switch (serve_command(run)) {
      case CONTINUE:
        break;
      case IN_FORK:
        return;
      case STOP:
        end_forks();
        syscall(SYS_exit_group, 0);
    }
  }
}

// Reads the value of the variable: `SOCKET,LIBRARY,COUNT,HUGE`. `library`: descriptor of this library in memory.
static bool read_setting(const char *value, int *library) {
  char *end = NULL;
  server_socket = (int)strtol(value, &end, 10);
  if (*end != ',') return false;
  *library = (int)strtol(end + 1, &end, 10);
  if (*end != ',') return false;
  inherited_count = (size_t)strtol(end + 1, &end, 10);
  if (*end != ',') return false;
  moves_code = strtol(end + 1, &end, 10) != 0;
  return *end == '\0';
}

typedef int main_function(int, char **, char **);
typedef int start_function(main_function *, int, char **, void (*)(void), void (*)(void), void (*)(void), void *);

// The first function of a program calls this after the constructors of its libraries.
start_function __libc_start_main;
int __libc_start_main(main_function *main, int count, char **arguments, void (*init)(void), void (*fini)(void),
                      void (*loader_fini)(void), void *stack_end) {
  start_function *next = (start_function *)dlsym(RTLD_NEXT, "__libc_start_main");
  const char *named = find_variable(SERVER_VARIABLE);
  if (!named) return next(main, count, arguments, init, fini, loader_fini, stack_end);
  record_pause();
  struct run run;
  int library;
  if (!read_setting(named, &library)) _exit(1);
  close(library);
  fcntl(server_socket, F_SETFD, FD_CLOEXEC);
  if (!prepare() || !send_ready()) _exit(1);
  serve(&run);
  if (may_have_several_jobs(&run)) start_template(&run);
  record_enter_program();
  return next(main, (int)run.word_count, run.words, init, fini, loader_fini, stack_end);
}
