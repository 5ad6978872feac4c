#define _GNU_SOURCE

#include "process.h"

#include <errno.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

void enter_program(const struct run *run) {
  const char *slash = strrchr(run->program, '/');
  prctl(PR_SET_NAME, slash ? slash + 1 : run->program);
  char *name = run->words[0], *short_name = strrchr(name, '/');
  program_invocation_name = name;
  program_invocation_short_name = short_name ? short_name + 1 : name;
  environ = run->words + run->word_count + 1;
}
