// Text to huge pages, and a heap that grows in large steps.
//
// A file is mapped page by page, and a fork shares none of that: each child faults the text in anew. Memory of our own
// is shared by a fork as it is, with one entry for each two megabytes, and the processor finds its way in it faster.

#include "memory.h"

#include <link.h>
#include <malloc.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstdint>
#include <cstdlib>
#include <cstring>

namespace tanto {
namespace {

constexpr std::uintptr_t huge_page = 2 << 20;

std::uintptr_t up(std::uintptr_t address) { return (address + huge_page - 1) & ~(huge_page - 1); }

std::uintptr_t down(std::uintptr_t address) { return address & ~(huge_page - 1); }

struct Range {
  std::uintptr_t begin = 0;
  std::uintptr_t end = 0;
};

// Where the program's own text is.
int find_text(dl_phdr_info *program, std::size_t, void *range) {
  for (int i = 0; i < program->dlpi_phnum; i++) {
    const ElfW(Phdr) &part = program->dlpi_phdr[i];
    if (part.p_type == PT_LOAD && part.p_flags & PF_X) {
      const std::uintptr_t begin = program->dlpi_addr + part.p_vaddr;
      *static_cast<Range *>(range) = {up(begin), down(begin + part.p_memsz)};
    }
  }
  // The first is the program itself.
  return 1;
}

void *pointer(std::uintptr_t address) { return reinterpret_cast<void *>(address); }

}  // namespace

bool move_text_to_huge_pages() {
  Range text;
  dl_iterate_phdr(find_text, &text);
  if (text.begin >= text.end) {
    return false;
  }
  const std::size_t size = text.end - text.begin;
  void *room = mmap(nullptr, size + huge_page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (room == MAP_FAILED) {
    return false;
  }
  const std::uintptr_t copy = up(reinterpret_cast<std::uintptr_t>(room));
  // On small pages it would only be a copy.
  const bool can = madvise(pointer(copy), size, MADV_HUGEPAGE) == 0;
  if (can) {
    std::memcpy(pointer(copy), pointer(text.begin), size);
  }
  // The same bytes come to the same addresses, so that this very function goes on as if nothing had happened.
  const bool moved =
      can && mprotect(pointer(copy), size, PROT_READ | PROT_EXEC) == 0 &&
      mremap(pointer(copy), size, size, MREMAP_MAYMOVE | MREMAP_FIXED, pointer(text.begin)) != MAP_FAILED;
  if (!moved) {
    munmap(room, size + huge_page);
  }
  return moved;
}

void prepare_heap(bool huge) {
  // What is freed stays ours, and what is large comes from the heap too: children end before it matters.
  constexpr int step = 64 << 20;
  mallopt(M_TRIM_THRESHOLD, 1 << 30);
  mallopt(M_MMAP_THRESHOLD, step);
  mallopt(M_TOP_PAD, step);
  const std::uintptr_t begin = up(reinterpret_cast<std::uintptr_t>(sbrk(0)));
  std::free(std::malloc(step / 4));
  const std::uintptr_t end = down(reinterpret_cast<std::uintptr_t>(sbrk(0)));
  if (huge && begin < end) {
    madvise(pointer(begin), end - begin, MADV_HUGEPAGE);
  }
}

}  // namespace tanto
