/* C1, send queues with selective signaling. */
#define PREFIX c1s
#define MODE 1
#define SELECTIVE 1

#include "safe.h"

#include "safe_recv.h"
