#include "frames.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>

enum { LENGTH_SIZE = 4 };

struct reader {
  char *at;
  char *end;
  bool is_valid;
};

static uint64_t read_number(struct reader *reader, size_t size) {
  uint64_t value = 0;
  if ((size_t)(reader->end - reader->at) < size) {
    reader->is_valid = false;
    return 0;
  }
  for (size_t at = 0; at < size; at++) value |= (uint64_t)(uint8_t)reader->at[at] << (8 * at);
  reader->at += size;
  return value;
}

// Returns a text that is not yet ended with NUL: the length of the next one may follow it.
static char *read_text(struct reader *reader, char **end) {
  size_t length = read_number(reader, 4);
  if ((size_t)(reader->end - reader->at) < length || memchr(reader->at, '\0', length)) {
    reader->is_valid = false;
    return NULL;
  }
  char *text = reader->at;
  reader->at += length;
  *end = reader->at;
  return text;
}

// Reads a list of texts, and a NULL behind it. Returns the number of texts.
static size_t read_list(struct reader *reader, char **texts, size_t room) {
  size_t count = read_number(reader, 4);
  char *end = NULL;
  if (!reader->is_valid || count > MAX_TEXTS || count >= room) {
    reader->is_valid = false;
    return 0;
  }
  for (size_t at = 0; at < count && reader->is_valid; at++) {
    char *before = end;
    texts[at] = read_text(reader, &end);
    if (before) *before = '\0';
  }
  // The next number was not read yet: the caller ends the last text.
  texts[count] = reader->is_valid ? end : NULL;
  return count;
}

bool decode_run(char *bytes, size_t length, char **words, size_t room, struct run *run) {
  struct reader reader = {bytes, bytes + length, true};
  char *program_end = NULL, *linker_end = NULL;
  if (read_number(&reader, LENGTH_SIZE) != length - LENGTH_SIZE || read_number(&reader, 1) != RUN) return false;
  run->id = read_number(&reader, 8);
  run->umask = (uint32_t)read_number(&reader, 4);
  run->program = read_text(&reader, &program_end);
  read_text(&reader, &linker_end);
  if (!reader.is_valid) return false;
  *program_end = '\0';
  run->words = words;
  run->word_count = read_list(&reader, words, room);
  if (!reader.is_valid || run->word_count == 0) return false;
  char **variables = words + run->word_count + 1;
  run->variable_count = read_list(&reader, variables, room - run->word_count - 1);
  if (!reader.is_valid || reader.at != reader.end) return false;
  char **lists_end[] = {&words[run->word_count], &variables[run->variable_count]};
  for (size_t at = 0; at < 2; at++) {
    if (*lists_end[at]) **lists_end[at] = '\0';
    *lists_end[at] = NULL;
  }
  return true;
}

void frame_begin(struct frame *frame, enum frame_kind kind) {
  frame->length = LENGTH_SIZE;
  frame_add_number(frame, kind, 1);
}

static char *frame_add(struct frame *frame, size_t length) {
  if (frame->length == 0 || MAX_FRAME - frame->length < length) {
    frame->length = 0;
    return NULL;
  }
  char *at = frame->bytes + frame->length;
  frame->length += length;
  return at;
}

static void put_number(char *at, uint64_t value, size_t size) {
  for (size_t byte = 0; byte < size; byte++) at[byte] = (char)(value >> (8 * byte));
}

void frame_add_number(struct frame *frame, uint64_t value, size_t size) {
  char *at = frame_add(frame, size);
  if (at) put_number(at, value, size);
}

void frame_add_text(struct frame *frame, const char *text) {
  size_t length = strlen(text);
  frame_add_number(frame, length, 4);
  char *at = frame_add(frame, length);
  if (at) memcpy(at, text, length);
}

void frame_end(struct frame *frame) {
  if (frame->length > 0) put_number(frame->bytes, frame->length - LENGTH_SIZE, LENGTH_SIZE);
}

bool frame_send(struct frame *frame, int socket) {
  frame_end(frame);
  if (frame->length == 0) return false;
  ssize_t sent;
  do sent = send(socket, frame->bytes, frame->length, MSG_NOSIGNAL);
  while (sent < 0 && errno == EINTR);
  return sent == (ssize_t)frame->length;
}

struct list frame_begin_list(struct frame *frame) {
  struct list list = {0, frame->length};
  frame_add_number(frame, 0, 4);
  return list;
}

void frame_add_to_list(struct frame *frame, struct list *list, const char *text) {
  frame_add_text(frame, text);
  list->count++;
}

void frame_end_list(struct frame *frame, const struct list *list) {
  if (frame->length > 0) put_number(frame->bytes + list->position, list->count, 4);
}
