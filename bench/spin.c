// Counts to the number given as argument: a command with a known time.
#include <stdlib.h>

int main(int count, char **words) {
    long turns = count > 1 ? atol(words[1]) : 0;
    for (volatile long turn = 0; turn < turns; turn = turn + 1) {
    }
    return 0;
}
