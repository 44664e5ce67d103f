/* What this process holds: pointers, handles and pools, and what each of them is charged.
 *
 * One mutex for all of it, never held while the driver gives or frees memory. The functions
 * below want it held. */
#pragma once

#include <stdint.h>

/* Different things may have equal numbers, so the kind is part of the key. */
typedef enum { EMPTY, MEMORY, POOLED, ARRAY, MIPMAP, HANDLE, MAPPING, POOL } kind;

typedef struct {
    uint64_t key, bytes;
    uint64_t owner; /* context, pool or allocation that it ends with */
    uint64_t count; /* HANDLE: references; POOL: bytes in use */
    kind kind;
} entry;

void table_lock(void);
void table_unlock(void);

/* Valid until the table changes; NULL where there is none. */
entry *table_find(kind kind, uint64_t key);

/* Adds or replaces; 0 where memory is out: what it was for then stays charged. */
int table_put(entry added);

/* Removes; a zero entry where there is none. */
entry table_take(kind kind, uint64_t key);

/* Shows every entry; `visit` may change all but kind and key, and asks for its removal with 1. */
void table_each(int (*visit)(entry *, void *), void *argument);

/* Forgets everything, in a forked child. */
void table_forget(void);
