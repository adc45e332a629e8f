/* The only completion channel, for completions that the data path holds until their event is taken. */
#include <errno.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "provider.h"

struct ibv_comp_channel *ibv_create_comp_channel(struct ibv_context *context)
{
	struct ibv_comp_channel *channel = take(sizeof(*channel));

	if (!channel)
		return NULL;
	channel->context = context;
	channel->fd = eventfd(0, 0);
	stub_tell(channel->fd);
	return channel;
}

int ibv_destroy_comp_channel(struct ibv_comp_channel *channel)
{
	close(channel->fd);
	give(channel);
	return 0;
}

int ibv_get_cq_event(struct ibv_comp_channel *channel, struct ibv_cq **cq, void **cq_context)
{
	(void)channel;
	*cq = stub_take_event();
	if (!*cq) {
		errno = EAGAIN;
		return -1;
	}
	*cq_context = (*cq)->cq_context;
	return 0;
}

void ibv_ack_cq_events(struct ibv_cq *cq, unsigned int count)
{
	(void)cq;
	(void)count;
}
