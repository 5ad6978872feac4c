// Records what a compile asks of the file system and what it reads, so that both can be compared later.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "llvm/Support/VirtualFileSystem.h"

namespace tanto {

// The state of a path. `error` says why there is nothing.
struct Stamp {
  std::uint64_t device = 0;
  std::uint64_t inode = 0;
  std::uint32_t kind = 0;
  std::uint64_t size = 0;
  std::int64_t written = 0;  // nanoseconds: the last change of its content
  std::int64_t changed = 0;  // and of anything of it
  int error = 0;
  bool operator==(const Stamp &) const = default;
  bool is_same_file(const Stamp &other) const;
  bool is_regular() const;
};

Stamp stamp(const std::string &path);

// A file whose content may be replaced by a longer one at the same address: room is kept behind it.
class Roomy {
 public:
  // Empty, with that much room. Nothing: there is none.
  static std::unique_ptr<Roomy> make(std::size_t room);
  ~Roomy();
  Roomy(const Roomy &) = delete;
  Roomy &operator=(const Roomy &) = delete;

  // Reads what the file has now, if it fits.
  bool read(const std::string &path);
  llvm::StringRef text() const { return {begin, size}; }

 private:
  Roomy(char *begin, std::size_t room) : begin(begin), room(room) {}
  char *const begin;
  const std::size_t room;
  std::size_t size = 0;
};

// The real files, a record of every question, and a copy of every text that was read: the compiler parses that copy, so
// that a later comparison with it misses nothing. The copy also keeps file systems free to be unmounted, which a
// mapping would not. The main file lies in `main`.
class Witness : public llvm::vfs::ProxyFileSystem {
 public:
  explicit Witness(Roomy *main);

  // From now on this is the main file. What was asked of it before does not count.
  void expect(const std::string &path);

  llvm::ErrorOr<llvm::vfs::Status> status(const llvm::Twine &path) override;
  bool exists(const llvm::Twine &path) override;
  llvm::ErrorOr<std::unique_ptr<llvm::vfs::File>> openFileForRead(const llvm::Twine &path) override;
  llvm::vfs::directory_iterator dir_begin(const llvm::Twine &path, std::error_code &error) override;
  std::error_code getRealPath(const llvm::Twine &path, llvm::SmallVectorImpl<char> &real) override;

  // From now on nothing is recorded.
  void rest() { is_at_rest = true; }
  // Would every question get the same answer now, and every file that was read have the same bytes? The main file need
  // only be a file, and none of those that were opened.
  bool holds() const;
  // Why the answers cannot be compared later, in a user's words; nullptr: they can.
  const char *obstacle() const { return why_not; }

  static constexpr const char *of_itself = "it includes itself", *of_change = "one of its headers changed meanwhile";

 private:
  struct Answer {
    Stamp stamp;
    // The bytes of a file that was opened.
    std::unique_ptr<llvm::MemoryBuffer> text;
  };

  // The entries of a directory in their order, with their types.
  struct Listing {
    int error = 0;
    std::vector<std::pair<std::string, llvm::sys::fs::file_type>> entries;
    bool operator==(const Listing &) const = default;
  };

  Roomy *const main;
  std::string main_path;
  Stamp main_stamp;
  bool main_was_opened = false;
  bool is_at_rest = false;
  const char *why_not = nullptr;
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
