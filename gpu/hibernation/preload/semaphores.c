/* Semaphores whose file keeps a name in the tree's own /dev/shm.
 *
 * The C library makes a semaphore from a file and programs remove its name at once, as
 * multiprocessing does. A mapped file without a name can't be saved by an ordinary user: finding it
 * again takes rights over the whole machine. So a removed name becomes a hidden one here
 * (removed_names.c).
 */
#include <errno.h>
#include <fcntl.h>
#include <semaphore.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "removed_names.h"

/* It moved in glibc 2.34; a library built on a new machine runs on old ones too. */
#if defined(__x86_64__)
__asm__(".symver sem_init,sem_init@GLIBC_2.2.5");
#elif defined(__aarch64__)
__asm__(".symver sem_init,sem_init@GLIBC_2.17");
#endif

#define EXPORTED __attribute__((visibility("default")))
#define LONGEST 256
#define NO_REPLACE 1

/* As the C library names them; 0 for a name that it would refuse. */
static int place(char *path, size_t size, const char *name)
{
	while (*name == '/')
		name++;
	if (!*name || strchr(name, '/') || strlen(name) > LONGEST - sizeof "/dev/shm/sem.") {
		errno = EINVAL;
		return 0;
	}
	snprintf(path, size, "/dev/shm/sem.%s", name);
	return 1;
}

static sem_t *mapped(int file)
{
	sem_t *semaphore = mmap(NULL, sizeof(sem_t), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
	int error = errno;

	close(file);
	errno = error;
	return semaphore == MAP_FAILED ? SEM_FAILED : semaphore;
}

/* Written under a hidden name first: nobody may open one that is not whole. Renamed, not linked: the
 * kernel remembers a mapped file by the name it was opened with, and follows renames alone. */
static sem_t *made(const char *path, mode_t mode, unsigned value)
{
	static unsigned count;
	char hidden[LONGEST + 64];
	sem_t *semaphore;
	int file, error;

	snprintf(hidden, sizeof hidden, "/dev/shm/.new.%d.%u", getpid(),
		 __sync_fetch_and_add(&count, 1));
	file = open(hidden, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, mode);
	if (file < 0)
		return SEM_FAILED;
	if (ftruncate(file, sizeof(sem_t))) {
		error = errno;
		close(file);
		unlink(hidden);
		errno = error;
		return SEM_FAILED;
	}
	semaphore = mapped(file);
	if (semaphore != SEM_FAILED && !sem_init(semaphore, 1, value) &&
	    !syscall(SYS_renameat2, AT_FDCWD, hidden, AT_FDCWD, path, NO_REPLACE))
		return semaphore;
	error = errno;
	if (semaphore != SEM_FAILED)
		munmap(semaphore, sizeof(sem_t));
	unlink(hidden);
	errno = error;
	return SEM_FAILED;
}

EXPORTED sem_t *sem_open(const char *name, int flags, ...)
{
	char path[LONGEST + 32];
	mode_t mode = 0;
	unsigned value = 0;

	if (flags & O_CREAT) {
		va_list arguments;

		va_start(arguments, flags);
		mode = va_arg(arguments, mode_t);
		value = va_arg(arguments, unsigned);
		va_end(arguments);
	}
	if (!place(path, sizeof path, name))
		return SEM_FAILED;
	for (;;) {
		if (!(flags & O_CREAT) || !(flags & O_EXCL)) {
			int file = open(path, O_RDWR | O_NOFOLLOW | O_CLOEXEC);

			if (file >= 0)
				return mapped(file);
			if (errno != ENOENT || !(flags & O_CREAT))
				return SEM_FAILED;
		}
		sem_t *semaphore = made(path, mode, value);

		if (semaphore != SEM_FAILED || errno != EEXIST || (flags & O_EXCL))
			return semaphore;
	}
}

EXPORTED int sem_close(sem_t *semaphore)
{
	return munmap(semaphore, sizeof(sem_t));
}

EXPORTED int sem_unlink(const char *name)
{
	char path[LONGEST + 32];

	return place(path, sizeof path, name) ? hide(path) : -1;
}
