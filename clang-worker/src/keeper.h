// A daemon of one build directory, which keeps compiles that have paused. Knows no compilers.
#pragma once

#include <string>

namespace tanto {

// Where it lives, and for how long.
struct House {
  // A directory that only its owner may enter: the address of its socket and the number of the process are there.
  // Without it, it ends.
  std::string place;
  // Somebody who is connected already; below 0: nobody.
  int guest = -1;
  // Nobody has come for so long: it ends.
  int idle_seconds = 0;
  // What tells of the machine's memory: /proc.
  std::string proc;
};

// Leaves the process that has called it, makes itself ready, and serves until it is time to end.
int keep_house(const House &house, bool (*get_ready)());

}  // namespace tanto
