// Encodes and decodes frames.

#include "frames.h"

namespace tanto {
namespace {

class Writer {
 public:
  std::string bytes = std::string(4, '\0');

  void number(std::uint64_t value, int size) {
    for (int i = 0; i < size; i++) {
      bytes.push_back(static_cast<char>(value >> (8 * i)));
    }
  }

  void text(const std::string &value) {
    number(value.size(), 4);
    bytes += value;
  }

  void texts(const std::vector<std::string> &values) {
    number(values.size(), 4);
    for (const std::string &value : values) {
      text(value);
    }
  }

  void pairs(const std::vector<Without> &values) {
    number(values.size(), 4);
    for (const Without &value : values) {
      text(value.file);
      text(value.why);
    }
  }

  std::string end() {
    const std::size_t size = bytes.size() - 4;
    for (int i = 0; i < 4; i++) {
      bytes[static_cast<std::size_t>(i)] = static_cast<char>(size >> (8 * i));
    }
    return std::move(bytes);
  }
};

// After the first missing byte, all further values are empty and `is_whole` is false.
class Reader {
 public:
  explicit Reader(std::string_view bytes) : rest(bytes) {}

  std::uint64_t number(std::size_t size) {
    const std::string_view part = take(size);
    std::uint64_t value = 0;
    for (std::size_t i = part.size(); i-- > 0;) {
      value = value << 8 | static_cast<unsigned char>(part[i]);
    }
    return value;
  }

  std::uint32_t small() { return static_cast<std::uint32_t>(number(4)); }

  // It will be a C string.
  std::string text() {
    const std::string_view part = take(small());
    is_sound = is_sound && part.find('\0') == std::string_view::npos;
    return std::string(part);
  }

  std::vector<std::string> texts(std::size_t most = max_texts) {
    std::size_t count = small();
    // Each item has at least its length.
    is_sound = is_sound && count <= most && count <= rest.size() / 4;
    std::vector<std::string> values;
    for (; is_sound && count > 0; count--) {
      values.push_back(text());
    }
    return values;
  }

  std::vector<Without> pairs() {
    std::size_t count = small();
    is_sound = is_sound && count <= max_without && count <= rest.size() / 8;
    std::vector<Without> values;
    for (; is_sound && count > 0; count--) {
      values.push_back({text(), text()});
    }
    return values;
  }

  bool is_whole() const { return is_sound && rest.empty(); }

 private:
  std::string_view rest;
  bool is_sound = true;

  std::string_view take(std::size_t size) {
    is_sound = is_sound && size <= rest.size();
    if (!is_sound) {
      return {};
    }
    const std::string_view part = rest.substr(0, size);
    rest.remove_prefix(size);
    return part;
  }
};

void write(Writer &to, const Hello &it) {
  to.number(it.version, 4);
  to.text(it.clang);
  to.text(it.lld);
  to.texts(it.builds);
}

void write(Writer &to, const Run &it) {
  to.number(it.id, 8);
  to.number(it.umask, 4);
  to.text(it.clang);
  to.text(it.lld);
  to.texts(it.arguments);
  to.texts(it.environment);
}

void write(Writer &to, const Started &it) {
  to.number(it.id, 8);
  to.number(it.pid, 4);
}

void write(Writer &to, const Ended &it) {
  to.number(it.id, 8);
  to.number(it.status, 4);
  for (const std::uint64_t value : {it.user_us, it.system_us, it.max_rss_kib, it.read_bytes, it.written_bytes}) {
    to.number(value, 8);
  }
}

void write(Writer &to, const Declined &it) {
  to.number(it.id, 8);
  to.text(it.why);
}

void write(Writer &to, const Gone &it) {
  to.number(it.id, 8);
  to.number(it.status, 4);
}

void write(Writer &to, const Keep &it) {
  write(to, it.run);
  to.number(it.most, 4);
}

void write(Writer &to, const Kept &it) {
  to.number(it.id, 8);
  to.text(it.file);
}

void write(Writer &to, const Holding &it) {
  to.number(it.most, 4);
  to.number(it.wanted, 4);
  to.number(it.memory_kib, 8);
  to.texts(it.files);
  to.pairs(it.without);
}

void write(Writer &, const Stop &) {}

Run read_run(Reader &from) {
  return Run{from.number(8), from.small(), from.text(), from.text(), from.texts(), from.texts()};
}

bool is_too_long(const Run &run) { return run.arguments.size() > max_texts || run.environment.size() > max_texts; }

bool is_too_long(const Frame &frame) {
  if (const Holding *holding = std::get_if<Holding>(&frame)) {
    return holding->files.size() > max_files || holding->without.size() > max_without;
  }
  const Run *run = std::get_if<Run>(&frame);
  const Keep *keep = std::get_if<Keep>(&frame);
  return (run && is_too_long(*run)) || (keep && is_too_long(keep->run));
}

Frame read(Reader &from, std::uint64_t kind) {
  // Initializers in braces are evaluated in order.
  switch (kind) {
    case 0:
      return Hello{from.small(), from.text(), from.text(), from.texts()};
    case 1:
      return read_run(from);
    case 2:
      return Started{from.number(8), from.small()};
    case 3:
      return Ended{from.number(8), from.small(),   from.number(8), from.number(8),
                   from.number(8), from.number(8), from.number(8)};
    case 4:
      return Declined{from.number(8), from.text()};
    case 5:
      return Gone{from.number(8), from.small()};
    case 6:
      return Keep{read_run(from), from.small()};
    case 7:
      return Kept{from.number(8), from.text()};
    case 8:
      return Holding{from.small(), from.small(), from.number(8), from.texts(max_files), from.pairs()};
    default:
      return Stop{};
  }
}

}  // namespace

std::optional<std::string> encode(const Frame &frame) {
  if (is_too_long(frame)) {
    return std::nullopt;
  }
  Writer to;
  to.number(frame.index(), 1);
  std::visit([&](const auto &it) { write(to, it); }, frame);
  std::string bytes = to.end();
  if (bytes.size() > max_bytes) {
    return std::nullopt;
  }
  return bytes;
}

std::optional<Frame> decode(std::string_view bytes) {
  if (bytes.size() > max_bytes) {
    return std::nullopt;
  }
  Reader from(bytes);
  const std::uint64_t length = from.number(4);
  const std::uint64_t kind = from.number(1);
  if (length + 4 != bytes.size() || kind >= std::variant_size_v<Frame>) {
    return std::nullopt;
  }
  Frame frame = read(from, kind);
  if (!from.is_whole()) {
    return std::nullopt;
  }
  return frame;
}

}  // namespace tanto
