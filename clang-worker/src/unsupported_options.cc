// Options that only real programs handle.

#include "unsupported_options.h"

#include <algorithm>
#include <array>

namespace tanto {
namespace {

template <std::size_t count>
bool is_one_of(const std::array<std::string_view, count> &list, std::string_view word) {
  return std::find(list.begin(), list.end(), word) != list.end();
}

template <std::size_t count>
bool begins_with_one_of(const std::array<std::string_view, count> &list, std::string_view word) {
  return std::any_of(list.begin(), list.end(), [&](std::string_view it) { return word.starts_with(it); });
}

constexpr std::array<std::string_view, 10> driver_words = {"-###",
                                                           "-v",
                                                           "--verbose",
                                                           "-cc1",
                                                           "-cc1as",
                                                           "-no-canonical-prefixes",
                                                           "-fno-integrated-cc1",
                                                           "-time",
                                                           "-gen-reproducer",
                                                           "--driver-mode=cl"};
constexpr std::array<std::string_view, 10> driver_beginnings = {"-MJ",
                                                                "-gen-cdb-fragment-path",
                                                                "--gen-cdb-fragment-path",
                                                                "-ftime-trace",
                                                                "-ftime-report",
                                                                "-fproc-stat-report",
                                                                "-fcrash-diagnostics",
                                                                "-gen-reproducer=",
                                                                "--serialize-diagnostics",
                                                                "--config"};

constexpr std::array<std::string_view, 13> cc1_words = {"-load",
                                                        "-plugin",
                                                        "-add-plugin",
                                                        "-mllvm",
                                                        "-print-stats",
                                                        "-analyze",
                                                        "-ftime-report",
                                                        "-fmodules",
                                                        "-ast-merge",
                                                        "-verify",
                                                        "-emit-module",
                                                        "-emit-module-interface",
                                                        "-emit-header-unit"};
constexpr std::array<std::string_view, 9> cc1_beginnings = {
    "-plugin-arg-",   "-fpass-plugin=",      "-ftime-trace",
    "-ftime-report=", "-stats-file",         "-fmodule-",
    "-verify=",       "-fcache-compile-job", "-serialize-diagnostic-file"};

constexpr std::array<std::string_view, 4> lld_words = {"-mllvm", "-plugin", "--reproduce", "-reproduce"};
constexpr std::array<std::string_view, 5> lld_beginnings = {
    "--time-trace", "--reproduce=", "-mllvm=", "--load-pass-plugin", "-load-pass-plugin"};

}  // namespace

bool is_unsupported_driver_option(std::string_view word) {
  return is_one_of(driver_words, word) || begins_with_one_of(driver_beginnings, word);
}

bool is_unsupported_cc1_option(std::string_view word) {
  return is_one_of(cc1_words, word) || begins_with_one_of(cc1_beginnings, word);
}

bool is_unsupported_lld_option(std::string_view word) {
  return is_one_of(lld_words, word) || begins_with_one_of(lld_beginnings, word);
}

}  // namespace tanto
