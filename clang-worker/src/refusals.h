// Which options are left to a process of its own. Knows options by their text only.
#pragma once

#include <optional>
#include <string_view>

namespace tanto {

// The driver's options that change how clang runs its jobs, or that write before there is a plan.
bool driver_refuses(std::string_view word);

// Options of -cc1 that load code, measure, or keep state beyond the one file.
bool cc1_refuses(std::string_view word);

// lld's.
bool lld_refuses(std::string_view word);

}  // namespace tanto
