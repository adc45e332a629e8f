/* C2, send queues with selective signaling. */
#define PREFIX c2s
#define MODE 2
#define SELECTIVE 1

#include "safe.h"

#include "safe_recv.h"
