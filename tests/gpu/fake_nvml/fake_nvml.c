/* A libnvidia-ml.so.1 for machines without a GPU: the ABI that nvidia-ml-py calls, and no more.
 *
 * Devices, processes and faults come from a file (FAKE_NVML_STATE) that the test maps and edits
 * while programs run; state_file.py is its other half. A sequence number guards every edit: it is
 * odd while the writer is at work, and a reader that saw it change reads again.
 *
 * -DWITHOUT_NEW_CALLS leaves out the calls that old drivers lack, as if they had never existed.
 */
#include <fcntl.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define API __attribute__((visibility("default")))

enum {
    SUCCESS = 0,
    UNINITIALIZED = 1,
    INVALID_ARGUMENT = 2,
    NOT_SUPPORTED = 3,
    NO_PERMISSION = 4,
    NOT_FOUND = 6,
    INSUFFICIENT_SIZE = 7,
    DRIVER_NOT_LOADED = 9,
    LIBRARY_MISMATCH = 18,
    ARGUMENT_VERSION_MISMATCH = 25,
    UNKNOWN = 999,
};

enum { MAX_DEVICES = 16, MAX_PROCESSES = 256, MAX_FAULTS = 32, MAX_SPINS = 10000000 };
enum { MAX_LIMITS = 64, MAX_INSTANCES = 16, MAX_PROFILES = 8, FIRST_INSTANCE = 256 };
enum { COMPUTE = 0, GRAPHICS = 1, MPS = 2 };
enum { MAGIC = 0x6e766d6c, NO_INSTANCE = 0xffffffff, SAMPLES_OF_DRIVER = 100 };

/* ---- the state file ------------------------------------------------------------------------ */

typedef struct {
    char uuid[96];
    char name[96];
    uint64_t total_bytes;
    uint64_t reserved_bytes;
    uint32_t gpu_percent;
    uint32_t memory_percent;
    uint32_t is_mig_parent;
    uint32_t unused;
} device_state;

typedef struct {
    uint32_t device;
    uint32_t pid;
    uint32_t kind;
    uint32_t sm_percent;
    uint64_t memory_bytes; /* UINT64_MAX: the driver cannot say */
    uint64_t sampled_us;   /* 0: no utilisation sample */
} process_state;

typedef struct {
    char function[64];
    int32_t code;
    uint32_t device; /* UINT32_MAX: every device */
} fault_state;

typedef struct {
    char group[256];
    uint32_t device;
    uint32_t is_set;
    uint64_t soft_bytes;
    uint64_t hard_bytes;
    uint64_t used_bytes; /* written by the test: what the group's processes hold */
} limit_state;

typedef struct {
    uint32_t parent;
    uint32_t unused;
    device_state as_device;
} instance_state;

typedef struct {
    char name[32]; /* empty: this card cannot be cut so */
    uint32_t slices;
    uint32_t count;
    uint64_t memory_mb;
} profile_state;

typedef struct {
    uint32_t magic;
    _Atomic uint32_t sequence;
    uint32_t device_count;
    uint32_t process_count;
    uint32_t fault_count;
    uint32_t unused;
    char driver[32];
    device_state devices[MAX_DEVICES];
    process_state processes[MAX_PROCESSES];
    fault_state faults[MAX_FAULTS];
    uint32_t instance_count;
    uint32_t limits_refused; /* an error code for every new limit; 0: accepted */
    limit_state limits[MAX_LIMITS];
    instance_state instances[MAX_INSTANCES];
    profile_state profiles[MAX_PROFILES];
    uint32_t call_us; /* how long the driver thinks about every call */
    uint32_t unused_too;
    /* between two cards, one more than what NVML would say; 0: it does not say */
    uint32_t ancestors[MAX_DEVICES][MAX_DEVICES];
    uint32_t nvlinks[MAX_DEVICES][MAX_DEVICES];
} state;

