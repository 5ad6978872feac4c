// Records which environment variables were read.
#pragma once

#include <string>
#include <vector>

namespace tanto {

// Starts recording each variable that is read, with its value.
void remember_environment();

// Returns whether all recorded reads would have the same results in this environment.
bool is_same_environment(const std::vector<std::string> &environment);

}  // namespace tanto
