/* How often a form calls the allocator: the measurement of benches/stub/stub.c, with a count around it.
 *
 * callgrind counts calls even while it collects no costs, so its own number of calls would be of everything since
 * the last dump. (stub.c is compiled with its two functions under other names.)
 */
#undef stub_measure
#undef stub_dump

#include <stdint.h>
#include <stdio.h>

/* In preload.c, which is loaded before all else. */
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

/* Says what was counted since the last dump. */
void stub_dump(const char *label)
{
	dprintf(1, "allocations %s %llu\n", label, (unsigned long long)total);
	total = 0;
	stub_dump_inner(label);
}
