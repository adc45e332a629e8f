/* C2, queues that signal every work request. */
#define PREFIX c2
#define MODE 2
#define SELECTIVE 0

#include "safe.h"

#include "safe_recv.h"
