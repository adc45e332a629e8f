// Proves R26.5, ibv_open_xrcd(3): a domain needs the ability.
// Enforced by what `Context::open_xrcd` takes.
use proverbs::{device::{Can, DeviceMemory}, ext::xrc::XrcdFile};
use proverbs::prelude::*;

fn with_another(context: &Context, can: &Can<DeviceMemory>) {
    context.open_xrcd(can, XrcdFile::Private).unwrap();
}

fn main() {}
