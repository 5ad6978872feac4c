// Frames: what Tanto and the worker say to each other, as bytes. Knows neither sockets nor compilers.
//
// PROTOCOL.md tells the format. Whatever bytes come in, reading them ends with a frame or with nothing.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace tanto {

// Both sides refuse what goes beyond these; `crates/tanto-exec/src/runner/clang/frames.rs` has the same numbers.
inline constexpr std::uint32_t protocol = 2;
inline constexpr std::size_t most_bytes = 128 << 10;
inline constexpr std::size_t most_texts = 16 << 10;
inline constexpr std::size_t most_descriptors = 16;
// The directory to work in, then standard input, output and errors; control groups to enter come after them.
inline constexpr std::size_t least_descriptors = 4;
// Checkpoints that a keeper tells of, and files of which there is none.
inline constexpr std::size_t most_files = 64;
inline constexpr std::size_t most_without = 32;

// Worker to Tanto, once: it is ready, and this is what it stands for.
struct Hello {
  std::uint32_t version = protocol;
  std::string clang;                // the first line of its `clang --version`
  std::string lld;                  // of its `ld.lld --version`
  std::vector<std::string> builds;  // the GNU build-ids of the programs and libraries that it stands for
  bool operator==(const Hello &) const = default;
};

// Tanto to worker: run this command.
struct Run {
  std::uint64_t id = 0;
  std::uint32_t umask = 0;
  std::string clang;  // the file that the command would run
  std::string lld;    // the lld that may be run in-process; empty: none
  std::vector<std::string> arguments;
  std::vector<std::string> environment;  // NAME=value
  bool operator==(const Run &) const = default;
};

// Worker to Tanto: the command has a process.
struct Started {
  std::uint64_t id = 0;
  std::uint32_t pid = 0;
  bool operator==(const Started &) const = default;
};

// Worker to Tanto: the command is done, and its process is about to go away.
struct Ended {
  std::uint64_t id = 0;
  std::uint32_t code = 0;
  std::uint64_t user_us = 0;
  std::uint64_t system_us = 0;
  std::uint64_t max_rss_kib = 0;
  std::uint64_t read_bytes = 0;
  std::uint64_t written_bytes = 0;
  bool operator==(const Ended &) const = default;
};

// Worker to Tanto: the command has to be run as a process of its own; what it printed here does not count.
struct Declined {
  std::uint64_t id = 0;
  std::string why;
  bool operator==(const Declined &) const = default;
};

// Worker to Tanto: the command's process is gone. Without an `Ended` or `Declined` before it, it crashed.
struct Gone {
  std::uint64_t id = 0;
  std::uint32_t status = 0;  // as wait(2) tells it
  bool operator==(const Gone &) const = default;
};

// Tanto to keeper: in idle time, compile this as far as to the end of its includes, and wait there for commands that
// are the same. So many may wait at a time.
struct Keep {
  Run run;
  std::uint32_t most = 0;
  bool operator==(const Keep &) const = default;
};

// Fork to keeper: it waits before the rest of this file.
struct Kept {
  std::uint64_t id = 0;
  std::string file;
  bool operator==(const Kept &) const = default;
};

// A file of which there is no checkpoint, and why, in a line for the user.
struct Without {
  std::string file;
  std::string why;
  bool operator==(const Without &) const = default;
};

// Keeper to Tanto, once: what it holds, and what it could not.
struct Holding {
  std::uint32_t most = 0;
  std::uint32_t wanted = 0;  // not yet made
  std::uint64_t memory_kib = 0;
  std::vector<std::string> files;
  std::vector<Without> without;
  bool operator==(const Holding &) const = default;
};

// Tanto to keeper: end.
struct Stop {
  bool operator==(const Stop &) const = default;
};

using Frame = std::variant<Hello, Run, Started, Ended, Declined, Gone, Keep, Kept, Holding, Stop>;

// Nothing: the frame goes beyond a limit.
std::optional<std::string> encode(const Frame &frame);

// Nothing: these bytes are no frame.
std::optional<Frame> decode(std::string_view bytes);

}  // namespace tanto
