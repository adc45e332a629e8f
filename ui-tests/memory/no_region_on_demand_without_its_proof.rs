// Proves R20.1, ibv_query_device_ex(3): the device said that it can do what the rights say.
// Enforced by `Can<OnDemand<T, A>>`.
use proverbs::device::{Can, DeviceMemory};
use proverbs::ext::on_demand::{OnDemand, OnDemandRegion};
use proverbs::prelude::*;

fn writes(pd: &ProtectionDomain, reads: &Can<OnDemand<Rc, RemoteRead>>) {
    let _: Option<OnDemandRegion<RemoteWrite, Vec<u8>>> =
        pd.region().on_demand(reads).create_in(vec![0u8; 64]).ok();
}

fn other(pd: &ProtectionDomain, memory: &Can<DeviceMemory>) {
    let _ = pd.region().on_demand(memory).create_in(vec![0u8; 64]);
}

fn main() {}
