// Proves R27.4: a list of run-time length has no WRITE that a later message could announce.
// Enforced by `AllowedInList`.
use proverbs::post::SendList;
use proverbs::{ext::extended_posting::ExtendedPosting, prelude::*};

profile! { Spread { posting: ExtendedPosting<(Srd, wr::RdmaWrite)> } }

type List<'d> = SendList<'d, Srd, Spread, 1>;

fn pushed(list: &mut List<'_>, to: wr::Destination, at: RemoteSlice<RemoteWrite>) {
    list.push(wr::RdmaWrite::new(wr::Empty, at.write()).to(to)).unwrap();
}

fn extended(list: &mut List<'_>, to: wr::Destination, bufs: Vec<(Buf, RemoteSlice<RemoteWrite>)>) {
    list.extend(bufs.into_iter().map(move |(buf, at)| wr::RdmaWrite::new(buf, at.write()).to(to)))
        .unwrap();
}

fn main() {}
