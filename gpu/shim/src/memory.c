/* Plain device memory: room is taken before the driver is asked, so two processes that ask at
 * the same moment cannot both get the last of it. */
#include "charge.h"

enum { PITCH_BYTES = 512 };

int charge(uint64_t bytes) {
    if (ledger_reserve(bytes) || (pools_settle() && ledger_reserve(bytes))) return 1;
    ledger_count(DENIED);
    return 0;
}

result charged(result answer, kind kind, word key, uint64_t bytes) {
    entry added = {.kind = kind, .key = key, .bytes = bytes};
    if (answer) {
        ledger_release(bytes);
        return answer;
    }
    if (REAL(cuCtxGetCurrent)) REAL(cuCtxGetCurrent)(&added.owner);
    table_lock();
    /* What had this number before ended in a way that we did not see. */
    uint64_t before = table_take(kind, key).bytes;
    table_put(added);
    table_unlock();
    ledger_release(before);
    return SUCCESS;
}

entry forget(kind kind, word key) {
    table_lock();
    entry freed = table_take(kind, key);
    if (!freed.kind && kind == MEMORY) freed = table_take(POOLED, key);
    table_unlock();
    return freed;
}

result forgotten(result answer, entry freed) {
    if (!freed.kind) return answer;
    table_lock();
    if (answer)
        table_put(freed);
    else if (freed.kind == POOLED)
        pool_gave_back(freed.owner, freed.bytes);
    else
        ledger_release(freed.bytes);
    table_unlock();
    return answer;
}

ALLOCATE(cuMemAlloc_v2, (word * given, size_t bytes), (given, bytes), MEMORY, given, bytes)
ALLOCATE(cuMemAllocManaged, (word * given, size_t bytes, unsigned flags), (given, bytes, flags),
         MEMORY, given, bytes)
RELEASE(cuMemFree_v2, (word address), (address), MEMORY, address)
RELEASE(cuMemFreeAsync, (word address, word stream), (address, stream), MEMORY, address)
RELEASE(cuMemFreeAsync_ptsz, (word address, word stream), (address, stream), MEMORY, address)

/* Only the driver knows how wide it makes a row: the guess is corrected afterwards. */
EXPORT result cuMemAllocPitch_v2(word *given, size_t *pitch, size_t width, size_t height,
                                 unsigned element) {
    NEED(cuMemAllocPitch_v2);
    uint64_t row = (width + PITCH_BYTES - 1) / PITCH_BYTES * PITCH_BYTES, guess;
    if (__builtin_mul_overflow(row, height, &guess) || !charge(guess)) return OUT_OF_MEMORY;
    result answer = REAL(cuMemAllocPitch_v2)(given, pitch, width, height, element);
    uint64_t actual = answer ? guess : *pitch * height;
    if (actual > guess && !charge(actual - guess)) {
        REAL(cuMemFree_v2)(*given);
        ledger_release(guess);
        return OUT_OF_MEMORY;
    }
    if (actual < guess) ledger_release(guess - actual);
    return charged(answer, MEMORY, answer ? 0 : *given, actual);
}

/* The calls of 32-bit times take and give other types; nobody needs them in a slice. */
#define REFUSE(name) \
    EXPORT result name(void) { return NOT_SUPPORTED; }
REFUSE(cuMemAlloc)
REFUSE(cuMemAllocPitch)
REFUSE(cuArrayCreate)
REFUSE(cuArray3DCreate)
