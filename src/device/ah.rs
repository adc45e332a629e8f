//! Address handles: the destinations of packets.

use crate::device::{AddressVector, Context, LinkLayer, PortAttr, ProtectionDomain};
use crate::sys::handle;
use crate::sys::refusal::{not_on_iwarp, of_creation};
use crate::terms::error::{Error, Refused};

/// An address handle. To send with it, pass it to
/// [`add_address_handle`](crate::QueuePair::add_address_handle) of a UD queue pair, which keeps it
/// alive while work requests use it ([R5.3](crate::guide::rules#r5-3)).
///
/// ```
/// # use proverbs::prelude::*;
/// use proverbs::device::AhIndex;
/// # let proverbs::loopback::DatagramPair { context, pd, mut a, .. } =
/// #     proverbs::loopback::datagram_pair()?;
/// let gid = context.roce_v2_gid(1)?;
/// let ah: AddressHandle = pd.create_ah(AddressVector::roce_v2(gid, gid.gid())?)?;
/// let name: AhIndex = a.add_address_handle(ah)?; // the queue pair owns it
/// assert!(a.remove_address_handle(name));        // destroyed, unless a send uses it
/// assert_eq!(a.reap_address_handles(), 0);       // no removed handle is left
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
    /// Rejects path bits that the port does not have. Providers truncate them silently, and
    /// packets would have another source LID (R24.9). It queries the port, because LIDs may change,
    /// and only if path bits are set.
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
        let instead = "connect RC queue pairs with rdma_cm";
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

    /// EFA's number of the address handle (`efadv_query_ah`). A message received on SRD reports the
    /// number of the handle for its sender
    /// ([`Sender::ah_number`](crate::ext::srd::Sender::ah_number)). All handles for one peer have
    /// the same number. Call this before you pass the handle to a queue pair.
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
    /// [`ErrorKind::Os`](crate::ErrorKind::Os) with the errno: ENOSYS if no libefa.so.1 is
    /// installed, EOPNOTSUPP if the device is not an EFA.
    #[allow(unsafe_code)] // one verb
    pub fn efa_number(&self) -> Result<u16, Error> {
        // SAFETY: the handle is live as long as `self`.
        let number = unsafe { (self.handle.control().ah_number)(self.handle.as_ptr()) };
        number.map_err(|errno| {
            let asked = match errno {
                libc::ENOSYS => "no installed libefa.so.1 supports it",
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
    /// The handle, with [`ErrorKind::Os`](crate::ErrorKind::Os) and the errno.
    #[doc(alias = "ibv_destroy_ah")]
    pub fn destroy(mut self) -> Result<(), Refused<Self>> {
        let closed = self.handle.close();
        closed.map_err(|errno| Refused::new(self, Error::os("ibv_destroy_ah", errno, "")))
    }
}

impl_debug!(AddressHandle, |_| "AddressHandle");
