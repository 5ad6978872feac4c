/* The floor of a no-op build: only the stats of its dirty check.
 *
 *     floor LIST [THREADS]
 *
 * LIST contains NUL-terminated paths in the order of the check. The threads (default 2) take chunks of them. Prints the time in
 * ns, the number of paths, and the number of existing files. */
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

enum { MOST_THREADS = 1024, PATHS_AT_A_TIME = 512 };

static const char **paths;
static size_t count;
static atomic_size_t next_path;
static atomic_size_t found;

static void die(const char *subject) {
    perror(subject);
    exit(1);
}

static char *read_whole(const char *name, size_t *size) {
    struct stat status;
    FILE *file = fopen(name, "rb");
    if (!file || fstat(fileno(file), &status) != 0) die(name);
    *size = (size_t)status.st_size;
    char *text = malloc(*size + 1);
    if (!text || fread(text, 1, *size, file) != *size) die(name);
    text[*size] = '\0';
    fclose(file);
    return text;
}

static void find_paths(const char *text, size_t size) {
    paths = malloc((size / 2 + 1) * sizeof *paths);
    if (!paths) die("malloc");
    for (const char *path = text; path < text + size; path += strlen(path) + 1) paths[count++] = path;
}

static void *stat_some(void *unused) {
    size_t its_found = 0, start;
    while ((start = atomic_fetch_add(&next_path, PATHS_AT_A_TIME)) < count) {
        size_t end = count - start < PATHS_AT_A_TIME ? count : start + PATHS_AT_A_TIME;
        for (size_t i = start; i < end; i++) {
            struct stat status;
            its_found += stat(paths[i], &status) == 0;
        }
    }
    atomic_fetch_add(&found, its_found);
    return unused;
}

static int64_t now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (int64_t)time.tv_sec * 1000000000 + time.tv_nsec;
}

int main(int argc, char **argv) {
    int threads = argc == 3 ? atoi(argv[2]) : 2;
    if (argc < 2 || argc > 3 || threads < 1 || threads > MOST_THREADS) {
        fprintf(stderr, "usage: floor LIST [THREADS]   (at most %d)\n", MOST_THREADS);
        return 2;
    }
    size_t size;
    const char *text = read_whole(argv[1], &size);
    find_paths(text, size);

    pthread_t others[MOST_THREADS];
    int64_t begun = now();
    for (int i = 1; i < threads; i++) {
        if (pthread_create(&others[i], NULL, stat_some, NULL) != 0) die("pthread_create");
    }
    stat_some(NULL);
    for (int i = 1; i < threads; i++) pthread_join(others[i], NULL);
    int64_t taken = now() - begun;

    printf("%lld %zu %zu\n", (long long)taken, count, atomic_load(&found));
    return 0;
}
