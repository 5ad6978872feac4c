// A process that holds a paused compile, and forks it for each equal command.
#pragma once

#include <sys/types.h>

#include "channel.h"

namespace tanto {

// Called in a fork of the worker. Compiles up to the pause, reports it over `socket`, and then serves commands from the
// socket until it is closed.
[[noreturn]] void hold(int socket, pid_t parent, Run run, std::vector<int> descriptors);

// Passes a command to a holder, which reports about it to `listener`. Returns false if the checkpoint no longer matches
// the command.
bool hand_over(int holder, const Run &run, std::vector<int> descriptors, int listener);

// Identifies equal commands: their words, program and directory. Empty if it cannot be determined.
std::string key_of(const Run &run, int directory);

}  // namespace tanto
