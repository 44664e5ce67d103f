/* What programs are told about the card: it is as large as the slice. */
#include "driver.h"
#include "ledger.h"

/* A process that has a context is known as one of the slice before it holds any memory. */
EXPORT result cuInit(unsigned flags) {
    NEED(cuInit);
    ledger_join();
    return REAL(cuInit)(flags);
}

static size_t smaller(uint64_t one, uint64_t other) { return one < other ? one : other; }

/* Programs take an error here for a broken driver: without a valid ledger nothing is free, which
 * is also what every allocation will say. */
EXPORT result cuMemGetInfo_v2(size_t *free, size_t *total) {
    NEED(cuMemGetInfo_v2);
    result answer = REAL(cuMemGetInfo_v2)(free, total);
    if (answer || !free || !total) return answer;
    uint64_t limit = ledger_join() ? ledger_limit() : 0, used = ledger_used();
    *free = smaller(*free, used < limit ? limit - used : 0);
    if (limit) *total = smaller(*total, limit);
    return SUCCESS;
}

EXPORT result cuDeviceTotalMem_v2(size_t *bytes, int device) {
    NEED(cuDeviceTotalMem_v2);
    result answer = REAL(cuDeviceTotalMem_v2)(bytes, device);
    uint64_t limit = ledger_open(1) ? ledger_limit() : 0;
    if (!answer && limit) *bytes = smaller(*bytes, limit);
    return answer;
}
