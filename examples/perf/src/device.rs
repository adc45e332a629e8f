//! Selects the device, port and GID.

use proverbs::device::{Gid, LinkLayer, PortAttr};
use proverbs::{Context, devices};

use super::{Options, Result};

/// The device to run on.
pub enum Device {
    Real(Context),
    /// Both ends in this process.
    Loopback,
}

/// The requested device, otherwise the first device, otherwise the loopback device.
pub fn choose(options: &Options) -> Result<Device> {
    match &options.device {
        Some(name) if name == "loopback" => Ok(Device::Loopback),
        Some(name) => Ok(Device::Real(Context::open(name)?)),
        None => match devices().as_deref() {
            Ok([first, ..]) => Ok(Device::Real(Context::open(&first.name)?)),
            Ok([]) => {
                println!("no RDMA device on this machine");
                Ok(Device::Loopback)
            }
            Err(why) => {
                println!("{why}");
                Ok(Device::Loopback)
            }
        },
    }
}

/// The source of packets.
pub struct Source {
    pub attr: PortAttr,
    pub gid: Gid,
    /// Index of `gid`; `None` on InfiniBand without -g.
    pub gid_index: Option<u8>,
}

/// The port and the GID from the options, if they are usable.
pub fn source(context: &Context, port: u8, gid_index: Option<u8>) -> Result<Source> {
    let attr = context.query_port(port)?;
    let at = format!("port {port} of {}", context.name());
    if !attr.is_active {
        return Err(format!("{at} is not active").into());
    }
    let Some(index) = gid_index else {
        return match attr.link_layer {
            LinkLayer::Ethernet => {
                let there = filled(context, port, &attr);
                Err(format!("{at} is Ethernet (RoCE), which needs a GID: -g one of {there}").into())
            }
            _ if attr.lid == 0 => {
                Err(format!("{at} has no LID yet: is a subnet manager up?").into())
            }
            _ => Ok(Source { attr, gid: Gid::default(), gid_index: None }),
        };
    };
    // An empty entry is all zeroes, or an error: providers differ.
    match context.query_gid(port, index) {
        Ok(gid) if !gid.is_zero() => Ok(Source { attr, gid, gid_index }),
        _ => {
            let there = filled(context, port, &attr);
            Err(format!("{at} has no GID at index {index}: -g one of {there}").into())
        }
    }
}

/// The filled entries of the GID table.
fn filled(context: &Context, port: u8, attr: &PortAttr) -> String {
    let last = attr.gid_tbl_len.min(256);
    let gids: Vec<String> = (0..last)
        .filter_map(|index| {
            let index = u8::try_from(index).ok()?;
            let gid = context.query_gid(port, index).ok().filter(|gid| !gid.is_zero())?;
            Some(format!("{index} ({gid})"))
        })
        .collect();
    if gids.is_empty() { "none: the table is empty".into() } else { gids.join(", ") }
}
