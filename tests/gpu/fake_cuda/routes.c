/* Asks for memory by one of the ways in which programs reach the driver:
 *
 *     routes ROUTE MIB [PLUGIN | REAL_LIBRARY]     prints the driver's answer, 0 or 2
 *
 * a linked   b dlopen + dlsym   c cuGetProcAddress   d RTLD_DEEPBIND   e a plugin that is linked,
 * loaded with RTLD_DEEPBIND   f dlmopen   g the real library by its full path.
 * -DLINKED makes the program of route a, -DPLUGIN the plugin of route e. */
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef int start(unsigned);
typedef int allocate(uint64_t *, size_t);
typedef int lookup(const char *, void **, int, uint64_t, int *);

#if defined(LINKED) || defined(PLUGIN)
int cuInit(unsigned);
int cuMemAlloc_v2(uint64_t *, size_t);

__attribute__((visibility("default"))) int ask(size_t bytes) {
    uint64_t address;
    int answer = cuInit(0);
    return answer ? answer : cuMemAlloc_v2(&address, bytes);
}
#endif

#ifndef PLUGIN
#ifndef LINKED
static int found(void *library, size_t bytes) {
    uint64_t address;
    if (!library) return -1;
    start *begin = (start *)dlsym(library, "cuInit");
    allocate *take = (allocate *)dlsym(library, "cuMemAlloc_v2");
    int answer = begin(0);
    return answer ? answer : take(&address, bytes);
}

static int looked_up(size_t bytes) {
    uint64_t address;
    void *again, *take, *library = dlopen("libcuda.so.1", RTLD_NOW);
    if (!library) return -1;
    lookup *get = (lookup *)dlsym(library, "cuGetProcAddress_v2");
    ((start *)dlsym(library, "cuInit"))(0);
    /* The runtime asks for the lookup by lookup, too. */
    if (get("cuGetProcAddress", &again, 12000, 0, NULL)) return -1;
    if (((lookup *)again)("cuMemAlloc", &take, 3020, 0, NULL)) return -1;
    return ((allocate *)take)(&address, bytes);
}

static int ask(char route, size_t bytes, const char *path) {
    void *plugin;
    switch (route) {
    case 'b':
        return found(dlopen("libcuda.so.1", RTLD_NOW), bytes);
    case 'c':
        return looked_up(bytes);
    case 'd':
        return found(dlopen("libcuda.so.1", RTLD_NOW | RTLD_DEEPBIND), bytes);
    case 'e':
        plugin = dlopen(path, RTLD_NOW | RTLD_DEEPBIND);
        return plugin ? ((int (*)(size_t))dlsym(plugin, "ask"))(bytes) : -1;
    case 'f':
        return found(dlmopen(LM_ID_NEWLM, "libcuda.so.1", RTLD_NOW), bytes);
    default:
        return found(dlopen(path, RTLD_NOW), bytes);
    }
}
#endif

int main(int count, char **words) {
    if (count < 3) return 2;
    size_t bytes = strtoull(words[2], NULL, 10) << 20;
#ifdef LINKED
    printf("%d\n", ask(bytes));
#else
    printf("%d\n", ask(words[1][0], bytes, count > 3 ? words[3] : ""));
#endif
    return 0;
}
#endif
