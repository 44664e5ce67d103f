/* libnvidia-ml.so.1 for a slice: one card, as large as the slice, with the slice's processes
 * alone on it. Without it nvidia-smi and PyTorch's messages name the neighbours. It only tells;
 * libcuda.so.1 is what limits.
 *
 * A driver that reports host PIDs inside a container shows no process here: better than others'. */
#include <dlfcn.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "baseline.h"
#include "layout.h"
#include "ledger.h"

#define EXPORT __attribute__((visibility("default")))

enum { SUCCESS = 0, BAD_ARGUMENT = 2, NOT_FOUND = 6, TOO_SMALL = 7, NO_FUNCTION = 13, UNKNOWN = 999 };
enum { MOST_SAMPLES = 4096, FULL_PERCENT = 100, RECENT_US = 2000000 };

typedef struct {
    uint32_t pid;
    uint64_t bytes;
    uint32_t instances[2];
} process_entry;
typedef struct {
    uint32_t pid;
    uint64_t at_us;
    uint32_t sm, memory, encoder, decoder;
} sample;
typedef struct {
    uint64_t total, free, used;
} memory_v1;
typedef struct {
    uint32_t version;
    uint64_t total, reserved, free, used;
} memory_v2;
typedef struct {
    uint64_t at_us;
    uint32_t pid, numbers[6];
} sample_v1;
typedef struct {
    uint32_t version, count;
    uint64_t since_us;
    sample_v1 *samples;
} samples_v1;
typedef struct {
    uint32_t pid;
    uint64_t bytes;
    uint32_t instances[2];
    uint64_t protected_bytes;
} detail_v1;
typedef struct {
    uint32_t version, mode, count;
    detail_v1 *details;
} details_v1;

static void *real(const char *name) {
    void *library = dlopen("libnvidia-ml-real.so.1", RTLD_LAZY | RTLD_NOLOAD);
    ledger_open(0);
    return library ? dlsym(library, name) : NULL;
}

#define REAL(name) __typeof__(&name) ask = (__typeof__(&name))real(#name)
#define NEED(name) \
    REAL(name);    \
    if (!ask) return NO_FUNCTION

/* Moves the slice's own entries to the front and wipes the rest; returns how many there are. */
static uint32_t keep_own(void *entries, uint32_t count, size_t size, size_t pid_at) {
    char *from = entries, *to = entries;
    for (uint32_t i = 0; i < count; i++, from += size) {
        uint32_t pid;
        memcpy(&pid, from + pid_at, sizeof pid);
        if (!ledger_knows(pid)) continue;
        memmove(to, from, size);
        to += size;
    }
    memset(to, 0, (size_t)(from - to));
    return (uint32_t)((size_t)(to - (char *)entries) / size);
}

/* How much room is needed would tell the number of all processes. */
static int answered(int answer, uint32_t *count, void *entries, size_t size) {
    if (answer == TOO_SMALL && *count < LEDGER_SLOTS) *count = LEDGER_SLOTS;
    if (answer == SUCCESS && entries) *count = keep_own(entries, *count, size, 0);
    return answer;
}

#define PROCESS_LIST(name, size)                                    \
    EXPORT int name(void *device, uint32_t *count, void *entries) { \
        NEED(name);                                                 \
        return answered(ask(device, count, entries), count, entries, size); \
    }
