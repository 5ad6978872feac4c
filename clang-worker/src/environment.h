// Which variables of the environment were asked for. Knows nobody who asks.
#pragma once

#include <string>
#include <vector>

namespace tanto {

// From now on each variable that anybody asks for is noted, with its value.
void remember_environment();

// Would all that asked have had the same answers of this environment?
bool is_same_environment(const std::vector<std::string> &environment);

}  // namespace tanto
