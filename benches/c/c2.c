/* C2, queues whose every work request completes. */
#define PREFIX c2
#define MODE 2
#define SELECTIVE 0

#include "safe.h"

#include "safe_recv.h"
