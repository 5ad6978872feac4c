// Reads the properties of the process at the other end from the kernel.

#include "peer_process.h"

#include <sched.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <string>
#include <vector>

namespace tanto {
namespace {

bool peer_credentials(int socket, ucred &peer) {
  socklen_t size = sizeof peer;
  return getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &peer, &size) == 0 && peer.pid > 0;
}

// Lines of its status with its rights.
std::vector<std::string> rights(const std::string &process) {
  std::vector<std::string> lines;
  std::ifstream file("/proc/" + process + "/status");
  for (std::string line; std::getline(file, line);) {
    for (const char *name : {"Uid:", "Gid:", "Groups:", "CapEff:", "NoNewPrivs:", "Seccomp:"}) {
      if (line.starts_with(name)) {
        lines.push_back(line);
      }
    }
  }
  return lines;
}

bool is_same(const std::string &one, const std::string &other) {
  struct stat first{}, second{};
  return stat(one.c_str(), &first) == 0 && stat(other.c_str(), &second) == 0 && first.st_dev == second.st_dev &&
         first.st_ino == second.st_ino;
}

bool differ(const rlimit &one, const rlimit &other) {
  return one.rlim_cur != other.rlim_cur || one.rlim_max != other.rlim_max;
}

}  // namespace

bool has_same_rights(int socket) {
  ucred peer{};
  if (!peer_credentials(socket, peer) || peer.uid != geteuid()) {
    return false;
  }
  const std::string process = std::to_string(peer.pid), place = "/proc/" + process;
  const std::vector<std::string> its = rights(process);
  return !its.empty() && its == rights("self") && is_same(place + "/ns/mnt", "/proc/self/ns/mnt") &&
         is_same(place + "/root", "/proc/self/root");
}

bool adopt_limits(int socket) {
  ucred peer{};
  if (!peer_credentials(socket, peer)) {
    return false;
  }
  for (int number = 0; number < RLIM_NLIMITS; number++) {
    const auto limit = static_cast<__rlimit_resource>(number);
    rlimit its{}, ours{};
    if (limit == RLIMIT_CORE) {
      continue;
    }
    if (prlimit(peer.pid, limit, nullptr, &its) < 0 || getrlimit(limit, &ours) < 0 ||
        (differ(its, ours) && setrlimit(limit, &its) < 0)) {
      return false;
    }
  }
  cpu_set_t processors;
  const int nice = getpriority(PRIO_PROCESS, static_cast<id_t>(peer.pid));
  return (nice == getpriority(PRIO_PROCESS, 0) || setpriority(PRIO_PROCESS, 0, nice) == 0) &&
         (sched_getaffinity(peer.pid, sizeof processors, &processors) < 0 ||
          sched_setaffinity(0, sizeof processors, &processors) == 0);
}

}  // namespace tanto