_Static_assert(sizeof(device_state) == 224, "device_state");
_Static_assert(sizeof(process_state) == 32, "process_state");
_Static_assert(sizeof(fault_state) == 72, "fault_state");
_Static_assert(sizeof(limit_state) == 288, "limit_state");
_Static_assert(sizeof(instance_state) == 232, "instance_state");
_Static_assert(sizeof(profile_state) == 48, "profile_state");

static state *shared;
static state snapshot; /* one thread calls NVML in every program under test */
static int users;

static int map_state(void) {
    if (shared) return SUCCESS;
    const char *path = getenv("FAKE_NVML_STATE");
    int file = path ? open(path, O_RDWR | O_CLOEXEC) : -1;
    if (file < 0) return DRIVER_NOT_LOADED;
    struct stat about;
    int fits = fstat(file, &about) == 0 && about.st_size >= (off_t)sizeof(state);
    void *mapped = fits ? mmap(NULL, sizeof(state), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0) : MAP_FAILED;
    close(file);
    if (mapped == MAP_FAILED) return DRIVER_NOT_LOADED;
    if (((state *)mapped)->magic != MAGIC) {
        munmap(mapped, sizeof(state));
        return LIBRARY_MISMATCH;
    }
    shared = mapped;
    return SUCCESS;
}

/* Copies the state as it was between two edits. */
static int take_snapshot(void) {
    for (int spin = 0; spin < MAX_SPINS; spin++) {
        uint32_t before = atomic_load(&shared->sequence);
        if (before & 1) continue;
        memcpy(&snapshot, shared, sizeof snapshot);
        atomic_thread_fence(memory_order_acquire);
        if (atomic_load(&shared->sequence) == before) return SUCCESS;
    }
    return UNKNOWN; /* the writer died in the middle of an edit */
}

/* ---- handles and faults ---------------------------------------------------------------------- */

static void *handle_of(uint32_t index) { return (void *)(uintptr_t)(0x1000 + index); }

static uint32_t index_of(const void *handle) { return (uint32_t)((uintptr_t)handle - 0x1000); }

/* Instances are numbered from FIRST_INSTANCE on, cards from 0. */
static int exists(uint32_t index) {
    return index < snapshot.device_count ||
           (index >= FIRST_INSTANCE && index - FIRST_INSTANCE < snapshot.instance_count);
}

static int fault_of(const char *function, uint32_t device) {
    for (uint32_t i = 0; i < snapshot.fault_count && i < MAX_FAULTS; i++) {
        const fault_state *fault = &snapshot.faults[i];
        int here = fault->device == UINT32_MAX || fault->device == device;
        if (here && strcmp(fault->function, function) == 0) return fault->code;
    }
    return SUCCESS;
}

static int enter(const char *function) {
    if (!users || !shared) return UNINITIALIZED;
    int code = take_snapshot();
    if (snapshot.call_us) usleep(snapshot.call_us);
    return code ? code : fault_of(function, UINT32_MAX);
}

static int enter_device(const char *function, const void *handle) {
    if (!users || !shared) return UNINITIALIZED;
    int code = take_snapshot();
    if (code) return code;
    if (snapshot.call_us) usleep(snapshot.call_us);
    if (!exists(index_of(handle))) return INVALID_ARGUMENT;
    return fault_of(function, index_of(handle));
}

#define ENTER()                        \
    do {                               \
        int code_ = enter(__func__);   \
        if (code_) return code_;       \
    } while (0)

#define ENTER_DEVICE(handle)                         \
    do {                                             \
        int code_ = enter_device(__func__, handle);  \
        if (code_) return code_;                     \
    } while (0)

static const device_state *device_of(const void *handle) {
    uint32_t index = index_of(handle);
    return index < FIRST_INSTANCE ? &snapshot.devices[index]
                                  : &snapshot.instances[index - FIRST_INSTANCE].as_device;
}