#define PROCESS_LISTS(name)  \
    PROCESS_LIST(name, 16)   \
    PROCESS_LIST(name##_v2, sizeof(process_entry)) \
    PROCESS_LIST(name##_v3, sizeof(process_entry))
PROCESS_LISTS(nvmlDeviceGetComputeRunningProcesses)
PROCESS_LISTS(nvmlDeviceGetGraphicsRunningProcesses)
PROCESS_LISTS(nvmlDeviceGetMPSComputeRunningProcesses)
PROCESS_LIST(nvmlDeviceGetAccountingPids, sizeof(uint32_t))

EXPORT int nvmlDeviceGetRunningProcessDetailList(void *device, details_v1 *list) {
    NEED(nvmlDeviceGetRunningProcessDetailList);
    int answer = ask(device, list);
    return answered(answer, &list->count, list->details, sizeof(detail_v1));
}

EXPORT int nvmlDeviceGetProcessUtilization(void *device, sample *samples, uint32_t *count,
                                           uint64_t since_us) {
    NEED(nvmlDeviceGetProcessUtilization);
    int answer = answered(ask(device, samples, count, since_us), count, samples, sizeof *samples);
    return answer == SUCCESS && samples && !*count ? NOT_FOUND : answer;
}

EXPORT int nvmlDeviceGetProcessesUtilizationInfo(void *device, samples_v1 *list) {
    NEED(nvmlDeviceGetProcessesUtilizationInfo);
    int answer = ask(device, list);
    if (answer == TOO_SMALL && list->count < LEDGER_SLOTS) list->count = LEDGER_SLOTS;
    if (answer != SUCCESS || !list->samples) return answer;
    list->count = keep_own(list->samples, list->count, sizeof(sample_v1), offsetof(sample_v1, pid));
    return list->count ? SUCCESS : NOT_FOUND;
}

/* The ledger knows no contexts and modules, the driver's process list does. */
static uint64_t own_bytes(void *device) {
    process_entry entries[LEDGER_SLOTS];
    uint32_t count = LEDGER_SLOTS;
    uint64_t sum = 0, ledger = ledger_used();
    if (nvmlDeviceGetComputeRunningProcesses_v3(device, &count, entries)) count = 0;
    for (uint32_t i = 0; i < count; i++)
        if (entries[i].bytes != UINT64_MAX) sum += entries[i].bytes;
    return sum > ledger ? sum : ledger;
}

static int slice_view(void *device, uint64_t *total, uint64_t *free, uint64_t *used) {
    uint64_t limit = ledger_open(0) ? ledger_limit() : 0;
    if (!limit) return UNKNOWN;
    if (limit < *total) *total = limit;
    *used = own_bytes(device);
    if (*used > *total) *used = *total;
    if (*free > *total - *used) *free = *total - *used;
    return SUCCESS;
}

EXPORT int nvmlDeviceGetMemoryInfo(void *device, memory_v1 *memory) {
    NEED(nvmlDeviceGetMemoryInfo);
    int answer = ask(device, memory);
    return answer ? answer : slice_view(device, &memory->total, &memory->free, &memory->used);
}

EXPORT int nvmlDeviceGetMemoryInfo_v2(void *device, memory_v2 *memory) {
    NEED(nvmlDeviceGetMemoryInfo_v2);
    int answer = ask(device, memory);
    if (answer) return answer;
    memory->reserved = 0;
    return slice_view(device, &memory->total, &memory->free, &memory->used);
}

/* The card's own figure would show what the neighbours do. */
EXPORT int nvmlDeviceGetUtilizationRates(void *device, uint32_t *percent) {
    NEED(nvmlDeviceGetUtilizationRates);
    uint32_t count = 0, sums[2] = {0};
    struct timespec now;
    int answer = ask(device, percent);
    if (answer) return answer;
    clock_gettime(CLOCK_REALTIME, &now);
    uint64_t now_us = (uint64_t)now.tv_sec * 1000000 + (uint64_t)now.tv_nsec / 1000;
    nvmlDeviceGetProcessUtilization(device, NULL, &count, 0);
    if (count > MOST_SAMPLES) count = MOST_SAMPLES;
    sample *samples = calloc(count + 1, sizeof *samples);
    if (!samples) return UNKNOWN;
    answer = nvmlDeviceGetProcessUtilization(device, samples, &count, now_us - RECENT_US);
    for (uint32_t i = 0; answer == SUCCESS && i < count; i++) {
        if (samples[i].sm <= FULL_PERCENT) sums[0] += samples[i].sm;
        if (samples[i].memory <= FULL_PERCENT) sums[1] += samples[i].memory;
    }
    free(samples);
    for (int i = 0; i < 2; i++) percent[i] = sums[i] < FULL_PERCENT ? sums[i] : FULL_PERCENT;
    return answer == NOT_FOUND ? SUCCESS : answer;
}

/* ---- one card ---- */

EXPORT int nvmlDeviceGetHandleByUUID(const char *uuid, void **device) {
    NEED(nvmlDeviceGetHandleByUUID);
    return ask(uuid, device);
}

static int knows_card(void) {
    void *device;
    return ledger_open(0) && *ledger_device() &&
           nvmlDeviceGetHandleByUUID(ledger_device(), &device) == SUCCESS;
}

#define ONE_CARD(count_name, by_index_name)                            \
    EXPORT int count_name(uint32_t *count) {                           \
        NEED(count_name);                                              \
        int answer = ask(count);                                       \
        if (answer == SUCCESS && knows_card()) *count = 1;             \
        return answer;                                                 \
    }                                                                  \
    EXPORT int by_index_name(uint32_t index, void **device) {          \
        NEED(by_index_name);                                           \
        if (!knows_card()) return ask(index, device);                  \
        if (index) return BAD_ARGUMENT;                                \
        return nvmlDeviceGetHandleByUUID(ledger_device(), device);     \
    }
ONE_CARD(nvmlDeviceGetCount, nvmlDeviceGetHandleByIndex)
ONE_CARD(nvmlDeviceGetCount_v2, nvmlDeviceGetHandleByIndex_v2)

EXPORT int nvmlDeviceGetIndex(void *device, uint32_t *index) {
    NEED(nvmlDeviceGetIndex);
    int answer = ask(device, index);
    if (answer == SUCCESS && knows_card()) *index = 0;
    return answer;
}
