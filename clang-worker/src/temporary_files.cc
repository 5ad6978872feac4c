// Records the files that LLVM removes on a signal. The linker redirects LLVM's calls here (--wrap, CMakeLists.txt).

#include "temporary_files.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <climits>
#include <cstring>
#include <iterator>
#include <string>

#include "llvm/ADT/StringRef.h"

namespace tanto {

// The flags are contiguous, and memory of unused paths is never touched.
struct TemporaryFiles::List {
  std::atomic<bool> is_used[most];
  char paths[most][PATH_MAX];

  void add(const std::string &path) {
    const auto free = std::find(std::begin(is_used), std::end(is_used), false);
    if (free != std::end(is_used) && path.size() < PATH_MAX) {
      std::strcpy(paths[free - std::begin(is_used)], path.c_str());
      *free = true;
    }
  }

  void drop(const std::string &path) {
    for (std::size_t i = 0; i < most; i++) {
      if (is_used[i] && path == paths[i]) {
        is_used[i] = false;
      }
    }
  }

  void remove_all() const {
    for (std::size_t i = 0; i < most; i++) {
      if (is_used[i]) {
        unlink(paths[i]);
      }
    }
  }
};

namespace {

TemporaryFiles::List *recorded = nullptr;

// The parent may have another working directory.
std::string absolute(llvm::StringRef path) {
  char own[PATH_MAX];
  return path.starts_with("/") || !getcwd(own, sizeof own) ? path.str() : std::string(own) + "/" + path.str();
}

}  // namespace

std::unique_ptr<TemporaryFiles> TemporaryFiles::create() {
  void *memory = mmap(nullptr, sizeof(List), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  return memory == MAP_FAILED ? nullptr : std::unique_ptr<TemporaryFiles>(new TemporaryFiles(new (memory) List));
}

TemporaryFiles::~TemporaryFiles() { munmap(list, sizeof(List)); }

void TemporaryFiles::record_in(std::unique_ptr<TemporaryFiles> files) { recorded = files.release()->list; }

void TemporaryFiles::remove() const { list->remove_all(); }

void TemporaryFiles::remove_recorded() {
  if (recorded) {
    recorded->remove_all();
  }
}

}  // namespace tanto

extern "C" {

// Mangled names of LLVM's functions, as --wrap wants them.
bool __real__ZN4llvm3sys18RemoveFileOnSignalENS_9StringRefEPNSt7__cxx1112basic_stringIcSt11char_traitsIcESaIcEEE(
    llvm::StringRef path, std::string *error);
void __real__ZN4llvm3sys22DontRemoveFileOnSignalENS_9StringRefE(llvm::StringRef path);

bool __wrap__ZN4llvm3sys18RemoveFileOnSignalENS_9StringRefEPNSt7__cxx1112basic_stringIcSt11char_traitsIcESaIcEEE(
    llvm::StringRef path, std::string *error) {
  if (tanto::recorded) {
    tanto::recorded->add(tanto::absolute(path));
  }
  return __real__ZN4llvm3sys18RemoveFileOnSignalENS_9StringRefEPNSt7__cxx1112basic_stringIcSt11char_traitsIcESaIcEEE(
      path, error);
}

void __wrap__ZN4llvm3sys22DontRemoveFileOnSignalENS_9StringRefE(llvm::StringRef path) {
  if (tanto::recorded) {
    tanto::recorded->drop(tanto::absolute(path));
  }
  __real__ZN4llvm3sys22DontRemoveFileOnSignalENS_9StringRefE(path);
}
}
