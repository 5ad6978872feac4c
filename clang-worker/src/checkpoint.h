// A compile that pauses at the end of its leading includes, and goes on with whatever comes after them by then. Knows
// neither processes nor frames.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "witness.h"

namespace tanto {

// What a compile has read and asked by the time it pauses.
struct Prefix {
  Witness *witness = nullptr;
  std::string main_path;
  // The main file as far as it was read.
  std::string text;

  // Would a compile that begins now come to this point as this one did?
  bool holds() const;
};

// What such a compile asks of whoever wants it.
struct Halt {
  // Called once, where it pauses; comes back where it is to go on.
  std::function<void(const Prefix &)> pause;
  // Would the driver come to the same line again?
  std::function<bool()> is_same_line;
  // It does not pause, or may not go on, for this reason. Does not come back.
  std::function<void(const char *why)> give_up;
};

// Compiles a -cc1 line (beginning with the program's name), whose file is `main_path` and whose driver asked `witness`.
// The exit code.
int compile_in_halves(const std::vector<const char *> &line, Witness &witness, Roomy &main,
                      const std::string &main_path, const Halt &halt);

// The -cc1 options that a compile may have that pauses; nothing if they are all of these, or else the first that is
// not.
std::optional<std::string> option_without_checkpoint(const std::vector<const char *> &line);

}  // namespace tanto
