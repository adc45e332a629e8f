// R20.1, ibv_query_device_ex(3): the legal twin of the test of this name.
use proverbs::device::Can;
use proverbs::ext::on_demand::{OnDemand, OnDemandRegion};
use proverbs::prelude::*;

fn writes(pd: &ProtectionDomain, writes: &Can<OnDemand<Rc, RemoteWrite>>) {
    let _: Option<OnDemandRegion<RemoteWrite, Vec<u8>>> =
        pd.region().on_demand(writes).create_in(vec![0u8; 64]).ok();
}

fn other(pd: &ProtectionDomain, reads: &Can<OnDemand<Rc, RemoteRead>>) {
    let _ = pd.region().on_demand(reads).create_in(vec![0u8; 64]);
}
