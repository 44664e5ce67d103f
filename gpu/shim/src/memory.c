/* Plain device memory: room is taken before the driver is asked, so two processes that ask at
 * the same moment cannot both get the last of it. */
#include "charge.h"
#include "ledger.h"

enum { PITCH_BYTES = 512 };

int charge(uint64_t bytes) {
    if (ledger_reserve(bytes)) return 1;
    if (pools_settle() && ledger_reserve(bytes)) return 1;
    ledger_count_denied();
    return 0;
}

uint64_t current_context(void) {
    object context = NULL;
    if (REAL(cuCtxGetCurrent)) REAL(cuCtxGetCurrent)(&context);
    return (uint64_t)(uintptr_t)context;
}

result charged(result answer, kind kind, uint64_t key, uint64_t bytes) {
    if (answer) {
        ledger_release(bytes);
        return answer;
    }
    entry added = {.kind = kind, .key = key, .bytes = bytes, .owner = current_context()};
    table_lock();
    /* What had this address before ended in a way that we did not see. */
    uint64_t before = table_take(kind, key).bytes;
    table_put(added);
    table_unlock();
    ledger_release(before);
    return SUCCESS;
}

EXPORT result cuMemAlloc_v2(pointer *address, size_t bytes) {
    NEED(cuMemAlloc_v2);
    if (!charge(bytes)) return OUT_OF_MEMORY;
    result answer = REAL(cuMemAlloc_v2)(address, bytes);
    return charged(answer, MEMORY, answer ? 0 : *address, bytes);
}

EXPORT result cuMemAllocManaged(pointer *address, size_t bytes, unsigned flags) {
    NEED(cuMemAllocManaged);
    if (!charge(bytes)) return OUT_OF_MEMORY;
    result answer = REAL(cuMemAllocManaged)(address, bytes, flags);
    return charged(answer, MEMORY, answer ? 0 : *address, bytes);
}

EXPORT result cuMemAllocPitch_v2(pointer *address, size_t *pitch, size_t width, size_t height,
                                 unsigned element) {
    NEED(cuMemAllocPitch_v2);
    uint64_t row = (width + PITCH_BYTES - 1) / PITCH_BYTES * PITCH_BYTES, guess, actual;
    if (__builtin_mul_overflow(row, height, &guess) || !charge(guess)) return OUT_OF_MEMORY;
    result answer = REAL(cuMemAllocPitch_v2)(address, pitch, width, height, element);
    if (answer) return charged(answer, MEMORY, 0, guess);
    actual = (uint64_t)*pitch * height;
    if (actual < guess) ledger_release(guess - actual);
    if (actual > guess && !charge(actual - guess)) {
        REAL(cuMemFree_v2)(*address);
        ledger_release(guess);
        return OUT_OF_MEMORY;
    }
    return charged(SUCCESS, MEMORY, *address, actual);
}

/* Taken from the table before the driver frees it: from then on another thread may be given the
 * same address. */
static entry forget(pointer address) {
    table_lock();
    entry freed = table_take(MEMORY, address);
    if (!freed.kind) freed = table_take(POOLED, address);
    table_unlock();
    return freed;
}

static result settle(result answer, entry freed) {
    if (!freed.kind) return answer;
    table_lock();
    if (answer) table_put(freed);
    else if (freed.kind == POOLED) pool_gave_back(freed.owner, freed.bytes);
    table_unlock();
    if (!answer && freed.kind == MEMORY) ledger_release(freed.bytes);
    return answer;
}

EXPORT result cuMemFree_v2(pointer address) {
    NEED(cuMemFree_v2);
    entry freed = forget(address);
    return settle(REAL(cuMemFree_v2)(address), freed);
}

#define FREE_ASYNC(name)                                  \
    EXPORT result name(pointer address, object stream) {  \
        NEED(name);                                       \
        entry freed = forget(address);                    \
        return settle(REAL(name)(address, stream), freed); \
    }
FREE_ASYNC(cuMemFreeAsync)
FREE_ASYNC(cuMemFreeAsync_ptsz)

/* The calls of 32-bit times take and give other types; nobody needs them in a slice. */
#define REFUSE(name) \
    EXPORT result name(void) { return NOT_SUPPORTED; }
REFUSE(cuMemAlloc)
REFUSE(cuMemAllocPitch)
REFUSE(cuArrayCreate)
REFUSE(cuArray3DCreate)