static int copy_text(char *out, unsigned capacity, const char *text) {
    size_t length = strlen(text) + 1;
    if (length > capacity) return INSUFFICIENT_SIZE;
    memcpy(out, text, length);
    return SUCCESS;
}

/* ---- the library ------------------------------------------------------------------------------ */

API int nvmlInitWithFlags(unsigned flags) {
    (void)flags;
    int code = map_state();
    if (!code) code = take_snapshot();
    if (!code) code = fault_of(__func__, UINT32_MAX);
    if (!code) users++;
    return code;
}

API int nvmlShutdown(void) {
    if (!users) return UNINITIALIZED;
    users--;
    return SUCCESS;
}

API const char *nvmlErrorString(int code) {
    switch (code) {
        case SUCCESS: return "Success";
        case NOT_SUPPORTED: return "Not Supported";
        case NOT_FOUND: return "Not Found";
        case ARGUMENT_VERSION_MISMATCH: return "Argument version mismatch";
        case 15: return "GPU is lost";
        default: return "Unknown Error";
    }
}

API int nvmlSystemGetDriverVersion(char *out, unsigned capacity) {
    ENTER();
    return copy_text(out, capacity, snapshot.driver);
}

API int nvmlDeviceGetCount_v2(unsigned *count) {
    ENTER();
    *count = snapshot.device_count;
    return SUCCESS;
}

API int nvmlDeviceGetHandleByIndex_v2(unsigned index, void **handle) {
    ENTER();
    if (index >= snapshot.device_count) return INVALID_ARGUMENT;
    int code = fault_of(__func__, index);
    if (!code) *handle = handle_of(index);
    return code;
}

API int nvmlDeviceGetName(void *handle, char *out, unsigned capacity) {
    ENTER_DEVICE(handle);
    return copy_text(out, capacity, device_of(handle)->name);
}

API int nvmlDeviceGetUUID(void *handle, char *out, unsigned capacity) {
    ENTER_DEVICE(handle);
    return copy_text(out, capacity, device_of(handle)->uuid);
}

static uint64_t used_bytes(uint32_t device) {
    uint64_t used = 0;
    for (uint32_t i = 0; i < snapshot.process_count && i < MAX_PROCESSES; i++) {
        const process_state *process = &snapshot.processes[i];
        if (process->device == device && process->memory_bytes != UINT64_MAX)
            used += process->memory_bytes;
    }
    return used;
}

typedef struct {
    unsigned long long total, free, used;
} memory_v1;

/* The first version counts the driver's own memory as used. */
API int nvmlDeviceGetMemoryInfo(void *handle, memory_v1 *out) {
    ENTER_DEVICE(handle);
    out->total = device_of(handle)->total_bytes;
    out->used = used_bytes(index_of(handle)) + device_of(handle)->reserved_bytes;
    out->free = out->total - out->used;
    return SUCCESS;
}

#ifndef WITHOUT_NEW_CALLS
typedef struct {
    unsigned version;
    unsigned long long total, reserved, free, used;
} memory_v2;
_Static_assert(sizeof(memory_v2) == 40, "memory_v2");

API int nvmlDeviceGetMemoryInfo_v2(void *handle, memory_v2 *out) {
    ENTER_DEVICE(handle);
    if (out->version != (sizeof(memory_v2) | 2u << 24)) return ARGUMENT_VERSION_MISMATCH;
    out->total = device_of(handle)->total_bytes;
    out->reserved = device_of(handle)->reserved_bytes;
    out->used = used_bytes(index_of(handle));
    out->free = out->total - out->reserved - out->used;
    return SUCCESS;
}
#endif

typedef struct {
    unsigned gpu, memory;
} utilization;

API int nvmlDeviceGetUtilizationRates(void *handle, utilization *out) {
    ENTER_DEVICE(handle);
    if (device_of(handle)->is_mig_parent) return NOT_SUPPORTED;
    out->gpu = device_of(handle)->gpu_percent;
    out->memory = device_of(handle)->memory_percent;
    return SUCCESS;
}

