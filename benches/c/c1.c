/* C1, queues that signal every work request. */
#define PREFIX c1
#define MODE 1
#define SELECTIVE 0

#include "safe.h"

#include "safe_recv.h"
