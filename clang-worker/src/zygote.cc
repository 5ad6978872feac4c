// Receives commands, forks a process for each, and reports its end. Never compiles anything itself.

#include "zygote.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <map>
#include <memory>

#include "channel.h"
#include "child.h"
#include "compiler.h"
#include "temporary_files.h"

namespace tanto {
namespace {

// A build with this many commands is not small, and more are likely to follow.
constexpr std::size_t many = 64;
// A killed process takes longer only if its file system hangs.
constexpr int patience_ms = 1000;

class Zygote {
 public:
  Zygote(int socket, void (*settle)()) : socket(socket), settle(settle) {
    sigset_t ends;
    sigemptyset(&ends);
    sigaddset(&ends, SIGCHLD);
    sigprocmask(SIG_BLOCK, &ends, &signals);
    children_end = signalfd(-1, &ends, SFD_CLOEXEC | SFD_NONBLOCK);
  }

  int serve() {
    if (children_end < 0 || !send(socket, Hello{protocol, clang_version(), lld_version(), builds()})) {
      return 1;
    }
    for (;;) {
      pollfd watched[] = {{socket, POLLIN, 0}, {children_end, POLLIN, 0}};
      if (poll(watched, 2, -1) < 0) {
        continue;
      }
      if (watched[1].revents) {
        reap();
      }
      if (watched[0].revents && !take_one()) {
        end_all();
        return 0;
      }
    }
  }

 private:
  const int socket;
  void (*const settle)();
  int children_end;
  std::size_t commands = 0;
  sigset_t signals;
  const pid_t own = getpid();
  struct Serving {
    std::uint64_t id;
    std::unique_ptr<TemporaryFiles> temporaries;
    int end;  // of a pipe; readable after the fork and its own forks have ended
  };

  std::map<pid_t, Serving> children;

  // Returns false when no more commands follow.
  bool take_one() {
    std::optional<Received> received = receive(socket);
    if (!received) {
      return false;
    }
    Run *run = std::get_if<Run>(&received->frame);
    const std::vector<int> descriptors = received->descriptors;
    const bool ok = run && descriptors.size() >= min_descriptors && take(*run, descriptors);
    for (const int descriptor : descriptors) {
      close(descriptor);
    }
    return ok;
  }

  bool take(Run &run, const std::vector<int> &descriptors) {
    if (++commands == many) {
      settle();
    }
    const std::uint64_t id = run.id;
    std::unique_ptr<TemporaryFiles> temporaries = TemporaryFiles::create();
    int ends[2] = {-1, -1};
    const pid_t fork = temporaries && pipe2(ends, O_CLOEXEC) == 0 ? ::fork() : -1;
    if (fork == 0) {
      TemporaryFiles::record_in(std::move(temporaries));
      close(children_end);
      close(ends[0]);
      Child child(socket, std::move(run), descriptors);
      child.begin(own, signals);
      // The process that runs instead reports more.
      on_fatal_error([&](const char *) { child.decline(""); });
      child.end(run_command(child.order()));
    }
    close(ends[1]);
    if (fork < 0) {
      close(ends[0]);
      return send(socket, Declined{id, "cannot fork"});
    }
    children[fork] = {id, std::move(temporaries), ends[0]};
    return send(socket, Started{id, static_cast<std::uint32_t>(fork)});
  }

  // The client is gone. Forks that have reported their end may still be freeing memory.
  void end_all() {
    for (const auto &[child, its] : children) {
      end_jobs(child);
      kill(child, SIGKILL);
    }
    while (waitpid(-1, nullptr, 0) > 0 || errno == EINTR) {
    }
    for (const auto &[child, its] : children) {
      clean_up(its);
    }
  }

  // Kills the jobs of a fork. Must precede waiting for the fork: afterwards its number may be another group's.
  static void end_jobs(pid_t child) { kill(-child, SIGKILL); }

  // Removes the temporary files of a killed fork after its jobs have ended.
  static void clean_up(const Serving &its) {
    pollfd watched{its.end, POLLIN, 0};
    poll(&watched, 1, patience_ms);
    its.temporaries->remove();
  }

  void reap() {
    signalfd_siginfo ignored;
    while (read(children_end, &ignored, sizeof ignored) > 0) {
    }
    siginfo_t ended{};
    while (waitid(P_ALL, 0, &ended, WEXITED | WNOHANG | WNOWAIT) == 0 && ended.si_pid > 0) {
      const pid_t child = ended.si_pid;
      const bool is_killed = ended.si_code != CLD_EXITED;
      if (is_killed) {
        end_jobs(child);
      }
      int status = 0;
      waitpid(child, &status, 0);
      ended = {};
      const auto its = children.find(child);
      if (its == children.end()) {
        continue;
      }
      if (is_killed) {
        clean_up(its->second);
      }
      close(its->second.end);
      send(socket, Gone{its->second.id, static_cast<std::uint32_t>(status)});
      children.erase(its);
    }
  }
};

}  // namespace

int serve(int socket, void (*settle)()) { return Zygote(socket, settle).serve(); }

}  // namespace tanto
