// The socket to Tanto: whole frames, with descriptors.
#pragma once

#include <optional>
#include <vector>

#include "frames.h"

namespace tanto {

// A received frame with its descriptors, which the receiver closes.
struct Received {
  Frame frame;
  std::vector<int> descriptors;
};

// Each frame is one packet, so that several processes can send without interleaving.
bool send(int socket, const Frame &frame);

// Sends with descriptors.
bool send(int socket, const Frame &frame, const std::vector<int> &descriptors);

// Waits for the next frame. Returns nothing if the peer is gone or sent an invalid frame.
std::optional<Received> receive(int socket);

}  // namespace tanto
