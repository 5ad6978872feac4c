// tanto-clang-worker: clang and lld, warm, for a Tanto that asks for them over a socket.
//
//   clang-worker --version      which clang and lld it stands for
//   clang-worker --serve FD     serves commands that come over this socket (PROTOCOL.md)
//   clang-worker --keep DIRECTORY FD SECONDS [PROC]
//                               keeps checkpoints, in the background: serves whoever connects to DIRECTORY/socket, and
//                               whoever has the other end of this one (-1: nobody), until nobody has come for so long.
//                               What it knows of the machine's memory is in PROC (/proc).
//
// TANTO_CLANG_WORKER_WITHOUT=text,patience,heap,pages,holes,warm leaves out of its tuning what is named, for
// measurements.

#include <fcntl.h>

#include <charconv>
#include <cstdio>
#include <cstdlib>
#include <string_view>

#include "compiler.h"
#include "keeper.h"
#include "memory.h"
#include "zygote.h"

namespace {

bool is_wanted(std::string_view part) {
  const char *without = std::getenv("TANTO_CLANG_WORKER_WITHOUT");
  return !without || std::string_view(without).find(part) == std::string_view::npos;
}

bool read(std::string_view text, int &number) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  return error == std::errc() && end == text.data() + text.size();
}

int keep(int count, char **words) {
  tanto::House house{words[2], -1, 0, count > 5 ? words[5] : "/proc"};
  if (!read(words[3], house.guest) || !read(words[4], house.idle_seconds) ||
      (house.guest >= 0 && fcntl(house.guest, F_SETFD, FD_CLOEXEC) < 0)) {
    return 2;
  }
  return tanto::keep_house(house, [] {
    tanto::prepare();
    return tanto::warm_up();
  });
}

int serve(std::string_view number) {
  int socket = -1;
  if (!read(number, socket) || fcntl(socket, F_SETFD, FD_CLOEXEC) < 0) {
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
  if (what == "--keep" && (count == 5 || count == 6)) {
    std::_Exit(keep(count, words));
  }
  std::fputs("usage: clang-worker --version | --serve FD | --keep DIRECTORY FD SECONDS [PROC]\n", stderr);
  return 2;
}
