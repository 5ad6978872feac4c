// The worker's own memory on huge pages, so that each fork has less to copy and to fault in. Knows no compilers.
#pragma once

namespace tanto {

// Moves that much of the program's text and constants to huge pages that was used so far.
void move_used_to_huge_pages();

// From now on the heap grows in large steps, on huge pages if `huge`.
void prepare_heap(bool huge);

// Leaves nothing free in a heap that was prepared but its end: what comes next lies together, on pages that nobody
// shares.
void use_up_holes();

}  // namespace tanto
