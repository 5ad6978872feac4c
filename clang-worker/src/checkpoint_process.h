// A process that holds a paused compile, and forks it for each equal command.
#pragma once

#include <sys/types.h>

#include "channel.h"

namespace tanto {

// Called in a fork of the daemon. Compiles up to the pause, reports it over `socket`, and then serves commands from the
// socket until it is closed.
[[noreturn]] void run_checkpoint_process(int socket, pid_t parent, Run run, std::vector<int> descriptors);

// Passes a command to the checkpoint process at this socket, which reports about it to `listener`. Returns false if the
// checkpoint no longer matches the command.
bool pass_to_checkpoint(int checkpoint, const Run &run, std::vector<int> descriptors, int listener);

// Identifies equal commands: their words, program and directory. Empty if it cannot be determined.
std::string checkpoint_key(const Run &run, int directory);

}  // namespace tanto
