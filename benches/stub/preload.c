/* Preloaded before the C library (LD_PRELOAD). It counts calls of the allocator, and imitates the kernel when it is queried
 * for the device's driver, mlx5.
 *
 * A separate library without symbol versions, because the versions of the C library differ from those of libibverbs.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

/* RDMA_VERBS_IOCTL. A kernel returns EINVAL for a driver other than the device's, and EPROTONOSUPPORT for a method that it
 * does not have. */
#define VERBS_IOCTL 0xc0181b01UL
#define DRIVER_ID_AT 16
#define MLX5 1

int ioctl(int fd, unsigned long request, ...)
{
	uint32_t driver_id;
	va_list args;
	void *at;

	va_start(args, request);
	at = va_arg(args, void *);
	va_end(args);
	if (request != VERBS_IOCTL)
		return syscall(SYS_ioctl, fd, request, at);
	memcpy(&driver_id, (const char *)at + DRIVER_ID_AT, sizeof(driver_id));
	errno = driver_id == MLX5 ? EPROTONOSUPPORT : EINVAL;
	return -1;
}

/* The allocator's internal names in the C library. */
void *__libc_malloc(size_t size);
void *__libc_calloc(size_t count, size_t size);
void *__libc_realloc(void *at, size_t size);
void *__libc_memalign(size_t align, size_t size);

static uint64_t allocations;

uint64_t counted_allocations(void)
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
