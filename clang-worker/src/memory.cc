// Moves code and tables to huge pages, and makes the heap grow in large steps.
//
// A file is mapped page by page, and a fork does not inherit these mappings: each child faults the text in again.
// Anonymous memory is shared by a fork with one entry per two megabytes, which is also faster to translate.

#include "memory.h"

#include <fcntl.h>
#include <link.h>
#include <malloc.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <vector>

namespace tanto {
namespace {

constexpr std::uintptr_t small_page = 4 << 10;
constexpr std::uintptr_t huge_page = 2 << 20;
// Growth step of the heap.
constexpr std::size_t step = 64 << 20;

std::uintptr_t up(std::uintptr_t address) { return (address + huge_page - 1) & ~(huge_page - 1); }

std::uintptr_t down(std::uintptr_t address) { return address & ~(huge_page - 1); }

void *pointer(std::uintptr_t address) { return reinterpret_cast<void *>(address); }

struct Range {
  std::uintptr_t begin = 0;
  std::uintptr_t end = 0;
  int protection = 0;
};

// All read-only and executable segments of the program.
int find_constant(dl_phdr_info *program, std::size_t, void *ranges) {
  for (int i = 0; i < program->dlpi_phnum; i++) {
    const ElfW(Phdr) &part = program->dlpi_phdr[i];
    if (part.p_type == PT_LOAD && !(part.p_flags & PF_W)) {
      const std::uintptr_t begin = program->dlpi_addr + part.p_vaddr;
      const int protection = PROT_READ | (part.p_flags & PF_X ? PROT_EXEC : 0);
      static_cast<std::vector<Range> *>(ranges)->push_back({up(begin), down(begin + part.p_memsz), protection});
    }
  }
  // The first entry is the program itself.
  return 1;
}

// Number of used small pages in a huge page.
std::size_t used_pages(int pagemap, std::uintptr_t begin) {
  constexpr std::size_t count = huge_page / small_page;
  constexpr std::uint64_t present = 1ULL << 63;
  std::uint64_t entries[count];
  const off_t at = static_cast<off_t>(begin / small_page * sizeof(entries[0]));
  if (pread(pagemap, entries, sizeof entries, at) != sizeof entries) {
    return 0;
  }
  return static_cast<std::size_t>(
      std::count_if(std::begin(entries), std::end(entries), [](std::uint64_t it) { return it & present; }));
}

bool move(const Range &range) {
  const std::size_t size = range.end - range.begin;
  void *room = mmap(nullptr, size + huge_page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (room == MAP_FAILED) {
    return false;
  }
  const std::uintptr_t first = reinterpret_cast<std::uintptr_t>(room);
  const std::uintptr_t copy = up(first);
  // On small pages it would only be a copy.
  const bool can = madvise(pointer(copy), size, MADV_HUGEPAGE) == 0;
  if (can) {
    std::memcpy(pointer(copy), pointer(range.begin), size);
  }
  // The same bytes are placed at the same addresses, so this function itself can continue.
  const bool moved =
      can && mprotect(pointer(copy), size, range.protection) == 0 &&
      mremap(pointer(copy), size, size, MREMAP_MAYMOVE | MREMAP_FIXED, pointer(range.begin)) != MAP_FAILED;
  if (!moved) {
    munmap(room, size + huge_page);
    return false;
  }
  if (copy > first) {
    munmap(room, copy - first);
  }
  if (first + huge_page > copy) {
    munmap(pointer(copy + size), first + huge_page - copy);
  }
  return true;
}

}  // namespace

void move_used_to_huge_pages() {
  // Fewer do not justify two megabytes.
  constexpr std::size_t enough = 160;
  const int pagemap = open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC);
  std::vector<Range> constant, used;
  dl_iterate_phdr(find_constant, &constant);
  for (const auto &[begin, end, protection] : constant) {
    for (std::uintptr_t page = begin; page < end; page += huge_page) {
      if (pagemap >= 0 && used_pages(pagemap, page) < enough) {
        continue;
      }
      if (!used.empty() && used.back().end == page && used.back().protection == protection) {
        used.back().end += huge_page;
      } else {
        used.push_back({page, page + huge_page, protection});
      }
    }
  }
  close(pagemap);
  std::all_of(used.begin(), used.end(), move);
}

void prepare_heap(bool huge) {
  // Freed memory is not returned, and large blocks come from the heap too: children end before it matters.
  mallopt(M_TRIM_THRESHOLD, 1 << 30);
  // glibc's maximum.
  mallopt(M_MMAP_THRESHOLD, 32 << 20);
  mallopt(M_TOP_PAD, step);
  const std::uintptr_t begin = up(reinterpret_cast<std::uintptr_t>(sbrk(0)));
  // No more than makes the heap grow: pages that are already in use stay small. The compiler removes a pair of calls
  // with an unused result.
  void *volatile grown = std::malloc(1 << 20);
  std::free(grown);
  const std::uintptr_t end = down(reinterpret_cast<std::uintptr_t>(sbrk(0)));
  if (huge && begin < end) {
    madvise(pointer(begin), end - begin, MADV_HUGEPAGE);
  }
}

void fill_holes() {
  // A block in a hole shares its page with older data, and the first write of a fork would copy that page.
  constexpr std::size_t largest = 1 << 20, least = 16;
  const void *volatile edge = std::malloc(largest);
  for (std::size_t size = largest; size >= least; size -= size > 1024 ? size / 8 & ~(least - 1) : least) {
    void *it = std::malloc(size);
    while (it && it < edge) {
      it = std::malloc(size);
    }
    // It is taken from the end and returned there.
    std::free(it);
  }
  // A shared huge page is copied in small pieces, so a fork allocates from a new one. This process continues with one
  // small hole.
  constexpr std::size_t header = 2 * sizeof(std::size_t), enough = 64 << 10;
  void *volatile hole = std::malloc(enough);
  const std::uintptr_t next = reinterpret_cast<std::uintptr_t>(std::malloc(largest)) + largest + header;
  void *volatile rest = std::malloc(up(next) - next - header);
  static_cast<void>(rest);
  std::free(hole);
}

}  // namespace tanto
