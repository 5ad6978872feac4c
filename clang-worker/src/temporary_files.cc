// Records the files that LLVM removes on a signal. The linker redirects LLVM's calls here (--wrap, CMakeLists.txt).

#include "temporary_files.h"

#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <climits>
#include <cstring>
#include <string>

#include "llvm/ADT/StringRef.h"

namespace tanto {

// A compile or a link has at most four at a time: an object, its split debug information, a depfile, a linker's output.
struct TemporaryFiles::List {
  struct Slot {
    std::atomic<bool> is_used = false;
    char path[PATH_MAX];
  };
  Slot slots[8];
};

namespace {

TemporaryFiles::List *recorded = nullptr;

// The parent may run in another directory.
std::string absolute(llvm::StringRef path) {
  char own[PATH_MAX];
  return path.starts_with("/") || !getcwd(own, sizeof own) ? path.str() : std::string(own) + "/" + path.str();
}

void add(llvm::StringRef path) {
  const std::string name = absolute(path);
  if (!recorded || name.size() >= PATH_MAX) {
    return;
  }
  for (auto &slot : recorded->slots) {
    if (!slot.is_used) {
      std::strcpy(slot.path, name.c_str());
      slot.is_used = true;
      return;
    }
  }
}

void drop(llvm::StringRef path) {
  if (!recorded) {
    return;
  }
  const std::string name = absolute(path);
  for (auto &slot : recorded->slots) {
    if (slot.is_used && name == slot.path) {
      slot.is_used = false;
    }
  }
}

}  // namespace

std::unique_ptr<TemporaryFiles> TemporaryFiles::create() {
  void *memory = mmap(nullptr, sizeof(List), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  return memory == MAP_FAILED ? nullptr : std::unique_ptr<TemporaryFiles>(new TemporaryFiles(new (memory) List));
}

TemporaryFiles::~TemporaryFiles() { munmap(list, sizeof(List)); }

void TemporaryFiles::record_in(std::unique_ptr<TemporaryFiles> files) { recorded = files.release()->list; }

void TemporaryFiles::remove() const {
  for (const auto &slot : list->slots) {
    if (slot.is_used) {
      unlink(slot.path);
    }
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
  tanto::add(path);
  return __real__ZN4llvm3sys18RemoveFileOnSignalENS_9StringRefEPNSt7__cxx1112basic_stringIcSt11char_traitsIcESaIcEEE(
      path, error);
}

void __wrap__ZN4llvm3sys22DontRemoveFileOnSignalENS_9StringRefE(llvm::StringRef path) {
  tanto::drop(path);
  __real__ZN4llvm3sys22DontRemoveFileOnSignalENS_9StringRefE(path);
}
}
