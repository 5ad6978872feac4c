// The temporary files of a fork, so that its parent can remove them when SIGKILL has ended it.
#pragma once

#include <memory>

namespace tanto {

// Memory that a fork shares with its parent, with the names of the files that clang or lld would remove on a signal.
class Litter {
 public:
  // Before the fork. Nothing: there is no memory for it.
  static std::unique_ptr<Litter> make();
  ~Litter();
  Litter(const Litter &) = delete;
  Litter &operator=(const Litter &) = delete;

  // In the fork: files are recorded there until it ends.
  static void record(std::unique_ptr<Litter> litter);
  // In the parent, when the fork is gone.
  void remove() const;

  struct Names;

 private:
  explicit Litter(Names *names) : names(names) {}
  Names *const names;
};

}  // namespace tanto
