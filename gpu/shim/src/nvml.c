/* libnvidia-ml.so.1 for a slice: one card, as large as the slice, with the slice's processes
 * alone on it. Without it nvidia-smi and PyTorch's messages name the neighbours. It only tells;
 * libcuda.so.1 is what limits.
 *
 * A driver that reports host PIDs inside a container shows no process here: better than others'. */
#include <dlfcn.h>
#include <string.h>
#include <time.h>

#include "baseline.h"
#include "layout.h"
#include "ledger.h"

#define EXPORT __attribute__((visibility("default")))

enum { SUCCESS = 0, BAD_ARGUMENT = 2, NOT_FOUND = 6, TOO_SMALL = 7, NO_FUNCTION = 13 };
enum { UNKNOWN = 999, MOST_SAMPLES = 1024, FULL_PERCENT = 100, RECENT_S = 2 };

typedef struct {
    uint32_t pid;
    uint64_t bytes, instances;
} process_entry;
typedef struct {
    uint32_t pid;
    uint64_t at_us;
    uint32_t percent[4]; /* of the multiprocessors, of the memory's bandwidth, … */
} sample;
typedef struct {
    uint32_t numbers[4]; /* version, how many entries, and others */
    void *entries;
} versioned_list;

static void *real(const char *name) {
    void *library = dlopen("libnvidia-ml-real.so.1", RTLD_LAZY | RTLD_NOLOAD);
    ledger_open(0);
    return library ? dlsym(library, name) : NULL;
}

