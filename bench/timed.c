/* Runs a program once and prints its resource usage.
 *
 *     timed [--terminal] OUTPUT PROGRAM [ARGUMENT]...
 *
 * Output of the program goes to the file OUTPUT. Prints wall time in ns, user and system time in us, peak memory in KiB and
 * the exit code (-1 after a signal). With --terminal, the program runs on a terminal, and processes that it leaves behind are
 * waited for; they add to user and system time, but not to wall time. Written in C because a child inherits the peak memory
 * of its parent until exec. */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <spawn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

extern char **environ;

static int64_t now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (int64_t)time.tv_sec * 1000000000 + time.tv_nsec;
}

static long long microseconds(struct timeval time) {
    return (long long)time.tv_sec * 1000000 + time.tv_usec;
}

static void die(const char *subject) {
    perror(subject);
    exit(1);
}

/* A terminal and the file that its output is copied to. */
struct copy {
    int from, to;
};

/* Ends when the terminal is closed by all processes. */
static void *copy_all(void *argument) {
    struct copy *copy = argument;
    char buffer[4096];
    for (;;) {
        ssize_t count = read(copy->from, buffer, sizeof buffer);
        if (count < 0 && errno == EINTR) continue;
        if (count <= 0) return NULL;
        if (write(copy->to, buffer, (size_t)count) != count) die("timed: write");
    }
}

static int new_terminal(void) {
    int terminal = posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC);
    if (terminal < 0 || grantpt(terminal) != 0 || unlockpt(terminal) != 0) die("timed: a terminal");
    return terminal;
}

static void wait_for(pid_t child, int *status, struct rusage *usage) {
    while (wait4(child, status, 0, usage) < 0) {
        if (errno != EINTR) die("timed: wait4");
    }
}

/* Waits for processes left behind by the program. */
static void wait_for_others(void) {
    while (wait(NULL) >= 0 || errno == EINTR) {
    }
}

int main(int argc, char **argv) {
    int in_terminal = argc > 1 && strcmp(argv[1], "--terminal") == 0;
    argc -= in_terminal;
    argv += in_terminal;
    if (argc < 3) {
        fprintf(stderr, "usage: timed [--terminal] OUTPUT PROGRAM [ARGUMENT]...\n");
        return 2;
    }
    int output = open(argv[1], O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
    if (output < 0) die(argv[1]);
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    struct copy copy = {.from = -1, .to = output};
    pthread_t copier;
    if (in_terminal) {
        if (prctl(PR_SET_CHILD_SUBREAPER, 1) != 0) die("timed: prctl");
        copy.from = new_terminal();
        posix_spawn_file_actions_addopen(&actions, 1, ptsname(copy.from), O_RDWR | O_NOCTTY, 0);
        if (pthread_create(&copier, NULL, copy_all, &copy) != 0) die("timed: pthread_create");
    } else {
        posix_spawn_file_actions_adddup2(&actions, output, 1);
    }
    posix_spawn_file_actions_adddup2(&actions, 1, 2);

    pid_t child;
    int status;
    struct rusage usage, all;
    int64_t begun = now();
    int error = posix_spawn(&child, argv[2], &actions, NULL, argv + 2, environ);
    if (error != 0) {
        fprintf(stderr, "timed: %s: %s\n", argv[2], strerror(error));
        return 1;
    }
    wait_for(child, &status, &usage);
    int64_t wall = now() - begun;

    if (in_terminal) {
        wait_for_others();
        pthread_join(copier, NULL);
    }
    getrusage(RUSAGE_CHILDREN, &all);
    printf("%lld %lld %lld %ld %d\n", (long long)wall, microseconds(all.ru_utime), microseconds(all.ru_stime),
           usage.ru_maxrss, WIFEXITED(status) ? WEXITSTATUS(status) : -1);
    return 0;
}
