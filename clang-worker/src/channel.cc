// Frames over a socket of packets.

#include "channel.h"

#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

namespace tanto {
namespace {

// Descriptors are closed on exec.
std::vector<int> descriptors_of(msghdr &message) {
  std::vector<int> all;
  for (cmsghdr *part = CMSG_FIRSTHDR(&message); part; part = CMSG_NXTHDR(&message, part)) {
    if (part->cmsg_level != SOL_SOCKET || part->cmsg_type != SCM_RIGHTS) {
      continue;
    }
    std::vector<int> some((part->cmsg_len - CMSG_LEN(0)) / sizeof(int));
    std::memcpy(some.data(), CMSG_DATA(part), some.size() * sizeof(int));
    all.insert(all.end(), some.begin(), some.end());
  }
  return all;
}

}  // namespace

bool send(int socket, const Frame &frame) {
  const std::optional<std::string> bytes = encode(frame);
  if (!bytes) {
    return false;
  }
  ssize_t sent;
  do {
    sent = ::send(socket, bytes->data(), bytes->size(), MSG_NOSIGNAL);
  } while (sent < 0 && errno == EINTR);
  return sent == static_cast<ssize_t>(bytes->size());
}

bool send(int socket, const Frame &frame, const std::vector<int> &descriptors) {
  std::optional<std::string> bytes = encode(frame);
  if (!bytes || descriptors.empty() || descriptors.size() > max_descriptors) {
    return false;
  }
  alignas(cmsghdr) char control[CMSG_SPACE(max_descriptors * sizeof(int))] = {};
  iovec part{bytes->data(), bytes->size()};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  message.msg_control = control;
  message.msg_controllen = CMSG_SPACE(descriptors.size() * sizeof(int));
  cmsghdr *rights = CMSG_FIRSTHDR(&message);
  rights->cmsg_level = SOL_SOCKET;
  rights->cmsg_type = SCM_RIGHTS;
  rights->cmsg_len = CMSG_LEN(descriptors.size() * sizeof(int));
  std::memcpy(CMSG_DATA(rights), descriptors.data(), descriptors.size() * sizeof(int));
  ssize_t sent;
  do {
    sent = sendmsg(socket, &message, MSG_NOSIGNAL);
  } while (sent < 0 && errno == EINTR);
  return sent == static_cast<ssize_t>(bytes->size());
}

std::optional<Received> receive(int socket) {
  static char bytes[max_bytes];
  alignas(cmsghdr) char control[CMSG_SPACE(max_descriptors * sizeof(int))];
  iovec part{bytes, sizeof bytes};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  message.msg_control = control;
  message.msg_controllen = sizeof control;
  ssize_t length;
  do {
    length = recvmsg(socket, &message, MSG_CMSG_CLOEXEC);
  } while (length < 0 && errno == EINTR);
  if (length <= 0) {
    return std::nullopt;
  }
  std::vector<int> descriptors = descriptors_of(message);
  const bool is_cut = message.msg_flags & (MSG_TRUNC | MSG_CTRUNC);
  std::optional<Frame> frame = decode({bytes, static_cast<std::size_t>(length)});
  if (is_cut || !frame) {
    for (const int descriptor : descriptors) {
      close(descriptor);
    }
    return std::nullopt;
  }
  return Received{std::move(*frame), std::move(descriptors)};
}

}  // namespace tanto
