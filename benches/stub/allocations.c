/* Counts the allocator calls of a form: the measurement of benches/stub/stub.c, with a count around it.
 *
 * callgrind counts calls even while it does not collect costs, so its number of calls would include everything since
 * the last dump. (stub.c is compiled with other names for its two functions.)
 */
#undef stub_measure
#undef stub_dump

#include <stdint.h>
#include <stdio.h>

/* In preload.c, which is loaded first. */
uint64_t counted_allocations(void) __attribute__((weak));

int stub_measure_inner(int (*form)(void *), void *env);
void stub_dump_inner(const char *label);
int stub_measure(int (*form)(void *), void *env);
void stub_dump(const char *label);

static uint64_t total;

int stub_measure(int (*form)(void *), void *env)
{
	uint64_t before = counted_allocations ? counted_allocations() : 0;
	int ret = stub_measure_inner(form, env);

	total += counted_allocations ? counted_allocations() - before : 0;
	return ret;
}

/* Prints the counts since the last dump. */
void stub_dump(const char *label)
{
	dprintf(1, "allocations %s %llu\n", label, (unsigned long long)total);
	total = 0;
	stub_dump_inner(label);
}
