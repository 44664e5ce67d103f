/* Room in the slice for what the driver is about to give. */
#ifndef GPUCOMMONS_CHARGE_H
#define GPUCOMMONS_CHARGE_H

#include "driver.h"
#include "table.h"

/* Takes room, after looking whether our own pools hold less by now; 0 = refuse. */
int charge(uint64_t bytes);

/* The context that memory allocated now ends with. */
uint64_t current_context(void);

/* Ends an allocation: remembers what was given, or gives the room back. */
result charged(result answer, kind kind, uint64_t key, uint64_t bytes);

/* Sets what each pool of this process is charged to what it holds; returns the bytes freed. */
uint64_t pools_settle(void);

/* An allocation that came out of this pool was freed. The table's lock must be held. */
void pool_gave_back(uint64_t pool, uint64_t bytes);

#endif
