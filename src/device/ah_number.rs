//! EFA's numbers of address handles.

#![allow(unsafe_code)] // one verb

use crate::device::ah::AddressHandle;
use crate::terms::error::Error;

impl AddressHandle {
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
}
