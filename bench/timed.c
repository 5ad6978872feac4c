/* Runs a program once and tells what it cost.
 *
 *     timed OUTPUT PROGRAM [ARGUMENT]...
 *
 * What the program prints goes to the file OUTPUT. Prints its wall time in ns, its user and system time in us, its peak
 * memory in KiB and its exit code (-1: a signal ended it). It is small because a child that shares its parent's memory
 * until exec counts the parent's peak for its own, and a script's is larger than what is measured here. */
#include <errno.h>
#include <fcntl.h>
#include <spawn.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>

extern char **environ;

static int64_t now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (int64_t)time.tv_sec * 1000000000 + time.tv_nsec;
}

static long long microseconds(struct timeval time) {
    return (long long)time.tv_sec * 1000000 + time.tv_usec;
}

int main(int argc, char **argv) {
    if (argc < 3) {
        fprintf(stderr, "usage: timed OUTPUT PROGRAM [ARGUMENT]...\n");
        return 2;
    }
    posix_spawn_file_actions_t quiet;
    posix_spawn_file_actions_init(&quiet);
    posix_spawn_file_actions_addopen(&quiet, 1, argv[1], O_WRONLY | O_CREAT | O_TRUNC, 0644);
    posix_spawn_file_actions_adddup2(&quiet, 1, 2);

    pid_t child;
    int status;
    struct rusage usage;
    int64_t begun = now();
    int error = posix_spawn(&child, argv[2], &quiet, NULL, argv + 2, environ);
    if (error != 0) {
        fprintf(stderr, "timed: %s: %s\n", argv[2], strerror(error));
        return 1;
    }
    while (wait4(child, &status, 0, &usage) < 0) {
        if (errno != EINTR) {
            perror("timed: wait4");
            return 1;
        }
    }
    int64_t wall = now() - begun;

    printf("%lld %lld %lld %ld %d\n", (long long)wall, microseconds(usage.ru_utime), microseconds(usage.ru_stime),
           usage.ru_maxrss, WIFEXITED(status) ? WEXITSTATUS(status) : -1);
    return 0;
}
