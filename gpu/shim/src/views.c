/* What programs are told about the card: it is as large as the slice. */
#include "driver.h"
#include "ledger.h"

/* A process that has a context is known as one of the slice before it holds any memory. */
AND_THEN(cuInit, (unsigned flags), (flags), if (!answer) ledger_join())

static size_t smaller(uint64_t one, uint64_t other) { return one < other ? one : other; }

/* Programs take an error here for a broken driver: without a valid ledger nothing is free, which
 * is also what every allocation will say. */
EXPORT result cuMemGetInfo_v2(size_t *free, size_t *total) {
    NEED(cuMemGetInfo_v2);
    result answer = REAL(cuMemGetInfo_v2)(free, total);
    if (answer || !free || !total) return answer;
    uint64_t limit = ledger_join() ? ledger_limit() : 0, used = ledger_used();
    *free = smaller(*free, used < limit ? limit - used : 0);
    if (limit) *total = smaller(*total, ledger_total());
    return SUCCESS;
}

static void shrink(size_t *bytes) {
    uint64_t total = ledger_open(1) ? ledger_total() : 0;
    if (total) *bytes = smaller(*bytes, total);
}
AND_THEN(cuDeviceTotalMem_v2, (size_t * bytes, int device), (bytes, device),
         if (!answer) shrink(bytes))
