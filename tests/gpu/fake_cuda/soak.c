/* Random work on the driver:
 *
 *     soak SEED OPERATIONS THREADS [dangerous]
 *
 * Takes and frees memory in every way, forks children that do the same and are killed or end by
 * themselves; "dangerous" also kills this very process now and then while it holds memory. What
 * is left at the end is freed, so that a process that ends well holds nothing. */
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

typedef uint64_t pointer;
int cuInit(unsigned);
int cuMemAlloc_v2(pointer *, size_t);
int cuMemAllocManaged(pointer *, size_t, unsigned);
int cuMemFree_v2(pointer);
int cuMemAllocAsync(pointer *, size_t, void *);
int cuMemFreeAsync(pointer, void *);
int cuMemCreate(pointer *, size_t, const void *, uint64_t);
int cuMemMap(pointer, size_t, size_t, pointer, uint64_t);
int cuMemUnmap(pointer, size_t);
int cuMemRelease(pointer);
int cuCtxSynchronize(void);

enum { HELD = 24, WAYS = 4, LARGEST_MIB = 900, OUT_OF_MEMORY = 2 };

typedef struct {
    unsigned seed;
    int operations, dangerous, may_fork;
} work;

typedef struct {
    pointer address;
    size_t bytes;
    int way;
} held;

static unsigned long long refused;

static int take(held *into, unsigned *seed) {
    const int on_device[8] = {1, 0, 1, 0};
    into->way = (int)(rand_r(seed) % WAYS);
    into->bytes = (1 + (size_t)(rand_r(seed) % LARGEST_MIB)) << 20;
    switch (into->way) {
    case 0:
        return cuMemAlloc_v2(&into->address, into->bytes);
    case 1:
        return cuMemAllocManaged(&into->address, into->bytes, 1);
    case 2:
        return cuMemCreate(&into->address, into->bytes, on_device, 0);
    default:
        return cuMemAllocAsync(&into->address, into->bytes, NULL);
    }
}

static int give_back(held *what) {
    int answer = what->way == 2   ? cuMemRelease(what->address)
                 : what->way == 3 ? cuMemFreeAsync(what->address, NULL)
                                  : cuMemFree_v2(what->address);
    what->address = 0;
    return answer;
}

static void *run(void *argument);

static void fork_one(work *parent) {
    pid_t child = fork();
    if (child == 0) {
        work mine = {.seed = parent->seed ^ (unsigned)getpid(), .operations = 40, .dangerous = 1};
        run(&mine);
        _exit(0);
    }
    if (child > 0) {
        if (rand_r(&parent->seed) % 2) kill(child, SIGKILL);
        waitpid(child, NULL, 0);
    }
}

static void *run(void *argument) {
    work *mine = argument;
    held holding[HELD] = {0};
    for (int i = 0; i < mine->operations; i++) {
        held *what = &holding[rand_r(&mine->seed) % HELD];
        if (what->address) {
            if (give_back(what)) abort();
        } else {
            int answer = take(what, &mine->seed);
            if (answer == OUT_OF_MEMORY) __atomic_add_fetch(&refused, 1, __ATOMIC_RELAXED);
            else if (answer) abort();
            if (answer) what->address = 0;
        }
        if (rand_r(&mine->seed) % 16 == 0) cuCtxSynchronize();
        if (mine->may_fork && rand_r(&mine->seed) % 200 == 0) fork_one(mine);
        if (mine->dangerous && rand_r(&mine->seed) % 2000 == 0) kill(getpid(), SIGKILL);
    }
    for (int i = 0; i < HELD; i++)
        if (holding[i].address && give_back(&holding[i])) abort();
    cuCtxSynchronize();
    return NULL;
}

int main(int count, char **words) {
    if (count < 4 || cuInit(0)) return 2;
    int threads = atoi(words[3]);
    pthread_t started[64];
    work jobs[64];
    for (int i = 0; i < threads && i < 64; i++) {
        /* Nobody forks a program with threads and goes on in the child. */
        jobs[i] = (work){.seed = (unsigned)atoi(words[1]) * 64 + (unsigned)i,
                         .operations = atoi(words[2]),
                         .dangerous = count > 4,
                         .may_fork = threads == 1};
        if (threads == 1) run(&jobs[i]);
        else pthread_create(&started[i], NULL, run, &jobs[i]);
    }
    for (int i = 0; threads > 1 && i < threads; i++) pthread_join(started[i], NULL);
    printf("%llu\n", refused);
    return 0;
}
