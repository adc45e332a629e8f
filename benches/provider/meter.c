/* Counts the instructions of one call, under callgrind, and what it allocates. */
#include <stdint.h>
#include <stdio.h>
#include <valgrind/callgrind.h>

/* In benches/field/stub/preload.c, which is loaded before all else. */
uint64_t field_allocations(void) __attribute__((weak));

static uint64_t total;

static uint64_t allocations(void)
{
	return field_allocations ? field_allocations() : 0;
}

int meter_call(int (*form)(void *), void *env)
{
	uint64_t before = allocations();
	int ret;

	CALLGRIND_TOGGLE_COLLECT;
	ret = form(env);
	CALLGRIND_TOGGLE_COLLECT;
	total += allocations() - before;
	return ret;
}

/* Says what was allocated since the last dump. */
void meter_dump(const char *label)
{
	dprintf(1, "allocations %s %llu\n", label, (unsigned long long)total);
	total = 0;
	CALLGRIND_DUMP_STATS_AT(label);
}

int meter_is_counting(void)
{
	return RUNNING_ON_VALGRIND != 0;
}
