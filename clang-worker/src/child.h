// A process of one command. Knows neither how it is forked nor what it compiles.
#pragma once

#include <csignal>
#include <string>

#include "channel.h"
#include "compiler.h"

namespace tanto {

class Child {
 public:
  // Of `run`, which came with these descriptors; it will be told of over the socket.
  Child(int socket, Run run, std::vector<int> descriptors);

  // Its life begins: it dies with this parent, has what surrounds the command, and these signals blocked.
  void begin(pid_t parent, const sigset_t &signals);
  // What there is to do.
  Order order();
  // It was done, or is to be done by a process.
  [[noreturn]] void end(const Outcome &outcome);
  [[noreturn]] void decline(const std::string &why);

 private:
  const int socket;
  Run run;
  const std::vector<int> descriptors;

  bool settle();
};

}  // namespace tanto
