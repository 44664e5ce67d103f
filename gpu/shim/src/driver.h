/* The part of the driver's interface that passes through here, declared by ourselves: the build
 * needs no CUDA. Names and numbers are the driver's; its opaque types are words. */
#pragma once

#include <stddef.h>
#include <stdint.h>

#define EXPORT __attribute__((visibility("default")))

typedef int result;
typedef uint64_t word; /* an address on the device, a handle, context, stream, pool or array */

enum { SUCCESS = 0, OUT_OF_MEMORY = 2, NOT_SUPPORTED = 801 };

typedef struct {
    int type, handle_types, location_type, location;
} allocation_properties; /* its beginning */

typedef struct {
    size_t width, height;
    unsigned format, channels;
} shape2d;

typedef struct {
    size_t width, height, depth;
    unsigned format, channels, flags;
} shape3d;

typedef struct { char reserved[64]; } ipc_handle;

/* Every function of the driver that this library answers in the driver's stead. */
#define HOOKS(X)                                                                              \
    X(cuInit, (unsigned))                                                                     \
    X(cuGetProcAddress, (const char *, void **, int, uint64_t))                               \
    X(cuGetProcAddress_v2, (const char *, void **, int, uint64_t, int *))                     \
    X(cuMemGetInfo_v2, (size_t *, size_t *)) X(cuDeviceTotalMem_v2, (size_t *, int))          \
    X(cuMemAlloc_v2, (word *, size_t)) X(cuMemAllocManaged, (word *, size_t, unsigned))       \
    X(cuMemAllocPitch_v2, (word *, size_t *, size_t, size_t, unsigned))                       \
    X(cuMemAllocAsync, (word *, size_t, word)) X(cuMemAllocAsync_ptsz, (word *, size_t, word)) \
    X(cuMemAllocFromPoolAsync, (word *, size_t, word, word))                                  \
    X(cuMemAllocFromPoolAsync_ptsz, (word *, size_t, word, word))                             \
    X(cuMemFree_v2, (word)) X(cuMemFreeAsync, (word, word)) X(cuMemFreeAsync_ptsz, (word, word)) \
    X(cuMemPoolTrimTo, (word, size_t)) X(cuMemPoolDestroy, (word))                            \
    X(cuCtxSynchronize, (void)) X(cuEventSynchronize, (word))                                 \
    X(cuStreamSynchronize, (word)) X(cuStreamSynchronize_ptsz, (word))                        \
    X(cuMemCreate, (word *, size_t, const allocation_properties *, uint64_t))                 \
    X(cuMemRelease, (word)) X(cuMemRetainAllocationHandle, (word *, word))                    \
    X(cuMemMap, (word, size_t, size_t, word, uint64_t)) X(cuMemUnmap, (word, size_t))         \
    X(cuMemImportFromShareableHandle, (word *, word, int))                                    \
    X(cuMemPoolImportPointer, (word *, word, void *))                                         \
    X(cuIpcOpenMemHandle, (word *, ipc_handle, unsigned))                                     \
    X(cuIpcOpenMemHandle_v2, (word *, ipc_handle, unsigned))                                  \
    X(cuGraphAddMemAllocNode, (word *, word, const word *, size_t, void *))                   \
    X(cuArrayCreate_v2, (word *, const shape2d *)) X(cuArrayDestroy, (word))                  \
    X(cuArray3DCreate_v2, (word *, const shape3d *))                                          \
    X(cuMipmappedArrayCreate, (word *, const shape3d *, unsigned))                            \
    X(cuMipmappedArrayDestroy, (word)) X(cuCtxDestroy_v2, (word))                             \
    X(cuDevicePrimaryCtxRetain, (word *, int))                                                \
    X(cuDevicePrimaryCtxRelease_v2, (int)) X(cuDevicePrimaryCtxReset_v2, (int))               \
    X(cuMemAlloc, (void)) X(cuMemAllocPitch, (void))                                          \
    X(cuArrayCreate, (void)) X(cuArray3DCreate, (void))

/* What this library asks the driver for its own purposes. */
#define QUESTIONS(X)                                                        \
    X(cuCtxGetCurrent, (word *)) X(cuCtxGetDevice, (int *))                 \
    X(cuDeviceGetMemPool, (word *, int)) X(cuMemPoolGetAttribute, (word, int, void *)) \
    X(cuDevicePrimaryCtxGetState, (int, unsigned *, int *))

#define DECLARE(name, parameters) result name parameters;
HOOKS(DECLARE) QUESTIONS(DECLARE)

#define NUMBER(name, parameters) NUMBER_##name,
enum { HOOKS(NUMBER) HOOK_COUNT, LAST_HOOK = HOOK_COUNT - 1, QUESTIONS(NUMBER) REAL_COUNT };

extern void *real_functions[REAL_COUNT];

/* The driver's own function of this name; NULL where the driver has none. */
#define REAL(name) ((__typeof__(&name))real_functions[NUMBER_##name])

/* Programs find our name where an old driver has none. */
#define NEED(name) \
    if (!REAL(name)) return NOT_SUPPORTED

/* A function of ours that lets the driver answer and draws its conclusions. */
#define AND_THEN(name, parameters, arguments, conclude) \
    EXPORT result name parameters {                     \
        NEED(name);                                     \
        result answer = REAL(name) arguments;           \
        conclude;                                       \
        return answer;                                  \
    }
