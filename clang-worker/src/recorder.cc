// The real file system, with each query and each text recorded.

#include "recorder.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>

namespace tanto {
namespace {

std::int64_t nanoseconds(const timespec &time) { return time.tv_sec * 1'000'000'000LL + time.tv_nsec; }

std::string real_path(const std::string &path) {
  char *found = realpath(path.c_str(), nullptr);
  std::string text = found ? found : "";
  std::free(found);
  return text;
}

// A file with the real file's status, and a text in our memory.
class KeptFile : public llvm::vfs::File {
 public:
  KeptFile(llvm::vfs::Status its, std::string name, llvm::StringRef text)
      : its(std::move(its)), name(std::move(name)), text(text) {}

  llvm::ErrorOr<llvm::vfs::Status> status() override { return its; }

  llvm::ErrorOr<std::string> getName() override { return name; }

  llvm::ErrorOr<std::unique_ptr<llvm::MemoryBuffer>> getBuffer(const llvm::Twine &as, std::int64_t, bool,
                                                               bool) override {
    return llvm::MemoryBuffer::getMemBuffer(text, as.str());
  }

  std::error_code close() override { return {}; }

 private:
  const llvm::vfs::Status its;
  const std::string name;
  const llvm::StringRef text;
};

// The recorded entries of a directory.
class ListedEntries : public llvm::vfs::detail::DirIterImpl {
 public:
  using Entries = std::vector<std::pair<std::string, llvm::sys::fs::file_type>>;

  explicit ListedEntries(Entries entries) : entries(std::move(entries)) { increment(); }

  std::error_code increment() override {
    CurrentEntry = next == entries.size() ? llvm::vfs::directory_entry()
                                          : llvm::vfs::directory_entry(entries[next].first, entries[next].second);
    next = std::min(next + 1, entries.size());
    return {};
  }

 private:
  const Entries entries;
  std::size_t next = 0;
};

Stamp stamp_of(const struct stat &it) {
  Stamp stamp;
  stamp.device = it.st_dev;
  stamp.inode = it.st_ino;
  stamp.kind = it.st_mode & S_IFMT;
  // A directory's size and times change with its entries, which are queried one by one.
  if (!S_ISDIR(it.st_mode)) {
    stamp.size = static_cast<std::uint64_t>(it.st_size);
    stamp.written = nanoseconds(it.st_mtim);
    stamp.changed = nanoseconds(it.st_ctim);
  }
  return stamp;
}

// Returns whether the whole file has exactly these bytes.
bool has_bytes(int file, llvm::StringRef text) {
  static char part[128 << 10];
  std::size_t at = 0;
  ssize_t length = 0;
  while ((length = ::read(file, part, sizeof part)) > 0) {
    const auto count = static_cast<std::size_t>(length);
    if (count > text.size() - at || std::memcmp(part, text.data() + at, count) != 0) {
      return false;
    }
    at += count;
  }
  return length == 0 && at == text.size();
}

}  // namespace

bool Stamp::is_same_file(const Stamp &other) const {
  return error == 0 && other.error == 0 && device == other.device && inode == other.inode;
}

bool Stamp::is_regular() const { return error == 0 && S_ISREG(kind); }

Stamp stamp(const std::string &path) {
  struct stat it{};
  if (stat(path.c_str(), &it) == 0) {
    return stamp_of(it);
  }
  Stamp stamp;
  stamp.error = errno;
  return stamp;
}

std::unique_ptr<GrowableText> GrowableText::make(std::size_t room) {
  void *begin = mmap(nullptr, room, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  return begin == MAP_FAILED ? nullptr
                             : std::unique_ptr<GrowableText>(new GrowableText(static_cast<char *>(begin), room));
}

GrowableText::~GrowableText() { munmap(begin, room); }

bool GrowableText::read(const std::string &path) {
  const int file = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (file < 0) {
    return false;
  }
  std::size_t length = 0;
  ssize_t part = 0;
  // One byte is reserved: the compiler's texts end with NUL.
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

Recorder::Recorder(GrowableText *main) : ProxyFileSystem(llvm::vfs::getRealFileSystem()), main(main) {}

void Recorder::set_main_file(const std::string &path) {
  main_path = path;
  main_stamp = stamp(path);
  asked.erase(path);
}

// Returns the answer to record for this path; nothing if none is needed.
Recorder::Answer *Recorder::note(const std::string &path) {
  if (is_stopped || path == main_path) {
    return nullptr;
  }
  const auto it = asked.find(path);
  if (it != asked.end()) {
    return &it->second;
  }
  Answer &answer = asked[path];
  answer.stamp = stamp(path);
  return &answer;
}

// Only the first obstacle is reported.
void Recorder::refuse(bool if_so, const char *why) {
  if (if_so && !obstacle_found) {
    obstacle_found = why;
  }
}

// The compiler received this answer at a different moment.
void Recorder::compare(const Answer &answer, const llvm::ErrorOr<llvm::vfs::Status> &its) {
  const Stamp &ours = answer.stamp;
  refuse(static_cast<bool>(its) != (ours.error == 0) ||
             (its && (its->getUniqueID() != llvm::sys::fs::UniqueID(ours.device, ours.inode) ||
                      (!its->isDirectory() && its->getSize() != ours.size))),
         header_changed);
}

llvm::ErrorOr<llvm::vfs::Status> Recorder::status(const llvm::Twine &path) {
  const Answer *answer = note(path.str());
  auto its = ProxyFileSystem::status(path);
  if (answer) {
    compare(*answer, its);
  }
  return its;
}

bool Recorder::exists(const llvm::Twine &path) {
  const Answer *answer = note(path.str());
  const bool is_there = ProxyFileSystem::exists(path);
  refuse(answer && is_there != (answer->stamp.error == 0), header_changed);
  return is_there;
}

llvm::ErrorOr<std::unique_ptr<llvm::vfs::File>> Recorder::openFileForRead(const llvm::Twine &path) {
  const std::string name = path.str();
  const bool is_main = name == main_path;
  // Its file may be a new one: editors replace files.
  if (!is_main) {
    refuse(stamp(name).is_same_file(is_stopped ? stamp(main_path) : main_stamp), includes_itself);
    return open_header(name);
  }
  if (main_was_opened) {
    refuse(!is_stopped, includes_itself);
    return ProxyFileSystem::openFileForRead(path);
  }
  main_was_opened = true;
  llvm::ErrorOr<llvm::vfs::Status> its = ProxyFileSystem::status(path);
  if (!its) {
    return its.getError();
  }
  auto sized = llvm::vfs::Status::copyWithNewSize(*its, main->text().size());
  return std::make_unique<KeptFile>(std::move(sized), name, main->text());
}

// Reads the file at once and closes it. A file that is only looked up would stay open, and could be read after the
// pause.
llvm::ErrorOr<std::unique_ptr<llvm::vfs::File>> Recorder::open_header(const std::string &path) {
  Answer *answer = note(path);
  auto file = ProxyFileSystem::openFileForRead(path);
  if (!answer) {
    return file;
  }
  const auto its = file ? (*file)->status() : file.getError();
  compare(*answer, its);
  if (!its || !its->isRegularFile()) {
    // A pipe has no bytes to compare later.
    refuse(its && !its->isDirectory(), "one of its headers is no regular file");
    return file;
  }
  // A volatile text with an end is read; others may be mapped.
  auto text = (*file)->getBuffer(path, -1, true, true);
  const auto name = (*file)->getName();
  if (!text || !name) {
    refuse(true, header_changed);
    return text ? name.getError() : text.getError();
  }
  if (!answer->text) {
    answer->text = std::move(*text);
  }
  refuse(*text && answer->text->getBuffer() != (*text)->getBuffer(), header_changed);
  return std::make_unique<KeptFile>(*its, *name, answer->text->getBuffer());
}

Recorder::Listing Recorder::list(const std::string &path) const {
  Listing listing;
  std::error_code error;
  auto it = getUnderlyingFS().dir_begin(path, error);
  for (; !error && it != llvm::vfs::directory_iterator(); it.increment(error)) {
    listing.entries.emplace_back(it->path().str(), it->type());
  }
  listing.error = error.value();
  return listing;
}

llvm::vfs::directory_iterator Recorder::dir_begin(const llvm::Twine &path, std::error_code &error) {
  if (is_stopped) {
    return ProxyFileSystem::dir_begin(path, error);
  }
  const Listing &listing = listed.try_emplace(path.str(), list(path.str())).first->second;
  error = std::error_code(listing.error, std::generic_category());
  return llvm::vfs::directory_iterator(std::make_shared<ListedEntries>(listing.entries));
}

std::error_code Recorder::getRealPath(const llvm::Twine &path, llvm::SmallVectorImpl<char> &real) {
  if (!is_stopped) {
    const std::string name = path.str();
    real_paths.try_emplace(name, real_path(name));
  }
  return ProxyFileSystem::getRealPath(path, real);
}

bool Recorder::is_unchanged(const std::string &path, const Answer &answer) {
  if (!answer.text) {
    return stamp(path) == answer.stamp;
  }
  // The file may have been replaced by another one; opening a pipe would block.
  const int file = open(path.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC);
  struct stat it{};
  const bool is_same =
      file >= 0 && fstat(file, &it) == 0 && stamp_of(it) == answer.stamp && has_bytes(file, answer.text->getBuffer());
  if (file >= 0) {
    close(file);
  }
  return is_same;
}

bool Recorder::holds() const {
  const Stamp main_now = stamp(main_path);
  return main_now.is_regular() &&
         std::all_of(asked.begin(), asked.end(),
                     [&](const auto &it) {
                       return !(it.second.text && it.second.stamp.is_same_file(main_now)) &&
                              is_unchanged(it.first, it.second);
                     }) &&
         std::all_of(listed.begin(), listed.end(), [&](const auto &it) { return list(it.first) == it.second; }) &&
         std::all_of(real_paths.begin(), real_paths.end(),
                     [](const auto &it) { return real_path(it.first) == it.second; });
}

}  // namespace tanto
