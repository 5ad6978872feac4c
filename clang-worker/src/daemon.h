// The checkpoint daemon of one build directory: keeps paused compiles.
#pragma once

#include <string>

namespace tanto {

// Options of the daemon.
struct DaemonOptions {
  // A directory that only its owner may enter, with the address of the socket and the process ID. The daemon exits when
  // it is removed.
  std::string place;
  // A client that is already connected; -1: none.
  int client = -1;
  // The daemon exits after this time without a client.
  int idle_seconds = 0;
  // Source of the memory figures: /proc.
  std::string proc;
};

// Detaches from the calling process, and serves until it is time to exit.
int run_daemon(const DaemonOptions &options, bool (*get_ready)());

}  // namespace tanto
