/* Counts the instructions of one call, under callgrind. */
#include <valgrind/callgrind.h>

int meter_call(int (*form)(void *), void *env)
{
	int ret;

	CALLGRIND_TOGGLE_COLLECT;
	ret = form(env);
	CALLGRIND_TOGGLE_COLLECT;
	return ret;
}

void meter_dump(const char *label)
{
	CALLGRIND_DUMP_STATS_AT(label);
}

int meter_is_counting(void)
{
	return RUNNING_ON_VALGRIND != 0;
}
