/* Memory apart from addresses (expandable segments, NCCL): created, mapped, released, unmapped
 * in any order. It lives until its last handle is released and its last mapping is gone, and so
 * does its charge. */
#include <stdlib.h>

#include "charge.h"

enum { ON_DEVICE = 1 };

typedef struct {
    uint64_t bytes;
    uint64_t uses; /* handles and mappings */
} allocation;

/* Returns what is free now. The table's lock must be held. */
static uint64_t drop(word owner) {
    allocation *memory = (allocation *)owner;
    if (!memory || --memory->uses) return 0;
    uint64_t bytes = memory->bytes;
    free(memory);
    return bytes;
}

/* NCCL creates memory before there is a context: only the properties say where it is. */
EXPORT result cuMemCreate(word *handle, size_t bytes, const allocation_properties *properties,
                          uint64_t flags) {
    NEED(cuMemCreate);
    if (!properties || properties->location_type != ON_DEVICE)
        return REAL(cuMemCreate)(handle, bytes, properties, flags);
    allocation *memory = malloc(sizeof *memory);
    if (!memory || !charge(bytes)) {
        free(memory);
        return OUT_OF_MEMORY;
    }
    *memory = (allocation){.bytes = bytes, .uses = 1};
    result answer = REAL(cuMemCreate)(handle, bytes, properties, flags);
    entry made = {.kind = HANDLE, .key = answer ? 0 : *handle, .owner = (word)memory, .count = 1};
    table_lock();
    uint64_t back = answer ? drop(made.owner) : 0;
    if (!answer) table_put(made);
    table_unlock();
    ledger_release(back);
    return answer;
}

EXPORT result cuMemRelease(word handle) {
    NEED(cuMemRelease);
    table_lock();
    /* The last reference goes before the driver may give the number to another. */
    entry *known = table_find(HANDLE, handle), last = {0};
    if (known && !--known->count) last = table_take(HANDLE, handle);
    table_unlock();
    result answer = REAL(cuMemRelease)(handle);
    table_lock();
    uint64_t freed = answer ? 0 : drop(last.owner);
    table_unlock();
    ledger_release(freed);
    return answer;
}

static void mapped(word address, size_t bytes, word handle) {
    table_lock();
    entry *known = table_find(HANDLE, handle);
    entry mapping = {.kind = MAPPING, .key = address, .bytes = bytes};
    if (known) mapping.owner = known->owner;
    if (table_put(mapping) && known) ((allocation *)mapping.owner)->uses++;
    table_unlock();
}
AND_THEN(cuMemMap, (word address, size_t bytes, size_t offset, word handle, uint64_t flags),
         (address, bytes, offset, handle, flags), if (!answer) mapped(address, bytes, handle))

/* One call may end several mappings that lie side by side. */
static void unmapped(word address, size_t bytes) {
    uint64_t freed = 0;
    table_lock();
    for (word at = address; at - address < bytes;) {
        entry ended = table_take(MAPPING, at);
        if (!ended.kind || !ended.bytes) break;
        freed += drop(ended.owner);
        at += ended.bytes;
    }
    table_unlock();
    ledger_release(freed);
}
AND_THEN(cuMemUnmap, (word address, size_t bytes), (address, bytes),
         if (!answer) unmapped(address, bytes))

/* Of memory whose handles are all released the driver may make a new one; what lives by that
 * alone, after its last mapping, is the one thing that is missed here. */
static void retained(word handle) {
    table_lock();
    entry *known = table_find(HANDLE, handle);
    if (known) known->count++;
    table_unlock();
}
AND_THEN(cuMemRetainAllocationHandle, (word * handle, word address), (handle, address),
         if (!answer) retained(*handle))

/* Imports are charged to whoever created the memory, in this slice or another, and a graph takes
 * its memory inside the driver when it is launched. Neither is charged here: the ledger counts
 * such calls, and the driver's own numbers tell the watchdog. */
#define COUNT if (!answer) ledger_count(UNCOUNTED)
AND_THEN(cuMemImportFromShareableHandle, (word * handle, word shared, int type),
         (handle, shared, type), COUNT)
AND_THEN(cuMemPoolImportPointer, (word * given, word pool, void *data), (given, pool, data), COUNT)
AND_THEN(cuIpcOpenMemHandle, (word * given, ipc_handle from, unsigned flags),
         (given, from, flags), COUNT)
AND_THEN(cuIpcOpenMemHandle_v2, (word * given, ipc_handle from, unsigned flags),
         (given, from, flags), COUNT)
AND_THEN(cuGraphAddMemAllocNode,
         (word * node, word graph, const word *after, size_t count, void *parameters),
         (node, graph, after, count, parameters), COUNT)
