/* A libcuda.so.1 that can move a process' GPU memory to the host and back, for machines without a
 * GPU. Names, arguments, states and error codes are those of cuda.h of CUDA 13.2; how it fails is as
 * NVIDIA's documents and the reports to NVIDIA/cuda-checkpoint tell (numbers in brackets).
 *
 * The card is a folder (FAKE_CUDA_CARD): a file `total` with its MiB, and one file for each piece of
 * memory that is on it, mapped and locked by its owner: what nobody locks belonged to a process that
 * has ended. What is parked is in no file: in its owner's heap.
 *
 * As in the real driver a thread of the process itself does the work, and whoever asks finds it
 * through /proc: nobody who may not look into a process can park it.
 *
 * Of the process that is parked: FAKE_CUDA_MIG=1 (a checkpoint says OUT_OF_MEMORY, [42]),
 * FAKE_CUDA_MPS=1, FAKE_CUDA_MACHINE=aarch64 (NOT_SUPPORTED at the checkpoint, [51]),
 * FAKE_CUDA_BUSY=1 (work that never ends: no lock), FAKE_CUDA_DEVICE (a device file that is held).
 * Of who asks: FAKE_CUDA_VERSION (13000), FAKE_CUDA_NO_CARD=1, FAKE_CUDA_CARD_NUMBER (its UUID). */
#include <dirent.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define API __attribute__((visibility("default")))
typedef uint64_t pointer;
enum {
    OK = 0, INVALID = 1, OOM = 2, UNINITIALIZED = 3, NO_DEVICE = 100, OPERATING_SYSTEM = 304,
    ILLEGAL_STATE = 401, NOT_READY = 600, NOT_PERMITTED = 800, NOT_SUPPORTED = 801,
};
enum { RUNNING, LOCKED, CHECKPOINTED, FAILED };
enum { NOTHING, LOCK, CHECKPOINT, RESTORE, UNLOCK };
enum { PIECES = 64, PATH = 4096, CONTEXT = 0xc0de };

/* What a process and whoever parks it share: numbers in a file of the process without a name. It is
 * not mapped, as CRIU would part the mapping from the file. */
enum { OWNER, STATE, WISH, ANSWER, TIMEOUT_MS, NUMBERS };

typedef struct {
    void *address;
    size_t bytes;
    int managed, file;
    char *host;
    char path[PATH];
} piece;

static int mine = -1, owner, restore_poisoned, is_set_up;
static _Atomic int state, calls;
static piece pieces[PIECES];
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;

static void nap(void) { nanosleep(&(struct timespec){0, 1000000}, NULL); }
static int set(const char *name) { return getenv(name) != NULL; }

static int told(int file, int what) {
    int number = 0;
    if (pread(file, &number, sizeof number, what * (off_t)sizeof number) < 0) _exit(3);
    return number;
}
static void tell(int file, int what, int number) {
    if (pwrite(file, &number, sizeof number, what * (off_t)sizeof number) < 0) _exit(3);
}

/* ---- the card ---- */

static uint64_t total_bytes(void) {
    char path[PATH], text[32] = "";
    snprintf(path, sizeof path, "%s/total", getenv("FAKE_CUDA_CARD"));
    int file = open(path, O_RDONLY | O_CLOEXEC);
    if (file < 0 || read(file, text, sizeof text - 1) <= 0) _exit(3);
    close(file);
    return strtoull(text, NULL, 10) << 20;
}

static uint64_t used_bytes(void) {
    uint64_t used = 0;
    DIR *card = opendir(getenv("FAKE_CUDA_CARD"));
    if (!card) _exit(3);
    for (struct dirent *entry; (entry = readdir(card));) {
        struct stat found;
        if (strncmp(entry->d_name, "memory-", 7)) continue;
        int file = openat(dirfd(card), entry->d_name, O_RDONLY | O_CLOEXEC);
        if (file < 0) continue;
        if (flock(file, LOCK_EX | LOCK_NB) && !fstat(file, &found)) used += (uint64_t)found.st_size;
        close(file);
    }
    closedir(card);
    return used;
}

