/* Memory that ends with its context: who resets a device frees nothing by name. */
#include "charge.h"
#include "ledger.h"

enum { DEVICES = 64 };

static _Atomic(object) primary[DEVICES];

typedef struct {
    uint64_t context, freed;
} ending;

static int visit(entry *found, void *argument) {
    ending *end = argument;
    int ends = found->owner == end->context &&
               (found->kind == MEMORY || found->kind == ARRAY || found->kind == MIPMAP);
    if (ends) end->freed += found->bytes;
    return ends;
}

static void context_ended(object context) {
    ending end = {.context = (uint64_t)(uintptr_t)context};
    if (!context) return;
    table_lock();
    table_each(visit, &end);
    table_unlock();
    ledger_release(end.freed);
}

#define DESTROY(name)                                   \
    EXPORT result name(object context) {                \
        NEED(name);                                     \
        result answer = REAL(name)(context);            \
        if (!answer) context_ended(context);            \
        return answer;                                  \
    }
DESTROY(cuCtxDestroy)
DESTROY(cuCtxDestroy_v2)

EXPORT result cuDevicePrimaryCtxRetain(object *context, int device) {
    NEED(cuDevicePrimaryCtxRetain);
    result answer = REAL(cuDevicePrimaryCtxRetain)(context, device);
    if (!answer && device >= 0 && device < DEVICES) primary[device] = *context;
    return answer;
}

/* A release ends the context only when it was the last. */
static void primary_ended(int device) {
    unsigned flags = 0;
    int active = 0;
    if (device < 0 || device >= DEVICES || !REAL(cuDevicePrimaryCtxGetState)) return;
    if (REAL(cuDevicePrimaryCtxGetState)(device, &flags, &active) || active) return;
    context_ended(primary[device]);
}

#define END_PRIMARY(name)                               \
    EXPORT result name(int device) {                    \
        NEED(name);                                     \
        result answer = REAL(name)(device);             \
        if (!answer) primary_ended(device);             \
        return answer;                                  \
    }
END_PRIMARY(cuDevicePrimaryCtxRelease)
END_PRIMARY(cuDevicePrimaryCtxRelease_v2)
END_PRIMARY(cuDevicePrimaryCtxReset)
END_PRIMARY(cuDevicePrimaryCtxReset_v2)
