// Forks that compile one of several files of a command.

#include "fork.h"

#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>

#include "compiler.h"
#include "llvm/Support/Signals.h"
#include "llvm/Support/raw_ostream.h"

namespace tanto {
namespace {

[[noreturn]] void run_and_exit(pid_t parent, const std::function<int()> &body) {
  // In this order: prctl does not notice a parent that ended before the call.
  prctl(PR_SET_PDEATHSIG, SIGTERM);
  if (getppid() != parent) {
    _exit(1);
  }
  // The parent reports a crash.
  on_fatal_error(nullptr);
  _exit(body());
}

}  // namespace

int run_in_fork(const std::function<int()> &body) {
  llvm::outs().flush();
  const pid_t own = getpid();
  const pid_t fork = ::fork();
  if (fork == 0) {
    run_and_exit(own, body);
  }
  int status = 0;
  pid_t ended;
  do {
    ended = waitpid(fork, &status, 0);
  } while (ended < 0 && errno == EINTR);
  return fork > 0 && ended == fork && WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

void end_with_group() {
  // LLVM's handler has removed the temporary files and restored the default actions before this runs.
  llvm::sys::SetInterruptFunction([] { kill(0, SIGTERM); });
}

}  // namespace tanto
