/* Loops of programs by the best hand: work requests are built before the loop and point at the elements of the buffers.
 *
 *   CHECKS  0 for none; 1 for the checks that the crate makes at run time, by the cheapest means that we know.
 *   LIVE    1 to check also that the device does not own a buffer that is posted. The crate proves this when it compiles.
 *   MANY    0 if the completion queue has one queue pair, whose free entries are counted without looking at the buffer; 1 if it
 *           has two, so that each buffer names its queue pair.
 *
 *   a buffer posted      protection domain, not empty            its `pd`, which has exactly one bit, and all bits if the buffer
 *                                                                must not be posted. So several are compared with one `or`
 *   a send or receive    room for it                             a number of free entries
 *   a WRITE              ends where the remote slice does        compares the lengths
 *   a READ               fits the buffer, and sets its length    compares the slice with the capacity
 *   a received message   fits the buffer, not empty if sent on   compares its length with the capacity
 *   a piece              inside its region                       compares offset and length
 *   ud_send              the handle exists                       compares its name with the table
 *   any post             the work request that failed, if any    bad_wr is NULL unless the provider sets it
 *   a completion         success; a receive or a send            status and opcode
 *   one for a list       belongs to the list in flight           the sequence number in its wr_id
 */
#include <errno.h>
#include <string.h>

#include "env.h"
#include "fields.h"

#define TRY(what) \
	do { \
		int failed_with = (what); \
		if (UNLIKELY(failed_with)) \
			return failed_with; \
	} while (0)

#define PASTE_(a, b) a##_##b
#define PASTE(a, b) PASTE_(a, b)
#define FORM(name) PASTE(PREFIX, name)

enum { ROUNDS = 32, GRH_LEN = 40, LISTS = 1024, LINE = 64, PIECE = 64, ANSWERS = 16 };
#define NOT_POSTED UINT32_MAX

/* Stands for a program that reads the message, or the time. */
static volatile uint64_t seen;

/* Waits for an event of the completion queue, and takes it. */
INLINE int event_of(struct ibv_cq *cq)
{
	struct ibv_cq *of;
	void *context;

	if (UNLIKELY(ibv_get_cq_event(cq->channel, &of, &context)))
		return failed(cq, NULL, -1);
	ibv_ack_cq_events(of, 1);
	return 0;
}

#define CHECKS 0
#define LIVE 0
#define MANY 0
#define PREFIX c0_one
#include "best.h"
#undef MANY
#undef PREFIX
#define MANY 1
#define PREFIX c0_many
#include "best.h"
#undef CHECKS
#undef PREFIX
#define CHECKS 1
#define PREFIX c2_many
#include "best.h"
#undef MANY
#undef PREFIX
#define MANY 0
#define PREFIX c2_one
#include "best.h"
#undef LIVE
#undef PREFIX
#define LIVE 1
#define PREFIX c3_one
#include "best.h"
#undef MANY
#undef PREFIX
#define MANY 1
#define PREFIX c3_many
#include "best.h"
