// Holds a paused compile.

#include "checkpoint_process.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <map>
#include <memory>

#include "checkpoint.h"
#include "child.h"
#include "environment.h"
#include "peer_process.h"
#include "temporary_files.h"

namespace tanto {
namespace {

constexpr char yes = 'y', no = 'n';
// Timeout of an answer.
constexpr int patience_ms = 10000;

void close_all(const std::vector<int> &descriptors) {
  for (const int descriptor : descriptors) {
    close(descriptor);
  }
}

// Closes all other descriptors. Input is empty, and output is only inspected.
void close_all_but(int socket) {
  const int nothing = open("/dev/null", O_RDONLY | O_CLOEXEC), said = memfd_create("said", MFD_CLOEXEC);
  dup2(nothing, 0);
  dup2(said, 1);
  dup2(said, 2);
  if (socket > 3) {
    close_range(3, static_cast<unsigned>(socket) - 1, 0);
  }
  close_range(static_cast<unsigned>(socket) + 1, ~0U, 0);
}

// Returns whether the client is still connected.
bool is_connected(int listener) {
  pollfd watched{listener, POLLRDHUP, 0};
  return poll(&watched, 1, 0) == 0;
}

class CheckpointProcess {
 public:
  CheckpointProcess(int socket, std::uint64_t id) : socket(socket), id(id) {
    sigemptyset(&ends);
    sigaddset(&ends, SIGCHLD);
  }

  // Returns in forks, each of which continues the compile for its command.
  void wait(const Prefix &prefix) {
    sigset_t before;
    sigprocmask(SIG_BLOCK, &ends, &before);
    children_end = signalfd(-1, &ends, SFD_CLOEXEC | SFD_NONBLOCK);
    leave_directory();
    send(socket, Kept{id, prefix.main_path});
    bool is_open = true;
    while (is_open || !children.empty()) {
      std::vector<pollfd> watched = {{is_open ? socket : -1, POLLIN, 0}, {children_end, POLLIN, 0}};
      for (const auto &[pid, its] : children) {
        // The client is gone.
        watched.push_back({its.listener, POLLRDHUP, 0});
      }
      if (poll(watched.data(), watched.size(), -1) < 0) {
        continue;
      }
      kill_disconnected(watched);
      reap();
      if (watched[0].revents) {
        std::optional<Received> received = receive(socket);
        is_open = received && std::holds_alternative<Run>(received->frame);
        if (is_open && serve(prefix, std::get<Run>(received->frame), received->descriptors, before)) {
          return;
        }
      }
    }
    _exit(0);
  }

  // The command for which a fork continues.
  std::unique_ptr<Child> child;

 private:
  struct Serving {
    std::uint64_t id;
    int listener;
    std::unique_ptr<TemporaryFiles> temporaries;
  };

  const int socket;
  const std::uint64_t id;
  int children_end = -1;
  sigset_t ends;
  std::map<pid_t, Serving> children;

  // Returns true in a fork, which continues.
  bool serve(const Prefix &prefix, Run &run, std::vector<int> descriptors, const sigset_t &signals) {
    if (descriptors.size() <= min_descriptors) {
      close_all(descriptors);
      return false;
    }
    const int listener = descriptors.back();
    descriptors.pop_back();
    std::unique_ptr<TemporaryFiles> temporaries = TemporaryFiles::create();
    // Names are relative to the command's directory, and only while needed: the directory would keep a file system
    // busy.
    const bool holds = temporaries && is_connected(listener) && is_same_environment(run.environment) &&
                       fchdir(descriptors[0]) == 0 && prefix.holds();
    const pid_t own = getpid();
    const std::uint64_t its = run.id;
    const pid_t fork = holds ? ::fork() : -1;
    if (fork == 0) {
      TemporaryFiles::record_in(std::move(temporaries));
      close(children_end);
      close(socket);
      child = std::make_unique<Child>(listener, std::move(run), std::move(descriptors));
      child->begin(own, signals);
      if (!adopt_limits(listener)) {
        child->decline("it cannot adopt the limits of its command");
      }
      return true;
    }
    leave_directory();
    close_all(descriptors);
    ::send(socket, fork < 0 ? &no : &yes, 1, MSG_NOSIGNAL);
    if (fork > 0) {
      children[fork] = {its, listener, std::move(temporaries)};
      send(listener, Started{its, static_cast<std::uint32_t>(fork)});
    } else {
      close(listener);
    }
    return false;
  }

  static void leave_directory() {
    if (chdir("/") < 0) {
      _exit(1);
    }
  }

  void kill_disconnected(const std::vector<pollfd> &watched) {
    for (std::size_t i = 2; i < watched.size(); i++) {
      for (const auto &[pid, its] : children) {
        if (watched[i].revents != 0 && its.listener == watched[i].fd) {
          kill(pid, SIGKILL);
        }
      }
    }
  }

  void reap() {
    signalfd_siginfo ignored;
    while (read(children_end, &ignored, sizeof ignored) > 0) {
    }
    int status = 0;
    for (pid_t gone; (gone = waitpid(-1, &status, WNOHANG)) > 0;) {
      const auto its = children.find(gone);
      if (its == children.end()) {
        continue;
      }
      if (WIFSIGNALED(status)) {
        its->second.temporaries->remove();
      }
      send(its->second.listener, Gone{its->second.id, static_cast<std::uint32_t>(status)});
      close(its->second.listener);
      children.erase(its);
    }
  }
};

// Identifies a file and its state.
std::string numbers_of(const struct stat &it, bool with_times) {
  std::string text = std::to_string(it.st_dev) + ' ' + std::to_string(it.st_ino);
  if (with_times) {
    text += ' ' + std::to_string(it.st_size);
    for (const timespec &time : {it.st_mtim, it.st_ctim}) {
      text += ' ' + std::to_string(time.tv_sec) + ' ' + std::to_string(time.tv_nsec);
    }
  }
  return text;
}

}  // namespace

void run_checkpoint_process(int socket, pid_t parent, Run run, std::vector<int> descriptors) {
  CheckpointProcess checkpoint(socket, run.id);
  sigset_t none;
  sigemptyset(&none);
  Child paused(socket, std::move(run), std::move(descriptors));
  remember_environment();
  paused.begin(parent, none);
  close_all_but(socket);
  const Outcome outcome = run_with_pause(paused.order(), [&](const Prefix &prefix) { checkpoint.wait(prefix); });
  if (checkpoint.child) {
    checkpoint.child->end(outcome);
  }
  paused.decline(outcome.declined ? outcome.why : "it did not pause");
}

bool pass_to_checkpoint(int checkpoint, const Run &run, std::vector<int> descriptors, int listener) {
  descriptors.push_back(listener);
  if (!send(checkpoint, run, descriptors)) {
    return false;
  }
  pollfd watched{checkpoint, POLLIN, 0};
  char answer = no;
  return poll(&watched, 1, patience_ms) > 0 && recv(checkpoint, &answer, 1, 0) == 1 && answer == yes;
}

std::string checkpoint_key(const Run &run, int directory) {
  struct stat place{}, program{};
  if (fstat(directory, &place) < 0 || stat(run.clang.c_str(), &program) < 0) {
    return {};
  }
  std::string key = numbers_of(place, false) + ' ' + numbers_of(program, true) + ' ' + run.clang;
  for (const std::string &word : run.arguments) {
    key += '\0';
    key += word;
  }
  return key;
}

}  // namespace tanto
