/* Files in the tree's own /dev/shm that keep a name for as long as somebody holds them.
 *
 * Whoever shares memory removes the name of its file at once: torch's DataLoader for each batch,
 * multiprocessing's RawArray and Value. A mapped file without a name can't be saved by an ordinary
 * user: finding it again takes rights over the whole machine. So a removed name becomes a hidden one
 * here, and the file is removed once nobody has it open or mapped. The tree's /dev/shm ends with it.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "removed_names.h"

#define EXPORTED __attribute__((visibility("default")))
#define PLACE "/dev/shm/"
#define HIDDEN ".gone."
#define LONGEST 320
/* A fourth of what was left at the last look may be added before the next one. */
#define SHARE 4
#define NO_REPLACE 1

/* As the kernel fills it in. */
struct entry {
	unsigned long long inode;
	long long offset;
	unsigned short length;
	unsigned char type;
	char name[];
};

/* Whether nobody else has it open or mapped: the kernel gives a lease for writing only then. If
 * somebody opens it meanwhile this process is told, by a signal that does nothing to most. */
static int is_free(const char *path)
{
	int file = syscall(SYS_openat, AT_FDCWD, path, O_RDWR | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	int got;

	if (file < 0)
		return 0;
	got = !fcntl(file, F_SETSIG, SIGURG) && !fcntl(file, F_SETLEASE, F_WRLCK);
	close(file);
	return got;
}

static int remove_if_free(const char *path)
{
	return is_free(path) && !syscall(SYS_unlinkat, AT_FDCWD, path, 0);
}

/* Remove what is hidden and held by nobody; how many files it looked at and left there. It allocates
 * nothing, as unlink allocates nothing. */
static unsigned sweep(void)
{
	_Alignas(struct entry) char entries[4096];
	char path[LONGEST];
	unsigned left = 0;
	long count, at;
	int folder = syscall(SYS_openat, AT_FDCWD, PLACE, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	if (folder < 0)
		return 0;
	while ((count = syscall(SYS_getdents64, folder, entries, sizeof entries)) > 0) {
		for (at = 0; at < count; at += ((struct entry *)(entries + at))->length) {
			const char *name = ((struct entry *)(entries + at))->name;

			snprintf(path, sizeof path, PLACE "%s", name);
			if (strncmp(name, HIDDEN, sizeof HIDDEN - 1) || !remove_if_free(path))
				left++;
		}
	}
	close(folder);
	return left;
}

int hide(const char *path)
{
	static unsigned count, since, left;
	char hidden[64];
	int error = errno;
	long failed;

	/* An earlier process may have had this one's number, or have been this one. */
	do {
		snprintf(hidden, sizeof hidden, PLACE HIDDEN "%d.%u", getpid(),
			 __sync_fetch_and_add(&count, 1));
		failed = syscall(SYS_renameat2, AT_FDCWD, path, AT_FDCWD, hidden, NO_REPLACE);
	} while (failed && errno == EEXIST);
	if (failed)
		return -1;
	if (!remove_if_free(hidden) && __sync_add_and_fetch(&since, 1) * SHARE >= left) {
		since = 0;
		left = sweep();
	}
	errno = error;
	return 0;
}

/* A file there that would be gone with this name. */
static int is_shared_memory(const char *path)
{
	struct stat found;

	return !strncmp(path, PLACE, sizeof PLACE - 1) && !lstat(path, &found) &&
	       S_ISREG(found.st_mode) && found.st_nlink == 1;
}

EXPORTED int unlink(const char *path)
{
	return is_shared_memory(path) ? hide(path) : (int)syscall(SYS_unlinkat, AT_FDCWD, path, 0);
}

EXPORTED int unlinkat(int folder, const char *path, int flags)
{
	if (!flags && is_shared_memory(path))
		return hide(path);
	return syscall(SYS_unlinkat, folder, path, flags);
}

EXPORTED int shm_unlink(const char *name)
{
	char path[LONGEST];

	while (*name == '/')
		name++;
	if (!*name || strchr(name, '/') || strlen(name) > LONGEST - sizeof PLACE) {
		errno = *name ? EINVAL : ENOENT;
		return -1;
	}
	snprintf(path, sizeof path, PLACE "%s", name);
	return unlink(path);
}
