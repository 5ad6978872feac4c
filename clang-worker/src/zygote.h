// The process that forks for each command.
#pragma once

namespace tanto {

// Serves commands from this socket until it is closed; returns the exit code of the process. Calls `settle` once after
// many commands.
int serve(int socket, void (*settle)());

}  // namespace tanto
