// clang and lld as functions. Knows no frames and no processes.
#pragma once

#include <functional>
#include <string>
#include <vector>

namespace tanto {

struct Prefix;

// A command, and which files its programs would be.
struct Order {
  std::string clang;
  std::string lld;
  std::vector<std::string> arguments;
};

// What became of it: it ended with this code, or it is to be run as a process of its own.
struct Outcome {
  bool declined = false;
  int code = 0;
  std::string why;
  bool has_failed = false;  // declined, for the real program tells better what is wrong
};

// What a command is compiled or linked with; never called in the process that others are forked from, but to warm up.
Outcome carry_out(const Order &order);

// The same, but it pauses once, at the end of its leading includes, and goes on where `pause` comes back. What does not
// pause, or may not go on, ends as by an error that clang does not come back from.
Outcome carry_out_in_halves(const Order &order, const std::function<void(const Prefix &)> &pause);

// Makes ready what every command needs.
void prepare();

// Compiles a small file, so that what comes after it need not be the first.
bool warm_up();

// Calls this before the process ends by an error that clang does not come back from.
void on_fatal_error(std::function<void(const char *why)> last);

std::string clang_version();
std::string lld_version();

// The GNU build-ids of clang, lld and their libraries, of the build that this program was linked with.
std::vector<std::string> builds();

}  // namespace tanto
