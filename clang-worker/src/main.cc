// tanto-clang-worker: clang and lld, warm, for a Tanto that asks for them over a socket.
//
//   clang-worker --version      which clang and lld it stands for
//   clang-worker --serve FD     serves commands that come over this socket (PROTOCOL.md)
//
// TANTO_CLANG_WORKER_WITHOUT=text,patience,heap,pages,holes,warm leaves out of its tuning what is named, for
// measurements.

#include <fcntl.h>

#include <charconv>
#include <cstdio>
#include <cstdlib>
#include <string_view>

#include "compiler.h"
#include "memory.h"
#include "zygote.h"

namespace {

bool is_wanted(std::string_view part) {
  const char *without = std::getenv("TANTO_CLANG_WORKER_WITHOUT");
  return !without || std::string_view(without).find(part) == std::string_view::npos;
}

int serve(std::string_view number) {
  int socket = -1;
  const auto [end, error] = std::from_chars(number.data(), number.data() + number.size(), socket);
  if (error != std::errc() || end != number.data() + number.size() || fcntl(socket, F_SETFD, FD_CLOEXEC) < 0) {
    return 2;
  }
  const bool has_heap = is_wanted("heap");
  if (has_heap) {
    tanto::prepare_heap(is_wanted("pages"));
  }
  tanto::prepare();
  if (is_wanted("warm") && !tanto::warm_up()) {
    return 1;
  }
  if (has_heap && is_wanted("holes")) {
    tanto::use_up_holes();
  }
  const bool moves = is_wanted("text");
  if (moves && !is_wanted("patience")) {
    tanto::move_used_to_huge_pages();
  }
  return tanto::serve(socket, moves && is_wanted("patience") ? tanto::move_used_to_huge_pages : [] {});
}

}  // namespace

int main(int count, char **words) {
  const std::string_view what = count > 1 ? words[1] : "";
  if (what == "--version" && count == 2) {
    std::printf("%s\n%s\n", tanto::clang_version().c_str(), tanto::lld_version().c_str());
    return 0;
  }
  if (what == "--serve" && count == 3) {
    // What is destroyed at an orderly end is of no use to anybody.
    std::_Exit(serve(words[2]));
  }
  std::fputs("usage: clang-worker --version | --serve FD\n", stderr);
  return 2;
}
