// The real files, with every question noted.

#include "witness.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>

namespace tanto {
namespace {

std::int64_t nanoseconds(const timespec &time) { return time.tv_sec * 1'000'000'000LL + time.tv_nsec; }

std::string real_path(const std::string &path) {
  char *found = realpath(path.c_str(), nullptr);
  std::string text = found ? found : "";
  std::free(found);
  return text;
}

// The main file as the compiler sees it: its status is the real one's, its text lies where it can be replaced.
class MainFile : public llvm::vfs::File {
 public:
  MainFile(llvm::vfs::Status its, llvm::StringRef text) : its(std::move(its)), text(text) {}

  llvm::ErrorOr<llvm::vfs::Status> status() override { return its; }

  llvm::ErrorOr<std::unique_ptr<llvm::MemoryBuffer>> getBuffer(const llvm::Twine &name, std::int64_t, bool,
                                                               bool) override {
    return llvm::MemoryBuffer::getMemBuffer(text, name.str());
  }

  std::error_code close() override { return {}; }

 private:
  const llvm::vfs::Status its;
  const llvm::StringRef text;
};

}  // namespace

bool Stamp::is_same_file(const Stamp &other) const {
  return error == 0 && other.error == 0 && device == other.device && inode == other.inode;
}

Stamp stamp(const std::string &path, bool entries) {
  struct stat it{};
  Stamp stamp;
  if (stat(path.c_str(), &it) < 0) {
    stamp.error = errno;
    return stamp;
  }
  stamp.device = it.st_dev;
  stamp.inode = it.st_ino;
  // A directory's size and times change with its entries, which are asked for one by one.
  if (!S_ISDIR(it.st_mode) || entries) {
    stamp.size = static_cast<std::uint64_t>(it.st_size);
    stamp.written = nanoseconds(it.st_mtim);
    stamp.changed = nanoseconds(it.st_ctim);
  }
  return stamp;
}

std::unique_ptr<Roomy> Roomy::make(std::size_t room) {
  void *begin = mmap(nullptr, room, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  return begin == MAP_FAILED ? nullptr : std::unique_ptr<Roomy>(new Roomy(static_cast<char *>(begin), room));
}

Roomy::~Roomy() { munmap(begin, room); }

bool Roomy::read(const std::string &path) {
  const int file = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (file < 0) {
    return false;
  }
  std::size_t length = 0;
  ssize_t part = 0;
  // One byte is kept: a text of the compiler's ends with NUL.
  while (length + 1 < room && (part = ::read(file, begin + length, room - 1 - length)) > 0) {
    length += static_cast<std::size_t>(part);
  }
  close(file);
  if (part < 0 || length + 1 >= room) {
    return false;
  }
  if (length < size) {
    std::fill(begin + length, begin + size, '\0');
  }
  begin[length] = '\0';
  size = length;
  return true;
}

Witness::Witness(Roomy *main) : ProxyFileSystem(llvm::vfs::getRealFileSystem()), main(main) {}

void Witness::expect(const std::string &path) {
  main_path = path;
  main_stamp = stamp(path);
  asked.erase(path);
}

void Witness::note(const std::string &path) {
  if (!is_at_rest && path != main_path) {
    asked.try_emplace(path, stamp(path));
  }
}

llvm::ErrorOr<llvm::vfs::Status> Witness::status(const llvm::Twine &path) {
  note(path.str());
  return ProxyFileSystem::status(path);
}

bool Witness::exists(const llvm::Twine &path) {
  note(path.str());
  return ProxyFileSystem::exists(path);
}

llvm::ErrorOr<std::unique_ptr<llvm::vfs::File>> Witness::openFileForRead(const llvm::Twine &path) {
  const std::string name = path.str();
  note(name);
  const bool is_main = name == main_path;
  // What is its file by now may be another: editors write a new one.
  if (!is_main && stamp(name).is_same_file(is_at_rest ? stamp(main_path) : main_stamp)) {
    odd = true;
  }
  if (!is_main || main_was_opened) {
    odd = odd || (is_main && !is_at_rest);
    return ProxyFileSystem::openFileForRead(path);
  }
  main_was_opened = true;
  llvm::ErrorOr<llvm::vfs::Status> its = ProxyFileSystem::status(path);
  if (!its) {
    return its.getError();
  }
  auto sized = llvm::vfs::Status::copyWithNewSize(*its, main->text().size());
  return std::make_unique<MainFile>(std::move(sized), main->text());
}

llvm::vfs::directory_iterator Witness::dir_begin(const llvm::Twine &path, std::error_code &error) {
  if (!is_at_rest) {
    const std::string name = path.str();
    listed.try_emplace(name, stamp(name, true));
  }
  return ProxyFileSystem::dir_begin(path, error);
}

std::error_code Witness::getRealPath(const llvm::Twine &path, llvm::SmallVectorImpl<char> &real) {
  if (!is_at_rest) {
    const std::string name = path.str();
    real_paths.try_emplace(name, real_path(name));
  }
  return ProxyFileSystem::getRealPath(path, real);
}

bool Witness::holds() const {
  return stamp(main_path).error == 0 &&
         std::all_of(asked.begin(), asked.end(), [](const auto &it) { return stamp(it.first) == it.second; }) &&
         std::all_of(listed.begin(), listed.end(), [](const auto &it) { return stamp(it.first, true) == it.second; }) &&
         std::all_of(real_paths.begin(), real_paths.end(),
                     [](const auto &it) { return real_path(it.first) == it.second; });
}

bool Witness::is_older_than(std::int64_t moment) const {
  const auto is_older = [&](const auto &it) { return it.second.changed < moment; };
  return std::all_of(asked.begin(), asked.end(), is_older) && std::all_of(listed.begin(), listed.end(), is_older);
}

}  // namespace tanto
