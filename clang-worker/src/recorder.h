// Records the file system queries and reads of a compile, for later comparison.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "llvm/Support/VirtualFileSystem.h"

namespace tanto {

// State of a path. `error` is set if it cannot be read.
struct Stamp {
  std::uint64_t device = 0;
  std::uint64_t inode = 0;
  std::uint32_t kind = 0;
  std::uint64_t size = 0;
  std::int64_t written = 0;  // mtime in nanoseconds
  std::int64_t changed = 0;  // ctime in nanoseconds
  int error = 0;
  bool operator==(const Stamp &) const = default;
  bool is_same_file(const Stamp &other) const;
  bool is_regular() const;
};

Stamp stamp(const std::string &path);

// A file buffer with reserved space behind it, so that longer content fits at the same address.
class GrowableText {
 public:
  // Creates an empty file with this much space; nothing if memory is short.
  static std::unique_ptr<GrowableText> make(std::size_t room);
  ~GrowableText();
  GrowableText(const GrowableText &) = delete;
  GrowableText &operator=(const GrowableText &) = delete;

  // Reads the current content, if it fits.
  bool read(const std::string &path);
  llvm::StringRef text() const { return {begin, size}; }

 private:
  GrowableText(char *begin, std::size_t room) : begin(begin), room(room) {}
  char *const begin;
  const std::size_t room;
  std::size_t size = 0;
};

// The real file system, with a record of each query and a copy of each text read. The compiler parses the copy, so a
// later comparison with it is complete. Unlike a mapping, a copy does not keep file systems busy. The main file is in
// `main`.
class Recorder : public llvm::vfs::ProxyFileSystem {
 public:
  explicit Recorder(GrowableText *main);

  // Sets the main file. Earlier queries of it do not count.
  void set_main_file(const std::string &path);

  llvm::ErrorOr<llvm::vfs::Status> status(const llvm::Twine &path) override;
  bool exists(const llvm::Twine &path) override;
  llvm::ErrorOr<std::unique_ptr<llvm::vfs::File>> openFileForRead(const llvm::Twine &path) override;
  llvm::vfs::directory_iterator dir_begin(const llvm::Twine &path, std::error_code &error) override;
  std::error_code getRealPath(const llvm::Twine &path, llvm::SmallVectorImpl<char> &real) override;

  // Stops recording.
  void stop() { is_stopped = true; }
  // Returns whether every query would have the same result now, and every file read has the same bytes. The main file
  // only has to be a file, and different from the others.
  bool holds() const;
  // Returns why the queries cannot be compared later, for the user; nullptr if they can.
  const char *obstacle() const { return obstacle_found; }

  static constexpr const char *includes_itself = "it includes itself",
                              *header_changed = "one of its headers changed meanwhile";

 private:
  struct Answer {
    Stamp stamp;
    // The bytes of an opened file.
    std::unique_ptr<llvm::MemoryBuffer> text;
  };

  // The entries of a directory in order, with their types.
  struct Listing {
    int error = 0;
    std::vector<std::pair<std::string, llvm::sys::fs::file_type>> entries;
    bool operator==(const Listing &) const = default;
  };

  GrowableText *const main;
  std::string main_path;
  Stamp main_stamp;
  bool main_was_opened = false;
  bool is_stopped = false;
  const char *obstacle_found = nullptr;
  std::map<std::string, Answer> asked;
  std::map<std::string, Listing> listed;
  std::map<std::string, std::string> real_paths;

  Answer *note(const std::string &path);
  void refuse(bool if_so, const char *why);
  void compare(const Answer &answer, const llvm::ErrorOr<llvm::vfs::Status> &its);
  llvm::ErrorOr<std::unique_ptr<llvm::vfs::File>> open_header(const std::string &path);
  Listing list(const std::string &path) const;
  static bool is_unchanged(const std::string &path, const Answer &answer);
};

}  // namespace tanto
