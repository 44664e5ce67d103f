/* Room in the slice for what the driver is about to give, and the way back. */
#pragma once

#include "driver.h"
#include "layout.h"
#include "ledger.h"
#include "table.h"

/* Takes room, after looking whether our own pools hold less by now; 0 = refuse. */
int charge(uint64_t bytes);

/* Ends an allocation: remembers what was given, or gives the room back. */
result charged(result answer, kind kind, word key, uint64_t bytes);

/* Takes an entry from the table before the driver frees what it stands for: from then on another
 * thread may be given the same number. */
entry forget(kind kind, word key);

/* Ends a release: gives the room back, or remembers again what the driver did not free. */
result forgotten(result answer, entry freed);

/* Sets what each pool of this process is charged to what it holds; returns the bytes freed. */
uint64_t pools_settle(void);

/* An allocation out of this pool was freed. The table's lock must be held. */
void pool_gave_back(word pool, uint64_t bytes);

#define ALLOCATE(name, parameters, arguments, kind, given, size)       \
    EXPORT result name parameters {                                    \
        NEED(name);                                                    \
        uint64_t room = size;                                          \
        if (!charge(room)) return OUT_OF_MEMORY;                       \
        result answer = REAL(name) arguments;                          \
        return charged(answer, kind, answer ? 0 : *(given), room);     \
    }

#define RELEASE(name, parameters, arguments, kind, key)  \
    EXPORT result name parameters {                      \
        NEED(name);                                      \
        entry freed = forget(kind, key);                 \
        return forgotten(REAL(name) arguments, freed);   \
    }
