// R3.1, ibv_post_send(3): the legal twin of the test of this name, a client that is generic over its profile.
use proverbs::prelude::*;
use proverbs::qp::{AnyThread, AtLeast};

#[derive(Default)]
struct Tag;

struct Client<P: Profile> {
    qp: QueuePair<Rc, Rts, P>,
    cq: CompletionQueue<Buf<Tag>>,
}

impl<P> Client<P>
where
    P: Profile<
            Entry = Buf<Tag>,
            Receive = OwnRq,
            Threads = AnyThread,
            MaxSendSge: AtLeast<2>,
            MaxRecvSge: AtLeast<1>,
        >,
{
    fn connect(
        pd: &ProtectionDomain,
        context: &Context,
    ) -> Result<Self, Box<dyn std::error::Error + Send + Sync>> {
        let cq = context.create_cq(64)?;
        let qp = pd.create_qp::<Rc, P>(&cq, &cq, Depth { send: 8, recv: 8 })?;
        let gid = context.query_gid(1, 1)?;
        let me = Qpn::try_from(qp.qp_num())?;
        let psn = Psn::try_from(0)?;
        let qp = qp.modify(ConnectedInit { pkey_index: 0, port: 1, access: QpAccess::all() })?;
        let qp = qp.modify(RcRtr::new(AddressVector::roce(1, gid, 1), me, psn))?;
        let depth = proverbs::qp::InitiatorDepth::LEAST;
        let qp = qp.modify(RcRts::new(psn, depth))?;
        Ok(Client { qp, cq })
    }

    fn call(
        &mut self,
        head: &[u8],
        body: &[u8],
        answer: Buf<Tag>,
    ) -> Result<(), PostError<Buf<Tag>>> {
        self.qp.post_recv(wr::Recv::new(answer))?;
        self.qp.post_send(wr::Send::inline_list([head, body]))
    }

    fn pushed(&mut self, bufs: Vec<Buf<Tag>>) -> Result<(), PostError<Buf<Tag>>> {
        for buf in bufs {
            self.qp.post_send(wr::Send::new(buf))?;
        }
        Ok(())
    }

    fn listed(&mut self, one: Buf<Tag>, two: Buf<Tag>) -> Result<(), PostError<Buf<Tag>>> {
        post_send!(self.qp, [wr::Send::new(one), wr::Send::new(two)])
    }

    fn poll(&mut self) -> Result<usize, proverbs::Error> {
        Ok(self.cq.poll()?.count())
    }
}
