/* A compiler for tests, which is called gcc or ar: a thousand compiles take a second.
 *
 *   gcc [-IDIR]... [-MD -MF FILE] -c IN -o OUT   copies IN with its includes; lines of an included file's comments (//) are dropped
 *   gcc IN... -o OUT                             joins files
 *   ar qc OUT IN...                              joins files
 *
 * #error makes it fail. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *dirs[16];
static int dir_count;
static FILE *out, *deps;

static void fail(const char *text, const char *name) {
    fprintf(stderr, "%s: %s\n", text, name);
    exit(1);
}

static FILE *open_file(const char *name, const char *mode) {
    FILE *file = fopen(name, mode);
    if (!file) fail("cannot open", name);
    return file;
}

static void copy(const char *name);

static void include(const char *from, const char *name) {
    char path[1024];
    for (int i = -1; i < dir_count; i++) {
        const char *slash = strrchr(from, '/');
        if (i < 0) snprintf(path, sizeof path, "%.*s%s", slash ? (int)(slash - from + 1) : 0, from, name);
        else snprintf(path, sizeof path, "%s/%s", dirs[i], name);
        FILE *file = fopen(path, "r");
        if (!file) continue;
        fclose(file);
        copy(path);
        return;
    }
    fail("no such file", name);
}

static void copy(const char *name) {
    static int depth;
    if (++depth > 20) fail("too many includes", name);
    char line[1024], included[1000];
    FILE *file = open_file(name, "r");
    if (deps) fprintf(deps, " %s", name);
    while (fgets(line, sizeof line, file)) {
        if (!strncmp(line, "#error", 6)) fail("error", name);
        if (!strncmp(line, "//", 2)) continue;
        if (sscanf(line, "#include \"%999[^\"]\"", included) == 1) include(name, included);
        else fputs(line, out);
    }
    fclose(file);
    depth--;
}

static void join(const char *name) {
    int byte;
    FILE *file = open_file(name, "r");
    while ((byte = getc(file)) != EOF) putc(byte, out);
    fclose(file);
}

int main(int argc, char **argv) {
    const char *compiled = 0, *output = 0, *depfile = 0, *inputs[256];
    int count = 0, i = 1;
    if (argc > 3 && !strcmp(argv[1], "qc")) output = argv[2], i = 3;
    for (; i < argc; i++) {
        if (!strncmp(argv[i], "-I", 2)) dirs[dir_count++] = argv[i] + 2;
        else if (!strcmp(argv[i], "-c")) compiled = argv[++i];
        else if (!strcmp(argv[i], "-o")) output = argv[++i];
        else if (!strcmp(argv[i], "-MF")) depfile = argv[++i];
        else if (argv[i][0] != '-') inputs[count++] = argv[i];
    }
    if (!output) fail("no output", argv[0]);
    remove(output);
    out = open_file(output, "w");
    if (depfile) {
        deps = open_file(depfile, "w");
        fprintf(deps, "%s:", output);
    }
    if (compiled) copy(compiled);
    for (i = 0; i < count; i++) join(inputs[i]);
    if (deps) fputs("\n", deps);
    return fclose(out) || (deps && fclose(deps));
}
