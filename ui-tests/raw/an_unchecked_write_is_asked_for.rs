// Proves R25.2, ibv_wr_post(3): every way to post asks what the queue pair was created for.
// Enforced by `CreatedFor`.
use proverbs::memory::{Raw, ToWrite};
use proverbs::{ext::extended_posting::ExtendedPosting, prelude::*};

profile! { Bare { posting: ExtendedPosting<Srd>, entry: Raw } }

type Data<'a> = wr::Sge<'a, 1>;
type To = wr::Destination;
type At = RemoteSpan<ToWrite>;

unsafe fn unchecked(qp: &mut QueuePair<Srd, Rts, Bare>, sge: Data<'_>, to: To, at: At) {
    // SAFETY: never called.
    let _ = unsafe { qp.post_send_unchecked(wr::RdmaWrite::new(sge, at).to(to)) };
}

unsafe fn unchecked_list(
    qp: &mut QueuePair<Srd, Rts, Bare>,
    slots: &mut SendSlots<2>,
    sge: Data<'_>,
    to: To,
    at: At,
) {
    let write = |_| wr::RdmaWrite::new(sge, at).to(to);
    // SAFETY: never called.
    let _ = unsafe { qp.post_send_list_unchecked(slots, 2, write) };
}

fn main() {}
