// tanto-clang-worker: clang and lld in a process that keeps checkpoints of compiles, and serves Tanto over a socket.
//
//   clang-worker --version      prints the versions of the clang and lld that it replaces
//   clang-worker --hello        prints the same in a frame (PROTOCOL.md), and the build-ids of the files it replaces
//   clang-worker --keep DIRECTORY FD SECONDS [PROC]
//                               starts a checkpoint daemon in the background. It serves clients that connect to the
//                               address in DIRECTORY, and the other end of FD (-1: none), and exits after SECONDS
//                               without a client. It reads memory figures in PROC (default: /proc).

#include <fcntl.h>

#include <charconv>
#include <cstdio>
#include <cstdlib>
#include <optional>
#include <string>
#include <string_view>

#include "compiler.h"
#include "daemon.h"
#include "frames.h"

namespace {

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

int hello() {
  const std::optional<std::string> frame =
      tanto::encode(tanto::Hello{tanto::protocol, tanto::clang_version(), tanto::lld_version(), tanto::builds()});
  return frame && std::fwrite(frame->data(), 1, frame->size(), stdout) == frame->size() ? 0 : 1;
}

}  // namespace

int main(int count, char **words) {
  const std::string_view mode = count > 1 ? words[1] : "";
  if (mode == "--version" && count == 2) {
    std::printf("%s\n%s\n", tanto::clang_version().c_str(), tanto::lld_version().c_str());
    return 0;
  }
  if (mode == "--hello" && count == 2) {
    return hello();
  }
  if (mode == "--keep" && (count == 5 || count == 6)) {
    // Destructors at exit would free nothing useful.
    std::_Exit(keep(count, words));
  }
  std::fputs("usage: clang-worker --version | --hello | --keep DIRECTORY FD SECONDS [PROC]\n", stderr);
  return 2;
}
