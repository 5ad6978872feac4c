// Tests golden frames, frames at their limits, and mutated frames. Prints "ok NAME" or "not ok NAME".

#include "frames.h"

#include <cstdio>
#include <fstream>
#include <iostream>
#include <map>
#include <random>
#include <sstream>

namespace {

using namespace tanto;

bool all_ok = true;

void check(const std::string &name, bool ok) {
  std::cout << (ok ? "ok " : "not ok ") << name << "\n";
  all_ok = all_ok && ok;
}

// The same as in crates/tanto-exec/src/runner/clang/frames/tests.rs.
const std::map<std::string, Frame> frames = {
    {"hello",
     Hello{protocol, "Debian clang version 19.1.7 (3~deb12u1)", "Debian LLD 19.1.7", {"f29c6d9c", "99af4b93"}}},
    {"run", Run{0x0102030405060708,
                022,
                "/usr/lib/llvm-19/bin/clang",
                "",
                {"clang++", "-c", "a b.cc", ""},
                {"PATH=/usr/bin", "LANG=\xc3\xa9"}}},
    {"run-nothing", Run{}},
    {"started", Started{7, 4242}},
    {"ended", Ended{7, 256, 1500000, 20000, 65536, 512, 1ull << 40}},
    {"declined", Declined{8, "its jobs are not one"}},
    {"gone", Gone{9, 139}},
    {"keep", Keep{Run{10, 022, "/usr/bin/clang", "", {"clang", "-c", "a.c"}, {"PATH=/bin"}}, 8}},
    {"kept", Kept{10, "a.c"}},
    {"holding", Holding{8, 1, 123456, {"a.c", "b/c.cc"}, {{"c.cc", "its includes print warnings"}}}},
    {"stop", Stop{}},
};

std::map<std::string, std::string> golden(const std::string &directory) {
  std::map<std::string, std::string> all;
  std::ifstream file(directory + "/frames.txt");
  for (std::string line; std::getline(file, line);) {
    std::istringstream words(line);
    std::string name, byte, bytes;
    if (line.starts_with('#') || !(words >> name)) {
      continue;
    }
    while (words >> byte) {
      bytes.push_back(static_cast<char>(std::stoi(byte, nullptr, 16)));
    }
    all[name] = bytes;
  }
  return all;
}

void print_golden() {
  for (const auto &[name, frame] : frames) {
    std::printf("%s", name.c_str());
    const std::string bytes = encode(frame).value();
    for (const char byte : bytes) {
      std::printf(" %02x", static_cast<unsigned char>(byte));
    }
    std::printf("\n");
  }
}

void compare(const std::string &directory) {
  const auto all = golden(directory);
  check("golden frames are as many as there are", all.size() == frames.size());
  for (const auto &[name, frame] : frames) {
    const auto it = all.find(name);
    check("golden " + name + " is written", it != all.end() && encode(frame) == it->second);
    check("golden " + name + " is read", it != all.end() && decode(it->second) == frame);
  }
}

// Increments the count at this offset, and appends an item of this many zeros to its list.
std::string longer(std::string bytes, std::size_t at, std::size_t zeros) {
  bytes[at] = static_cast<char>(bytes[at] + 1);
  bytes.insert(at + 4, zeros, '\0');
  bytes[0] = static_cast<char>(bytes.size() - 4);
  bytes[1] = static_cast<char>((bytes.size() - 4) >> 8);
  return bytes;
}

void check_limits_of_holding() {
  constexpr std::size_t counts = 21;
  Holding files, without;
  files.files.assign(max_files, "");
  without.without.assign(max_without, {});
  const std::string most = encode(files).value(), none = encode(without).value();
  check("the most files are read", decode(most) == Frame(files) && decode(none) == Frame(without));
  check("more files are not read", !decode(longer(most, counts, 4)) && !decode(longer(none, counts + 4, 8)));
  files.files.emplace_back();
  without.without.emplace_back();
  check("more files are not written", !encode(files) && !encode(without));
}

void check_limits() {
  Declined declined{1, std::string(max_bytes - 17, 'x')};
  const auto largest = encode(declined);
  check("the largest frame is written and read", largest && decode(*largest) == Frame(declined));
  declined.why += 'x';
  check("a larger one is not written", !encode(declined));
  check("a larger one is not read", !decode(std::string(max_bytes + 1, '\0')));
  Run run;
  run.arguments.assign(max_texts, "");
  check("the most words are written and read", encode(run) && decode(*encode(run)) == Frame(run));
  run.arguments.emplace_back();
  check("more words are not written", !encode(run));
  check_limits_of_holding();
  check("nothing is not read", !decode(""));
  check("a NUL in a text is not read", !decode(*encode(Declined{1, std::string("a\0b", 3)})));
}

// Bytes decode to nothing, or to a frame that encodes to the same bytes.
bool is_consistent(const std::string &bytes) {
  const auto frame = decode(bytes);
  return !frame || encode(*frame) == bytes;
}

void mutate(unsigned seed, int runs) {
  std::mt19937 random(seed);
  std::vector<std::string> texts;
  for (const auto &[name, frame] : frames) {
    texts.push_back(encode(frame).value());
  }
  bool ok = true;
  for (int i = 0; i < runs && ok; i++) {
    std::string bytes = texts[random() % texts.size()];
    for (unsigned changes = random() % 4 + 1; changes > 0; changes--) {
      const std::size_t at = random() % (bytes.size() + 1);
      switch (random() % 4) {
        case 0:
          bytes.insert(at, 1, static_cast<char>(random()));
          break;
        case 1:
          bytes.resize(at);
          break;
        case 2:
          bytes += texts[random() % texts.size()];
          break;
        default:
          if (at < bytes.size()) {
            bytes[at] = static_cast<char>(random() % 3 ? random() : 0xff);
          }
      }
    }
    // With a correct length, more inputs pass the first check.
    if (random() % 2 && bytes.size() >= 4) {
      for (int k = 0; k < 4; k++) {
        bytes[static_cast<std::size_t>(k)] = static_cast<char>((bytes.size() - 4) >> (8 * k));
      }
    }
    ok = is_consistent(bytes);
  }
  check("mutated frames, seed " + std::to_string(seed), ok);
}

}  // namespace

int main(int count, char **words) {
  if (count == 2 && std::string(words[1]) == "--print") {
    print_golden();
    return 0;
  }
  if (count < 2) {
    std::cerr << "usage: frames-test DIRECTORY [SEED [RUNS]] | --print\n";
    return 2;
  }
  compare(words[1]);
  check_limits();
  mutate(count > 2 ? static_cast<unsigned>(std::stoul(words[2])) : 1, count > 3 ? std::stoi(words[3]) : 200000);
  return all_ok ? 0 : 1;
}
