/* Stream-ordered memory. What a program frees returns to a pool, and the pool keeps it, at least
 * until the next synchronisation. A pool is charged what it has reserved; otherwise a process
 * could hold the whole card in a pool that looks empty. */
#include <stdatomic.h>

#include "charge.h"

enum { RESERVED_NOW = 5 };

/* Whether a pool may be charged more than is in use: then a synchronisation is worth a look. */
static _Atomic int surplus;

/* 0 where the driver is too old to say: then what is in use is what counts. */
static uint64_t reserved(word pool) {
    uint64_t bytes = 0;
    if (!pool || !REAL(cuMemPoolGetAttribute)) return 0;
    return REAL(cuMemPoolGetAttribute)(pool, RESERVED_NOW, &bytes) ? 0 : bytes;
}

/* A pool's entry: `bytes` is what it is charged, `count` what is in use. */
static uint64_t settle(entry *pool) {
    uint64_t kept = reserved(pool->key), target = kept > pool->count ? kept : pool->count;
    uint64_t freed = target < pool->bytes ? pool->bytes - target : 0;
    ledger_release(freed);
    /* The driver reserves in steps; where the limit leaves no room for the rest of a step, it
     * stays uncounted. */
    if (freed || (target > pool->bytes && ledger_reserve(target - pool->bytes)))
        pool->bytes = target;
    if (pool->bytes > pool->count) atomic_store(&surplus, 1);
    return freed;
}

static int visit(entry *found, void *freed) {
    if (found->kind == POOL) *(uint64_t *)freed += settle(found);
    return 0;
}

uint64_t pools_settle(void) {
    uint64_t freed = 0;
    table_lock();
    atomic_store(&surplus, 0);
    table_each(visit, &freed);
    table_unlock();
    return freed;
}

void pool_gave_back(word key, uint64_t bytes) {
    entry *pool = table_find(POOL, key);
    if (pool) {
        pool->count -= bytes < pool->count ? bytes : pool->count;
        settle(pool);
    } else
        ledger_release(bytes); /* The pool was destroyed before its last allocation. */
}

/* Takes room for what does not fit into what the pool is charged already. */
static int fits_pool(word key, uint64_t bytes) {
    entry *pool = table_find(POOL, key);
    if (!pool && table_put((entry){.kind = POOL, .key = key})) pool = table_find(POOL, key);
    if (!pool) return 0;
    uint64_t spare = pool->bytes - pool->count, missing = bytes > spare ? bytes - spare : 0;
    if (missing && !ledger_reserve(missing)) return 0;
    pool->bytes += missing;
    pool->count += bytes;
    return 1;
}

static int charge_pool(word key, uint64_t bytes) {
    int fits = 0;
    do {
        table_lock();
        fits = fits_pool(key, bytes);
        table_unlock();
    } while (!fits && pools_settle());
    if (!fits) ledger_count(DENIED);
    return fits;
}

static result charged_pool(result answer, word key, word address, uint64_t bytes) {
    entry added = {.kind = POOLED, .key = address, .bytes = bytes, .owner = key}, *pool;
    table_lock();
    if (answer)
        pool_gave_back(key, bytes);
    else if (table_put(added) && (pool = table_find(POOL, key)) != NULL)
        settle(pool);
    table_unlock();
    return answer;
}

static word default_pool(void) {
    int device = 0;
    word pool = 0;
    if (REAL(cuCtxGetDevice) && REAL(cuDeviceGetMemPool) && !REAL(cuCtxGetDevice)(&device))
        REAL(cuDeviceGetMemPool)(&pool, device);
    return pool;
}

#define ALLOCATE_POOLED(name, parameters, arguments, pool)              \
    EXPORT result name parameters {                                     \
        NEED(name);                                                     \
        word key = pool;                                                \
        if (!charge_pool(key, bytes)) return OUT_OF_MEMORY;             \
        result answer = REAL(name) arguments;                           \
        return charged_pool(answer, key, answer ? 0 : *given, bytes);   \
    }
ALLOCATE_POOLED(cuMemAllocAsync, (word * given, size_t bytes, word stream),
                (given, bytes, stream), default_pool())
ALLOCATE_POOLED(cuMemAllocAsync_ptsz, (word * given, size_t bytes, word stream),
                (given, bytes, stream), default_pool())
ALLOCATE_POOLED(cuMemAllocFromPoolAsync, (word * given, size_t bytes, word pool, word stream),
                (given, bytes, pool, stream), pool)
ALLOCATE_POOLED(cuMemAllocFromPoolAsync_ptsz, (word * given, size_t bytes, word pool, word stream),
                (given, bytes, pool, stream), pool)

/* Where pools give memory back to the driver, unless they were told to keep it. */
static void look(void) {
    if (atomic_load(&surplus)) pools_settle();
}
AND_THEN(cuMemPoolTrimTo, (word pool, size_t keep), (pool, keep), look())
AND_THEN(cuCtxSynchronize, (void), (), look())
AND_THEN(cuStreamSynchronize, (word stream), (stream), look())
AND_THEN(cuStreamSynchronize_ptsz, (word stream), (stream), look())
AND_THEN(cuEventSynchronize, (word event), (event), look())