/* ---- processes ---------------------------------------------------------------------------------- */

typedef struct {
    unsigned pid;
    unsigned long long memory_bytes;
    unsigned gpu_instance, compute_instance;
} process_info;
_Static_assert(sizeof(process_info) == 24, "process_info");

/* Without room for all: the number of processes, and INSUFFICIENT_SIZE; none: SUCCESS. */
static int list_processes(uint32_t device, uint32_t kind, unsigned *count, process_info *out) {
    unsigned capacity = out ? *count : 0;
    unsigned found = 0;
    for (uint32_t i = 0; i < snapshot.process_count && i < MAX_PROCESSES; i++) {
        const process_state *process = &snapshot.processes[i];
        if (process->device != device || process->kind != kind) continue;
        if (found < capacity)
            out[found] = (process_info){process->pid, process->memory_bytes, NO_INSTANCE,
                                        NO_INSTANCE};
        found++;
    }
    *count = found;
    return found > capacity ? INSUFFICIENT_SIZE : SUCCESS;
}

API int nvmlDeviceGetComputeRunningProcesses_v3(void *handle, unsigned *count, process_info *out) {
    ENTER_DEVICE(handle);
    return list_processes(index_of(handle), COMPUTE, count, out);
}

API int nvmlDeviceGetGraphicsRunningProcesses_v3(void *handle, unsigned *count,
                                                 process_info *out) {
    ENTER_DEVICE(handle);
    return list_processes(index_of(handle), GRAPHICS, count, out);
}

#ifndef WITHOUT_NEW_CALLS
API int nvmlDeviceGetMPSComputeRunningProcesses_v3(void *handle, unsigned *count,
                                                   process_info *out) {
    ENTER_DEVICE(handle);
    return list_processes(index_of(handle), MPS, count, out);
}

typedef struct {
    unsigned pid;
    unsigned long long sampled_us;
    unsigned sm, memory, encoder, decoder;
} utilization_sample;
_Static_assert(sizeof(utilization_sample) == 32, "utilization_sample");

/* Asked without a buffer the driver names the size of its ring, never SUCCESS. */
API int nvmlDeviceGetProcessUtilization(void *handle, utilization_sample *out, unsigned *count,
                                        unsigned long long after_us) {
    ENTER_DEVICE(handle);
    if (device_of(handle)->is_mig_parent) return NOT_SUPPORTED;
    if (!out) {
        *count = SAMPLES_OF_DRIVER;
        return INSUFFICIENT_SIZE;
    }
    unsigned capacity = *count;
    unsigned found = 0;
    for (uint32_t i = 0; i < snapshot.process_count && i < MAX_PROCESSES; i++) {
        const process_state *process = &snapshot.processes[i];
        if (process->device != index_of(handle) || process->sampled_us <= after_us) continue;
        if (found < capacity)
            out[found] = (utilization_sample){process->pid, process->sampled_us,
                                              process->sm_percent, 0, 0, 0};
        found++;
    }
    if (!found) return NOT_FOUND;
    *count = found;
    return found > capacity ? INSUFFICIENT_SIZE : SUCCESS;
}
#endif

/* ---- limits by control group (driver r615) -------------------------------------------------------- */

#ifndef WITHOUT_NEW_CALLS
typedef struct {
    const char *group;
    unsigned long long soft_bytes, hard_bytes;
} set_limits;

typedef struct {
    const char *group;
    unsigned long long soft_bytes, hard_bytes, used_bytes;
} get_limits;

/* The limits themselves are the library's own: tests write only what is in use. */
static limit_state *limit_of(uint32_t device, const char *group, int make) {
    for (uint32_t i = 0; i < MAX_LIMITS; i++) {
        limit_state *limit = &shared->limits[i];
        if (limit->is_set && limit->device == device && strcmp(limit->group, group) == 0)
            return limit;
        if (!limit->is_set && make) {
            snprintf(limit->group, sizeof limit->group, "%s", group);
            limit->device = device;
            limit->used_bytes = 0;
            limit->is_set = 1;
            return limit;
        }
    }
    return NULL;
}

