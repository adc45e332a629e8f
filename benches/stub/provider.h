/* Shared declarations of the files of this libibverbs. */
#ifndef FIELD_PROVIDER_H
#define FIELD_PROVIDER_H

#include <infiniband/verbs.h>

/* The data path, in benches/stub/stub.c. */
void stub_install(struct ibv_context *context);
void stub_tell(int fd);
struct ibv_cq *stub_take_event(void);

/* Zeroed memory for an object. It never calls the C library, whose instructions are counted. */
void *take(size_t size);
void give(void *at);

/* Fills the functions of the ibv_wr_* interface and of cq_ex. */
void extend_qp(struct ibv_qp_ex *qp);
void extend_cq(struct ibv_cq_ex *cq);

#endif
