/* Memory that ends with its context, or with its pool: who resets a device frees nothing by name. */
#include "charge.h"

enum { DEVICES = 64 };

static _Atomic word primary[DEVICES];

static int visit(entry *found, void *argument) {
    entry *sum = argument;
    int ends = found->owner == sum->owner &&
               (found->kind == MEMORY || found->kind == ARRAY || found->kind == MIPMAP);
    if (ends) sum->bytes += found->bytes;
    return ends;
}

static void context_ended(word context) {
    entry sum = {.owner = context};
    if (!context) return;
    table_lock();
    table_each(visit, &sum);
    table_unlock();
    ledger_release(sum.bytes);
}

AND_THEN(cuCtxDestroy_v2, (word context), (context), if (!answer) context_ended(context))

AND_THEN(cuDevicePrimaryCtxRetain, (word * context, int device), (context, device),
         if (!answer && device >= 0 && device < DEVICES) primary[device] = *context)

/* A release ends the context only when it was the last. */
static void primary_ended(int device) {
    unsigned flags = 0;
    int active = 0;
    if (device < 0 || device >= DEVICES || !REAL(cuDevicePrimaryCtxGetState)) return;
    if (!REAL(cuDevicePrimaryCtxGetState)(device, &flags, &active) && !active)
        context_ended(primary[device]);
}

AND_THEN(cuDevicePrimaryCtxRelease_v2, (int device), (device), if (!answer) primary_ended(device))
AND_THEN(cuDevicePrimaryCtxReset_v2, (int device), (device), if (!answer) primary_ended(device))

/* After the driver forgot it, its number may be another pool's: our entry goes first. */
EXPORT result cuMemPoolDestroy(word pool) {
    NEED(cuMemPoolDestroy);
    entry ended = forget(POOL, pool);
    result answer = REAL(cuMemPoolDestroy)(pool);
    if (!answer) ended.bytes -= ended.count; /* What is in use ends by itself. */
    return forgotten(answer, ended);
}
