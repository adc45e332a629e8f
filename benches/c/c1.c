/* C1, queues whose every work request completes. */
#define PREFIX c1
#define MODE 1
#define SELECTIVE 0

#include "safe.h"

#include "safe_recv.h"
