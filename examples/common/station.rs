//! One end: its device, its role, and the way to the other.

use proverbs::bounded::Mtu;
use proverbs::device::{AddressVector, GlobalRoute, LinkLayer};
use proverbs::{Buf, Context, Pool};

use super::completions::Polling;
use super::content::poison;
use super::device::{self, Source};
use super::exchange::{Link, Role, exchange};
use super::{Options, Record, Result};

pub struct Station {
    pub program: &'static str,
    pub context: Context,
    pub options: Options,
    pub role: Role,
    source: Source,
    link: Link,
    /// Which end says it, where both run in this process.
    name: &'static str,
}

impl Station {
    pub fn new(
        program: &'static str,
        name: &'static str,
        context: Context,
        options: Options,
        role: Role,
        link: Link,
    ) -> Result<Station> {
        let default = matches!(link, Link::Here(_)).then_some(1);
        let source = device::source(&context, options.ib_port, options.gid_index.or(default))?;
        Ok(Station { program, context, options, role, source, link, name })
    }

    pub fn say(&self, line: &str) {
        println!("{}  {line}", self.name);
    }

    /// The MTU in use on the port.
    pub fn active_mtu(&self) -> Mtu {
        self.source.attr.active_mtu.unwrap_or(Mtu::Bytes1024)
    }

    /// `mtu`, if the port can carry it.
    #[allow(dead_code)] // UD has no path MTU
    pub fn path_mtu(&self, mtu: Mtu) -> Result<Mtu> {
        let active = self.active_mtu();
        if mtu > active {
            let (mtu, active) = (mtu.bytes(), active.bytes());
            return Err(format!("path MTU {mtu} exceeds the port's {active}: -m {active}").into());
        }
        Ok(mtu)
    }

    /// A completion queue, on a completion channel if -e asks for events.
    #[allow(dead_code)] // some await instead
    pub fn completion_queue(&self, cqe: u32) -> Result<Polling> {
        Polling::new(&self.context, cqe, self.options.events)
    }

    /// All buffers of `pool`, as receives need them.
    pub fn buffers(&self, pool: &Pool) -> Vec<Buf> {
        let all = std::iter::from_fn(|| pool.take());
        all.map(|buf| if self.options.check { poison(buf) } else { buf }).collect()
    }

    /// What the peer must know of a queue pair.
    pub fn record(&self, qp_num: u32) -> Result<Record> {
        Record::new(self.source.attr.lid, qp_num, self.source.gid)
    }

    /// Exchanges records with the peer, `wire` of them each way, and connects when it is time to.
    pub fn exchange<Q>(
        &self,
        mine: &[Record],
        wire: usize,
        connect: impl FnOnce(&[Record]) -> Result<Q>,
    ) -> Result<Q> {
        for record in mine {
            self.say(&format!("local address:  {record}"));
        }
        exchange(&self.link, self.role, mine, wire, |theirs| {
            for record in theirs {
                self.say(&format!("remote address: {record}"));
            }
            connect(theirs)
        })
    }

    /// The way to a peer: by its GID if it has one, else by its LID.
    pub fn path_to(&self, peer: &Record) -> Result<AddressVector> {
        let global = peer.gid.0[8..] != [0; 8];
        if !global && self.source.attr.link_layer == LinkLayer::Ethernet {
            return Err("the peer sent no GID, which RoCE needs: give it a -g".into());
        }
        let route = GlobalRoute {
            hop_limit: 1,
            ..GlobalRoute::new(peer.gid, self.source.gid_index.unwrap_or(0))
        };
        Ok(AddressVector {
            sl: self.options.sl,
            global: global.then_some(route),
            ..AddressVector::infiniband(self.options.ib_port, peer.lid)
        })
    }
}
