// A process that holds a compile which has paused, and forks it for each command that is the same. Knows no compilers.
#pragma once

#include <sys/types.h>

#include "channel.h"

namespace tanto {

// In a fork of the worker: compiles what is to be kept until it pauses, says so over `socket`, and from then on serves
// commands that come over it, until that is closed.
[[noreturn]] void hold(int socket, pid_t parent, Run run, std::vector<int> descriptors);

// Hands a command to a holder, whose news of it go to `listener`. False: it does not hold any more what the command
// would come to.
bool hand_over(int holder, const Run &run, std::vector<int> descriptors, int listener);

// What makes two commands the same for a holder: their words, the program, and the directory. Empty: it cannot be told.
std::string key_of(const Run &run, int directory);

}  // namespace tanto
