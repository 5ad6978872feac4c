// The temporary files of a fork, so that its parent can remove them after a SIGKILL.
#pragma once

#include <cstddef>
#include <memory>

namespace tanto {

// Shared memory that lists the files that clang or lld would remove on a signal.
class TemporaryFiles {
 public:
  // Call before the fork. Null if there is no memory.
  static std::unique_ptr<TemporaryFiles> create();
  ~TemporaryFiles();
  TemporaryFiles(const TemporaryFiles &) = delete;
  TemporaryFiles &operator=(const TemporaryFiles &) = delete;

  // Call in the fork: records its temporary files in `files`.
  static void record_in(std::unique_ptr<TemporaryFiles> files);

  // Removes the recorded files. Call in the parent after the fork has ended.
  void remove() const;
  // The same in the fork, for files left by its own forks.
  static void remove_recorded();

  // Further files are not recorded.
  static constexpr std::size_t most = 1024;

  struct List;

 private:
  explicit TemporaryFiles(List *list) : list(list) {}
  List *const list;
};

}  // namespace tanto
