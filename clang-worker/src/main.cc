// tanto-clang-worker: a warm process with clang and lld, which serves Tanto over a socket.
//
//   clang-worker --version      prints the versions of the clang and lld that it replaces
//   clang-worker --serve FD     serves commands from this socket (PROTOCOL.md)
//   clang-worker --keep DIRECTORY FD SECONDS [PROC]
//                               starts a checkpoint daemon in the background. It serves clients that connect to the
//                               address in DIRECTORY, and the other end of FD (-1: none), and exits after SECONDS
//                               without a client. It reads memory figures in PROC (default: /proc).
//
// TANTO_CLANG_WORKER_WITHOUT=text,patience,heap,pages,holes,warm turns off the named parts of its tuning, for
// measurements.

#include <fcntl.h>

#include <charconv>
#include <cstdio>
#include <cstdlib>
#include <string_view>

#include "compiler.h"
#include "daemon.h"
#include "memory.h"
#include "zygote.h"

namespace {

bool is_enabled(std::string_view part) {
  const char *without = std::getenv("TANTO_CLANG_WORKER_WITHOUT");
  return !without || std::string_view(without).find(part) == std::string_view::npos;
}

bool read(std::string_view text, int &number) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  return error == std::errc() && end == text.data() + text.size();
}

int keep(int count, char **words) {
  tanto::DaemonOptions options{words[2], -1, 0, count > 5 ? words[5] : "/proc"};
  if (!read(words[3], options.client) || !read(words[4], options.idle_seconds) ||
      (options.client >= 0 && fcntl(options.client, F_SETFD, FD_CLOEXEC) < 0)) {
    return 2;
  }
  return tanto::run_daemon(options, [] {
    tanto::prepare();
    return tanto::warm_up();
  });
}

int serve(std::string_view number) {
  int socket = -1;
  if (!read(number, socket) || fcntl(socket, F_SETFD, FD_CLOEXEC) < 0) {
    return 2;
  }
  const bool has_heap = is_enabled("heap");
  if (has_heap) {
    tanto::prepare_heap(is_enabled("pages"));
  }
  tanto::prepare();
  if (is_enabled("warm") && !tanto::warm_up()) {
    return 1;
  }
  if (has_heap && is_enabled("holes")) {
    tanto::fill_holes();
  }
  const bool moves = is_enabled("text");
  if (moves && !is_enabled("patience")) {
    tanto::move_used_to_huge_pages();
  }
  return tanto::serve(socket, moves && is_enabled("patience") ? tanto::move_used_to_huge_pages : [] {});
}

}  // namespace

int main(int count, char **words) {
  const std::string_view mode = count > 1 ? words[1] : "";
  if (mode == "--version" && count == 2) {
    std::printf("%s\n%s\n", tanto::clang_version().c_str(), tanto::lld_version().c_str());
    return 0;
  }
  if (mode == "--serve" && count == 3) {
    // Destructors at exit would free nothing useful.
    std::_Exit(serve(words[2]));
  }
  if (mode == "--keep" && (count == 5 || count == 6)) {
    std::_Exit(keep(count, words));
  }
  std::fputs("usage: clang-worker --version | --serve FD | --keep DIRECTORY FD SECONDS [PROC]\n", stderr);
  return 2;
}
