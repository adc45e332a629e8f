/* What the files of this libibverbs share. */
#ifndef FIELD_PROVIDER_H
#define FIELD_PROVIDER_H

#include <infiniband/verbs.h>

/* The data path, in benches/stub/stub.c. */
void stub_install(struct ibv_context *context);

/* Fills the functions of the ibv_wr_* interface and of cq_ex. */
void extend_qp(struct ibv_qp_ex *qp);
void extend_cq(struct ibv_cq_ex *cq);

#endif
