/* Stream-ordered memory. What a program frees returns to a pool, and the pool keeps it, at least
 * until the next synchronisation. A pool is charged what it has reserved; otherwise a process
 * could hold the whole card in a pool that looks empty. */
#include <stdatomic.h>

#include "charge.h"
#include "ledger.h"

enum { RESERVED_NOW = 5 };

/* Whether a pool may be charged more than is in use: then a synchronisation is worth a look. */
static _Atomic int surplus;

/* 0 where the driver is too old to say: then what is in use is what counts. */
static uint64_t reserved(uint64_t pool) {
    uint64_t bytes = 0;
    if (!pool || !REAL(cuMemPoolGetAttribute)) return 0;
    if (REAL(cuMemPoolGetAttribute)((object)(uintptr_t)pool, RESERVED_NOW, &bytes)) return 0;
    return bytes;
}

/* A pool's entry: `bytes` is what it is charged, `count` what is in use. */
static uint64_t settle_one(entry *pool) {
    uint64_t kept = reserved(pool->key), target = kept > pool->count ? kept : pool->count;
    uint64_t freed = 0;
    if (target < pool->bytes) {
        freed = pool->bytes - target;
        ledger_release(freed);
        pool->bytes = target;
    } else if (target > pool->bytes && ledger_reserve(target - pool->bytes)) {
        /* The driver reserves in steps; where the limit leaves no room for the rest of a step,
         * it stays uncounted. */
        pool->bytes = target;
    }
    if (pool->bytes > pool->count) atomic_store(&surplus, 1);
    return freed;
}

static int visit_pool(entry *found, void *freed) {
    if (found->kind == POOL) *(uint64_t *)freed += settle_one(found);
    return 0;
}

uint64_t pools_settle(void) {
    uint64_t freed = 0;
    table_lock();
    atomic_store(&surplus, 0);
    table_each(visit_pool, &freed);
    table_unlock();
    return freed;
}

void pool_gave_back(uint64_t key, uint64_t bytes) {
    entry *pool = table_find(POOL, key);
    if (!pool) {
        ledger_release(bytes); /* The pool was destroyed before its last allocation. */
        return;
    }
    pool->count -= bytes;
    settle_one(pool);
}

/* Takes room for what does not fit into what the pool is charged already. */
static int charge_pool(uint64_t key, uint64_t bytes) {
    for (int again = 0; again < 2; again++) {
        table_lock();
        entry *pool = table_find(POOL, key);
        uint64_t spare = pool ? pool->bytes - pool->count : 0;
        uint64_t missing = bytes > spare ? bytes - spare : 0;
        int fits = (pool || table_put((entry){.kind = POOL, .key = key})) &&
                   (!missing || ledger_reserve(missing));
        if (fits) {
            pool = table_find(POOL, key);
            pool->bytes += missing;
            pool->count += bytes;
        }
        table_unlock();
        if (fits) return 1;
        if (!pools_settle()) break;
    }
    ledger_count_denied();
    return 0;
}

static result pooled(result answer, uint64_t key, pointer address, uint64_t bytes) {
    table_lock();
    if (answer)
        pool_gave_back(key, bytes);
    else {
        table_put((entry){.kind = POOLED, .key = address, .bytes = bytes, .owner = key});
        entry *pool = table_find(POOL, key);
        if (pool) settle_one(pool);
    }
    table_unlock();
    return answer;
}

static uint64_t default_pool(void) {
    int device = 0;
    object pool = NULL;
    if (REAL(cuCtxGetDevice) && REAL(cuDeviceGetMemPool) && !REAL(cuCtxGetDevice)(&device))
        REAL(cuDeviceGetMemPool)(&pool, device);
    return (uint64_t)(uintptr_t)pool;
}

#define ALLOC_ASYNC(name)                                                       \
    EXPORT result name(pointer *address, size_t bytes, object stream) {         \
        NEED(name);                                                             \
        uint64_t key = default_pool();                                          \
        if (!charge_pool(key, bytes)) return OUT_OF_MEMORY;                     \
        result answer = REAL(name)(address, bytes, stream);                     \
        return pooled(answer, key, answer ? 0 : *address, bytes);               \
    }
ALLOC_ASYNC(cuMemAllocAsync)
ALLOC_ASYNC(cuMemAllocAsync_ptsz)

#define ALLOC_FROM_POOL(name)                                                        \
    EXPORT result name(pointer *address, size_t bytes, object pool, object stream) { \
        NEED(name);                                                                  \
        uint64_t key = (uint64_t)(uintptr_t)pool;                                    \
        if (!charge_pool(key, bytes)) return OUT_OF_MEMORY;                          \
        result answer = REAL(name)(address, bytes, pool, stream);                    \
        return pooled(answer, key, answer ? 0 : *address, bytes);                    \
    }
ALLOC_FROM_POOL(cuMemAllocFromPoolAsync)
ALLOC_FROM_POOL(cuMemAllocFromPoolAsync_ptsz)

EXPORT result cuMemPoolTrimTo(object pool, size_t keep) {
    NEED(cuMemPoolTrimTo);
    result answer = REAL(cuMemPoolTrimTo)(pool, keep);
    pools_settle();
    return answer;
}

EXPORT result cuMemPoolDestroy(object pool) {
    NEED(cuMemPoolDestroy);
    /* Before the driver forgets it: its handle may at once be that of another pool. */
    table_lock();
    entry ended = table_take(POOL, (uint64_t)(uintptr_t)pool);
    table_unlock();
    result answer = REAL(cuMemPoolDestroy)(pool);
    table_lock();
    if (answer && ended.kind) table_put(ended);
    table_unlock();
    if (!answer) ledger_release(ended.bytes - ended.count);
    return answer;
}

/* Where pools give memory back to the driver, unless they were told to keep it. */
#define SYNCHRONIZE(name, parameters, arguments)              \
    EXPORT result name parameters {                           \
        NEED(name);                                           \
        result answer = REAL(name) arguments;                 \
        if (atomic_load(&surplus)) pools_settle();            \
        return answer;                                        \
    }
SYNCHRONIZE(cuCtxSynchronize, (void), ())
SYNCHRONIZE(cuStreamSynchronize, (object stream), (stream))
SYNCHRONIZE(cuStreamSynchronize_ptsz, (object stream), (stream))
SYNCHRONIZE(cuEventSynchronize, (object event), (event))
