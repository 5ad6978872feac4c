#define _GNU_SOURCE

#include "libraries.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <link.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "record.h"

enum { MAX_DIRS = 64, MAX_LIST = 64 << 10 };

// Directories that are searched before the loader's cache is asked, each with a slash.
struct dirs {
  size_t count;
  char *paths[MAX_DIRS];
};

// The variable LD_LIBRARY_PATH was set when the program began.
static bool has_search_path;
// Directories below a searched one, for some processors. Those below the first one have the names of `levels`. The
// others are of glibc before 2.37, and can be nested.
static const char *const processor_dirs[] = {"glibc-hwcaps/", "tls/", "x86_64/", "haswell/", "avx512_1/", "xeon_phi/"};
static const char *const levels[] = {"x86-64-v2/", "x86-64-v3/", "x86-64-v4/"};

// Looks at a path as the loader does. The functions of this library would record that themselves.
static bool look(const char *path) {
  int result = (int)syscall(SYS_faccessat, AT_FDCWD, path, F_OK);
  record_path(LOOKED, result == 0 ? 0 : errno, AT_FDCWD, path, NULL);
  return result == 0;
}

static void read_if_present(const char *path) {
  int result = (int)syscall(SYS_faccessat, AT_FDCWD, path, R_OK);
  record_path(result == 0 ? READ : LOOKED, result == 0 ? 0 : errno, AT_FDCWD, path, NULL);
}

static bool is_own(const struct link_map *library) {
  extern const char __ehdr_start[] __attribute__((visibility("hidden")));
  return library->l_addr == (ElfW(Addr))__ehdr_start;
}

// The program itself and the kernel's library have no path.
static bool is_file(const struct link_map *library) { return strchr(library->l_name, '/') && !is_own(library); }

// ---- the directories ----

static void add_dir(struct dirs *dirs, const char *dir, const char *below) {
  char path[LONGEST_PATH];
  int length = snprintf(path, sizeof path, "%s%s", dir, below);
  for (size_t at = 0; at < dirs->count; at++)
    if (strcmp(dirs->paths[at], path) == 0) return;
  char *copy = length < (int)sizeof path && dirs->count < MAX_DIRS ? strdup(path) : NULL;
  if (copy)
    dirs->paths[dirs->count++] = copy;
  else
    record_lost();
}

static const ElfW(Dyn) * find_entry(const struct link_map *library, ElfW(Sxword) tag) {
  for (const ElfW(Dyn) *it = library->l_ld; it && it->d_tag != DT_NULL; it++)
    if (it->d_tag == tag) return it;
  return NULL;
}

// Returns whether the library names directories for the libraries that it needs.
static bool has_dirs(const struct link_map *library) {
  return find_entry(library, DT_RUNPATH) || find_entry(library, DT_RPATH);
}

// Returns whether the default directories are searched for what the library needs.
static bool has_defaults(const struct link_map *library) {
  const ElfW(Dyn) *flags = find_entry(library, DT_FLAGS_1);
  return !flags || !(flags->d_un.d_val & DF_1_NODEFLIB);
}

// Lists all directories that are searched for what the library needs.
static bool list_dirs(struct link_map *library, Dl_serinfo *list) {
  return dlinfo(library, RTLD_DI_SERINFOSIZE, list) == 0 && list->dls_size <= MAX_LIST &&
         dlinfo(library, RTLD_DI_SERINFO, list) == 0;
}

// Adds the directories of a library. The last `defaults` ones are searched after the cache.
static void add_dirs(struct dirs *dirs, struct link_map *library, unsigned defaults) {
  static char room[MAX_LIST];
  Dl_serinfo *list = (Dl_serinfo *)room;
  if (!list_dirs(library, list)) {
    record_lost();
    return;
  }
  for (unsigned at = 0; at + defaults < list->dls_cnt; at++) {
    const char *dir = list->dls_serpath[at].dls_name;
    add_dir(dirs, dir, dir[strlen(dir) - 1] == '/' ? "" : "/");
  }
}

// Adds the directories for processors below all others.
static void add_processor_dirs(struct dirs *dirs) {
  for (size_t at = 0; at < dirs->count; at++)
    for (size_t kind = 0; kind < sizeof processor_dirs / sizeof *processor_dirs; kind++) {
      char path[LONGEST_PATH];
      int length = snprintf(path, sizeof path, "%s%s", dirs->paths[at], processor_dirs[kind]);
      if (length >= (int)sizeof path || !look(path)) continue;
      if (kind > 0) add_dir(dirs, path, "");
      for (size_t level = 0; kind == 0 && level < sizeof levels / sizeof *levels; level++)
        add_dir(dirs, path, levels[level]);
    }
}

// Returns the number of directories that are searched after the cache, at least.
static unsigned count_defaults(struct link_map *program) {
  static char room[MAX_LIST];
  Dl_serinfo *list = (Dl_serinfo *)room;
  Dl_info unused;
  void *own = NULL;
  // Of a library without directories of its own, and without those of the program and the variable, only they are left.
  bool is_known = !find_entry(program, DT_RPATH) && !has_search_path && dladdr1(room, &unused, &own, RTLD_DL_LINKMAP) &&
                  list_dirs(own, list);
  return is_known ? list->dls_cnt : 0;
}

static void find_dirs(struct dirs *dirs) {
  struct link_map *program = _r_debug.r_map;
  unsigned defaults = count_defaults(program);
  for (struct link_map *it = program; it; it = it->l_next) {
    bool is_program = it == program || is_file(it);
    if (is_program && (has_search_path || has_dirs(it))) add_dirs(dirs, it, has_defaults(it) ? defaults : 0);
  }
  add_processor_dirs(dirs);
}

// ---- the libraries ----

// Records a library, and where else it was searched or could be found.
static void record_library(const struct link_map *library, const struct dirs *dirs) {
  record_path(LOADED, 0, AT_FDCWD, library->l_name, NULL);
  const char *name = strrchr(library->l_name, '/') + 1;
  for (size_t at = 0; at < dirs->count; at++) {
    char path[LONGEST_PATH];
    if (snprintf(path, sizeof path, "%s%s", dirs->paths[at], name) < (int)sizeof path)
      look(path);
    else
      record_lost();
  }
}

// Sets the number of libraries that were ever loaded.
static int count(struct dl_phdr_info *info, size_t size, void *number) {
  (void)size;
  *(unsigned long long *)number = info->dlpi_adds;
  return 1;
}

// Records the variables that the loader has read.
static void record_variables(void) {
  const char *search_path = find_variable("LD_LIBRARY_PATH");
  has_search_path = search_path && search_path[0];
  record_variable("LD_LIBRARY_PATH", search_path);
  record_variable("LD_AUDIT", find_variable("LD_AUDIT"));
}

static void record_all(void) {
  struct dirs dirs = {0};
  read_if_present("/etc/ld.so.preload");
  read_if_present("/etc/ld.so.cache");
  find_dirs(&dirs);
  for (const struct link_map *it = _r_debug.r_map; it; it = it->l_next)
    if (is_file(it)) record_library(it, &dirs);
  for (size_t at = 0; at < dirs.count; at++) free(dirs.paths[at]);
}

void record_libraries(void) {
  static unsigned long long known;
  unsigned long long now = 0;
  int saved = errno;
  dl_iterate_phdr(count, &now);
  if (known == 0) record_variables();
  if (now != known) record_all();
  known = now;
  errno = saved;
}
