/* C0, queues that signal every work request. */
#define PREFIX c0
#define MODE 0
#define SELECTIVE 0

#include "safe.h"

#include "safe_recv.h"
