// Encodes and decodes the frames between Tanto and the checkpoint daemon. PROTOCOL.md specifies the format. Decoding
// any bytes yields a frame or nothing.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace tanto {

// Limits of both sides; `crates/tanto-exec/src/runner/clang/frames.rs` has the same values.
inline constexpr std::uint32_t protocol = 3;
inline constexpr std::size_t max_bytes = 128 << 10;
inline constexpr std::size_t max_texts = 16 << 10;
inline constexpr std::size_t max_descriptors = 16;
// Working directory, standard input, output and error; control groups follow.
inline constexpr std::size_t min_descriptors = 4;
// Limits of checkpoints in a `Holding`, and of files without one.
inline constexpr std::size_t max_files = 64;
inline constexpr std::size_t max_without = 32;

// Daemon to Tanto, once: it is ready, and replaces these programs.
struct Hello {
  std::uint32_t version = protocol;
  std::string clang;                // the first line of its `clang --version`
  std::string lld;                  // of its `ld.lld --version`
  std::vector<std::string> builds;  // the GNU build-ids of the programs and libraries that it replaces
  bool operator==(const Hello &) const = default;
};

// Tanto to daemon: run this command.
struct Run {
  std::uint64_t id = 0;
  std::uint32_t umask = 0;
  std::string clang;  // the program that the command would run
  std::string lld;    // the lld that it may replace; empty: none
  std::vector<std::string> arguments;
  std::vector<std::string> environment;  // NAME=value
  bool operator==(const Run &) const = default;
};

// Daemon to Tanto: the command was started.
struct Started {
  std::uint64_t id = 0;
  std::uint32_t pid = 0;
  bool operator==(const Started &) const = default;
};

// Daemon to Tanto: the command has ended, and its process is about to exit.
struct Ended {
  std::uint64_t id = 0;
  std::uint32_t status = 0;  // as returned by wait(2)
  std::uint64_t user_us = 0;
  std::uint64_t system_us = 0;
  std::uint64_t max_rss_kib = 0;
  std::uint64_t read_bytes = 0;
  std::uint64_t written_bytes = 0;
  bool operator==(const Ended &) const = default;
};

// Daemon to Tanto: run the command as a process, and discard its output so far.
struct Declined {
  std::uint64_t id = 0;
  std::string why;
  bool operator==(const Declined &) const = default;
};

// Daemon to Tanto: the command's process is gone. Without a preceding `Ended` or `Declined`, it crashed.
struct Gone {
  std::uint64_t id = 0;
  std::uint32_t status = 0;  // as returned by wait(2)
  bool operator==(const Gone &) const = default;
};

// Tanto to daemon: when idle, compile this up to the end of its includes, and hold it for equal commands. `most` is the
// maximum number of checkpoints.
struct Keep {
  Run run;
  std::uint32_t most = 0;
  bool operator==(const Keep &) const = default;
};

// Fork to daemon: it holds a checkpoint of this file.
struct Kept {
  std::uint64_t id = 0;
  std::string file;
  bool operator==(const Kept &) const = default;
};

// A file without a checkpoint, and the reason, in one line for the user.
struct Without {
  std::string file;
  std::string why;
  bool operator==(const Without &) const = default;
};

// Daemon to Tanto, once: its checkpoints, and the files without one.
struct Holding {
  std::uint32_t most = 0;
  std::uint32_t wanted = 0;  // not yet made
  std::uint64_t memory_kib = 0;
  std::vector<std::string> files;
  std::vector<Without> without;
  bool operator==(const Holding &) const = default;
};

// Tanto to daemon: exit.
struct Stop {
  bool operator==(const Stop &) const = default;
};

using Frame = std::variant<Hello, Run, Started, Ended, Declined, Gone, Keep, Kept, Holding, Stop>;

// Returns nothing if the frame exceeds a limit.
std::optional<std::string> encode(const Frame &frame);

// Returns nothing if the bytes are not a frame.
std::optional<Frame> decode(std::string_view bytes);

}  // namespace tanto
