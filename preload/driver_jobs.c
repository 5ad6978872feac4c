#define _GNU_SOURCE

#include "driver_jobs.h"

#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "process.h"
#include "record.h"

enum { FIRST_OWN_DESCRIPTOR = 200 };

static int job_socket = -1;
static pid_t driver;
static pid_t template_process;  // 0: none
static struct stat own_program;
static struct frame frame;
static char received[MAX_FRAME + 1];
static char *words_of_job[MAX_POINTERS];

// ---- which commands ----

static bool is_one_of(const char *word, const char *const *all) {
  while (*all && strcmp(word, *all) != 0) all++;
  return *all;
}

static bool begins_with_one_of(const char *word, const char *const *all) {
  while (*all && strncmp(word, *all, strlen(*all)) != 0) all++;
  return *all;
}

static bool is_source(const char *word) {
  static const char *const suffixes[] = {".c", ".C",  ".cc", ".cp",  ".cpp", ".cxx", ".c++", ".CPP", ".m", ".mm",
                                         ".M", ".cu", ".cl", ".hip", ".i",   ".ii",  ".s",   ".S",   NULL};
  const char *suffix = strrchr(word, '.');
  return suffix && is_one_of(suffix, suffixes);
}

bool may_have_several_jobs(const struct run *run) {
  // Options after which nothing is linked.
  static const char *const last_steps[] = {"-c", "-S", "-E", "-M", "-MM", "-fsyntax-only", "--analyze", NULL};
  // Options with which one source has several jobs.
  static const char *const splits[] = {"-save-temps",      "--save-temps",      "-fembed-bitcode", "-fno-integrated-as",
                                       "-fopenmp-targets", "-no-integrated-as", "--offload",       NULL};
  size_t sources = 0;
  bool links = true, is_split = false;
  for (size_t at = 1; at < run->word_count; at++) {
    const char *word = run->words[at];
    if (word[0] != '-') {
      sources += is_source(word);
    } else {
      links = links && !is_one_of(word, last_steps);
      is_split = is_split || begins_with_one_of(word, splits);
    }
  }
  return sources > 1 || (sources == 1 && (links || is_split));
}

// ---- the template ----

// Returns in the copy for a job.
static void serve_jobs(struct run *run) {
  for (;;) {
    ssize_t length = recv(job_socket, received, MAX_FRAME, 0);
    if (length <= 0 || !decode_run(received, (size_t)length, words_of_job, MAX_POINTERS, run)) break;
    // The copy is a child of the driver, which waits for it.
    pid_t process = (pid_t)syscall(SYS_clone, CLONE_PARENT | SIGCHLD, NULL, NULL, NULL, NULL);
    if (process == 0) {
      prctl(PR_SET_PDEATHSIG, END_SIGNAL);
      if (getppid() != driver) break;
      close(job_socket);
      enter_program(run);
      return;
    }
    if (send(job_socket, &process, sizeof process, MSG_NOSIGNAL) != sizeof process) break;
  }
  syscall(SYS_exit_group, 0);
}

// Moves a descriptor away from the ones that the driver gets in a process.
static int moved(int descriptor) {
  int result = fcntl(descriptor, F_DUPFD_CLOEXEC, FIRST_OWN_DESCRIPTOR);
  if (result < 0) return descriptor;
  close(descriptor);
  return result;
}

void start_template(struct run *run) {
  int ends[2];
  if (stat("/proc/self/exe", &own_program) != 0) return;
  if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0) return;
  driver = getpid();
  template_process = fork();
  job_socket = moved(ends[template_process == 0]);
  close(ends[template_process != 0]);
  if (template_process == 0) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != driver) syscall(SYS_exit_group, 0);
    serve_jobs(run);
  } else if (template_process < 0) {
    template_process = 0;
  }
}

// ---- the driver ----

static bool has_template(void) { return template_process > 0 && driver == getpid(); }

static bool is_own_program(const char *program) {
  struct stat other;
  record_pause();
  bool is_found = stat(program, &other) == 0;
  record_resume();
  return is_found && other.st_dev == own_program.st_dev && other.st_ino == own_program.st_ino;
}

static bool send_job(const char *program, char *const words[], char *const variables[]) {
  frame_begin(&frame, RUN);
  frame_add_number(&frame, 0, 8);
  frame_add_number(&frame, 0, 4);
  frame_add_text(&frame, program);
  frame_add_text(&frame, "");
  char *const *const lists[] = {words, variables};
  for (size_t at = 0; at < 2; at++) {
    struct list list = frame_begin_list(&frame);
    for (char *const *text = lists[at]; *text; text++) frame_add_to_list(&frame, &list, *text);
    frame_end_list(&frame, &list);
  }
  return frame_send(&frame, job_socket);
}

bool fork_job(pid_t *process, const char *program, char *const words[], char *const variables[]) {
  bool is_job = has_template() && words[0] && words[1] && strncmp(words[1], "-cc1", 4) == 0;
  if (!is_job || !is_own_program(program) || !send_job(program, words, variables)) return false;
  pid_t job;
  if (recv(job_socket, &job, sizeof job, 0) != sizeof job || job < 0) return false;
  *process = job;
  return true;
}

__attribute__((destructor)) void end_template(void) {
  if (!has_template()) return;
  kill(template_process, SIGKILL);
  waitpid(template_process, NULL, 0);
  template_process = 0;
}
