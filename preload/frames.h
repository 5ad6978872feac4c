// Frames between Tanto and the fork server. PROTOCOL.md describes the format.

#ifndef TANTO_PRELOAD_FRAMES_H
#define TANTO_PRELOAD_FRAMES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#pragma GCC visibility push(hidden)

enum {
  PROTOCOL_VERSION = 3,
  MAX_FRAME = 128 << 10,
  MAX_TEXTS = 16 << 10,
  // Of the two lists of a command, with a NULL behind each.
  MAX_POINTERS = 2 * MAX_TEXTS + 2,
};

enum frame_kind { RUN = 1, STARTED_FRAME = 2, ENDED_FRAME = 3, DECLINED = 4, GONE = 5, READY = 10 };

// A command. All strings are in the bytes that were decoded.
struct run {
  uint64_t id;
  uint32_t umask;
  const char *program;
  size_t word_count;
  size_t variable_count;
  // The words, NULL, the variables, NULL: the C library finds the variables behind the words.
  char **words;
};

// Decodes a `run`, and ends its texts with NUL, for which there is one more byte behind `length`. `room` is the number
// of pointers in `words`. Returns false if the frame is invalid.
bool decode_run(char *bytes, size_t length, char **words, size_t room, struct run *run);

// A frame to send.
struct frame {
  size_t length;  // 0: it is too long
  char bytes[MAX_FRAME];
};

void frame_begin(struct frame *frame, enum frame_kind kind);
void frame_add_number(struct frame *frame, uint64_t value, size_t size);
void frame_add_text(struct frame *frame, const char *text);
// Writes the length at the beginning.
void frame_end(struct frame *frame);
// Ends the frame, and sends it.
bool frame_send(struct frame *frame, int socket);

// A list of texts in a frame.
struct list {
  size_t count;
  size_t position;  // of the count in the frame
};

struct list frame_begin_list(struct frame *frame);
void frame_add_to_list(struct frame *frame, struct list *list, const char *text);
void frame_end_list(struct frame *frame, const struct list *list);

#pragma GCC visibility pop

#endif
