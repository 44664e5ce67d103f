/* Pins the calls whose symbol version moved in glibc 2.34, so that a library built on a new
 * machine runs on every glibc since 2.17. The dynamic linker finds the old versions in libdl,
 * which the driver itself needs. Sanitizers replace these calls and want them as they are. */
#pragma once

#if defined(__x86_64__)
#define OLDEST_GLIBC "GLIBC_2.2.5"
#elif defined(__aarch64__)
#define OLDEST_GLIBC "GLIBC_2.17"
#endif

#if defined(OLDEST_GLIBC) && !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
__asm__(".symver dladdr,dladdr@" OLDEST_GLIBC);
__asm__(".symver dlopen,dlopen@" OLDEST_GLIBC);
__asm__(".symver dlsym,dlsym@" OLDEST_GLIBC);
#endif