/* Memory on the card, at this address or anywhere. */
static int put(piece *made, void *address) {
    snprintf(made->path, sizeof made->path, "%s/memory-XXXXXX", getenv("FAKE_CUDA_CARD"));
    if (used_bytes() + made->bytes > total_bytes()) return OOM;
    int file = mkstemp(made->path);
    if (file < 0 || ftruncate(file, (off_t)made->bytes) || flock(file, LOCK_EX)) _exit(3);
    void *mapped = mmap(address, made->bytes, PROT_READ | PROT_WRITE,
                        MAP_SHARED | (address ? MAP_FIXED : 0), file, 0);
    if (mapped == MAP_FAILED) _exit(3);
    made->address = mapped;
    made->file = file;
    return OK;
}

/* ---- moving it: in a thread of the process that holds it ---- */

static int checkpoint(void) {
    if (atomic_load(&state) != LOCKED) return ILLEGAL_STATE;
    if (set("FAKE_CUDA_MIG")) return OOM;
    const char *machine = getenv("FAKE_CUDA_MACHINE");
    if (machine && !strcmp(machine, "aarch64")) return NOT_SUPPORTED;
    for (int i = 0; i < PIECES; i++) {
        if (!pieces[i].managed) continue;
        atomic_store(&state, FAILED); /* no attempt to keep the process in a good state */
        return NOT_SUPPORTED;
    }
    for (int i = 0; i < PIECES; i++) {
        piece *one = &pieces[i];
        if (!one->address) continue;
        one->host = malloc(one->bytes);
        memcpy(one->host, one->address, one->bytes);
        /* The address stays taken, the card does not. */
        mmap(one->address, one->bytes, PROT_NONE,
             MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED | MAP_NORESERVE, -1, 0);
        unlink(one->path);
        close(one->file);
    }
    const char *device = getenv("FAKE_CUDA_DEVICE");
    for (int fd = 3; device && fd < 64; fd++) {
        char link[PATH] = "", name[64];
        snprintf(name, sizeof name, "/proc/self/fd/%d", fd);
        if (readlink(name, link, sizeof link - 1) > 0 && !strcmp(link, device)) close(fd);
    }
    atomic_store(&state, CHECKPOINTED);
    return OK;
}

static int restore(void) {
    uint64_t needed = 0;
    if (atomic_load(&state) != CHECKPOINTED) return ILLEGAL_STATE;
    for (int i = 0; i < PIECES; i++) needed += pieces[i].host ? pieces[i].bytes : 0;
    if (restore_poisoned) return OPERATING_SYSTEM; /* for ever after one that had no room [44] */
    if (used_bytes() + needed > total_bytes()) {
        restore_poisoned = 1;
        return OOM;
    }
    for (int i = 0; i < PIECES; i++) {
        piece *one = &pieces[i];
        if (!one->host) continue;
        if (put(one, one->address)) _exit(3);
        memcpy(one->address, one->host, one->bytes);
        free(one->host);
        one->host = NULL;
    }
    atomic_store(&state, LOCKED);
    return OK;
}

static int lock(void) {
    int expected = RUNNING;
    if (set("FAKE_CUDA_MPS")) return NOT_SUPPORTED;
    if (!atomic_compare_exchange_strong(&state, &expected, LOCKED)) return ILLEGAL_STATE;
    int patience = told(mine, TIMEOUT_MS);
    for (int waited = 0; set("FAKE_CUDA_BUSY") || atomic_load(&calls); waited++) {
        if (patience && waited >= patience) {
            atomic_store(&state, RUNNING);
            return NOT_READY;
        }
        nap();
    }
    return OK;
}

static int unlock(void) {
    int expected = LOCKED;
    return atomic_compare_exchange_strong(&state, &expected, RUNNING) ? OK : ILLEGAL_STATE;
}