API int nvmlDeviceSetMemoryLimits_v1(void *handle, const set_limits *wanted) {
    ENTER_DEVICE(handle);
    if (index_of(handle) >= FIRST_INSTANCE || device_of(handle)->is_mig_parent)
        return NOT_SUPPORTED;
    if (!wanted->group || strlen(wanted->group) > 255 || wanted->soft_bytes > wanted->hard_bytes)
        return INVALID_ARGUMENT;
    if (access(wanted->group, F_OK) != 0) return INVALID_ARGUMENT; /* no such group */
    if (snapshot.limits_refused) return (int)snapshot.limits_refused;
    limit_state *limit = limit_of(index_of(handle), wanted->group, 1);
    if (!limit) return UNKNOWN;
    if (wanted->hard_bytes < limit->used_bytes) return INVALID_ARGUMENT;
    limit->soft_bytes = wanted->soft_bytes;
    limit->hard_bytes = wanted->hard_bytes;
    return SUCCESS;
}

API int nvmlDeviceGetMemoryLimits_v1(void *handle, get_limits *out) {
    ENTER_DEVICE(handle);
    const limit_state *limit = limit_of(index_of(handle), out->group, 0);
    if (!limit) return NOT_SUPPORTED; /* as the driver says of a group that never had one */
    out->soft_bytes = limit->soft_bytes;
    out->hard_bytes = limit->hard_bytes;
    out->used_bytes = limit->used_bytes;
    return SUCCESS;
}
#endif

/* ---- topology ------------------------------------------------------------------------------ */

enum { P2P_NVLINK = 2 };

static int told(const uint32_t said[MAX_DEVICES][MAX_DEVICES], void *one, void *other, int *out) {
    uint32_t first = index_of(one), second = index_of(other);
    if (first >= MAX_DEVICES || second >= snapshot.device_count) return INVALID_ARGUMENT;
    if (!said[first][second]) return NOT_SUPPORTED;
    *out = (int)said[first][second] - 1;
    return SUCCESS;
}

API int nvmlDeviceGetTopologyCommonAncestor(void *one, void *other, int *level) {
    ENTER_DEVICE(one);
    return told(snapshot.ancestors, one, other, level);
}

API int nvmlDeviceGetP2PStatus(void *one, void *other, int of, int *status) {
    ENTER_DEVICE(one);
    return of == P2P_NVLINK ? told(snapshot.nvlinks, one, other, status) : NOT_SUPPORTED;
}

/* ---- instances (MIG) ------------------------------------------------------------------------------- */

API int nvmlDeviceGetMigMode(void *handle, unsigned *current, unsigned *pending) {
    ENTER_DEVICE(handle);
    if (index_of(handle) >= FIRST_INSTANCE || !snapshot.profiles[0].name[0]) return NOT_SUPPORTED;
    *current = *pending = device_of(handle)->is_mig_parent;
    return SUCCESS;
}

API int nvmlDeviceGetMaxMigDeviceCount(void *handle, unsigned *count) {
    ENTER_DEVICE(handle);
    *count = snapshot.profiles[0].name[0] ? 7 : 0;
    return SUCCESS;
}

API int nvmlDeviceGetMigDeviceHandleByIndex(void *handle, unsigned place, void **out) {
    ENTER_DEVICE(handle);
    for (uint32_t i = 0; i < snapshot.instance_count && i < MAX_INSTANCES; i++)
        if (snapshot.instances[i].parent == index_of(handle) && place-- == 0) {
            *out = handle_of(FIRST_INSTANCE + i);
            return SUCCESS;
        }
    return NOT_FOUND;
}

