/* What the slice holds together, and room in it.
 *
 * No lock is shared between processes: a slot is written by its own process alone. Whoever wants
 * memory first writes what it asks for, then adds up all slots, its own and what others ask for
 * included. Of two that ask at the same time the later sees the earlier, so together they never
 * pass the limit; a process killed or stopped at any point holds up nobody. */
#pragma once

#include <stdint.h>

/* Maps limit and ledger; 0 where they are missing or not valid. Harmless to repeat. */
int ledger_open(int writable);

/* Gives this process a slot; 0 where there is none to have. */
int ledger_join(void);

/* Takes room for so many bytes before the driver is asked; 0 where there is none. */
int ledger_reserve(uint64_t bytes);

/* Gives room back after the driver has freed the memory, or has not given it. */
void ledger_release(uint64_t bytes);

/* DENIED or UNCOUNTED, for whoever reads the ledger. */
void ledger_count(int what);

/* 0 where no limit can be read: nothing is allowed then. */
uint64_t ledger_limit(void);

/* How large the card is shown: the limit, and what contexts and code take beside it. */
uint64_t ledger_total(void);
uint64_t ledger_used(void);

/* UUID of the slice's card; empty where it is not known. */
const char *ledger_device(void);

/* Whether this process of our PID namespace belongs to the slice. */
int ledger_knows(uint32_t pid);

/* In a forked child: the slot is the parent's, and so is what it holds. */
void ledger_forget(void);
