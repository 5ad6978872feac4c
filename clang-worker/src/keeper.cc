// Takes wishes while builds run, fulfils them when none does, and hands commands to those who hold what they need.

#include "keeper.h"

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
#include "compiler.h"
#include "holder.h"
#include "llvm/ADT/StringExtras.h"
#include "peer.h"

namespace tanto {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

// How often it looks whether it should still be there.
constexpr milliseconds tick{1000};
// Another build may follow at once: a checkpoint is begun when there was none for so long.
constexpr milliseconds quiet{1000};
// Connections, and wishes, at a time.
constexpr std::size_t most_guests = 16, most_wishes = 64;
// Of the machine's memory it holds no more than one part of so many, and ends when less than one of those is free.
constexpr std::uint64_t share = 8, least_free = 16;
// Memory is short if somebody waited for it that much of the last ten seconds, in percent.
constexpr double pressure = 10;

// The number behind a name, in a file of lines like "Name:   number kB".
std::uint64_t number_in(const std::string &path, const std::string &name) {
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with(name + ":")) {
      return std::strtoull(line.c_str() + name.size() + 1, nullptr, 10);
    }
  }
  return 0;
}

// A name or a reason, as one may show it: in one line, and if it is very long, its end.
std::string shown(std::string text) {
  constexpr std::size_t most_bytes = 256;
  if (text.size() > most_bytes) {
    text = "..." + text.substr(text.size() - most_bytes);
  }
  std::replace_if(text.begin(), text.end(), [](unsigned char byte) { return byte < ' ' || byte == 0x7f; }, '?');
  return text;
}

// The word behind this one; empty if there is none.
std::string behind(const Run &run, const std::string &word) {
  const auto at = std::find(run.arguments.begin(), run.arguments.end(), word);
  return at == run.arguments.end() || at + 1 == run.arguments.end() ? "" : at[1];
}

// What to call a compile of which no compiler has told the file: most lines have that behind their -c.
std::string name_of(const Run &run) {
  const std::string file = behind(run, "-c");
  return file.empty() || file.starts_with('-') ? behind(run, "-o") : file;
}

// Leaves nothing open but this one, and nothing of whoever started it but the user.
void let_go_of_all_but(int guest) {
  const int nothing = open("/dev/null", O_RDWR | O_CLOEXEC);
  for (int i = 0; i < 3; i++) {
    dup2(nothing, i);
  }
  if (guest > 3) {
    close_range(3, static_cast<unsigned>(guest) - 1, 0);
  }
  close_range(static_cast<unsigned>(std::max(guest, 2)) + 1, ~0U, 0);
  clearenv();
  umask(077);
}

