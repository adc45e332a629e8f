//! Address handles: the destinations of packets.

use crate::device::{AddressVector, Context, LinkLayer, PortAttr, ProtectionDomain};
use crate::sys::handle;
use crate::sys::refusal::not_on_iwarp;
use crate::sys::refusal::of_creation;
use crate::terms::error::{Error, Refused};

/// An address handle. To send with it, give it to a UD queue pair with
/// [`add_address_handle`](crate::QueuePair::add_address_handle), which keeps it alive as long as a
/// work request names it ([R5.3](crate::guide::rules#r5-3)).
///
/// ```
/// # use proverbs::prelude::*;
/// use proverbs::device::AhIndex;
/// # let proverbs::loopback::DatagramPair { context, pd, mut a, .. } =
/// #     proverbs::loopback::datagram_pair()?;
/// let gid = context.roce_v2_gid(1)?;
/// let ah: AddressHandle = pd.create_ah(AddressVector::roce_v2(gid, gid.gid())?)?;
/// let name: AhIndex = a.add_address_handle(ah)?; // it is the queue pair's now
/// assert!(a.remove_address_handle(name));        // and gone, unless a send names it
/// assert_eq!(a.reap_address_handles(), 0);       // none waits for its last send
///
/// let unused = pd.create_ah(AddressVector::roce_v2(gid, gid.gid())?)?;
/// unused.destroy()?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[doc(alias = "ibv_ah")]
pub struct AddressHandle {
    pub(crate) handle: handle::Ah,
    pub(crate) pd: u32,
}

impl Context {
    /// Refuses path bits that the port has not: providers cut them off in silence, and packets
    /// would come from another LID (R24.9). It asks the port, whose LIDs may change, and only if
    /// there are any.
    pub(crate) fn check_path_bits(
        &self,
        vector: &AddressVector,
        verb: &'static str,
        port: u8,
    ) -> Result<(), Error> {
        if vector.src_path_bits == 0 {
            return Ok(());
        }
        let PortAttr { link_layer, lmc, .. } = self.query_port(port)?;
        if link_layer == LinkLayer::Ethernet {
            return Ok(());
        }
        Error::at_most(verb, "src_path_bits", vector.src_path_bits, (1u8 << lmc.min(7)) - 1)
    }
}

impl AddressHandle {
    #[allow(unsafe_code)] // one verb
    pub(crate) fn new(pd: &ProtectionDomain, vector: AddressVector) -> Result<Self, Error> {
        const VERB: &str = "ibv_create_ah";
        let (handle, context) = (pd.handle(), pd.context());
        let control = handle.control();
        let asked = || vector.to_string();
        let lacks = "no address vectors";
        let instead = "connect RC queue pairs by rdma_cm";
        not_on_iwarp(&context.handle, VERB, asked, lacks, instead)?;
        context.check_path_bits(&vector, VERB, vector.port)?;
        let mut attr = vector.to_c();
        // SAFETY: the protection domain is live, and `attr` is a local.
        let ah = unsafe { (control.create_ah)(handle.as_ptr(), &mut attr) };
        let ah = ah.map_err(|errno| of_creation(VERB, errno, asked()))?;
        // SAFETY: the object was just created, and has no other owner.
        let handle = unsafe { handle::Ah::new(ah, control, handle.clone()) };
        Ok(AddressHandle { handle, pd: pd.id() })
    }

    /// EFA's number of the address handle (`efadv_query_ah`), by which arrivals on SRD name the
    /// handle that leads back: [`Sender::ah_number`](crate::qp::Sender::ah_number). Those to one
    /// peer share it. Ask before the handle is given to a queue pair.
    ///
    /// ```
    /// # use proverbs::{loopback::{Fabric, World}, prelude::*};
    /// let context = Fabric::with(World::efa()).open_device();
    /// let pd = context.alloc_pd()?;
    /// let gid = context.roce_v2_gid(1)?;
    /// let way = || pd.create_ah(AddressVector::roce_v2(gid, gid.gid())?);
    /// assert_eq!(way()?.efa_number()?, way()?.efa_number()?);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// [`ErrorKind::Os`](crate::ErrorKind::Os) with the errno: ENOSYS if there is no libefa.so.1,
    /// EOPNOTSUPP if the device is no EFA.
    #[allow(unsafe_code)] // one verb
    pub fn efa_number(&self) -> Result<u16, Error> {
        // SAFETY: the handle is live as long as `self`.
        let number = unsafe { (self.handle.control().ah_number)(self.handle.as_ptr()) };
        number.map_err(|errno| {
            let asked = match errno {
                libc::ENOSYS => "there is no libefa.so.1 that has it",
                _ => "",
            };
            Error::os("efadv_query_ah", errno, asked)
        })
    }

    /// Destroys the address handle (`ibv_destroy_ah`).
    ///
    /// [Blocks](crate::guide::shutdown) while the device does not answer.
    ///
    /// # Errors
    /// [`ErrorKind::Os`](crate::ErrorKind::Os) with the device's errno, and the handle is given
    /// back.
    #[doc(alias = "ibv_destroy_ah")]
    pub fn destroy(mut self) -> Result<(), Refused<Self>> {
        let closed = self.handle.close();
        closed.map_err(|errno| Refused::new(self, Error::os("ibv_destroy_ah", errno, "")))
    }
}

impl_debug!(AddressHandle, |_| "AddressHandle");
