/* The two files that a slice's processes and the agent share; layout.py says the same.
 *
 * A slot has a cache line of its own: its process writes it at every allocation, all others
 * only read it. Every field is one word, so that a process killed anywhere leaves it whole. */
#pragma once

#include <stdatomic.h>
#include <stdint.h>

#define LIMIT_MAGIC 0x494c4347u  /* "GCLI" */
#define LEDGER_MAGIC 0x454c4347u /* "GCLE" */
#define LAYOUT_VERSION 1u
#define LEDGER_SLOTS 1024u

enum { DENIED, UNCOUNTED };

/* owner = taking flag | start time (41 bits) | pid (22 bits, the kernel's maximum) */
#define OWNER_TAKING (1ull << 63)
#define OWNER_PID_BITS 22
#define OWNER_START_MASK ((1ull << 41) - 1)

typedef struct {
    uint32_t magic, version;
    /* What may be allocated, how large the card is shown, and ~(limit ^ total): that tells a
     * reader that it met the middle of a change. */
    _Atomic uint64_t limit, total, check;
    char device_uuid[96];
} limit_file;

typedef struct {
    _Atomic uint64_t owner; /* 0 = free; whatever else the slot holds then means nothing */
    _Atomic uint64_t namespace; /* of the pid; nobody judges the life of a foreign one */
    _Atomic uint64_t image;     /* tells a program from the one that it replaced by exec */
    _Atomic uint64_t asking, used;
    uint64_t unused[3];
} ledger_slot;

typedef struct {
    uint32_t magic, version, slots;
    _Atomic uint32_t high; /* slots beyond were never used */
    _Atomic uint64_t counts[2]; /* by what is counted below */
    uint64_t unused[4];
    ledger_slot slot[LEDGER_SLOTS];
} ledger_file;

_Static_assert(sizeof(limit_file) == 128, "layout.LIMIT");
_Static_assert(sizeof(ledger_slot) == 64, "layout.SLOT");
_Static_assert(sizeof(ledger_file) == 64 + 64 * LEDGER_SLOTS, "layout.LEDGER_SIZE");
