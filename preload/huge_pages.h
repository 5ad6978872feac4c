// Moves the code of a program's libraries into huge pages, so that its forks need fewer page faults.

#ifndef TANTO_PRELOAD_HUGE_PAGES_H
#define TANTO_PRELOAD_HUGE_PAGES_H

#pragma GCC visibility push(hidden)

// Moves a piece of the code. Does nothing once all of it is moved, or the kernel has no huge pages for it.
void move_code(void);

#pragma GCC visibility pop

#endif
