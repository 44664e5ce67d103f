/* Memory apart from addresses (expandable segments, NCCL): created, mapped, released, unmapped
 * in any order. It lives until its last handle is released and its last mapping is gone, and so
 * does its charge. */
#include <stdlib.h>

#include "charge.h"
#include "ledger.h"

enum { ON_DEVICE = 1 };

typedef struct {
    uint64_t bytes;
    uint64_t uses; /* handles and mappings */
} allocation;

static uint64_t number_of(allocation *memory) { return (uint64_t)(uintptr_t)memory; }

/* Returns what is free now. The table's lock must be held. */
static uint64_t drop(uint64_t owner) {
    allocation *memory = (allocation *)(uintptr_t)owner;
    if (!memory || --memory->uses) return 0;
    uint64_t bytes = memory->bytes;
    free(memory);
    return bytes;
}

/* One more reference by this handle, whose number may be new. The lock must be held. */
static void hold(pointer handle, allocation *memory) {
    entry *known = table_find(HANDLE, handle);
    if (known && known->owner == number_of(memory))
        known->count++;
    else if (table_put((entry){
                 .kind = HANDLE, .key = handle, .owner = number_of(memory), .count = 1}))
        memory->uses++;
}

/* NCCL creates memory before there is a context: only the properties say where it is. */
EXPORT result cuMemCreate(pointer *handle, size_t bytes, const allocation_properties *properties,
                          uint64_t flags) {
    NEED(cuMemCreate);
    if (!properties || properties->location.type != ON_DEVICE)
        return REAL(cuMemCreate)(handle, bytes, properties, flags);
    allocation *memory = malloc(sizeof *memory);
    if (!memory || !charge(bytes)) {
        free(memory);
        return OUT_OF_MEMORY;
    }
    result answer = REAL(cuMemCreate)(handle, bytes, properties, flags);
    if (answer) {
        free(memory);
        ledger_release(bytes);
        return answer;
    }
    *memory = (allocation){.bytes = bytes};
    table_lock();
    hold(*handle, memory);
    table_unlock();
    return SUCCESS;
}

EXPORT result cuMemRelease(pointer handle) {
    NEED(cuMemRelease);
    table_lock();
    entry *known = table_find(HANDLE, handle);
    entry last = known && known->count == 1 ? table_take(HANDLE, handle) : (entry){0};
    if (known && !last.kind) known->count--;
    table_unlock();
    result answer = REAL(cuMemRelease)(handle);
    table_lock();
    uint64_t freed = 0;
    if (!answer)
        freed = drop(last.owner);
    else if (last.kind)
        table_put(last);
    else if ((known = table_find(HANDLE, handle)) != NULL)
        known->count++;
    table_unlock();
    ledger_release(freed);
    return answer;
}

EXPORT result cuMemMap(pointer address, size_t bytes, size_t offset, pointer handle,
                       uint64_t flags) {
    NEED(cuMemMap);
    result answer = REAL(cuMemMap)(address, bytes, offset, handle, flags);
    if (answer) return answer;
    table_lock();
    entry *known = table_find(HANDLE, handle);
    entry mapping = {.kind = MAPPING, .key = address, .bytes = bytes, .owner = known ? known->owner : 0};
    if (table_put(mapping) && mapping.owner) ((allocation *)(uintptr_t)mapping.owner)->uses++;
    table_unlock();
    return SUCCESS;
}

/* One call may end several mappings that lie side by side. */
EXPORT result cuMemUnmap(pointer address, size_t bytes) {
    NEED(cuMemUnmap);
    result answer = REAL(cuMemUnmap)(address, bytes);
    if (answer) return answer;
    uint64_t freed = 0;
    table_lock();
    for (pointer at = address; at < address + bytes;) {
        entry ended = table_take(MAPPING, at);
        if (!ended.kind || !ended.bytes) break;
        freed += drop(ended.owner);
        at += ended.bytes;
    }
    table_unlock();
    ledger_release(freed);
    return SUCCESS;
}

typedef struct {
    pointer address;
    allocation *found;
} search;

static int visit_mapping(entry *mapping, void *argument) {
    search *wanted = argument;
    if (mapping->kind == MAPPING && wanted->address - mapping->key < mapping->bytes)
        wanted->found = (allocation *)(uintptr_t)mapping->owner;
    return 0;
}

EXPORT result cuMemRetainAllocationHandle(pointer *handle, void *address) {
    NEED(cuMemRetainAllocationHandle);
    result answer = REAL(cuMemRetainAllocationHandle)(handle, address);
    if (answer) return answer;
    search wanted = {.address = (pointer)(uintptr_t)address};
    table_lock();
    table_each(visit_mapping, &wanted);
    if (wanted.found) hold(*handle, wanted.found);
    table_unlock();
    return SUCCESS;
}

/* Imports are charged to whoever created the memory, in this slice or another. What is imported
 * may outlive its creator's charge; the ledger counts such calls, the driver's own numbers tell
 * the watchdog. */
#define COUNT(name, parameters, arguments)                \
    EXPORT result name parameters {                       \
        NEED(name);                                       \
        result answer = REAL(name) arguments;             \
        if (!answer) ledger_count_uncounted();            \
        return answer;                                    \
    }
COUNT(cuMemImportFromShareableHandle, (pointer * handle, void *shared, int type),
      (handle, shared, type))
COUNT(cuMemPoolImportPointer, (pointer * address, object pool, void *data), (address, pool, data))
COUNT(cuIpcOpenMemHandle, (pointer * address, ipc_handle handle, unsigned flags),
      (address, handle, flags))
COUNT(cuIpcOpenMemHandle_v2, (pointer * address, ipc_handle handle, unsigned flags),
      (address, handle, flags))
/* A graph takes its memory when it is launched, inside the driver. */
COUNT(cuGraphAddMemAllocNode,
      (object * node, object graph, const object *after, size_t count, void *parameters),
      (node, graph, after, count, parameters))
