/* The compiler of the synthetic trees: makes the output that -o names and the depfile that -MF names. A depfile lists
 * the headers that headers.rs computes from the same numbers (-DFAKE=SEED,OBJECT,AVERAGE,POOL,PREFIX). */
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static uint64_t splitmix(uint64_t number) {
    uint64_t mixed = number + 0x9e3779b97f4a7c15ull;
    mixed = (mixed ^ (mixed >> 30)) * 0xbf58476d1ce4e5b9ull;
    mixed = (mixed ^ (mixed >> 27)) * 0x94d049bb133111ebull;
    return mixed ^ (mixed >> 31);
}

static uint64_t pseudo_random(uint64_t seed, uint64_t a, uint64_t b) {
    return splitmix(splitmix(seed ^ a * 0x1000003ull) ^ b);
}

static void print_header(FILE *file, const char *prefix, uint64_t header) {
    unsigned long long number = header;
    fprintf(file, " \\\n %s/%llu/include/header_%llu.h", prefix, number / 64, number);
}

static int write_depfile(const char *path, const char *output, const char *fake) {
    unsigned long long seed, object, average, pool;
    char prefix[512];
    if (sscanf(fake, "%llu,%llu,%llu,%llu,%500s", &seed, &object, &average, &pool, prefix) != 5) return 0;
    FILE *file = fopen(path, "w");
    if (!file) {
        perror(path);
        return 1;
    }
    fprintf(file, "%s:", output);
    uint64_t count = average / 2 + pseudo_random(seed, object, 777) % (average ? average : 1);
    uint64_t common = count / 3 < pool ? count / 3 : pool;
    for (uint64_t header = 0; header < common; header++) print_header(file, prefix, header);
    for (uint64_t number = common; pool > common && number < count;) {
        uint64_t base = common + pseudo_random(seed, object, number) % (pool - common);
        for (uint64_t next = base; next < base + 8; next++, number++) {
            if (number < count && next < pool) print_header(file, prefix, next);
        }
    }
    fprintf(file, "\n");
    return fclose(file) != 0;
}

int main(int argc, char **argv) {
    const char *output = NULL, *depfile = NULL, *fake = NULL;
    for (int i = 1; i < argc; i++) {
        if (!strcmp(argv[i], "-o") && i + 1 < argc) {
            output = argv[++i];
        } else if (!strcmp(argv[i], "-MF") && i + 1 < argc) {
            depfile = argv[++i];
        } else if (!strncmp(argv[i], "-DFAKE=", 7)) {
            fake = argv[i] + 7;
        }
    }
    if (depfile && fake && output && write_depfile(depfile, output, fake) != 0) return 1;
    if (!output) return 0;
    int file = open(output, O_WRONLY | O_CREAT | O_TRUNC, 0644);
    if (file < 0) {
        perror(output);
        return 1;
    }
    close(file);
    return 0;
}
