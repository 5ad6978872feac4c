// A compile that pauses at the end of its leading includes, and continues with the current rest of the file.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "recorder.h"

namespace tanto {

// Everything that a compile has read and queried before its pause.
struct Prefix {
  Recorder *recorder = nullptr;
  std::string main_path;
  // The part of the main file that was read.
  std::string text;

  // Returns whether a new compile would reach this point in the same way.
  bool holds() const;
};

// Callbacks of such a compile.
struct PauseCallbacks {
  // Called once, at the pause. Returns when the compile is to continue.
  std::function<void(const Prefix &)> pause;
  // Returns whether the driver would produce the same line again.
  std::function<bool()> is_same_line;
  // The compile does not pause or must not continue, for this reason. Does not return.
  std::function<void(const char *why)> give_up;
};

// Compiles a -cc1 line (beginning with the program's name) whose file is `main_path` and whose driver queried
// `recorder`. Returns the exit code.
int compile_with_pause(const std::vector<const char *> &line, Recorder &recorder, GrowableText &main,
                       const std::string &main_path, const PauseCallbacks &callbacks);

// Returns the first -cc1 option that a pausing compile must not have; nothing if all are allowed.
std::optional<std::string> option_without_checkpoint(const std::vector<const char *> &line);

}  // namespace tanto
