// Checks the fork server's side of the golden frames, and that damaged frames are refused.
//
//   frames-test golden/frames.txt      prints "ok NAME" or "not ok NAME" for each frame

#include "../frames.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ROOM = 64 };

static struct frame written;
static char golden[MAX_FRAME];
static char copy[MAX_FRAME + 1];
static char *words[ROOM];

// Reads the bytes of a line in hexadecimal digits. Returns their number.
static size_t read_bytes(char *line) {
  size_t length = 0;
  for (char *byte = strtok(line, " \n"); byte; byte = strtok(NULL, " \n"))
    golden[length++] = (char)strtol(byte, NULL, 16);
  return length;
}

static void write_list(const char *const *texts, size_t count) {
  struct list list = frame_begin_list(&written);
  for (size_t at = 0; at < count; at++) frame_add_to_list(&written, &list, texts[at]);
  frame_end_list(&written, &list);
}

static void write_frame(const char *name) {
  written.length = 0;
  if (strcmp(name, "ready") == 0) {
    static const char *const files[] = {"/lib/libc.so.6", "/lib/libLLVM.so"}, *const dirs[] = {"/usr/lib"};
    frame_begin(&written, READY);
    frame_add_number(&written, PROTOCOL_VERSION, 4);
    frame_add_text(&written, "");
    frame_add_number(&written, 25000, 8);
    frame_add_number(&written, 900, 8);
    write_list(files, 2);
    write_list(dirs, 1);
  } else if (strcmp(name, "started") == 0) {
    frame_begin(&written, STARTED_FRAME);
    frame_add_number(&written, 7, 8);
    frame_add_number(&written, 4242, 4);
  } else if (strcmp(name, "ended") == 0) {
    frame_begin(&written, ENDED_FRAME);
    frame_add_number(&written, 7, 8);
    frame_add_number(&written, 256, 4);
    for (size_t at = 0; at < 5; at++) frame_add_number(&written, 1000 + at, 8);
  } else if (strcmp(name, "declined") == 0) {
    frame_begin(&written, DECLINED);
    frame_add_number(&written, 8, 8);
    frame_add_text(&written, "the fork server cannot fork");
  } else if (strcmp(name, "gone") == 0) {
    frame_begin(&written, GONE);
    frame_add_number(&written, 9, 8);
    frame_add_number(&written, 139, 4);
  }
  frame_end(&written);
}

static bool decode(size_t length, struct run *run) {
  memcpy(copy, golden, length);
  return decode_run(copy, length, words, ROOM, run);
}

static bool is_run(size_t length) {
  struct run run;
  if (!decode(length, &run) || run.id != 0x0102030405060708 || run.umask != 022) return false;
  static const char *const expected[] = {"clang++", "-c", "a b.cc", "", NULL, "PATH=/usr/bin", "LANG=\xc3\xa9", NULL};
  bool is_equal = strcmp(run.program, "/usr/bin/clang++") == 0 && run.word_count == 4 && run.variable_count == 2;
  for (size_t at = 0; at < sizeof expected / sizeof *expected; at++)
    is_equal =
        is_equal && (expected[at] && words[at] ? strcmp(expected[at], words[at]) == 0 : expected[at] == words[at]);
  // No part of it is a frame, and no changed byte makes it read beyond its end.
  for (size_t shorter = 0; shorter < length; shorter++) is_equal = is_equal && !decode(shorter, &run);
  for (size_t at = 0; at < length; at++)
    for (int bit = 0; bit < 8; bit++) {
      golden[at] ^= (char)(1 << bit);
      if (decode(length, &run))
        for (size_t word = 0; word < run.word_count; word++)
          is_equal = is_equal && words[word] + strlen(words[word]) <= copy + length;
      golden[at] ^= (char)(1 << bit);
    }
  return is_equal;
}

int main(int count, char **arguments) {
  static char line[4 * MAX_FRAME];
  FILE *file = count == 2 ? fopen(arguments[1], "r") : NULL;
  int frames = 0, status = 0;
  if (!file) return 2;
  while (fgets(line, sizeof line, file)) {
    char *space = strchr(line, ' ');
    if (line[0] == '#' || !space) continue;
    *space = '\0';
    size_t length = read_bytes(space + 1);
    write_frame(line);
    bool is_equal = strcmp(line, "run") == 0 ? is_run(length)
                                             : written.length == length && memcmp(written.bytes, golden, length) == 0;
    printf("%s golden %s\n", is_equal ? "ok" : "not ok", line);
    status |= !is_equal;
    frames++;
  }
  fclose(file);
  return status || frames != 6;
}
