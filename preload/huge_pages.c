#define _GNU_SOURCE

#include "huge_pages.h"

#include <link.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>

#ifndef MADV_COLLAPSE
#define MADV_COLLAPSE 25  // Linux 6.1
#endif

enum {
  HUGE_PAGE = 2 << 20,
  PIECE = 8 * HUGE_PAGE,
  // Smaller programs are not worth it.
  MIN_CODE = 8 * HUGE_PAGE,
  MAX_RANGES = 16,
};

// Code that has yet to be moved, in whole huge pages.
static struct range {
  uintptr_t start, end;
} ranges[MAX_RANGES];
static int range_count = -1;  // -1: not yet known

static int add_code(struct dl_phdr_info *info, size_t size, void *unused) {
  (void)size;
  (void)unused;
  for (int at = 0; at < info->dlpi_phnum && range_count < MAX_RANGES; at++) {
    const ElfW(Phdr) *segment = &info->dlpi_phdr[at];
    if (segment->p_type != PT_LOAD || segment->p_flags != (PF_R | PF_X)) continue;
    uintptr_t start = info->dlpi_addr + segment->p_vaddr, end = start + segment->p_memsz;
    start = (start + HUGE_PAGE - 1) / HUGE_PAGE * HUGE_PAGE;
    end = end / HUGE_PAGE * HUGE_PAGE;
    if (end >= start + MIN_CODE) ranges[range_count++] = (struct range){start, end};
  }
  return 0;
}

// Replaces code by a copy of it. Returns false if the kernel has no huge pages for it, or forbids new code.
static bool move_piece(uintptr_t start, size_t length) {
  char *space = mmap(NULL, length + HUGE_PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (space == MAP_FAILED) return false;
  char *copy = (char *)(((uintptr_t)space + HUGE_PAGE - 1) / HUGE_PAGE * HUGE_PAGE);
  bool is_moved = madvise(copy, length, MADV_HUGEPAGE) == 0;
  if (is_moved) {
    memcpy(copy, (const void *)start, length);
    // Small pages would make forks slower: each has an entry to copy.
    is_moved = madvise(copy, length, MADV_COLLAPSE) == 0 && mprotect(copy, length, PROT_READ | PROT_EXEC) == 0 &&
               mremap(copy, length, length, MREMAP_MAYMOVE | MREMAP_FIXED, (void *)start) != MAP_FAILED;
  }
  munmap(space, length + HUGE_PAGE);
  return is_moved;
}

void move_code(void) {
  if (range_count < 0) {
    range_count = 0;
    dl_iterate_phdr(add_code, NULL);
  }
  if (range_count == 0) return;
  struct range *range = &ranges[range_count - 1];
  size_t length = range->end - range->start < PIECE ? range->end - range->start : PIECE;
  if (!move_piece(range->start, length)) {
    range_count = 0;
    return;
  }
  range->start += length;
  if (range->start == range->end) range_count--;
}
