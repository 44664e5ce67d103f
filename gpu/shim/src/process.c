/* Identity and life of processes from /proc. Only calls that glibc 2.17 has: fstat and strtoull
 * would tie the library to the glibc of the machine that built it. */
#include "process.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/types.h>
#include <unistd.h>

#include "layout.h"

enum { PATH_BYTES = 40, STAT_BYTES = 512, PID_DIGITS = 20 };
enum { FIELD_STATE = 3, FIELD_THREADS = 20, FIELD_START = 22 };

static uint64_t number_at(const char *text) {
    uint64_t number = 0;
    while (*text >= '0' && *text <= '9') number = number * 10 + (uint64_t)(*text++ - '0');
    return number;
}

static void stat_path(char *path, uint64_t pid) {
    char digits[PID_DIGITS];
    int count = 0;
    do digits[count++] = (char)('0' + pid % 10);
    while (pid /= 10);
    strcpy(path, "/proc/");
    path += 6;
    while (count) *path++ = digits[--count];
    strcpy(path, "/stat");
}

/* Reads start, threads and state of a process; 0 where there is none to read. */
static int read_stat(const char *path, uint64_t *start, uint64_t *threads, char *state) {
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
        if (field == FIELD_STATE) *state = *at;
        if (field == FIELD_THREADS) *threads = number_at(at);
        if (field == FIELD_START) {
            *start = number_at(at) & OWNER_START_MASK;
            return 1;
        }
    }
    return 0;
}

identity process_identity(void) {
    identity me = {0};
    uint64_t start = 0, threads;
    char state, link[PATH_BYTES] = "";
    read_stat("/proc/self/stat", &start, &threads, &state);
    me.owner = start << OWNER_PID_BITS | (uint64_t)getpid();
    if (readlink("/proc/self/ns/pid", link, sizeof link - 1) > 5) me.namespace = number_at(link + 5);
    /* The kernel draws these bytes anew at every exec; copies of this library in one program,
     * which dlmopen makes, agree on them. */
    const void *random = (const void *)getauxval(AT_RANDOM);
    if (random) memcpy(&me.image, random, sizeof me.image);
    me.image |= 1;
    return me;
}

int process_lives(uint64_t owner) {
    uint64_t pid = owner & ((1u << OWNER_PID_BITS) - 1), start = 0, threads = 0;
    uint64_t expected = owner >> OWNER_PID_BITS & OWNER_START_MASK;
    char path[PATH_BYTES], state = 0;
    stat_path(path, pid);
    if (!read_stat(path, &start, &threads, &state))
        return kill((pid_t)pid, 0) == 0 || errno != ESRCH;
    if (expected && start != expected) return 0;
    /* The first thread may be a zombie while another still holds the driver's files open. */
    return !((state == 'Z' || state == 'X') && threads <= 1);
}