/* NVML is asked some times a second: no need to remember where its functions are. */
#define NEED(name)                                              \
    __typeof__(&name) ask = (__typeof__(&name))real(#name);     \
    if (!ask) return NO_FUNCTION

/* Of a list that the driver filled in keeps the slice's own entries and wipes the rest. How much
 * room a list needs would tell the number of all processes. */
static int own_alone(int answer, uint32_t *count, void *entries, size_t size, size_t pid_at) {
    char *from = entries, *to = entries;
    if (answer == TOO_SMALL && *count < LEDGER_SLOTS) *count = LEDGER_SLOTS;
    if (answer != SUCCESS || !entries) return answer;
    for (uint32_t i = 0; i < *count; i++, from += size) {
        uint32_t pid;
        memcpy(&pid, from + pid_at, sizeof pid);
        if (!ledger_knows(pid)) continue;
        memmove(to, from, size);
        to += size;
    }
    memset(to, 0, (size_t)(from - to));
    *count = (uint32_t)((size_t)(to - (char *)entries) / size);
    return SUCCESS;
}

#define PROCESS_LIST(name, size)                                                     \
    EXPORT int name(void *device, uint32_t *count, void *entries) {                  \
        NEED(name);                                                                  \
        return own_alone(ask(device, count, entries), count, entries, size, 0);      \
    }
#define PROCESS_LISTS(name)                        \
    PROCESS_LIST(name, 16)                         \
    PROCESS_LIST(name##_v2, sizeof(process_entry)) \
    PROCESS_LIST(name##_v3, sizeof(process_entry))
PROCESS_LISTS(nvmlDeviceGetComputeRunningProcesses)
PROCESS_LISTS(nvmlDeviceGetGraphicsRunningProcesses)
PROCESS_LISTS(nvmlDeviceGetMPSComputeRunningProcesses)
PROCESS_LIST(nvmlDeviceGetAccountingPids, sizeof(uint32_t))

#define VERSIONED_LIST(name, count_at, size, pid_at)                                    \
    EXPORT int name(void *device, versioned_list *list) {                               \
        NEED(name);                                                                     \
        int answer = ask(device, list);                                                 \
        return own_alone(answer, &list->numbers[count_at], list->entries, size, pid_at); \
    }
VERSIONED_LIST(nvmlDeviceGetRunningProcessDetailList, 2, 32, 0)
VERSIONED_LIST(nvmlDeviceGetProcessesUtilizationInfo, 1, 40, 8)

EXPORT int nvmlDeviceGetProcessUtilization(void *device, sample *samples, uint32_t *count,
                                           uint64_t since_us) {
    NEED(nvmlDeviceGetProcessUtilization);
    int answer = ask(device, samples, count, since_us);
    answer = own_alone(answer, count, samples, sizeof *samples, 0);
    return answer == SUCCESS && samples && !*count ? NOT_FOUND : answer;
}

/* The ledger knows no contexts and modules, the driver's process list does. */
static uint64_t own_bytes(void *device, uint64_t most) {
    process_entry entries[LEDGER_SLOTS];
    uint32_t count = LEDGER_SLOTS;
    uint64_t sum = 0, ledger = ledger_used();
    if (nvmlDeviceGetComputeRunningProcesses_v3(device, &count, entries)) count = 0;
    for (uint32_t i = 0; i < count; i++)
        if (entries[i].bytes != UINT64_MAX) sum += entries[i].bytes;
    if (sum < ledger) sum = ledger;
    return sum < most ? sum : most;
}

static int slice_view(int answer, void *device, uint64_t *total, uint64_t *free, uint64_t *used) {
    uint64_t shown = ledger_total();
    if (answer || !shown) return answer ? answer : UNKNOWN;
    if (shown < *total) *total = shown;
    *used = own_bytes(device, *total);
    if (*free > *total - *used) *free = *total - *used;
    return SUCCESS;
}

/* total, free, used */
EXPORT int nvmlDeviceGetMemoryInfo(void *device, uint64_t *memory) {
    NEED(nvmlDeviceGetMemoryInfo);
    return slice_view(ask(device, memory), device, &memory[0], &memory[1], &memory[2]);
}

/* version, total, reserved, free, used */
EXPORT int nvmlDeviceGetMemoryInfo_v2(void *device, uint64_t *memory) {
    NEED(nvmlDeviceGetMemoryInfo_v2);
    int answer = slice_view(ask(device, memory), device, &memory[1], &memory[3], &memory[4]);
    if (answer == SUCCESS) memory[2] = 0;
    return answer;
}

/* The card's own figure would show what the neighbours do. */
EXPORT int nvmlDeviceGetUtilizationRates(void *device, uint32_t *percent) {
    NEED(nvmlDeviceGetUtilizationRates);
    sample samples[MOST_SAMPLES];
    uint32_t count = MOST_SAMPLES, sums[2] = {0};
    int answer = ask(device, percent);
    if (answer) return answer;
    uint64_t since_us = ((uint64_t)time(NULL) - RECENT_S) * 1000000;
    answer = nvmlDeviceGetProcessUtilization(device, samples, &count, since_us);
    for (int k = 0; k < 2; k++) {
        for (uint32_t i = 0; answer == SUCCESS && i < count; i++)
            if (samples[i].percent[k] <= FULL_PERCENT) sums[k] += samples[i].percent[k];
        percent[k] = sums[k] < FULL_PERCENT ? sums[k] : FULL_PERCENT;
    }
    return answer == NOT_FOUND ? SUCCESS : answer;
}

/* ---- one card ---- */

static void *slice_card(void) {
    void *device = NULL;
    int (*find)(const char *, void **) = real("nvmlDeviceGetHandleByUUID");
    return find && *ledger_device() && find(ledger_device(), &device) == SUCCESS ? device : NULL;
}

#define ONE_CARD(count_name, by_index_name)                   \
    EXPORT int count_name(uint32_t *count) {                  \
        NEED(count_name);                                     \
        int answer = ask(count);                              \
        if (answer == SUCCESS && slice_card()) *count = 1;    \
        return answer;                                        \
    }                                                         \
    EXPORT int by_index_name(uint32_t index, void **device) { \
        NEED(by_index_name);                                  \
        void *card = slice_card();                            \
        if (!card) return ask(index, device);                 \
        if (index) return BAD_ARGUMENT;                       \
        *device = card;                                       \
        return SUCCESS;                                       \
    }
ONE_CARD(nvmlDeviceGetCount, nvmlDeviceGetHandleByIndex)
ONE_CARD(nvmlDeviceGetCount_v2, nvmlDeviceGetHandleByIndex_v2)

EXPORT int nvmlDeviceGetIndex(void *device, uint32_t *index) {
    NEED(nvmlDeviceGetIndex);
    int answer = ask(device, index);
    if (answer == SUCCESS && slice_card()) *index = 0;
    return answer;
}
