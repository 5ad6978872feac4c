// What a compile has asked of the file system, so that it can be asked again. Knows no compilers.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>

#include "llvm/Support/VirtualFileSystem.h"

namespace tanto {

// What is under a name. `error` is why there is nothing.
struct Stamp {
  std::uint64_t device = 0;
  std::uint64_t inode = 0;
  std::uint64_t size = 0;
  std::int64_t written = 0;  // nanoseconds: the last change of its content
  std::int64_t changed = 0;  // and of anything of it
  int error = 0;
  bool operator==(const Stamp &) const = default;
  bool is_same_file(const Stamp &other) const;
};

// With `entries`, a directory is not the same when its entries are not.
Stamp stamp(const std::string &path, bool entries = false);

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

// The real files, and what was asked of them. The main file lies in `main`.
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

  // From now on nothing is noted any more.
  void rest() { is_at_rest = true; }
  // Would all be answered as it was? The main file need only be there.
  bool holds() const;
  // Was nothing that was asked for changed since that moment?
  bool is_older_than(std::int64_t moment) const;
  // Was anything asked that cannot be asked again?
  bool is_odd() const { return odd; }
  std::size_t count() const { return asked.size() + listed.size() + real_paths.size(); }

 private:
  Roomy *const main;
  std::string main_path;
  Stamp main_stamp;
  bool main_was_opened = false;
  bool is_at_rest = false;
  bool odd = false;
  std::map<std::string, Stamp> asked;
  std::map<std::string, Stamp> listed;
  std::map<std::string, std::string> real_paths;

  void note(const std::string &path);
};

}  // namespace tanto
