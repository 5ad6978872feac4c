// Puts the worker's own memory on huge pages, so that a fork has less to copy and to fault in.
#pragma once

namespace tanto {

// Moves the used part of the program's text and constants to huge pages.
void move_used_to_huge_pages();

// Makes the heap grow in large steps, on huge pages if `huge`.
void prepare_heap(bool huge);

// Fills the holes of a prepared heap, so that later allocations are contiguous and on unshared pages.
void fill_holes();

}  // namespace tanto