// A directory that only its owner may enter, who is us; below 0: it is none.
int open_own(const std::string &place) {
  const int directory = open(place.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  struct stat it{};
  if (directory >= 0 && fstat(directory, &it) == 0 && it.st_uid == geteuid() && (it.st_mode & 077) == 0) {
    return directory;
  }
  close(directory);
  return -1;
}

// Writes a small file of a directory, in one step for whoever reads it.
bool leave(int directory, const char *name, const std::string &text) {
  const std::string fresh = std::string(name) + ".new";
  const int file = openat(directory, fresh.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
  const bool is_written = file >= 0 && write(file, text.c_str(), text.size()) == static_cast<ssize_t>(text.size());
  close(file);
  return is_written && renameat(directory, fresh.c_str(), directory, name) == 0;
}

// An address that is no file: a socket in a directory keeps its file system busy. Whoever knows it may connect, and is
// looked at then.
std::string fresh_address() {
  unsigned char random[16];
  if (getrandom(random, sizeof random, 0) != sizeof random) {
    return {};
  }
  return "tanto-checkpoints-" + llvm::toHex(llvm::ArrayRef(random), true);
}

// Who holds a compile, or is about to.
struct Held {
  pid_t holder = -1;
  int socket = -1;
  bool is_ready = false;
  std::string file;
  std::string object;
  std::uint64_t memory_kib = 0;
  std::uint64_t last_use = 0;
};

// A compile that nobody holds, known by what it makes.
struct Refused {
  std::string object;
  Without its;
};

// A compile that is to be kept, and the directory that it runs in: by its name, for a descriptor would keep it busy.
struct Wish {
  Run run;
  std::string key;
  std::string directory;
};

class Keeper {
 public:
  explicit Keeper(const House &house) : house(house) {}

  int serve() {
    if (!listen_here()) {
      return 1;
    }
    sigset_t ends;
    sigemptyset(&ends);
    sigaddset(&ends, SIGCHLD);
    sigprocmask(SIG_BLOCK, &ends, nullptr);
    children_end = signalfd(-1, &ends, SFD_CLOEXEC | SFD_NONBLOCK);
    if (house.guest >= 0) {
      greet(house.guest);
    }
    while (!is_over()) {
      wait();
      fulfil();
    }
    if (is_ours()) {
      unlink((house.place + "/address").c_str());
      unlink((house.place + "/pid").c_str());
    }
    return 0;
  }

 private:
  const House &house;
  const std::string address = fresh_address();
  int listener = -1, children_end = -1;
  bool is_told_to_stop = false;
  Clock::time_point last_work = Clock::now();
  std::uint64_t uses = 0;
  std::uint32_t most = 0;
  std::vector<int> guests;
  std::deque<Wish> wishes;
  std::map<std::string, Held> held;
  std::deque<Refused> refused;

  bool listen_here() {
    sockaddr_un name{};
    name.sun_family = AF_UNIX;
    // The NUL before it makes it none of a file.
    std::memcpy(name.sun_path + 1, address.data(), address.size());
    const auto size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + address.size());
    listener = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    const int directory = open_own(house.place);
    const bool is_known = !address.empty() && listener >= 0 && directory >= 0 &&
                          bind(listener, reinterpret_cast<const sockaddr *>(&name), size) == 0 &&
                          listen(listener, most_guests) == 0 && leave(directory, "address", address + "\n");
    close(directory);
    return is_known;
  }

  // Another may have come in our place, and the directory may be gone, or its file system unmounted.
  bool is_ours() const {
    std::ifstream file(house.place + "/address");
    std::string its;
    return std::getline(file, its) && its == address;
  }

  // Is it no longer wanted, or not where it was, or too large?
  bool is_over() const {
    const bool is_idle = guests.empty() && Clock::now() - last_work > std::chrono::seconds(house.idle_seconds);
    return is_told_to_stop || !is_ours() || is_idle || is_memory_short();
  }

  bool is_memory_short() const {
    const std::string meminfo = house.proc + "/meminfo";
    if (number_in(meminfo, "MemAvailable") < number_in(meminfo, "MemTotal") / least_free) {
      return true;
    }
    std::ifstream file(house.proc + "/pressure/memory");
    std::string some, average;
    constexpr std::string_view name = "avg10=";
    return file >> some >> average && average.starts_with(name) &&
           std::strtod(average.c_str() + name.size(), nullptr) > pressure;
  }

  void wait() {
    std::vector<pollfd> watched = {{listener, POLLIN, 0}, {children_end, POLLIN, 0}};
    for (const int guest : guests) {
      watched.push_back({guest, POLLIN, 0});
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
      bury();
    }
    // Who was here before is heard to the end: what is told to whoever comes is true then.
    if (watched[0].revents && !has_heard) {
      const int guest = accept4(listener, nullptr, nullptr, SOCK_CLOEXEC);
      if (guest >= 0 && (guests.size() >= most_guests || !is_like_us(guest))) {
        close(guest);
      } else if (guest >= 0) {
        greet(guest);
      }
    }
  }

  void greet(int guest) {
    guests.push_back(guest);
    Holding holding{most, static_cast<std::uint32_t>(wishes.size()), 0, {}, {}};
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
    send(guest, Hello{protocol, clang_version(), lld_version(), builds()});
    send(guest, holding);
  }

  void dismiss(int guest) {
    close(guest);
    std::erase(guests, guest);
  }

  // False: the guest is gone, or has said what nobody understands.
  bool take_one(int guest) {
    std::optional<Received> received = receive(guest);
    if (!received) {
      return false;
    }
    std::vector<int> &descriptors = received->descriptors;
    bool ok = descriptors.size() >= least_descriptors;
    if (std::holds_alternative<Stop>(received->frame)) {
      is_told_to_stop = ok = true;
    } else if (Run *run = std::get_if<Run>(&received->frame); run && ok) {
      last_work = Clock::now();
      run_from_checkpoint(guest, *run, descriptors);
    } else if (Keep *keep = std::get_if<Keep>(&received->frame); keep && ok) {
      last_work = Clock::now();
      most = std::min<std::uint32_t>(keep->most, most_files);
      wish(keep->run, descriptors[0]);
    } else {
      ok = false;
    }
    for (const int descriptor : descriptors) {
      close(descriptor);
    }
    return ok;
  }

  void run_from_checkpoint(int guest, const Run &run, const std::vector<int> &descriptors) {
    const auto its = held.find(key_of(run, descriptors[0]));
    if (its == held.end() || !its->second.is_ready || descriptors.size() >= most_descriptors) {
      send(guest, Declined{run.id, "nobody holds it"});
    } else if (hand_over(its->second.socket, run, descriptors, guest)) {
      its->second.last_use = ++uses;
    } else {
      forget(its->first);
      send(guest, Declined{run.id, "it has changed"});
    }
  }

  // The last is fulfilled first.
  void wish(Run &run, int directory) {
    const std::string key = key_of(run, directory);
    const auto its = held.find(key);
    if (its != held.end()) {
      its->second.last_use = ++uses;
      return;
    }
    std::erase_if(wishes, [&](const Wish &wish) { return wish.key == key; });
    forget_refusal(behind(run, "-o"));
    std::error_code error;
    const auto place = std::filesystem::read_symlink("/proc/self/fd/" + std::to_string(directory), error);
    wishes.push_front({std::move(run), key, place});
    if (wishes.size() > std::min<std::size_t>(most, most_wishes)) {
      wishes.pop_back();
    }
  }

  // One at a time, and while no build runs.
  void fulfil() {
    const bool is_busy = std::any_of(held.begin(), held.end(), [](const auto &it) { return !it.second.is_ready; });
    if (wishes.empty() || is_busy || !guests.empty() || Clock::now() - last_work < quiet) {
      return;
    }
    Wish wish = std::move(wishes.front());
    wishes.pop_front();
    const std::string name = name_of(wish.run), object = behind(wish.run, "-o");
    make_room(most == 0 ? 0 : most - 1, ~std::uint64_t{0});
    const int directory = open(wish.directory.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    int ends[2];
    // Another directory may have its name by now.
    const bool may_be = directory >= 0 && !wish.key.empty() && key_of(wish.run, directory) == wish.key &&
                        !held.contains(wish.key) && most > 0 &&
                        socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) == 0;
    const pid_t own = getpid(), fork = may_be ? ::fork() : -1;
    if (fork == 0) {
      const int nothing = open("/dev/null", O_RDWR | O_CLOEXEC);
      hold(ends[1], own, std::move(wish.run), {directory, nothing, dup(nothing), dup(nothing)});
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
    held[wish.key] = {fork, ends[0], false, name, object, 0, ++uses};
  }

  // What one says who is about to hold something: that it does. Else it ends.
  void hear(int socket) {
    const auto its = std::find_if(held.begin(), held.end(), [&](const auto &it) { return it.second.socket == socket; });
    const std::optional<Received> received = receive(socket);
    const Kept *kept = received ? std::get_if<Kept>(&received->frame) : nullptr;
    if (its == held.end()) {
      return;
    }
    if (!kept) {
      const Declined *declined = received ? std::get_if<Declined>(&received->frame) : nullptr;
      refuse(its->second, declined ? declined->why : "clang did not get to the end of its includes");
      forget(its->first);
      return;
    }
    its->second.is_ready = true;
    its->second.file = kept->file;
    its->second.memory_kib = number_in("/proc/" + std::to_string(its->second.holder) + "/smaps_rollup", "Pss");
    make_room(most, number_in(house.proc + "/meminfo", "MemTotal") / share);
  }

  // Tells whoever comes why there is none; of the last that it was so with.
  void refuse(const Held &its, const std::string &why) {
    forget_refusal(its.object);
    refused.push_back({its.object, {its.file, why}});
    if (refused.size() > most_without) {
      refused.pop_front();
    }
  }

  void forget_refusal(const std::string &object) {
    std::erase_if(refused, [&](const Refused &it) { return it.object == object; });
  }

  // Forgets who was not used for longest, until the others are so few and have no more memory than that.
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
        refuse(oldest->second, "there is no more memory for checkpoints");
      }
      forget(oldest->first);
    }
  }

  // Whoever holds it ends with what it has begun.
  void forget(std::string key) {
    close(held[key].socket);
    held.erase(key);
  }

  void bury() {
    signalfd_siginfo ignored;
    while (read(children_end, &ignored, sizeof ignored) > 0) {
    }
    for (pid_t gone; (gone = waitpid(-1, nullptr, WNOHANG)) > 0;) {
      const auto its = std::find_if(held.begin(), held.end(), [&](auto &it) { return it.second.holder == gone; });
      if (its != held.end()) {
        forget(its->first);
      }
    }
  }
};

}  // namespace

int keep_house(const House &house, bool (*get_ready)()) {
  const int directory = open_own(house.place);
  const pid_t fork = directory < 0 ? -1 : ::fork();
  if (fork != 0) {
    // Who looks for what has outlived its parents finds the number as soon as the process.
    return fork > 0 && leave(directory, "pid", std::to_string(fork) + "\n") ? 0 : 1;
  }
  close(directory);
  setsid();
  let_go_of_all_but(house.guest);
  if (chdir("/") < 0 || !get_ready()) {
    return 1;
  }
  return Keeper(house).serve();
}

}  // namespace tanto
