// Sets up a command's process and reports its end.

#include "child.h"

#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdlib>

#include "temporary_files.h"

extern char **environ;

namespace tanto {
namespace {

std::uint64_t microseconds(const timeval &one, const timeval &other) {
  return static_cast<std::uint64_t>(one.tv_sec + other.tv_sec) * 1000000 +
         static_cast<std::uint64_t>(one.tv_usec + other.tv_usec);
}

// The kernel's unit, whatever the block size of the disk.
constexpr std::uint64_t block = 512;

Ended ended(std::uint64_t id, int code) {
  rusage own{}, jobs{};
  getrusage(RUSAGE_SELF, &own);
  // Jobs in processes below this one.
  getrusage(RUSAGE_CHILDREN, &jobs);
  return {id,
          static_cast<std::uint32_t>(W_EXITCODE(code & 0xff, 0)),
          microseconds(own.ru_utime, jobs.ru_utime),
          microseconds(own.ru_stime, jobs.ru_stime),
          static_cast<std::uint64_t>(std::max(own.ru_maxrss, jobs.ru_maxrss)),
          static_cast<std::uint64_t>(own.ru_inblock + jobs.ru_inblock) * block,
          static_cast<std::uint64_t>(own.ru_oublock + jobs.ru_oublock) * block};
}

}  // namespace

Child::Child(int socket, Run run, std::vector<int> descriptors)
    : socket(socket), run(std::move(run)), descriptors(std::move(descriptors)) {}

void Child::begin(pid_t parent, const sigset_t &signals) {
  // In this order: prctl does not notice a parent that ended before the call. LLVM handles this signal and removes
  // temporary files.
  std::signal(SIGTERM, SIG_DFL);
  prctl(PR_SET_PDEATHSIG, SIGTERM);
  if (getppid() != parent) {
    _exit(1);
  }
  if (!set_up_process()) {
    decline("its directory or descriptors cannot be used");
  }
  sigprocmask(SIG_SETMASK, &signals, nullptr);
  on_fatal_error([this](const char *why) { decline(why); });
}

Order Child::order() { return {run.clang, run.lld, run.arguments}; }

void Child::end(const Outcome &outcome) {
  if (outcome.declined) {
    decline(outcome.has_failed ? "" : outcome.why);
  }
  send(socket, ended(run.id, outcome.code));
  _exit(outcome.code);
}

void Child::decline(const std::string &why) {
  TemporaryFiles::remove_recorded();
  send(socket, Declined{run.id, why.substr(0, 200)});
  _exit(0);
}

// Sets directory, environment, mask, input and output. Core dumps are off: only the process that runs again may dump.
bool Child::set_up_process() {
  setpgid(0, 0);
  for (std::size_t i = min_descriptors; i < descriptors.size(); i++) {
    // A group that refuses the process is ignored.
    if (write(descriptors[i], "0", 1) < 0) {
      continue;
    }
  }
  const rlimit none{0, 0};
  setrlimit(RLIMIT_CORE, &none);
  umask(run.umask);
  srand(static_cast<unsigned>(getpid()));
  static std::vector<char *> pointers;
  pointers.clear();
  for (std::string &entry : run.environment) {
    pointers.push_back(entry.data());
  }
  pointers.push_back(nullptr);
  environ = pointers.data();
  bool ok = fchdir(descriptors[0]) == 0;
  for (int i = 0; i < 3; i++) {
    ok = ok && dup2(descriptors[static_cast<std::size_t>(i) + 1], i) == i;
  }
  for (const int descriptor : descriptors) {
    close(descriptor);
  }
  return ok;
}

}  // namespace tanto
