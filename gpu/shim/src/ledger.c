/* The shared-memory ledger; ledger.h says how processes agree without a lock. */
#include "ledger.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "baseline.h"
#include "layout.h"
#include "process.h"

enum { ROUNDS = 1000 };
/* More than any card: sums of what this allows cannot wrap. */
#define LARGEST_BYTES (1ull << 52)

static _Atomic(limit_file *) limit_map;
static _Atomic(ledger_file *) ledger_map;
static _Atomic(ledger_slot *) own;
static pthread_mutex_t opening = PTHREAD_MUTEX_INITIALIZER;

/* The files lie beside this library, so no variable of the environment can lead elsewhere. */
static void *map_beside(const char *name, uint32_t magic, size_t size, int writable) {
    char path[PATH_MAX];
    Dl_info about;
    if (!dladdr((void *)&ledger_open, &about) || !about.dli_fname) return NULL;
    const char *slash = strrchr(about.dli_fname, '/');
    int folder = slash ? (int)(slash - about.dli_fname) + 1 : 0;
    snprintf(path, sizeof path, "%.*s%s", folder, about.dli_fname, name);
    int file = open(path, (writable ? O_RDWR : O_RDONLY) | O_CLOEXEC | O_NOFOLLOW);
    if (file < 0) return NULL;
    uint32_t *mapped = MAP_FAILED;
    int access = writable ? PROT_READ | PROT_WRITE : PROT_READ;
    if (lseek(file, 0, SEEK_END) >= (off_t)size)
        mapped = mmap(NULL, size, access, MAP_SHARED, file, 0);
    close(file);
    if (mapped == MAP_FAILED) return NULL;
    if (mapped[0] == magic && mapped[1] == LAYOUT_VERSION) return mapped;
    munmap(mapped, size);
    return NULL;
}

static int open_locked(int writable) {
    if (!atomic_load(&limit_map))
        atomic_store(&limit_map, map_beside("limit", LIMIT_MAGIC, sizeof(limit_file), 0));
    if (!atomic_load(&ledger_map))
        atomic_store(&ledger_map,
                     map_beside("ledger", LEDGER_MAGIC, sizeof(ledger_file), writable));
    return atomic_load(&limit_map) && atomic_load(&ledger_map);
}

int ledger_open(int writable) {
    pthread_mutex_lock(&opening);
    int valid = open_locked(writable);
    pthread_mutex_unlock(&opening);
    return valid;
}

static uint32_t slots_used(ledger_file *ledger) {
    uint32_t high = ledger ? atomic_load(&ledger->high) : 0;
    return high < LEDGER_SLOTS ? high : LEDGER_SLOTS;
}

/* Frees the slots of processes that are gone; returns how many. The owner alone is cleared: a
 * slow second reaper then finds another owner and changes nothing. */
static int reap(ledger_file *ledger) {
    identity me = process_identity();
    int freed = 0;
    for (uint32_t i = 0; i < slots_used(ledger); i++) {
        ledger_slot *slot = &ledger->slot[i];
        uint64_t owner = atomic_load(&slot->owner);
        if (!owner || atomic_load(&slot->namespace) != me.namespace) continue;
        int replaced = owner == me.owner && atomic_load(&slot->image) != me.image;
        if (!replaced && process_lives(owner)) continue;
        freed += atomic_compare_exchange_strong(&slot->owner, &owner, 0);
    }
    return freed;
}

static int take(ledger_slot *slot, const identity *me) {
    uint64_t nobody = 0, taking = me->owner | OWNER_TAKING;
    if (!atomic_compare_exchange_strong(&slot->owner, &nobody, taking)) return 0;
    atomic_store(&slot->namespace, me->namespace);
    atomic_store(&slot->image, me->image);
    atomic_store(&slot->asking, 0);
    atomic_store(&slot->used, 0);
    return atomic_compare_exchange_strong(&slot->owner, &taking, me->owner);
}

