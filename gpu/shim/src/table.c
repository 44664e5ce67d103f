/* A hash table with linear probing that grows; deletion moves later entries up, so that there
 * are no markers to clean away. */
#include "table.h"

#include <pthread.h>
#include <stdlib.h>

enum { FIRST_CAPACITY = 1024 };

static entry *entries;
static uint64_t capacity, filled;
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;

void table_lock(void) { pthread_mutex_lock(&mutex); }

void table_unlock(void) { pthread_mutex_unlock(&mutex); }

static uint64_t home(kind kind, uint64_t key) {
    key ^= (uint64_t)kind << 56;
    key = (key ^ key >> 33) * 0xff51afd7ed558ccdull; /* Addresses differ in their middle bits. */
    return (key ^ key >> 33) & (capacity - 1);
}

/* The place of the entry, or the empty one where it would be. */
static uint64_t place(kind kind, uint64_t key) {
    uint64_t at = home(kind, key);
    while (entries[at].kind != EMPTY && (entries[at].kind != kind || entries[at].key != key))
        at = (at + 1) & (capacity - 1);
    return at;
}

static int grow(void) {
    uint64_t before = capacity, larger = before ? before * 2 : FIRST_CAPACITY;
    entry *old = entries, *fresh = calloc(larger, sizeof *fresh);
    if (!fresh) return 0;
    entries = fresh;
    capacity = larger;
    for (uint64_t i = 0; i < before; i++)
        if (old[i].kind != EMPTY) entries[place(old[i].kind, old[i].key)] = old[i];
    free(old);
    return 1;
}

entry *table_find(kind kind, uint64_t key) {
    if (!capacity) return NULL;
    entry *found = &entries[place(kind, key)];
    return found->kind == EMPTY ? NULL : found;
}

int table_put(entry added) {
    if (filled * 2 >= capacity && !grow()) return 0;
    entry *found = &entries[place(added.kind, added.key)];
    filled += found->kind == EMPTY;
    *found = added;
    return 1;
}

static void remove_at(uint64_t hole) {
    entries[hole].kind = EMPTY;
    filled--;
    for (uint64_t at = (hole + 1) & (capacity - 1); entries[at].kind != EMPTY;
         at = (at + 1) & (capacity - 1)) {
        uint64_t wanted = home(entries[at].kind, entries[at].key);
        if (((at - wanted) & (capacity - 1)) < ((at - hole) & (capacity - 1))) continue;
        entries[hole] = entries[at];
        entries[at].kind = EMPTY;
        hole = at;
    }
}

entry table_take(kind kind, uint64_t key) {
    entry *found = table_find(kind, key), taken = found ? *found : (entry){0};
    if (found) remove_at((uint64_t)(found - entries));
    return taken;
}

void table_each(int (*visit)(entry *, void *), void *argument) {
    for (uint64_t at = 0; at < capacity;) {
        /* After a removal another entry stands here. One that moved here from behind the end of
         * the table is met a second time: a visit must not mind. */
        if (entries[at].kind != EMPTY && visit(&entries[at], argument))
            remove_at(at);
        else
            at++;
    }
}

void table_forget(void) {
    /* Not freed: the parent may have been about to change it, and a child that runs another
     * program soon has no use for the memory. */
    entries = NULL;
    capacity = filled = 0;
    mutex = (pthread_mutex_t)PTHREAD_MUTEX_INITIALIZER;
}
