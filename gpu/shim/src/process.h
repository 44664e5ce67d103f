/* Who a process is, in words that survive fork, exec, pid reuse and SIGKILL. */
#pragma once

#include <stdint.h>

typedef struct {
    uint64_t owner;     /* start time and pid, as in layout.h */
    uint64_t namespace; /* inode of the PID namespace */
    uint64_t image;     /* differs after exec, which keeps pid and start time */
} identity;

identity process_identity(void);

/* Whether the owner's memory may still be on the card. */
int process_lives(uint64_t owner);
