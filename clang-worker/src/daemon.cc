// Accepts requests while builds run, fulfils them when idle, and passes commands to checkpoints.

#include "daemon.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/random.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstddef>
#include <cstring>
#include <deque>
#include <filesystem>
#include <fstream>
#include <map>

#include "channel.h"
#include "checkpoint_process.h"
#include "compiler.h"
#include "llvm/ADT/StringExtras.h"
#include "peer_process.h"

namespace tanto {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

// Interval of checks whether to exit.
constexpr milliseconds tick{1000};
// Idle time before a checkpoint is made: another build may follow at once.
constexpr milliseconds quiet{1000};
// Maximum number of connections, and of requests.
constexpr std::size_t max_clients = 16, max_requests = 64;
// Share of the machine's memory: it holds at most one part in this many, and exits when less than one of these is free.
constexpr std::uint64_t share = 8, min_free = 16;
// Memory pressure over the last ten seconds, in percent, that counts as a shortage.
constexpr double pressure = 10;

// Returns the number after a name in a file of lines like "Name:   number kB".
std::uint64_t number_in(const std::string &path, const std::string &name) {
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with(name + ":")) {
      return std::strtoull(line.c_str() + name.size() + 1, nullptr, 10);
    }
  }
  return 0;
}

// Makes a name or reason printable: one line, truncated at the beginning.
std::string shown(std::string text) {
  constexpr std::size_t max_bytes = 256;
  if (text.size() > max_bytes) {
    text = "..." + text.substr(text.size() - max_bytes);
  }
  std::replace_if(text.begin(), text.end(), [](unsigned char byte) { return byte < ' ' || byte == 0x7f; }, '?');
  return text;
}

// Returns the word after this one; empty if there is none.
std::string word_after(const Run &run, const std::string &word) {
  const auto at = std::find(run.arguments.begin(), run.arguments.end(), word);
  return at == run.arguments.end() || at + 1 == run.arguments.end() ? "" : at[1];
}

// A name for a compile before its file is determined: the word after -c in most lines.
std::string name_of(const Run &run) {
  const std::string file = word_after(run, "-c");
  return file.empty() || file.starts_with('-') ? word_after(run, "-o") : file;
}

// Closes all other descriptors, and drops everything of the caller's environment except the user.
void close_all_but(int client) {
  const int nothing = open("/dev/null", O_RDWR | O_CLOEXEC);
  for (int i = 0; i < 3; i++) {
    dup2(nothing, i);
  }
  if (client > 3) {
    close_range(3, static_cast<unsigned>(client) - 1, 0);
  }
  close_range(static_cast<unsigned>(std::max(client, 2)) + 1, ~0U, 0);
  clearenv();
  umask(077);
}