static ledger_slot *claim(ledger_file *ledger) {
    identity me = process_identity();
    reap(ledger);
    for (uint32_t i = 0; i < LEDGER_SLOTS; i++) {
        if (atomic_load(&ledger->slot[i].owner)) continue;
        uint32_t high = atomic_load(&ledger->high);
        while (high <= i && !atomic_compare_exchange_weak(&ledger->high, &high, i + 1)) continue;
        if (take(&ledger->slot[i], &me)) return &ledger->slot[i];
    }
    return NULL;
}

static ledger_slot *own_slot(void) {
    ledger_slot *slot = atomic_load_explicit(&own, memory_order_acquire);
    if (slot) return slot;
    pthread_mutex_lock(&opening);
    slot = atomic_load(&own);
    if (!slot && open_locked(1)) {
        slot = claim(atomic_load(&ledger_map));
        atomic_store(&own, slot);
    }
    pthread_mutex_unlock(&opening);
    return slot;
}

int ledger_join(void) { return own_slot() != NULL; }

/* What is asked for is read first: on its way from there to `used` it may be seen twice but
 * never missed. */
static uint64_t total(int with_asking) {
    ledger_file *ledger = atomic_load_explicit(&ledger_map, memory_order_acquire);
    uint64_t sum = 0;
    for (uint32_t i = 0; i < slots_used(ledger); i++) {
        ledger_slot *slot = &ledger->slot[i];
        uint64_t owner = atomic_load(&slot->owner);
        if (!owner || owner & OWNER_TAKING) continue;
        if (with_asking) sum += atomic_load(&slot->asking);
        sum += atomic_load(&slot->used);
    }
    return sum;
}

int ledger_reserve(uint64_t bytes) {
    ledger_slot *slot = own_slot();
    if (!slot || bytes > LARGEST_BYTES) return 0;
    for (int round = 0; round < ROUNDS; round++) {
        atomic_fetch_add(&slot->asking, bytes);
        if (total(1) <= ledger_limit()) {
            atomic_fetch_add(&slot->used, bytes);
            atomic_fetch_sub(&slot->asking, bytes);
            return 1;
        }
        atomic_fetch_sub(&slot->asking, bytes);
        if (total(0) + bytes > ledger_limit() && !reap(atomic_load(&ledger_map))) return 0;
        sched_yield(); /* Others asked at the same moment, and who gives way may try again. */
    }
    return 0;
}

void ledger_release(uint64_t bytes) {
    ledger_slot *slot = atomic_load_explicit(&own, memory_order_acquire);
    if (slot && bytes) atomic_fetch_sub(&slot->used, bytes);
}

void ledger_count(int what) {
    if (own_slot()) atomic_fetch_add(&atomic_load(&ledger_map)->counts[what], 1);
}

static uint64_t read_limit(int shown) {
    limit_file *file = atomic_load_explicit(&limit_map, memory_order_acquire);
    for (int round = 0; file && round < ROUNDS; round++) {
        uint64_t limit = atomic_load(&file->limit), total = atomic_load(&file->total);
        if (~(limit ^ total) == atomic_load(&file->check)) return shown ? total : limit;
        sched_yield(); /* The agent is changing it. */
    }
    return 0;
}

uint64_t ledger_limit(void) { return read_limit(0); }

uint64_t ledger_total(void) { return read_limit(1); }

uint64_t ledger_used(void) {
    ledger_file *ledger = atomic_load(&ledger_map);
    return ledger ? total(0) : 0;
}

const char *ledger_device(void) {
    limit_file *file = atomic_load(&limit_map);
    return file && memchr(file->device_uuid, 0, sizeof file->device_uuid) ? file->device_uuid : "";
}

int ledger_knows(uint32_t pid) {
    ledger_file *ledger = atomic_load(&ledger_map);
    for (uint32_t i = 0; i < slots_used(ledger); i++) {
        uint64_t owner = atomic_load(&ledger->slot[i].owner);
        if (owner && (owner & ((1u << OWNER_PID_BITS) - 1)) == pid) return 1;
    }
    return 0;
}

void ledger_forget(void) {
    atomic_store(&own, NULL);
    /* Another thread of the parent may have held it when the child was made. */
    opening = (pthread_mutex_t)PTHREAD_MUTEX_INITIALIZER;
}
