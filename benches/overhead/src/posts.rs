//! The safe path's sends, for a profile that signals all and one that signals some: the same calls.

/// `posts!(PROFILE, PROFILE_OF_LISTS)`: a form for each row.
macro_rules! posts {
    ($profile:ty, $lists:ty) => {
        pub type All = $crate::world::World<$profile>;
        type Datagrams = $crate::world::World<$profile, Ud, wr::Destination>;
        type Lists = $crate::world::World<$lists>;

        one! { send(w: All) wr::Send::new(take(&w.bufs[0])) }
        one! { send_imm(w: All) wr::SendWithImm::new(take(&w.bufs[0]), w.imm_data) }
        one! { write(w: All) wr::RdmaWrite::new(take(&w.bufs[0]), w.at) }
        one! { write_imm(w: All) wr::RdmaWriteWithImm::new(take(&w.bufs[0]), w.at, w.imm_data) }
        one! { read(w: All) wr::RdmaRead::new(take(&w.bufs[0]), w.from) }
        one! { cas(w: All) wr::CmpAndSwp::new(take(&w.bufs[0]), w.cell, w.operands) }
        one! { faa(w: All) wr::FetchAndAdd::new(take(&w.bufs[0]), w.cell, w.add) }
        one! { inline_send(w: All) wr::Send::inline(&w.payload) }
        one! { inline_write(w: All) wr::RdmaWrite::inline(&w.payload, w.at) }
        one! { ud_send(w: Datagrams) wr::Send::new(take(&w.bufs[0])).to(w.extra) }
        one! { sge2(w: Lists) wr::RdmaWrite::new([take(&w.bufs[0]), take(&w.bufs[1])], w.at) }
        one! { sge4(w: Lists) wr::RdmaWrite::new([0, 1, 2, 3].map(|i: usize| take(&w.bufs[i])), w.at) }

        chain! { chain2: 0 1 }
        chain! { chain4: 0 1 2 3 }
        chain! { chain8: 0 1 2 3 4 5 6 7 }
        chain! { chain16: 0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 }
        chain! { chain32: 0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15
        16 17 18 19 20 21 22 23 24 25 26 27 28 29 30 31 }

        form! { mixed4(w: All) post_send!(w.qp, [
            wr::RdmaWrite::new(take(&w.bufs[0]), w.at),
            wr::Send::inline(&w.payload),
            wr::RdmaRead::new(take(&w.bufs[2]), w.from),
            wr::FetchAndAdd::new(take(&w.bufs[3]), w.cell, w.add),
        ]).code() }

        #[inline(always)]
        fn pushed(w: &mut All, count: u32) -> Result<(), PostError<Buf>> {
            let at = w.at;
            let mut slots = SendSlots::<16>::new();
            let mut list = w.qp.send_list(&mut slots);
            for buf in &w.bufs[..(count as usize).min(16)] {
                list.push(wr::RdmaWrite::new(take(buf), at))?;
            }
            list.post()
        }

        #[inline(always)]
        fn extended(w: &mut All, count: u32) -> Result<(), PostError<Buf>> {
            let at = w.at;
            let mut slots = SendSlots::<16>::new();
            let mut list = w.qp.send_list(&mut slots);
            let bufs = &w.bufs[..(count as usize).min(16)];
            list.extend(bufs.iter().map(move |buf| wr::RdmaWrite::new(take(buf), at)))?;
            list.post()
        }

        form! { push1of16(w: All) pushed(w, w.counts[0]).code() }
        form! { push4of16(w: All) pushed(w, w.counts[1]).code() }
        form! { push16of16(w: All) pushed(w, w.counts[2]).code() }
        form! { iter1of16(w: All) extended(w, w.counts[0]).code() }
        form! { iter4of16(w: All) extended(w, w.counts[1]).code() }
        form! { iter16of16(w: All) extended(w, w.counts[2]).code() }
    };
}
pub(crate) use posts;

macro_rules! one {
    ($name:ident($w:ident: $type:ty) $wr:expr) => {
        form! { $name($w: $type) $w.qp.post_send($wr).code() }
    };
}
pub(crate) use one;

macro_rules! chain {
    ($name:ident: $($i:literal)*) => {
        form! { $name(w: All) {
            // A copy, as C's compiler makes, which knows by their types that the books of buffers
            // are elsewhere.
            let at = w.at;
            post_send!(w.qp, [$(wr::RdmaWrite::new(take(&w.bufs[$i]), at)),*]).code()
        }}
    };
}
pub(crate) use chain;