// Opens a directory that belongs to us and that only its owner may enter; returns -1 otherwise.
int open_own(const std::string &place) {
  const int directory = open(place.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  struct stat it{};
  if (directory >= 0 && fstat(directory, &it) == 0 && it.st_uid == geteuid() && (it.st_mode & 077) == 0) {
    return directory;
  }
  close(directory);
  return -1;
}

// Writes a small file of a directory atomically.
bool write_file(int directory, const char *name, const std::string &text) {
  const std::string fresh = std::string(name) + ".new";
  const int file = openat(directory, fresh.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
  const bool is_written = file >= 0 && write(file, text.c_str(), text.size()) == static_cast<ssize_t>(text.size());
  close(file);
  return is_written && renameat(directory, fresh.c_str(), directory, name) == 0;
}

// An abstract address: a socket file would keep its file system busy. Any process with the address may connect, and is
// checked then.
std::string fresh_address() {
  unsigned char random[16];
  if (getrandom(random, sizeof random, 0) != sizeof random) {
    return {};
  }
  return "tanto-checkpoints-" + llvm::toHex(llvm::ArrayRef(random), true);
}

// A process that holds a paused compile or prepares one.
struct HeldCheckpoint {
  pid_t pid = -1;
  int socket = -1;
  bool is_ready = false;
  std::string file;
  std::string object;
  std::uint64_t memory_kib = 0;
  std::uint64_t last_use = 0;
};

// A compile without a checkpoint, identified by its output.
struct Refused {
  std::string object;
  Without its;
};

// A requested compile with its directory, by name: a descriptor would keep the file system busy.
struct Request {
  Run run;
  std::string key;
  std::string directory;
};

class Daemon {
 public:
  explicit Daemon(const DaemonOptions &options) : options(options) {}

  int serve() {
    if (!listen_here()) {
      return 1;
    }
    sigset_t ends;
    sigemptyset(&ends);
    sigaddset(&ends, SIGCHLD);
    sigprocmask(SIG_BLOCK, &ends, nullptr);
    children_end = signalfd(-1, &ends, SFD_CLOEXEC | SFD_NONBLOCK);
    if (options.client >= 0) {
      greet(options.client);
    }
    while (!is_over()) {
      wait();
      fulfil();
    }
    if (is_ours()) {
      unlink((options.place + "/address").c_str());
      unlink((options.place + "/pid").c_str());
    }
    return 0;
  }

 private:
  const DaemonOptions &options;
  const std::string address = fresh_address();
  int listener = -1, children_end = -1;
  bool is_stopping = false;
  Clock::time_point last_work = Clock::now();
  std::uint64_t uses = 0;
  std::uint32_t most = 0;
  std::vector<int> clients;
  std::deque<Request> requests;
  std::map<std::string, HeldCheckpoint> held;
  std::deque<Refused> refused;

  bool listen_here() {
    sockaddr_un name{};
    name.sun_family = AF_UNIX;
    // The leading NUL makes the address abstract.
    std::memcpy(name.sun_path + 1, address.data(), address.size());
    const auto size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + address.size());
    listener = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    const int directory = open_own(options.place);
    const bool is_known = !address.empty() && listener >= 0 && directory >= 0 &&
                          bind(listener, reinterpret_cast<const sockaddr *>(&name), size) == 0 &&
                          listen(listener, max_clients) == 0 && write_file(directory, "address", address + "\n");
    close(directory);
    return is_known;
  }

  // Another daemon may have replaced this one, and the directory may be gone or unmounted.
  bool is_ours() const {
    std::ifstream file(options.place + "/address");
    std::string its;
    return std::getline(file, its) && its == address;
  }

  // Returns whether to exit: the directory is gone or replaced, or memory is short.
  bool is_over() const {
    const bool is_idle = clients.empty() && Clock::now() - last_work > std::chrono::seconds(options.idle_seconds);
    return is_stopping || !is_ours() || is_idle || is_memory_short();
  }

  bool is_memory_short() const {
    const std::string meminfo = options.proc + "/meminfo";
    if (number_in(meminfo, "MemAvailable") < number_in(meminfo, "MemTotal") / min_free) {
      return true;
    }
    std::ifstream file(options.proc + "/pressure/memory");
    std::string some, average;
    constexpr std::string_view name = "avg10=";
    return file >> some >> average && average.starts_with(name) &&
           std::strtod(average.c_str() + name.size(), nullptr) > pressure;
  }

  void wait() {
    std::vector<pollfd> watched = {{listener, POLLIN, 0}, {children_end, POLLIN, 0}};
    for (const int client : clients) {
      watched.push_back({client, POLLIN, 0});
    }
    const std::size_t first_holder = watched.size();
    for (const auto &[key, its] : held) {
      watched.push_back({its.is_ready ? -1 : its.socket, POLLIN, 0});
    }
    if (poll(watched.data(), watched.size(), static_cast<int>(tick.count())) <= 0) {
      return;
    }
    for (std::size_t i = first_holder; i < watched.size(); i++) {
      if (watched[i].revents) {
        hear(watched[i].fd);
      }
    }
    bool has_heard = false;
    for (std::size_t i = 2; i < first_holder; i++) {
      has_heard = has_heard || watched[i].revents;
      if (watched[i].revents && !take_one(watched[i].fd)) {
        dismiss(watched[i].fd);
      }
    }
    if (watched[1].revents) {
      reap();
    }
    // Messages of existing clients are processed first, so that new ones get the current state.
    if (watched[0].revents && !has_heard) {
      const int client = accept4(listener, nullptr, nullptr, SOCK_CLOEXEC);
      if (client >= 0 && (clients.size() >= max_clients || !has_same_rights(client))) {
        close(client);
      } else if (client >= 0) {
        greet(client);
      }
    }
  }

  void greet(int client) {
    clients.push_back(client);
    Holding holding{most, static_cast<std::uint32_t>(requests.size()), 0, {}, {}};
    for (const auto &[key, its] : held) {
      if (its.is_ready) {
        holding.memory_kib += its.memory_kib;
        holding.files.push_back(shown(its.file));
      } else {
        holding.wanted++;
      }
    }
    for (const Refused &it : refused) {
      holding.without.push_back({shown(it.its.file), shown(it.its.why)});
    }
    send(client, Hello{protocol, clang_version(), lld_version(), builds()});
    send(client, holding);
  }

  void dismiss(int client) {
    close(client);
    std::erase(clients, client);
  }

  // Returns false if the client is gone or sent an invalid frame.
  bool take_one(int client) {
    std::optional<Received> received = receive(client);
    if (!received) {
      return false;
    }
    std::vector<int> &descriptors = received->descriptors;
    bool ok = descriptors.size() >= min_descriptors;
    if (std::holds_alternative<Stop>(received->frame)) {
      is_stopping = ok = true;
    } else if (Run *run = std::get_if<Run>(&received->frame); run && ok) {
      last_work = Clock::now();
      run_from_checkpoint(client, *run, descriptors);
    } else if (Keep *keep = std::get_if<Keep>(&received->frame); keep && ok) {
      last_work = Clock::now();
      most = std::min<std::uint32_t>(keep->most, max_files);
      request(keep->run, descriptors[0]);
    } else {
      ok = false;
    }
    for (const int descriptor : descriptors) {
      close(descriptor);
    }
    return ok;
  }

  void run_from_checkpoint(int client, const Run &run, const std::vector<int> &descriptors) {
    const auto its = held.find(checkpoint_key(run, descriptors[0]));
    if (its == held.end() || !its->second.is_ready || descriptors.size() >= max_descriptors) {
      send(client, Declined{run.id, "no checkpoint"});
    } else if (pass_to_checkpoint(its->second.socket, run, descriptors, client)) {
      its->second.last_use = ++uses;
    } else {
      forget(its->first);
      send(client, Declined{run.id, "it has changed"});
    }
  }

  // The last request is fulfilled first.
  void request(Run &run, int directory) {
    const std::string key = checkpoint_key(run, directory);
    const auto its = held.find(key);
    if (its != held.end()) {
      its->second.last_use = ++uses;
      return;
    }
    std::erase_if(requests, [&](const Request &request) { return request.key == key; });
    forget_refusal(word_after(run, "-o"));
    std::error_code error;
    const auto place = std::filesystem::read_symlink("/proc/self/fd/" + std::to_string(directory), error);
    requests.push_front({std::move(run), key, place});
    if (requests.size() > std::min<std::size_t>(most, max_requests)) {
      requests.pop_back();
    }
  }

  // One at a time, while no build runs.
  void fulfil() {
    const bool is_busy = std::any_of(held.begin(), held.end(), [](const auto &it) { return !it.second.is_ready; });
    if (requests.empty() || is_busy || !clients.empty() || Clock::now() - last_work < quiet) {
      return;
    }
    Request request = std::move(requests.front());
    requests.pop_front();
    const std::string name = name_of(request.run), object = word_after(request.run, "-o");
    make_room(most == 0 ? 0 : most - 1, ~std::uint64_t{0});
    const int directory = open(request.directory.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    int ends[2];
    // Another directory may have its name now.
    const bool may_be = directory >= 0 && !request.key.empty() &&
                        checkpoint_key(request.run, directory) == request.key && !held.contains(request.key) &&
                        most > 0 && socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) == 0;
    const pid_t own = getpid(), fork = may_be ? ::fork() : -1;
    if (fork == 0) {
      const int nothing = open("/dev/null", O_RDWR | O_CLOEXEC);
      run_checkpoint_process(ends[1], own, std::move(request.run), {directory, nothing, dup(nothing), dup(nothing)});
    }
    close(directory);
    if (!may_be) {
      return;
    }
    close(ends[1]);
    if (fork < 0) {
      close(ends[0]);
      return;
    }
    held[request.key] = {fork, ends[0], false, name, object, 0, ++uses};
  }

  // Handles a message of a process that prepares a checkpoint: it holds it, or is discarded.
  void hear(int socket) {
    const auto its = std::find_if(held.begin(), held.end(), [&](const auto &it) { return it.second.socket == socket; });
    const std::optional<Received> received = receive(socket);
    const Kept *kept = received ? std::get_if<Kept>(&received->frame) : nullptr;
    if (its == held.end()) {
      return;
    }
    if (!kept) {
      const Declined *declined = received ? std::get_if<Declined>(&received->frame) : nullptr;
      refuse(its->second, declined ? declined->why : "clang did not reach the end of its includes");
      forget(its->first);
      return;
    }
    its->second.is_ready = true;
    its->second.file = kept->file;
    its->second.memory_kib = number_in("/proc/" + std::to_string(its->second.pid) + "/smaps_rollup", "Pss");
    make_room(most, number_in(options.proc + "/meminfo", "MemTotal") / share);
  }

  // Records why there is no checkpoint; only the last reasons are kept.
  void refuse(const HeldCheckpoint &its, const std::string &why) {
    forget_refusal(its.object);
    refused.push_back({its.object, {its.file, why}});
    if (refused.size() > max_without) {
      refused.pop_front();
    }
  }

  void forget_refusal(const std::string &object) {
    std::erase_if(refused, [&](const Refused &it) { return it.object == object; });
  }

  // Drops the least recently used checkpoints until number and memory are within these limits.
  void make_room(std::size_t count, std::uint64_t kib) {
    const auto memory = [&] {
      std::uint64_t sum = 0;
      for (const auto &[key, its] : held) {
        sum += its.memory_kib;
      }
      return sum;
    };
    while (!held.empty() && (held.size() > count || memory() > kib)) {
      const auto used_before = [](const auto &one, const auto &other) {
        return one.second.last_use < other.second.last_use;
      };
      const auto oldest = std::min_element(held.begin(), held.end(), used_before);
      if (held.size() <= count) {
        refuse(oldest->second, "not enough memory for more checkpoints");
      }
      forget(oldest->first);
    }
  }

  // The checkpoint process ends together with its forks.
  void forget(std::string key) {
    close(held[key].socket);
    held.erase(key);
  }

  void reap() {
    signalfd_siginfo ignored;
    while (read(children_end, &ignored, sizeof ignored) > 0) {
    }
    for (pid_t gone; (gone = waitpid(-1, nullptr, WNOHANG)) > 0;) {
      const auto its = std::find_if(held.begin(), held.end(), [&](auto &it) { return it.second.pid == gone; });
      if (its != held.end()) {
        forget(its->first);
      }
    }
  }
};

}  // namespace

int run_daemon(const DaemonOptions &options, bool (*get_ready)()) {
  const int directory = open_own(options.place);
  const pid_t fork = directory < 0 ? -1 : ::fork();
  if (fork != 0) {
    // A search for processes that outlived their parents finds the ID as early as the process.
    return fork > 0 && write_file(directory, "pid", std::to_string(fork) + "\n") ? 0 : 1;
  }
  close(directory);
  setsid();
  close_all_but(options.client);
  if (chdir("/") < 0 || !get_ready()) {
    return 1;
  }
  return Daemon(options).serve();
}

}  // namespace tanto