typedef struct {
    unsigned version, id, is_p2p, slices, count, multiprocessors;
    unsigned copy, decoders, encoders, jpeg, ofa;
    unsigned long long memory_mb;
    char name[96];
} profile_info_v2;
_Static_assert(sizeof(profile_info_v2) == 0x98, "profile_info_v2");

API int nvmlDeviceGetGpuInstanceProfileInfoV(void *handle, unsigned number, profile_info_v2 *out) {
    ENTER_DEVICE(handle);
    if (out->version != (sizeof(profile_info_v2) | 2u << 24)) return ARGUMENT_VERSION_MISMATCH;
    if (number >= MAX_PROFILES || !snapshot.profiles[number].name[0]) return NOT_SUPPORTED;
    const profile_state *profile = &snapshot.profiles[number];
    out->id = number;
    out->slices = profile->slices;
    out->count = profile->count;
    out->memory_mb = profile->memory_mb;
    snprintf(out->name, sizeof out->name, "MIG %s", profile->name);
    return SUCCESS;
}

/* ---- what nvitop and gpustat ask besides ------------------------------------------------------------ */

#ifndef WITHOUT_NEW_CALLS
API int nvmlSystemGetCudaDriverVersion(int *version) {
    ENTER();
    *version = 13040;
    return SUCCESS;
}

API int nvmlDeviceGetHandleByUUID(const char *uuid, void **handle) {
    ENTER();
    for (uint32_t i = 0; i < snapshot.device_count; i++) {
        if (strcmp(uuid, snapshot.devices[i].uuid) != 0) continue;
        *handle = handle_of(i);
        return SUCCESS;
    }
    return NOT_FOUND;
}

API int nvmlDeviceGetIndex(void *handle, unsigned *index) {
    ENTER_DEVICE(handle);
    *index = index_of(handle);
    return SUCCESS;
}

API int nvmlDeviceGetMinorNumber(void *handle, unsigned *minor) {
    ENTER_DEVICE(handle);
    *minor = index_of(handle);
    return SUCCESS;
}

typedef struct {
    char bus_id_legacy[16];
    unsigned domain, bus, device, pci_device, pci_subsystem;
    char bus_id[32];
} pci_info;

API int nvmlDeviceGetPciInfo_v3(void *handle, pci_info *out) {
    ENTER_DEVICE(handle);
    memset(out, 0, sizeof *out);
    out->bus = index_of(handle) + 1;
    snprintf(out->bus_id, sizeof out->bus_id, "00000000:%02X:00.0", out->bus);
    snprintf(out->bus_id_legacy, sizeof out->bus_id_legacy, "0000:%02X:00.0", out->bus);
    return SUCCESS;
}

typedef struct {
    unsigned long long sampled_us;
    unsigned pid, sm, memory, encoder, decoder, jpeg, flow;
} utilization_info;

typedef struct {
    unsigned version, count;
    unsigned long long after_us;
    utilization_info *entries;
} utilization_infos;
_Static_assert(sizeof(utilization_info) == 40 && sizeof(utilization_infos) == 24, "infos");

API int nvmlDeviceGetProcessesUtilizationInfo(void *handle, utilization_infos *list) {
    ENTER_DEVICE(handle);
    if (list->version != (sizeof *list | 1u << 24)) return ARGUMENT_VERSION_MISMATCH;
    unsigned capacity = list->entries ? list->count : 0;
    unsigned found = 0;
    for (uint32_t i = 0; i < snapshot.process_count && i < MAX_PROCESSES; i++) {
        const process_state *process = &snapshot.processes[i];
        if (process->device != index_of(handle) || process->sampled_us <= list->after_us) continue;
        if (found < capacity)
            list->entries[found] = (utilization_info){process->sampled_us, process->pid,
                                                      process->sm_percent, 0, 0, 0, 0, 0};
        found++;
    }
    if (!found) return NOT_FOUND;
    list->count = found;
    return found > capacity ? INSUFFICIENT_SIZE : SUCCESS;
}
#endif
