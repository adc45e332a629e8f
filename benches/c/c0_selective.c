/* C0, send queues with selective signaling. */
#define PREFIX c0s
#define MODE 0
#define SELECTIVE 1

#include "safe.h"

#include "safe_recv.h"
