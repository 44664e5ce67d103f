/* Arrays and mipmapped arrays. The driver lays them out as it likes and says no size: they are
 * charged what their elements need, the rest is overhead like that of a context. */
#include "charge.h"
#include "ledger.h"

enum { CUBEMAP = 0x04, SPARSE = 0x40, DEFERRED = 0x80, CUBE_FACES = 6 };

static uint64_t element_bytes(unsigned format) {
    switch (format) {
    case 0x01: /* 8 bits */
    case 0x08:
        return 1;
    case 0x02: /* 16 bits and half precision */
    case 0x09:
    case 0x10:
        return 2;
    default: /* 32 bits; compressed and video formats take less */
        return 4;
    }
}

static uint64_t at_least_one(uint64_t number) { return number ? number : 1; }

/* UINT64_MAX where no card could hold it. */
static uint64_t bytes_of(const array3d_shape *shape, unsigned levels) {
    uint64_t sum = 0, width = shape->width;
    uint64_t height = at_least_one(shape->height), depth = at_least_one(shape->depth);
    if (shape->flags & (SPARSE | DEFERRED)) return 0; /* Mapped later, like any such memory. */
    if (shape->flags & CUBEMAP && !shape->depth) depth = CUBE_FACES;
    for (unsigned level = 0; level < levels; level++) {
        uint64_t bytes = element_bytes(shape->format) * at_least_one(shape->channels);
        if (__builtin_mul_overflow(bytes, at_least_one(width >> level), &bytes) ||
            __builtin_mul_overflow(bytes, at_least_one(height >> level), &bytes) ||
            __builtin_mul_overflow(bytes, depth, &bytes) ||
            __builtin_add_overflow(sum, bytes, &sum))
            return UINT64_MAX;
        if (level == 63) break;
    }
    return sum;
}

EXPORT result cuArrayCreate_v2(object *array, const array_shape *shape) {
    NEED(cuArrayCreate_v2);
    array3d_shape flat = {0};
    if (shape)
        flat = (array3d_shape){.width = shape->width,
                               .height = shape->height,
                               .format = shape->format,
                               .channels = shape->channels};
    uint64_t bytes = shape ? bytes_of(&flat, 1) : 0;
    if (!charge(bytes)) return OUT_OF_MEMORY;
    result answer = REAL(cuArrayCreate_v2)(array, shape);
    return charged(answer, ARRAY, answer ? 0 : (uint64_t)(uintptr_t)*array, bytes);
}

EXPORT result cuArray3DCreate_v2(object *array, const array3d_shape *shape) {
    NEED(cuArray3DCreate_v2);
    uint64_t bytes = shape ? bytes_of(shape, 1) : 0;
    if (!charge(bytes)) return OUT_OF_MEMORY;
    result answer = REAL(cuArray3DCreate_v2)(array, shape);
    return charged(answer, ARRAY, answer ? 0 : (uint64_t)(uintptr_t)*array, bytes);
}

EXPORT result cuMipmappedArrayCreate(object *array, const array3d_shape *shape, unsigned levels) {
    NEED(cuMipmappedArrayCreate);
    uint64_t bytes = shape ? bytes_of(shape, levels ? levels : 1) : 0;
    if (!charge(bytes)) return OUT_OF_MEMORY;
    result answer = REAL(cuMipmappedArrayCreate)(array, shape, levels);
    return charged(answer, MIPMAP, answer ? 0 : (uint64_t)(uintptr_t)*array, bytes);
}

static result destroy(kind kind, result (*real)(object), object array) {
    table_lock();
    entry ended = table_take(kind, (uint64_t)(uintptr_t)array);
    table_unlock();
    result answer = real(array);
    if (!answer) ledger_release(ended.bytes);
    table_lock();
    if (answer && ended.kind) table_put(ended);
    table_unlock();
    return answer;
}

EXPORT result cuArrayDestroy(object array) {
    NEED(cuArrayDestroy);
    return destroy(ARRAY, REAL(cuArrayDestroy), array);
}

EXPORT result cuMipmappedArrayDestroy(object array) {
    NEED(cuMipmappedArrayDestroy);
    return destroy(MIPMAP, REAL(cuMipmappedArrayDestroy), array);
}
