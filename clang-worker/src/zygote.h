// The process that others are forked from, one for each command.
#pragma once

namespace tanto {

// Serves commands that come over this socket until it is closed; what the process exits with. Calls `settle` once there
// were many.
int serve(int socket, void (*settle)());

}  // namespace tanto
