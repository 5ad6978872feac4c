// Records the files that LLVM wants removed on a signal: the linker leads its calls here (--wrap, CMakeLists.txt).

#include "litter.h"

#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <climits>
#include <cstring>
#include <string>

#include "llvm/ADT/StringRef.h"

namespace tanto {

// An object, what is split off it, a depfile and a linker's output are fewer.
struct Litter::Names {
  struct Name {
    std::atomic<bool> is_set = false;
    char path[PATH_MAX];
  };
  Name all[8];
};

namespace {

Litter::Names *recorded = nullptr;

// The parent is in another directory.
std::string absolute(llvm::StringRef path) {
  char own[PATH_MAX];
  return path.starts_with("/") || !getcwd(own, sizeof own) ? path.str() : std::string(own) + "/" + path.str();
}

void add(llvm::StringRef path) {
  const std::string name = absolute(path);
  if (!recorded || name.size() >= PATH_MAX) {
    return;
  }
  for (auto &it : recorded->all) {
    if (!it.is_set) {
      std::strcpy(it.path, name.c_str());
      it.is_set = true;
      return;
    }
  }
}

void drop(llvm::StringRef path) {
  const std::string name = absolute(path);
  if (!recorded) {
    return;
  }
  for (auto &it : recorded->all) {
    if (it.is_set && name == it.path) {
      it.is_set = false;
    }
  }
}

}  // namespace

std::unique_ptr<Litter> Litter::make() {
  void *room = mmap(nullptr, sizeof(Names), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  return room == MAP_FAILED ? nullptr : std::unique_ptr<Litter>(new Litter(new (room) Names));
}

Litter::~Litter() { munmap(names, sizeof(Names)); }

void Litter::record(std::unique_ptr<Litter> litter) { recorded = litter.release()->names; }

void Litter::remove() const {
  for (const auto &it : names->all) {
    if (it.is_set) {
      unlink(it.path);
    }
  }
}

}  // namespace tanto

extern "C" {

// The names are those that the linker makes of LLVM's.
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
