// Forks that compile one of several files of a command.
#pragma once

#include <functional>

namespace tanto {

// Runs `body` in a fork. Returns its exit code, or -1 if a signal ended it or the fork failed.
int run_in_fork(const std::function<int()> &body);

// Forwards termination signals of this process to its process group, which contains the command's other processes.
void end_with_group();

}  // namespace tanto