static void *serve(void *nothing) {
    int (*const done[])(void) = {NULL, lock, checkpoint, restore, unlock};
    for (;; nap()) {
        int wish = told(mine, WISH);
        if (wish <= NOTHING || wish > UNLOCK) continue;
        tell(mine, ANSWER, done[wish]());
        tell(mine, STATE, atomic_load(&state));
        tell(mine, WISH, NOTHING);
    }
    return nothing;
}

/* ---- the process' own calls: they wait while it is locked ---- */

static int enter(void) {
    if (mine < 0 || owner != getpid()) return UNINITIALIZED;
    for (;; nap()) {
        atomic_fetch_add(&calls, 1);
        if (atomic_load(&state) == RUNNING) return OK;
        atomic_fetch_sub(&calls, 1);
        if (atomic_load(&state) == FAILED) return ILLEGAL_STATE;
    }
}
static int leave(int answer) {
    atomic_fetch_sub(&calls, 1);
    return answer;
}

API int cuInit(unsigned flags) {
    if (flags) return INVALID;
    if (set("FAKE_CUDA_NO_CARD") || !set("FAKE_CUDA_CARD")) return NO_DEVICE;
    is_set_up = 1;
    return OK;
}
API int cuDriverGetVersion(int *version) {
    const char *text = getenv("FAKE_CUDA_VERSION");
    *version = text ? atoi(text) : 13000;
    return OK;
}
API int cuDeviceGetCount(int *count) {
    *count = 1;
    return is_set_up ? OK : UNINITIALIZED;
}
API int cuDeviceGet(int *device, int ordinal) {
    *device = ordinal;
    return is_set_up ? (ordinal ? 101 : OK) : UNINITIALIZED;
}
API int cuDeviceGetUuid_v2(unsigned char *uuid, int device) {
    const char *number = getenv("FAKE_CUDA_CARD_NUMBER");
    if (!is_set_up || device) return is_set_up ? INVALID : UNINITIALIZED;
    memset(uuid, number ? atoi(number) : 0, 16);
    return OK;
}
API int cuDeviceTotalMem_v2(size_t *bytes, int device) {
    if (!is_set_up || device) return is_set_up ? INVALID : UNINITIALIZED;
    *bytes = total_bytes();
    return OK;
}
API int cuMemGetInfo_v2(size_t *free_bytes, size_t *total) {
    if (mine < 0) return UNINITIALIZED;
    *total = total_bytes();
    *free_bytes = *total - used_bytes();
    return OK;
}
API int cuDevicePrimaryCtxRelease_v2(int device) { return device ? INVALID : OK; }
API int cuCtxSetCurrent(void *context) { return context ? OK : INVALID; }

API int cuDevicePrimaryCtxRetain(void **context, int device) {
    pthread_t thread;
    *context = (void *)(uintptr_t)CONTEXT;
    if (!is_set_up || device) return is_set_up ? INVALID : UNINITIALIZED;
    if (mine >= 0) return OK;
    /* Found by its name in /proc/PID/fd, and kept by CRIU. */
    int file = memfd_create("fake-cuda", 0);
    owner = getpid();
    for (int what = OWNER; what < NUMBERS; what++) tell(file, what, what == OWNER ? owner : 0);
    mine = file;
    const char *held = getenv("FAKE_CUDA_DEVICE");
    if (held && open(held, O_RDONLY) < 0) _exit(3);
    return pthread_create(&thread, NULL, serve, NULL) ? OPERATING_SYSTEM : OK;
}

