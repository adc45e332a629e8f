//! The passive side: it registers its memory, accepts connections, and tells each peer the address
//! and the key of the memory in the private data. Its processor takes no part in transfers.

use std::{collections::HashMap, net::SocketAddr};

use anyhow::{Result, anyhow};
use proverbs::{cm::*, events::Waker, prelude::*};

use crate::{Region, Shared, service::Service};

/// READs of a connection that are served at once.
pub const READS: u8 = 16;
/// Connection requests that wait.
const BACKLOG: u32 = 1024;

profile! { Passive { initiator: NoReads } }

/// An address to which peers connect, and the objects of its device.
struct Port {
    listening: CmId<Tcp, Listening, OnChannel>,
    cq: CompletionQueue,
    region: Region,
}

/// Accepts peers on addresses of network devices, until the result is dropped, which disconnects
/// all of them. `register` registers the application's memory, once for each address.
pub fn target(
    events: EventChannel,
    addresses: &[SocketAddr],
    register: &dyn Fn(&ProtectionDomain) -> Result<Region>,
) -> Result<Service> {
    let listen = |&at| -> Result<Port> {
        let id = events.create_id::<Tcp>()?.bind_addr(at)?.on_device()?;
        // Nothing completes here. A queue pair needs a completion queue nevertheless.
        let cq = id.context()?.cq(1).shared_budget().create()?;
        let region = register(&id.pd()?)?;
        Ok(Port { listening: id.listen(BACKLOG)?, cq, region })
    };
    let mut ports = addresses.iter().map(listen).collect::<Result<Vec<Port>>>()?;
    let mut peers: HashMap<IdKey, Accepted<Passive>> = HashMap::new();
    Service::start("target", move |waker: &Waker| {
        let Some(event) = events.wait_or_woken(waker, None)? else { return Ok(false) };
        if let Some(port) = ports.iter_mut().find(|port| port.listening.key() == event.id()) {
            // It fails if the peer is gone already.
            peers.extend(port.accept(event));
        } else if event.kind() != EventKind::Established {
            // The connection has ended or broken. (This side sends nothing, so the confirmation
            // changes nothing.)
            peers.remove(&event.id());
            // Polling cleans up after the queue pair.
            ports.iter_mut().try_for_each(|port| port.cq.poll().map(|none| none.for_each(drop)))?;
        }
        Ok(true)
    })
}

impl Port {
    fn accept(&mut self, event: Event) -> Result<(IdKey, Accepted<Passive>)> {
        let request = self.listening.request(event).map_err(|event| anyhow!("{event:?}"))?;
        let (pd, depth) = (request.id.pd()?, Depth { send: 1, recv: 0 });
        let qp = request.id.create_qp::<Passive>(&pd, &self.cq, &self.cq, depth)?;
        let param = AcceptParam {
            private_data: PrivateData::of(&self.region.export::<Shared>().to_bytes()),
            responder_resources: READS.try_into()?,
            ..AcceptParam::default()
        };
        Ok((request.id.key(), request.accept(qp, &param)?))
    }
}
