/* A libcuda.so.1 for machines without a GPU. Its device is a file (FAKE_CUDA_STATE) that several
 * processes share; what a process holds ends with it, however it ends. The highest use ever seen
 * is kept in the file: it is the witness of the tests that nobody passed a limit.
 *
 * FAKE_CUDA_ALONE=1: no file and no lock, for measuring what the shim costs. */
#include <dlfcn.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <unistd.h>

#include "process.h"

#define API __attribute__((visibility("default")))
typedef uint64_t pointer;
enum { OK = 0, INVALID = 1, OOM = 2, UNINITIALIZED = 3, NO_DEVICE = 100, NOT_FOUND = 500 };
enum { ROWS = 256, MAPPINGS = 64, CONTEXT = 0xc0de };
enum { THRESHOLD = 4, RESERVED = 5 };

typedef struct {
    uint64_t total, peak;
    struct {
        uint64_t owner, used;
    } rows[ROWS];
} device;

static device *card, nobody_else;
static int file = -1, alone;
static pid_t opener;
static uint64_t me;
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static _Atomic uint64_t plain_bytes;

typedef struct pool {
    uint64_t reserved, used, threshold;
} pool;

static pool default_pool;
static pthread_mutex_t pools = PTHREAD_MUTEX_INITIALIZER;

/* ---- the device ---- */

static int ready(void) {
    if (!card) return 0;
    if (opener == getpid()) return 1;
    /* A forked child has nothing; a lock of the parent's file would be the parent's. */
    opener = getpid();
    default_pool = (pool){0};
    plain_bytes = 0;
    me = process_identity().owner;
    if (!alone) file = open(getenv("FAKE_CUDA_STATE"), O_RDWR | O_CLOEXEC);
    return alone || file >= 0;
}

static int change(uint64_t more, uint64_t less) {
    if (!card) return UNINITIALIZED;
    if (alone) return OK;
    int answer = OK, mine = -1, free_row = -1;
    uint64_t sum = 0;
    pthread_mutex_lock(&mutex);
    if (!ready()) _exit(3);
    while (flock(file, LOCK_EX)) continue;
    for (int i = 0; i < ROWS; i++) {
        uint64_t owner = card->rows[i].owner;
        if (owner && owner != me && !process_lives(owner)) owner = card->rows[i].owner = 0;
        if (owner == me) mine = i;
        if (owner) sum += card->rows[i].used;
        else if (free_row < 0) free_row = i;
    }
    if (mine < 0) {
        if (free_row < 0) _exit(3);
        mine = free_row;
        card->rows[mine].used = 0;
        card->rows[mine].owner = me;
    }
    if (more && sum + more > card->total) answer = OOM;
    else {
        card->rows[mine].used += more - less;
        if (sum + more - less > card->peak) card->peak = sum + more - less;
    }
    flock(file, LOCK_UN);
    pthread_mutex_unlock(&mutex);
    return answer;
}

API int cuInit(unsigned flags) {
    (void)flags;
    if (card) return OK;
    alone = getenv("FAKE_CUDA_ALONE") != NULL;
    if (alone) {
        nobody_else.total = 64ull << 30;
        card = &nobody_else;
        return ready() ? OK : NO_DEVICE;
    }
    const char *path = getenv("FAKE_CUDA_STATE");
    int opened = path ? open(path, O_RDWR | O_CLOEXEC) : -1;
    if (opened < 0) return NO_DEVICE;
    void *mapped = mmap(NULL, sizeof(device), PROT_READ | PROT_WRITE, MAP_SHARED, opened, 0);
    close(opened);
    if (mapped == MAP_FAILED) return NO_DEVICE;
    card = mapped;
    return ready() ? OK : NO_DEVICE;
}

API int cuDeviceTotalMem_v2(size_t *bytes, int ordinal) {
    (void)ordinal;
    *bytes = card ? card->total : 0;
    return card ? OK : UNINITIALIZED;
}

API int cuMemGetInfo_v2(size_t *free, size_t *total) {
    if (!card) return UNINITIALIZED;
    uint64_t used = 0;
    for (int i = 0; i < ROWS; i++)
        if (card->rows[i].owner) used += card->rows[i].used;
    *total = card->total;
    *free = card->total - used;
    return OK;
}

/* ---- plain memory: the address is that of a note about it ---- */

typedef struct {
    uint64_t bytes, references;
    pool *from;
} note;

static int give(pointer *address, uint64_t bytes, pool *from) {
    if (!bytes) return INVALID;
    note *written = malloc(sizeof *written);
    *written = (note){bytes, 1, from};
    *address = (pointer)(uintptr_t)written;
    return OK;
}

