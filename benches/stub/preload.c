/* Stands before the C library (LD_PRELOAD) and counts calls of the allocator.
 *
 * A library of its own, without symbol versions, as the C library's differ from libibverbs'.
 */
#include <stddef.h>
#include <stdint.h>

/* The allocator's own names in the C library. */
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
