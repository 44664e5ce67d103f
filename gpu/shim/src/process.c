/* Identity and life of processes from /proc. Only calls that glibc 2.17 has: fstat and strtoull
 * would tie the library to the glibc of the machine that built it. */
#include "process.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/types.h>
#include <unistd.h>

#include "layout.h"

enum { PATH_BYTES = 40, STAT_BYTES = 512 };
enum { FIELD_STATE = 3, FIELD_THREADS = 20, FIELD_START = 22 };

static uint64_t number_at(const char *text) {
    uint64_t number = 0;
    while (*text >= '0' && *text <= '9') number = number * 10 + (uint64_t)(*text++ - '0');
    return number;
}

/* Start time of a process, and whether all its threads are zombies; 0 where there is none to read.
 * The first thread may be a zombie while another still holds the driver's files open. */
static int read_stat(const char *path, uint64_t *start, int *ended) {
    char text[STAT_BYTES];
    int file = open(path, O_RDONLY | O_CLOEXEC);
    if (file < 0) return 0;
    ssize_t size = read(file, text, sizeof text - 1);
    close(file);
    if (size <= 0) return 0;
    text[size] = '\0';
    char *at = strrchr(text, ')'); /* a program may be called ") 1 2 3" */
    for (int field = FIELD_STATE; at && (at = strchr(at, ' ')) != NULL; field++) {
        at++;
        if (field == FIELD_STATE) *ended = *at == 'Z' || *at == 'X';
        if (field == FIELD_THREADS) *ended = *ended && number_at(at) <= 1;
        if (field == FIELD_START) *start = number_at(at) & OWNER_START_MASK;
        if (field == FIELD_START) return 1;
    }
    return 0;
}

identity process_identity(void) {
    identity me = {0};
    uint64_t start = 0;
    int ended;
    char link[PATH_BYTES] = ""; /* pid:[4026531836] */
    read_stat("/proc/self/stat", &start, &ended);
    me.owner = start << OWNER_PID_BITS | (uint64_t)getpid();
    if (readlink("/proc/self/ns/pid", link, sizeof link - 1) > 5)
        me.namespace = number_at(link + 5);
    /* The kernel draws these bytes anew at every exec; copies of this library in one program,
     * which dlmopen makes, agree on them. */
    const void *random = (const void *)getauxval(AT_RANDOM);
    if (random) memcpy(&me.image, random, sizeof me.image);
    me.image |= 1;
    return me;
}

int process_lives(uint64_t owner) {
    uint64_t expected = owner >> OWNER_PID_BITS & OWNER_START_MASK, start = 0;
    pid_t pid = (pid_t)(owner & ((1u << OWNER_PID_BITS) - 1));
    int ended = 0;
    char path[PATH_BYTES];
    snprintf(path, sizeof path, "/proc/%d/stat", (int)pid);
    if (!read_stat(path, &start, &ended)) return kill(pid, 0) == 0 || errno != ESRCH;
    return (!expected || start == expected) && !ended;
}
