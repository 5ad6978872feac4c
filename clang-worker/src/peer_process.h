// The process at the other end of a socket: its rights and limits.
#pragma once

namespace tanto {

// Returns whether it has our user, groups and rights, and sees the same files. Only then may a fork of ours work for
// it.
bool has_same_rights(int socket);

// Gives this process the limits, priority and CPUs of that one. Returns false if it may not have them.
bool adopt_limits(int socket);

}  // namespace tanto
