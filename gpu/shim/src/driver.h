/* The part of the driver's interface that passes through here, declared by ourselves: the build
 * needs no CUDA. Names and numbers are the driver's. */
#ifndef GPUCOMMONS_DRIVER_H
#define GPUCOMMONS_DRIVER_H

#include <stddef.h>
#include <stdint.h>

#define EXPORT __attribute__((visibility("default")))

typedef int result;
typedef uint64_t pointer; /* an address on the device, or a handle */
typedef void *object;     /* a context, stream, pool, array or graph */

enum { SUCCESS = 0, OUT_OF_MEMORY = 2, NOT_SUPPORTED = 801 };

typedef struct {
    int type, handle_types;
    struct {
        int type, id;
    } location;
    void *metadata;
    unsigned char flags[8];
} allocation_properties;

typedef struct {
    size_t width, height;
    unsigned format, channels;
} array_shape;

typedef struct {
    size_t width, height, depth;
    unsigned format, channels, flags;
} array3d_shape;

/* Every function of the driver that this library answers in the driver's stead. */
#define HOOKS(X)                                                                            \
    X(cuInit) X(cuGetProcAddress) X(cuGetProcAddress_v2)                                    \
    X(cuMemAlloc_v2) X(cuMemAllocPitch_v2) X(cuMemAllocManaged) X(cuMemFree_v2)             \
    X(cuMemAllocAsync) X(cuMemAllocAsync_ptsz)                                              \
    X(cuMemAllocFromPoolAsync) X(cuMemAllocFromPoolAsync_ptsz)                              \
    X(cuMemFreeAsync) X(cuMemFreeAsync_ptsz) X(cuMemPoolTrimTo) X(cuMemPoolDestroy)         \
    X(cuCtxSynchronize) X(cuStreamSynchronize) X(cuStreamSynchronize_ptsz) X(cuEventSynchronize) \
    X(cuMemCreate) X(cuMemRelease) X(cuMemMap) X(cuMemUnmap)                                \
    X(cuMemRetainAllocationHandle)                                                          \
    X(cuArrayCreate_v2) X(cuArray3DCreate_v2) X(cuArrayDestroy)                             \
    X(cuMipmappedArrayCreate) X(cuMipmappedArrayDestroy)                                    \
    X(cuMemAlloc) X(cuMemAllocPitch) X(cuArrayCreate) X(cuArray3DCreate)                    \
    X(cuMemImportFromShareableHandle) X(cuMemPoolImportPointer) X(cuIpcOpenMemHandle)       \
    X(cuIpcOpenMemHandle_v2) X(cuGraphAddMemAllocNode)                                      \
    X(cuMemGetInfo_v2) X(cuDeviceTotalMem_v2)                                               \
    X(cuCtxDestroy) X(cuCtxDestroy_v2) X(cuDevicePrimaryCtxRetain)                          \
    X(cuDevicePrimaryCtxRelease) X(cuDevicePrimaryCtxRelease_v2)                            \
    X(cuDevicePrimaryCtxReset) X(cuDevicePrimaryCtxReset_v2)

/* What this library asks the driver for its own purposes. */
#define QUESTIONS(X)                                                                        \
    X(cuCtxGetCurrent) X(cuCtxGetDevice) X(cuDeviceGetMemPool) X(cuMemPoolGetAttribute)     \
    X(cuDevicePrimaryCtxGetState)

#define NUMBER(name) NUMBER_##name,
enum { HOOKS(NUMBER) HOOK_COUNT, BEFORE_QUESTIONS = HOOK_COUNT - 1, QUESTIONS(NUMBER) REAL_COUNT };
#undef NUMBER

extern void *real_functions[REAL_COUNT];

/* The driver's own function of this name; NULL where the driver has none. */
#define REAL(name) ((__typeof__(&name))real_functions[NUMBER_##name])

/* Programs find our name where an old driver has none. */
#define NEED(name) \
    if (!REAL(name)) return NOT_SUPPORTED

result cuInit(unsigned flags);
result cuGetProcAddress(const char *, void **, int, uint64_t);
result cuGetProcAddress_v2(const char *, void **, int, uint64_t, int *);
result cuMemAlloc_v2(pointer *, size_t);
result cuMemAllocPitch_v2(pointer *, size_t *, size_t, size_t, unsigned);
result cuMemAllocManaged(pointer *, size_t, unsigned);
result cuMemFree_v2(pointer);
result cuMemAllocAsync(pointer *, size_t, object);
result cuMemAllocAsync_ptsz(pointer *, size_t, object);
result cuMemAllocFromPoolAsync(pointer *, size_t, object, object);
result cuMemAllocFromPoolAsync_ptsz(pointer *, size_t, object, object);
result cuMemFreeAsync(pointer, object);
result cuMemFreeAsync_ptsz(pointer, object);
result cuMemPoolTrimTo(object, size_t);
result cuMemPoolDestroy(object);
result cuCtxSynchronize(void);
result cuStreamSynchronize(object);
result cuStreamSynchronize_ptsz(object);
result cuEventSynchronize(object);
result cuMemCreate(pointer *, size_t, const allocation_properties *, uint64_t);
result cuMemRelease(pointer);
result cuMemMap(pointer, size_t, size_t, pointer, uint64_t);
result cuMemUnmap(pointer, size_t);
result cuMemRetainAllocationHandle(pointer *, void *);
result cuArrayCreate_v2(object *, const array_shape *);
result cuArray3DCreate_v2(object *, const array3d_shape *);
result cuArrayDestroy(object);
result cuMipmappedArrayCreate(object *, const array3d_shape *, unsigned);
result cuMipmappedArrayDestroy(object);
result cuMemAlloc(void);
result cuMemAllocPitch(void);
result cuArrayCreate(void);
result cuArray3DCreate(void);
result cuMemImportFromShareableHandle(pointer *, void *, int);
result cuMemPoolImportPointer(pointer *, object, void *);
typedef struct {
    char reserved[64];
} ipc_handle;
result cuIpcOpenMemHandle(pointer *, ipc_handle, unsigned);
result cuIpcOpenMemHandle_v2(pointer *, ipc_handle, unsigned);
result cuGraphAddMemAllocNode(object *, object, const object *, size_t, void *);
result cuMemGetInfo_v2(size_t *, size_t *);
result cuDeviceTotalMem_v2(size_t *, int);
result cuCtxDestroy(object);
result cuCtxDestroy_v2(object);
result cuDevicePrimaryCtxRetain(object *, int);
result cuDevicePrimaryCtxRelease(int);
result cuDevicePrimaryCtxRelease_v2(int);
result cuDevicePrimaryCtxReset(int);
result cuDevicePrimaryCtxReset_v2(int);

result cuCtxGetCurrent(object *);
result cuCtxGetDevice(int *);
result cuDeviceGetMemPool(object *, int);
result cuMemPoolGetAttribute(object, int, void *);
result cuDevicePrimaryCtxGetState(int, unsigned *, int *);

#endif
