// Takes commands, forks a process for each, and tells what became of it. Never compiles anything itself.

#include "zygote.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <map>

#include "channel.h"
#include "compiler.h"

extern char **environ;

namespace tanto {
namespace {

std::uint64_t microseconds(const timeval &time) {
  return static_cast<std::uint64_t>(time.tv_sec) * 1000000 + static_cast<std::uint64_t>(time.tv_usec);
}

// The kernel counts in blocks of this size, whatever the disk's are.
constexpr std::uint64_t block = 512;

Ended ended(std::uint64_t id, int code) {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return {id,
          static_cast<std::uint32_t>(code),
          microseconds(usage.ru_utime),
          microseconds(usage.ru_stime),
          static_cast<std::uint64_t>(usage.ru_maxrss),
          static_cast<std::uint64_t>(usage.ru_inblock) * block,
          static_cast<std::uint64_t>(usage.ru_oublock) * block};
}

// With so many commands a build is no small one, and more of them are likely to come.
constexpr std::size_t many = 64;

// The process of one command.
class Child {
 public:
  Child(int socket, Received received)
      : socket(socket), run(std::move(std::get<Run>(received.frame))), descriptors(std::move(received.descriptors)) {}

  [[noreturn]] void live(pid_t parent, const sigset_t &signals) {
    // In this order: a parent that ended before the first call would not be noticed after it.
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent) {
      _exit(1);
    }
    if (!settle()) {
      decline("its surroundings could not be had");
    }
    sigprocmask(SIG_SETMASK, &signals, nullptr);
    on_fatal_error([this](const char *why) { decline(why); });
    const Outcome outcome = carry_out({std::move(run.clang), std::move(run.lld), std::move(run.arguments)});
    if (outcome.declined) {
      decline(outcome.why);
    }
    send(socket, ended(run.id, outcome.code));
    _exit(outcome.code);
  }

 private:
  const int socket;
  Run run;
  const std::vector<int> descriptors;

  [[noreturn]] void decline(const std::string &why) {
    send(socket, Declined{run.id, why.substr(0, 200)});
    _exit(0);
  }

  // Directory, environment, mask, input and output, and no core file: that one is for the process that runs again.
  bool settle() {
    setpgid(0, 0);
    for (std::size_t i = least_descriptors; i < descriptors.size(); i++) {
      // One that may not be entered is left alone.
      if (write(descriptors[i], "0", 1) < 0) {
        continue;
      }
    }
    const rlimit none{0, 0};
    setrlimit(RLIMIT_CORE, &none);
    umask(run.umask);
    srand(static_cast<unsigned>(getpid()));
    static std::vector<char *> pointers;
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
};

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
    if (children_end < 0 || !send(socket, Hello{protocol, clang_version(), lld_version()})) {
      return 1;
    }
    for (;;) {
      pollfd watched[] = {{socket, POLLIN, 0}, {children_end, POLLIN, 0}};
      if (poll(watched, 2, -1) < 0) {
        continue;
      }
      if (watched[1].revents) {
        bury();
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
  std::map<pid_t, std::uint64_t> children;

  // False: there will be no more.
  bool take_one() {
    std::optional<Received> received = receive(socket);
    if (!received) {
      return false;
    }
    const Run *run = std::get_if<Run>(&received->frame);
    const std::size_t count = received->descriptors.size();
    if (!run || count < least_descriptors || count > most_descriptors) {
      return false;
    }
    if (++commands == many) {
      settle();
    }
    const std::uint64_t id = run->id;
    const std::vector<int> descriptors = received->descriptors;
    const pid_t child = fork();
    if (child == 0) {
      close(children_end);
      Child(socket, std::move(*received)).live(own, signals);
    }
    for (const int descriptor : descriptors) {
      close(descriptor);
    }
    if (child < 0) {
      return send(socket, Declined{id, "no process could be made"});
    }
    children[child] = id;
    return send(socket, Started{id, static_cast<std::uint32_t>(child)});
  }

  // Nobody is there any more to hear of them. What is told of as ended may still have its memory to give back.
  void end_all() {
    for (const auto &[child, id] : children) {
      kill(child, SIGKILL);
    }
    while (waitpid(-1, nullptr, 0) > 0 || errno == EINTR) {
    }
  }

  void bury() {
    signalfd_siginfo ignored;
    while (read(children_end, &ignored, sizeof ignored) > 0) {
    }
    int status = 0;
    for (pid_t child; (child = waitpid(-1, &status, WNOHANG)) > 0;) {
      const auto its = children.find(child);
      if (its == children.end()) {
        continue;
      }
      send(socket, Gone{its->second, static_cast<std::uint32_t>(status)});
      children.erase(its);
    }
  }
};

}  // namespace

int serve(int socket, void (*settle)()) { return Zygote(socket, settle).serve(); }

}  // namespace tanto
