// Options that only real programs handle, by their text.
#pragma once

#include <optional>
#include <string_view>

namespace tanto {

// The driver's options that change how clang runs its jobs, or that write before the jobs are planned.
bool is_unsupported_driver_option(std::string_view word);

// Options of -cc1 that load code, measure, or keep state beyond the one file.
bool is_unsupported_cc1_option(std::string_view word);

// lld's options.
bool is_unsupported_lld_option(std::string_view word);

}  // namespace tanto
