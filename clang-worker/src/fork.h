// Forks that compile one of several files of a command.
#pragma once

#include <functional>

namespace tanto {

// Runs `body` in a fork. Returns its exit code, or -1 if a signal has ended it or there is no fork.
int run_in_fork(const std::function<int()> &body);

// From now on a signal that asks this process to end also reaches the other processes of its group, which are the
// command's.
void end_with_group();

}  // namespace tanto
