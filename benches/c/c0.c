/* C0, queues whose every work request completes. */
#define PREFIX c0
#define MODE 0
#define SELECTIVE 0

#include "safe.h"

#include "safe_recv.h"
