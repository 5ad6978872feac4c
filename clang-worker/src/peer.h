// The process at the other end of a socket: may it ask us, and what does it have that we may not have? Knows no frames.
#pragma once

namespace tanto {

// Has it our user and groups, the same rights, and does it see the same files? Only then may a fork of ours do its
// work.
bool is_like_us(int socket);

// Gives this process the limits, the priority and the processors of that one. False: it may not have them.
bool take_after(int socket);

}  // namespace tanto
