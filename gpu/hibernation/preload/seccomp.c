/* CRIU as it runs in a container, where every process has the container's system call filter.
 *
 * CRIU takes a process' filters off for a while, which takes rights over the whole machine, and refuses
 * to save a process that has one. The container's filter needs no saving: CRIU runs under it, and so
 * does all that it wakes. So a process that has as many filters as CRIU itself is shown as having
 * none. One with more installed some of its own: it keeps its line, and the save is refused.
 */
#include <fcntl.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#define EXPORTED __attribute__((visibility("default")))
#define PAGE 8192

static const char filtered[] = "\nSeccomp:\t2", counted[] = "\nSeccomp_filters:\t";

/* How many a /proc/PID/status says; -1 where it does not say. */
static int filters(const char *text, size_t size)
{
	const char *at = memmem(text, size, counted, sizeof counted - 1);
	const char *end = text + size;
	int count = 0;

	if (!at)
		return -1;
	for (at += sizeof counted - 1; at < end && *at >= '0' && *at <= '9'; at++)
		count = count * 10 + (*at - '0');
	return count;
}

static int own_filters(void)
{
	char text[PAGE];
	long file = syscall(SYS_openat, AT_FDCWD, "/proc/self/status", O_RDONLY | O_CLOEXEC);
	ssize_t size;

	if (file < 0)
		return -1;
	size = syscall(SYS_read, file, text, sizeof text);
	syscall(SYS_close, file);
	return size > 0 ? filters(text, size) : -1;
}

EXPORTED ssize_t read(int file, void *buffer, size_t size)
{
	ssize_t got = syscall(SYS_read, file, buffer, size);
	char *mode = got > 0 ? memmem(buffer, got, filtered, sizeof filtered - 1) : NULL;
	int count = mode ? filters(buffer, got) : -1;

	if (count > 0 && count == own_filters())
		mode[sizeof filtered - 2] = '0';
	return got;
}
