// A process that runs one command.
#pragma once

#include <csignal>
#include <string>

#include "channel.h"
#include "compiler.h"

namespace tanto {

class Child {
 public:
  // Created for `run` with these descriptors; reports over the socket.
  Child(int socket, Run run, std::vector<int> descriptors);

  // Called first: dies with this parent, sets up the directory and the descriptors, and blocks these signals.
  void begin(pid_t parent, const sigset_t &signals);
  // Returns the command.
  Order order();
  // Reports the outcome, and exits.
  [[noreturn]] void end(const Outcome &outcome);
  [[noreturn]] void decline(const std::string &why);

 private:
  const int socket;
  Run run;
  const std::vector<int> descriptors;

  bool set_up_process();
};

}  // namespace tanto
