/* Arrays and mipmapped arrays. The driver lays them out as it likes and says no size: they are
 * charged what their elements need, the rest is overhead like that of a context. */
#include "charge.h"

enum { CUBEMAP = 0x04, SPARSE = 0x40, DEFERRED = 0x80, CUBE_FACES = 6, MOST_LEVELS = 64 };

static uint64_t element_bytes(unsigned format) {
    if (format == 0x01 || format == 0x08) return 1;                   /* 8 bits */
    if (format == 0x02 || format == 0x09 || format == 0x10) return 2; /* 16 bits, half precision */
    return 4; /* 32 bits; compressed and video formats take less */
}

static uint64_t at_least_one(uint64_t number) { return number ? number : 1; }

/* UINT64_MAX where no card could hold it. */
static uint64_t bytes_of(const shape3d *shape, unsigned levels) {
    if (!shape || shape->flags & (SPARSE | DEFERRED)) return 0; /* Mapped later, if at all. */
    uint64_t sum = 0, depth = shape->flags & CUBEMAP && !shape->depth ? CUBE_FACES : shape->depth;
    for (unsigned level = 0; level < levels && level < MOST_LEVELS; level++) {
        uint64_t bytes = element_bytes(shape->format) * at_least_one(shape->channels);
        if (__builtin_mul_overflow(bytes, at_least_one(shape->width >> level), &bytes) ||
            __builtin_mul_overflow(bytes, at_least_one(shape->height >> level), &bytes) ||
            __builtin_mul_overflow(bytes, at_least_one(depth), &bytes) ||
            __builtin_add_overflow(sum, bytes, &sum))
            return UINT64_MAX;
    }
    return sum;
}

static uint64_t flat_bytes(const shape2d *shape) {
    if (!shape) return 0;
    shape3d flat = {shape->width, shape->height, 0, shape->format, shape->channels, 0};
    return bytes_of(&flat, 1);
}

ALLOCATE(cuArrayCreate_v2, (word * given, const shape2d *shape), (given, shape), ARRAY, given,
         flat_bytes(shape))
ALLOCATE(cuArray3DCreate_v2, (word * given, const shape3d *shape), (given, shape), ARRAY, given,
         bytes_of(shape, 1))
ALLOCATE(cuMipmappedArrayCreate, (word * given, const shape3d *shape, unsigned levels),
         (given, shape, levels), MIPMAP, given, bytes_of(shape, levels ? levels : 1))
RELEASE(cuArrayDestroy, (word array), (array), ARRAY, array)
RELEASE(cuMipmappedArrayDestroy, (word array), (array), MIPMAP, array)
