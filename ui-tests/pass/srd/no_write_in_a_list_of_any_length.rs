// R27.4, efadv_create_qp_ex(3): the legal twin of the test of this name.
use proverbs::ext::extended_posting::ExtendedPosting;
use proverbs::post::SendList;
use proverbs::prelude::*;

profile! { Spread { posting: ExtendedPosting<(Srd, wr::RdmaWrite)> } }

type List<'d> = SendList<'d, Srd, Spread, 1>;

fn pushed(list: &mut List<'_>, to: wr::Destination, at: RemoteSlice<RemoteWrite>) {
    list.push(wr::RdmaWriteWithImm::new(wr::Empty, at.write(), 7).to(to)).unwrap();
    list.push(wr::Send::new(wr::Empty).to(to)).unwrap();
}

fn extended(list: &mut List<'_>, to: wr::Destination, bufs: Vec<(Buf, RemoteSlice<RemoteWrite>)>) {
    let told = |(buf, at): (Buf, RemoteSlice<RemoteWrite>)| {
        wr::RdmaWriteWithImm::new(buf, at.write(), 7).to(to)
    };
    list.extend(bufs.into_iter().map(told)).unwrap();
}
