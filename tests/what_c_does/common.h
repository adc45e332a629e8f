/* Shared by the programs: a device, a connected pair in one process, and waiting with a limit. */
#ifndef WHAT_C_DOES_H
#define WHAT_C_DOES_H

#define _DEFAULT_SOURCE /* POSIX beside -std=c11 */

#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <infiniband/verbs.h>
#include <rdma/rdma_verbs.h>

#define QKEY 0x1234

/* One queue pair, and the completion queue of both its queues. */
struct end {
    struct ibv_qp *qp;
    struct ibv_cq *cq;
};

/* The settings that differ between the programs; most use zero. */
struct want {
    enum ibv_qp_type type;
    int cqe;               /* 0: 16 */
    uint32_t inline_bytes;
    int no_reads;          /* max_rd_atomic 0 */
    int wait_for_ever;     /* for the peer's receives: rnr_retry 7 */
    uint64_t ops;          /* not 0: made by ibv_create_qp_ex, for ibv_wr_* */
    struct ibv_srq *srq;
    struct ibv_comp_channel *channel;
    struct ibv_cq *cq;     /* not NULL: instead of a new one */
};

extern struct ibv_context *device;
extern struct ibv_pd *pd;

void open_device(void);
struct ibv_mr *region(void *memory, size_t length, int access);
struct end new_end(const struct want *want);
void to_init(struct end *end);
void to_rtr(struct end *end, const struct end *peer);
void to_rts(struct end *end, const struct want *want);
void to_state(struct end *end, enum ibv_qp_state state);
/* Two ends in RTS: connected to each other, or UD. */
void make_pair(const struct want *want, struct end pair[2]);
struct ibv_ah *address(void);

/* An end of a connection of rdma_cm over the device's own address: the listener's, with
 * RAI_PASSIVE, or the one that connects. */
struct rdma_cm_id *endpoint(int flags, const struct ibv_qp_init_attr *depths);
/* The two ends of such a connection: the active one, and the passive one. */
void connect_ends(const struct ibv_qp_init_attr *depths, struct rdma_cm_id *ids[2]);

/* The next completion, which must come within 5 s. */
struct ibv_wc next(struct end *end);
/* Whether the completion queue stays empty for this long. */
int nothing_for(struct end *end, int milliseconds);
/* The state of the device's queue pair, now. */
const char *state(struct end *end);
/* The same of one that should be about to fail, which is given 1 s to do so. */
const char *state_at_last(struct end *end);

struct ibv_sge sge_of(struct ibv_mr *mr, uint32_t length);
void post_recv(struct end *end, struct ibv_mr *mr, uint32_t length);
/* Posts a copy as a separate work request; returns the result of ibv_post_send. */
int post_send(struct end *end, struct ibv_send_wr wr);

/* A bind of a type 2 window to a whole region, for WRITEs, with its next key. */
struct ibv_send_wr bind_of(struct ibv_mw *mw, struct ibv_mr *mr);
/* The result of a WRITE of `length` bytes to `addr` by this key. */
const char *write_by(struct end *end, struct ibv_mr *from, uint32_t length, void *addr,
                     uint32_t rkey);

/* Prints the program's result, its last line. */
__attribute__((format(printf, 1, 2))) void say(const char *format, ...);
/* Steps that are unrelated to the rule must work. */
void must(int worked, const char *what);

#endif
