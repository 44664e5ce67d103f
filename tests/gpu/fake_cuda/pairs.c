/* How long one allocation and its release take:  pairs COUNT  prints nanoseconds per pair. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

int cuInit(unsigned);
int cuMemAlloc_v2(uint64_t *, size_t);
int cuMemFree_v2(uint64_t);

int main(int count, char **words) {
    long pairs = count > 1 ? atol(words[1]) : 1000000;
    struct timespec begin, end;
    uint64_t address;
    if (cuInit(0)) return 2;
    clock_gettime(CLOCK_MONOTONIC, &begin);
    for (long i = 0; i < pairs; i++)
        if (cuMemAlloc_v2(&address, 2 << 20) || cuMemFree_v2(address)) return 2;
    clock_gettime(CLOCK_MONOTONIC, &end);
    double ns = (double)(end.tv_sec - begin.tv_sec) * 1e9 + (double)(end.tv_nsec - begin.tv_nsec);
    printf("%.1f\n", ns / (double)pairs);
    return 0;
}