API int cuMemAlloc_v2(pointer *address, size_t bytes) {
    int answer = bytes ? change(bytes, 0) : INVALID;
    if (answer) return answer;
    plain_bytes += bytes;
    return give(address, bytes, NULL);
}

API int cuMemAllocManaged(pointer *address, size_t bytes, unsigned flags) {
    (void)flags;
    return cuMemAlloc_v2(address, bytes);
}

API int cuMemAllocPitch_v2(pointer *address, size_t *pitch, size_t width, size_t height,
                           unsigned element) {
    (void)element;
    *pitch = (width + 511) / 512 * 512;
    return cuMemAlloc_v2(address, *pitch * height);
}

API int cuMemHostAlloc(void **address, size_t bytes, unsigned flags) {
    (void)flags;
    *address = malloc(bytes);
    return *address ? OK : OOM;
}

/* ---- pools: what is freed stays reserved until a synchronisation, as far as the threshold ---- */

static int from_pool(pointer *address, uint64_t bytes, pool *from) {
    pthread_mutex_lock(&pools);
    if (!alone) ready();
    uint64_t spare = from->reserved - from->used;
    uint64_t missing = bytes > spare ? bytes - spare : 0;
    int answer = bytes ? (missing ? change(missing, 0) : OK) : INVALID;
    if (!answer) {
        from->reserved += missing;
        from->used += bytes;
    }
    pthread_mutex_unlock(&pools);
    return answer ? answer : give(address, bytes, from);
}

static void trim(pool *from, uint64_t keep) {
    pthread_mutex_lock(&pools);
    if (keep < from->used) keep = from->used;
    if (from->reserved > keep) {
        change(0, from->reserved - keep);
        from->reserved = keep;
    }
    pthread_mutex_unlock(&pools);
}

API int cuMemPoolCreate(void **made, const void *properties) {
    (void)properties;
    *made = calloc(1, sizeof(pool));
    return OK;
}
API int cuMemPoolDestroy(void *ended) {
    pool *from = ended;
    if (from->used) return INVALID;
    trim(from, 0);
    free(from);
    return OK;
}
API int cuMemPoolSetAttribute(void *of, int name, void *value) {
    if (name != THRESHOLD) return INVALID;
    ((pool *)of)->threshold = *(uint64_t *)value;
    return OK;
}
API int cuMemPoolGetAttribute(void *of, int name, void *value) {
    pthread_mutex_lock(&pools);
    *(uint64_t *)value = name == THRESHOLD ? ((pool *)of)->threshold : ((pool *)of)->reserved;
    pthread_mutex_unlock(&pools);
    return name == THRESHOLD || name == RESERVED ? OK : INVALID;
}
API int cuMemPoolTrimTo(void *of, size_t keep) {
    trim(of, keep);
    return OK;
}
API int cuDeviceGetMemPool(void **of, int ordinal) {
    (void)ordinal;
    *of = &default_pool;
    return OK;
}
API int cuCtxSynchronize(void) {
    trim(&default_pool, default_pool.threshold);
    return OK;
}
/* What any call may do in a real driver. */
API int cuFakeTrimUnseen(void) { return cuCtxSynchronize(); }
API int cuMemAllocAsync(pointer *address, size_t bytes, void *stream) {
    (void)stream;
    return from_pool(address, bytes, &default_pool);
}
API int cuMemAllocAsync_ptsz(pointer *address, size_t bytes, void *stream) {
    return cuMemAllocAsync(address, bytes, stream);
}
API int cuMemAllocFromPoolAsync(pointer *address, size_t bytes, void *from, void *stream) {
    (void)stream;
    return from_pool(address, bytes, from);
}

/* ---- and the end of both ---- */

API int cuMemFree_v2(pointer address) {
    note *written = (note *)(uintptr_t)address;
    if (!written) return INVALID;
    if (written->from) {
        pthread_mutex_lock(&pools);
        written->from->used -= written->bytes;
        pthread_mutex_unlock(&pools);
    } else {
        plain_bytes -= written->bytes;
        change(0, written->bytes);
    }
    free(written);
    return OK;
}
API int cuMemFreeAsync(pointer address, void *stream) {
    (void)stream;
    return cuMemFree_v2(address);
}
API int cuMemFreeAsync_ptsz(pointer address, void *stream) { return cuMemFreeAsync(address, stream); }

/* ---- memory apart from addresses ---- */

static struct {
    pointer address;
    uint64_t bytes;
    note *of;
} mappings[MAPPINGS];

