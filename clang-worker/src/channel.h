// The socket to Tanto: whole frames, and descriptors with them. Does not know what they mean.
#pragma once

#include <optional>
#include <vector>

#include "frames.h"

namespace tanto {

// A frame that came, with the descriptors that came with it, which are the receiver's to close.
struct Received {
  Frame frame;
  std::vector<int> descriptors;
};

// Each frame is one packet, so that several processes can send without mixing theirs.
bool send(int socket, const Frame &frame);

// The same, with descriptors.
bool send(int socket, const Frame &frame, const std::vector<int> &descriptors);

// Waits for the next frame. Nothing: the other side is gone, or what it says is none.
std::optional<Received> receive(int socket);

}  // namespace tanto