static int allocate(pointer *address, size_t bytes, int managed) {
    int answer = enter();
    if (answer) return answer;
    pthread_mutex_lock(&mutex);
    int free_piece = 0;
    while (free_piece < PIECES && pieces[free_piece].bytes) free_piece++;
    if (free_piece == PIECES || !bytes) answer = INVALID;
    else {
        piece made = {.bytes = bytes, .managed = managed};
        answer = put(&made, NULL);
        if (!answer) pieces[free_piece] = made;
        *address = (pointer)(uintptr_t)made.address;
    }
    pthread_mutex_unlock(&mutex);
    return leave(answer);
}
API int cuMemAlloc_v2(pointer *address, size_t bytes) { return allocate(address, bytes, 0); }
API int cuMemAllocManaged(pointer *address, size_t bytes, unsigned flags) {
    (void)flags;
    return allocate(address, bytes, 1);
}
API int cuMemFree_v2(pointer address) {
    int answer = enter();
    if (answer) return answer;
    answer = INVALID;
    for (int i = 0; i < PIECES && address; i++) {
        if ((pointer)(uintptr_t)pieces[i].address != address) continue;
        munmap(pieces[i].address, pieces[i].bytes);
        unlink(pieces[i].path);
        close(pieces[i].file);
        pieces[i] = (piece){0};
        answer = OK;
    }
    return leave(answer);
}
API int cuMemcpyHtoD_v2(pointer to, const void *from, size_t bytes) {
    int answer = enter();
    if (answer) return answer;
    memcpy((void *)(uintptr_t)to, from, bytes);
    return leave(OK);
}
API int cuMemcpyDtoH_v2(void *to, pointer from, size_t bytes) {
    int answer = enter();
    if (answer) return answer;
    memcpy(to, (void *)(uintptr_t)from, bytes);
    return leave(OK);
}

/* ---- parking another process ---- */

#ifndef WITHOUT_CHECKPOINT /* drivers before r570 */

static int of(int pid) {
    char folder[64], link[64], path[PATH];
    snprintf(folder, sizeof folder, "/proc/%d/fd", pid);
    DIR *open_files = opendir(folder);
    if (!open_files) return -1;
    int found = -1;
    for (struct dirent *entry; found < 0 && (entry = readdir(open_files));) {
        snprintf(path, sizeof path, "%s/%.16s", folder, entry->d_name);
        ssize_t size = readlink(path, link, sizeof link - 1);
        if (size <= 0) continue;
        link[size] = '\0';
        if (!strncmp(link, "/memfd:fake-cuda", 16)) found = open(path, O_RDWR | O_CLOEXEC);
    }
    closedir(open_files);
    /* A fork has the parent's descriptor, and no context. */
    if (found >= 0 && told(found, OWNER) != pid) {
        close(found);
        return -1;
    }
    return found;
}

static int ask(int pid, int wish, unsigned timeout_ms) {
    if (!is_set_up) return wish == RESTORE ? NOT_PERMITTED : UNINITIALIZED;
    int other = of(pid);
    if (other < 0) return INVALID;
    char folder[32];
    snprintf(folder, sizeof folder, "/proc/%d", pid);
    tell(other, TIMEOUT_MS, (int)timeout_ms);
    tell(other, WISH, wish);
    while (told(other, WISH) != NOTHING) {
        if (access(folder, F_OK)) return OPERATING_SYSTEM;
        nap();
    }
    int answer = told(other, ANSWER);
    close(other);
    return answer;
}

/* All reserved bytes must be zero. */
static int is_zero(const void *bytes, size_t from, size_t to) {
    for (size_t i = from; bytes && i < to; i++)
        if (((const char *)bytes)[i]) return 0;
    return 1;
}

API int cuCheckpointProcessGetState(int pid, int *found) {
    if (!is_set_up) return UNINITIALIZED;
    int other = of(pid);
    if (other < 0) return INVALID;
    *found = told(other, STATE);
    close(other);
    return OK;
}
API int cuCheckpointProcessLock(int pid, const unsigned *args) {
    return is_zero(args, 4, 64) ? ask(pid, LOCK, args ? *args : 0) : INVALID;
}
API int cuCheckpointProcessCheckpoint(int pid, const void *args) {
    return is_zero(args, 0, 64) ? ask(pid, CHECKPOINT, 0) : INVALID;
}
API int cuCheckpointProcessRestore(int pid, const void *args) {
    return is_zero(args, 0, 64) ? ask(pid, RESTORE, 0) : INVALID; /* one card: no pairs of cards */
}
API int cuCheckpointProcessUnlock(int pid, const void *args) {
    return is_zero(args, 0, 64) ? ask(pid, UNLOCK, 0) : INVALID;
}
#endif
