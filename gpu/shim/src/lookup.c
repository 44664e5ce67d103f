/* How programs find the driver's functions, and how this library does.
 *
 * dlsym on this library finds our functions first and the driver's after them, because the
 * driver is a dependency. Programs that ask the driver itself (cuGetProcAddress) get its answer;
 * only where it is the address of a function that we stand in for, they get ours. Names and
 * versions are the driver's business: an ABI that we do not know is never given a wrong one. */
#include <dlfcn.h>
#include <pthread.h>

#include "baseline.h"
#include "driver.h"
#include "ledger.h"
#include "table.h"

void *real_functions[REAL_COUNT];

#define OURS(name, parameters) (void *)name,
static void *const our_functions[HOOK_COUNT] = {HOOKS(OURS)};

#define NAME(name, parameters) #name,
static const char *const names[REAL_COUNT] = {HOOKS(NAME) QUESTIONS(NAME)};

static void in_child(void) {
    table_forget();
    ledger_forget();
}

/* Not at the first call: then threads would have to agree who does it. */
__attribute__((constructor)) static void find_real_functions(void) {
    /* RTLD_NEXT would search the program's scope, where a dlopened driver is not. */
    void *driver = dlopen("libcuda-real.so.1", RTLD_LAZY | RTLD_NOLOAD);
    for (int i = 0; driver && i < REAL_COUNT; i++) {
        void *found = dlsym(driver, names[i]);
        /* A link that leads back here must not make us call ourselves. */
        real_functions[i] = i < HOOK_COUNT && found == our_functions[i] ? NULL : found;
    }
    pthread_atfork(table_lock, table_unlock, in_child);
}

static void swap(void **function) {
    for (int i = 0; function && *function && i < HOOK_COUNT; i++) {
        if (*function == real_functions[i]) {
            *function = our_functions[i];
            return;
        }
    }
}

AND_THEN(cuGetProcAddress, (const char *symbol, void **function, int version, uint64_t flags),
         (symbol, function, version, flags), if (!answer) swap(function))
AND_THEN(cuGetProcAddress_v2,
         (const char *symbol, void **function, int version, uint64_t flags, int *status),
         (symbol, function, version, flags, status), if (!answer) swap(function))
