/* The minimum cost of running commands: it only starts processes and waits for them.
 *
 *     loop COUNT AT_A_TIME PROGRAM [ARGUMENT]...
 *
 * Runs the program COUNT times, AT_A_TIME in parallel. Starts each process with posix_spawn, /dev/null as input and a pipe for its
 * output, polls the pipes, reads them to their end, and waits for the process. */
#include <fcntl.h>
#include <poll.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

enum { MOST = 1024 };

static void die(const char *subject) {
    perror(subject);
    exit(1);
}

static pid_t start(char **command, int *output) {
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) < 0)
        die("pipe2");
    posix_spawn_file_actions_t files;
    posix_spawn_file_actions_init(&files);
    posix_spawn_file_actions_addopen(&files, 0, "/dev/null", O_RDONLY, 0);
    posix_spawn_file_actions_adddup2(&files, ends[1], 1);
    posix_spawn_file_actions_adddup2(&files, ends[1], 2);
    pid_t child;
    int error = posix_spawn(&child, command[0], &files, NULL, command, environ);
    posix_spawn_file_actions_destroy(&files);
    if (error != 0) {
        fprintf(stderr, "loop: %s: %s\n", command[0], strerror(error));
        exit(1);
    }
    close(ends[1]);
    *output = ends[0];
    return child;
}

int main(int argc, char **argv) {
    long left = argc > 3 ? atol(argv[1]) : 0;
    int most = argc > 3 ? atoi(argv[2]) : 0, running = 0;
    if (left < 1 || most < 1 || most > MOST) {
        fprintf(stderr, "usage: loop COUNT AT_A_TIME PROGRAM [ARGUMENT]...\n");
        return 2;
    }
    struct pollfd outputs[MOST];
    pid_t children[MOST];
    static char buffer[65536];
    while (left > 0 || running > 0) {
        while (left > 0 && running < most) {
            outputs[running].events = POLLIN;
            children[running] = start(argv + 3, &outputs[running].fd);
            running++;
            left--;
        }
        if (poll(outputs, running, -1) < 0)
            die("poll");
        for (int i = running - 1; i >= 0; i--) {
            if (outputs[i].revents == 0 || read(outputs[i].fd, buffer, sizeof buffer) > 0)
                continue;
            int status;
            struct rusage usage;
            if (wait4(children[i], &status, 0, &usage) < 0)
                die("wait4");
            if (status != 0)
                return 1;
            close(outputs[i].fd);
            running--;
            outputs[i] = outputs[running];
            children[i] = children[running];
        }
    }
    return 0;
}