static int dropped(note *memory) {
    if (--memory->references) return OK;
    change(0, memory->bytes);
    free(memory);
    return OK;
}
API int cuMemCreate(pointer *handle, size_t bytes, const void *properties, uint64_t flags) {
    (void)flags, (void)properties;
    int answer = bytes ? change(bytes, 0) : INVALID;
    return answer ? answer : give(handle, bytes, NULL);
}
API int cuMemRelease(pointer handle) {
    return handle ? dropped((note *)(uintptr_t)handle) : INVALID;
}
API int cuMemMap(pointer address, size_t bytes, size_t offset, pointer handle, uint64_t flags) {
    (void)offset, (void)flags;
    for (int i = 0; i < MAPPINGS; i++) {
        if (mappings[i].of) continue;
        mappings[i].address = address;
        mappings[i].bytes = bytes;
        mappings[i].of = (note *)(uintptr_t)handle;
        mappings[i].of->references++;
        return OK;
    }
    return INVALID;
}
API int cuMemUnmap(pointer address, size_t bytes) {
    for (int i = 0; i < MAPPINGS; i++) {
        if (!mappings[i].of || mappings[i].address - address >= bytes) continue;
        dropped(mappings[i].of);
        mappings[i].of = NULL;
    }
    return OK;
}
API int cuMemRetainAllocationHandle(pointer *handle, void *address) {
    for (int i = 0; i < MAPPINGS; i++) {
        if (!mappings[i].of) continue;
        if ((pointer)(uintptr_t)address - mappings[i].address >= mappings[i].bytes) continue;
        mappings[i].of->references++;
        *handle = (pointer)(uintptr_t)mappings[i].of;
        return OK;
    }
    return INVALID;
}
API int cuMemImportFromShareableHandle(pointer *handle, void *shared, int type) {
    (void)shared, (void)type;
    *handle = 1;
    return OK;
}

/* ---- arrays ---- */

API int cuArrayCreate_v2(pointer *array, const size_t *shape) {
    const unsigned *format = (const unsigned *)(shape + 2);
    return cuMemAlloc_v2(array, shape[0] * (shape[1] ? shape[1] : 1) * 4 * format[1]);
}
API int cuArray3DCreate_v2(pointer *array, const size_t *shape) {
    const unsigned *format = (const unsigned *)(shape + 3);
    return cuMemAlloc_v2(array, shape[0] * shape[1] * shape[2] * 4 * format[1]);
}
API int cuArrayDestroy(pointer array) { return cuMemFree_v2(array); }
API int cuMipmappedArrayCreate(pointer *array, const size_t *shape, unsigned levels) {
    size_t bytes = 0;
    for (unsigned i = 0; i < levels; i++) bytes += (shape[0] >> i) * (shape[1] >> i) * 4;
    return cuMemAlloc_v2(array, bytes);
}
API int cuMipmappedArrayDestroy(pointer array) { return cuMemFree_v2(array); }

/* ---- contexts ---- */

API int cuCtxGetCurrent(void **context) {
    *context = (void *)(uintptr_t)CONTEXT;
    return OK;
}
API int cuCtxGetDevice(int *ordinal) {
    *ordinal = 0;
    return OK;
}
API int cuDevicePrimaryCtxRetain(void **context, int ordinal) {
    (void)ordinal;
    return cuCtxGetCurrent(context);
}
API int cuDevicePrimaryCtxGetState(int ordinal, unsigned *flags, int *active) {
    (void)ordinal;
    *flags = 0;
    *active = 0;
    return OK;
}
API int cuDevicePrimaryCtxReset_v2(int ordinal) {
    (void)ordinal;
    change(0, atomic_exchange(&plain_bytes, 0));
    return OK;
}

/* ---- finding functions ---- */

/* A name that no shim has heard of. */
API int cuFromTheFuture(void) { return 77; }

API int cuGetProcAddress_v2(const char *symbol, void **function, int version, uint64_t flags,
                            int *status) {
    const char *suffixes[] = {flags & 2 ? "_ptsz" : "_v3", "_v3", "_v2", ""};
    char name[128];
    Dl_info about;
    (void)version;
    *function = NULL;
    dladdr((void *)&cuInit, &about);
    void *self = dlopen(about.dli_fname, RTLD_LAZY | RTLD_NOLOAD);
    for (int i = 0; i < 4 && self && !*function; i++) {
        snprintf(name, sizeof name, "%s%s", symbol, suffixes[i]);
        *function = dlsym(self, name);
    }
    if (status) *status = !*function;
    return *function ? OK : NOT_FOUND;
}
API int cuGetProcAddress(const char *symbol, void **function, int version, uint64_t flags) {
    return cuGetProcAddress_v2(symbol, function, version, flags, NULL);
}

/* Programs that come by the front door ask for these first. */
API int cuDeviceGet(int *device, int ordinal) {
    *device = ordinal;
    return 0;
}

API int cuCtxSetCurrent(void *context) {
    (void)context;
    return 0;
}
