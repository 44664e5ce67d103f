/* What the benchmark compares the shim with: an interposer that is loaded before the program
 * (LD_PRELOAD), as others build them, reduced to one call. -DHOOK_DLSYM also answers dlsym. It
 * gives each process 4 GiB. */
#include <dlfcn.h>
#include <stdint.h>
#include <string.h>

#define API __attribute__((visibility("default")))
enum { OUT_OF_MEMORY = 2, UNKNOWN = 999 };

typedef int allocate(uint64_t *, size_t);
typedef int lookup(const char *, void **, int, uint64_t, int *);

static uint64_t given;

static void *real(const char *name) {
    void *library = dlopen("libcuda.so.1", RTLD_LAZY);
    void *(*find)(void *, const char *) = dlvsym(RTLD_NEXT, "dlsym", "GLIBC_2.34");
    if (!find) find = dlvsym(RTLD_NEXT, "dlsym", "GLIBC_2.17");
    if (!find) find = dlvsym(RTLD_NEXT, "dlsym", "GLIBC_2.2.5");
    return library && find ? find(library, name) : NULL;
}

API int cuMemAlloc_v2(uint64_t *address, size_t bytes) {
    allocate *ask = (allocate *)real("cuMemAlloc_v2");
    if (!ask) return UNKNOWN;
    if (given + bytes > 4ull << 30) return OUT_OF_MEMORY;
    int answer = ask(address, bytes);
    if (!answer) given += bytes;
    return answer;
}

API int cuGetProcAddress_v2(const char *symbol, void **function, int version, uint64_t flags,
                            int *status) {
    lookup *ask = (lookup *)real("cuGetProcAddress_v2");
    int answer = ask ? ask(symbol, function, version, flags, status) : UNKNOWN;
    if (!answer && strcmp(symbol, "cuMemAlloc") == 0) *function = (void *)&cuMemAlloc_v2;
    if (!answer && strcmp(symbol, "cuGetProcAddress") == 0)
        *function = (void *)&cuGetProcAddress_v2;
    return answer;
}

#ifdef HOOK_DLSYM
API void *dlsym(void *library, const char *name) {
    if (strcmp(name, "cuMemAlloc_v2") == 0) return (void *)&cuMemAlloc_v2;
    if (strcmp(name, "cuGetProcAddress_v2") == 0) return (void *)&cuGetProcAddress_v2;
    void *(*find)(void *, const char *) = dlvsym(RTLD_NEXT, "dlsym", "GLIBC_2.34");
    if (!find) find = dlvsym(RTLD_NEXT, "dlsym", "GLIBC_2.17");
    if (!find) find = dlvsym(RTLD_NEXT, "dlsym", "GLIBC_2.2.5");
    return find(library, name);
}
#endif
