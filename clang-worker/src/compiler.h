// clang and lld as functions.
#pragma once

#include <functional>
#include <string>
#include <vector>

namespace tanto {

struct Prefix;

// A command, and the files of its programs.
struct Order {
  std::string clang;
  std::string lld;
  std::vector<std::string> arguments;
};

// Result: an exit code, or the command has to run as a process.
struct Outcome {
  bool declined = false;
  int code = 0;
  std::string why;
  bool has_failed = false;  // declined because the real program reports the error
};

// Compiles or links a command. Called in forks only, except for warming up.
Outcome run_command(const Order &order);

// Pauses once, at the end of the leading includes, and continues when `pause` returns. A compile that cannot pause or
// continue exits as after a fatal error of clang.
Outcome run_with_pause(const Order &order, const std::function<void(const Prefix &)> &pause);

// Prepares the state that every command needs.
void prepare();

// Compiles a small file, so that later compiles find initialized data.
bool warm_up();

// Called before the process ends by a fatal error of clang.
void on_fatal_error(std::function<void(const char *why)> last);

std::string clang_version();
std::string lld_version();

// The GNU build-ids of clang, lld and their libraries of the build with which this program was linked.
std::vector<std::string> builds();

}  // namespace tanto
