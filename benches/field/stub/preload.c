/* What stands before the C library (LD_PRELOAD): the allocator, counted, and one file below /sys, the type of the GID,
 * which one crate reads though there is no such device.
 *
 * A library of its own, without symbol versions, as the C library's are others than libibverbs'.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

static const char prefix[] = "/sys/class/infiniband/stub0/";
static const char type[] = "IB/RoCE v1\n";

static int gid_type(void)
{
	int fd = memfd_create("gid_type", MFD_CLOEXEC);

	if (fd >= 0 && write(fd, type, sizeof(type) - 1) == (ssize_t)sizeof(type) - 1)
		lseek(fd, 0, SEEK_SET);
	return fd;
}

int open64(const char *path, int flags, ...)
{
	int mode = 0;

	if (strncmp(path, prefix, sizeof(prefix) - 1) == 0)
		return gid_type();
	if (flags & (O_CREAT | __O_TMPFILE)) {
		va_list args;

		va_start(args, flags);
		mode = va_arg(args, int);
		va_end(args);
	}
	return syscall(SYS_openat, AT_FDCWD, path, flags | O_LARGEFILE, mode);
}

/* The allocator's own names in the C library. */
void *__libc_malloc(size_t size);
void *__libc_calloc(size_t count, size_t size);
void *__libc_realloc(void *at, size_t size);
void *__libc_memalign(size_t align, size_t size);

static uint64_t allocations;

uint64_t field_allocations(void)
{
	return allocations;
}

void *malloc(size_t size)
{
	allocations++;
	return __libc_malloc(size);
}

void *calloc(size_t count, size_t size)
{
	allocations++;
	return __libc_calloc(count, size);
}

void *realloc(void *at, size_t size)
{
	allocations++;
	return __libc_realloc(at, size);
}

void *aligned_alloc(size_t align, size_t size)
{
	allocations++;
	return __libc_memalign(align, size);
}

int posix_memalign(void **at, size_t align, size_t size)
{
	allocations++;
	*at = __libc_memalign(align, size);
	return *at ? 0 : 12; /* ENOMEM */
}
