//! Private data: bytes that are sent with the messages of the connection manager.

use std::ops::Deref;

use arrayvec::ArrayVec;
use typenum::{Const, IsLessOrEqual, LeEq, ToUInt, U};

use crate::allows::{Allows, Same, Seal, call};
use crate::terms::bounded::OutOfRange;
use crate::work::limits::{Answer, Max, Within};

/// Private data of at most `MAX` bytes: the message's field without the header of rdma_cm
/// ([R16.15](crate::guide::rules#r16-15)).
///
/// The peer may receive more bytes than were sent, padded with zeroes.
///
/// ```
/// use proverbs::cm::{AcceptData, ConnectData, PrivateData, ReplyData};
/// let hello: ConnectData = PrivateData::of(b"hello"); // the length is checked by the compiler
/// assert!(ConnectData::new(&[0; 57]).is_err()); // or at run time
/// assert!(ConnectData::none().is_empty());
/// let welcome: AcceptData = PrivateData::of(&[0; 196]); // each call has its own length
/// let found: ReplyData = PrivateData::of(&[0; 136]);
/// # assert_eq!(&*hello, b"hello");
/// ```
#[derive(Clone, Default, PartialEq, Eq, Hash)]
pub struct PrivateData<const MAX: usize>(ArrayVec<u8, MAX>);

/// The private data of a connection request: `rdma_connect` on TCP.
pub type ConnectData = PrivateData<56>;
/// The private data of an acceptance: `rdma_accept` on TCP.
pub type AcceptData = PrivateData<196>;
/// The private data of a rejection: `rdma_reject` on TCP.
pub type RejectData = PrivateData<148>;
/// The private data of a lookup of a datagram service: `rdma_connect` on UDP.
pub type LookupData = PrivateData<180>;
/// The private data of the answer to a lookup: `rdma_accept` and `rdma_reject` on UDP.
pub type ReplyData = PrivateData<136>;

impl<const MAX: usize> PrivateData<MAX> {
    /// Empty private data.
    pub const fn none() -> Self {
        PrivateData(ArrayVec::new_const())
    }

    /// Private data with these bytes, at most `MAX`.
    ///
    /// # Errors
    /// [`OutOfRange`], with both lengths, if there are more than `MAX` bytes
    /// ([R16.15](crate::guide::rules#r16-15)).
    pub fn new(bytes: &[u8]) -> Result<Self, OutOfRange> {
        let (asked, max) = (bytes.len() as u64, MAX as u64);
        let bytes = ArrayVec::try_from(bytes);
        bytes.map(PrivateData).map_err(|_| OutOfRange { what: "private data", asked, min: 0, max })
    }

    /// Private data with these bytes. The compiler checks the length.
    pub fn of<const N: usize>(bytes: &[u8; N]) -> Self
    where
        Self: Allows<call::PrivateBytes<N>>,
    {
        PrivateData(bytes.iter().copied().collect())
    }
}

impl<const MAX: usize> Deref for PrivateData<MAX> {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.0
    }
}

impl_debug!([const MAX: usize] PrivateData<MAX>, |it| "PrivateData({} of {MAX} bytes)", it.len());

/// `Max<M>: PrivateBytes<N>`: `N` bytes fit ([R16.15](crate::guide::rules#r16-15)).
///
/// ```
/// use proverbs::{cm::*, qp::Max};
///
/// /// A connection request that names a program, of any length that fits.
/// fn named<const N: usize>(name: &[u8; N]) -> ConnParam
/// where
///     Max<56>: PrivateBytes<N>,
/// {
///     ConnParam { private_data: PrivateData::of(name), ..Default::default() }
/// }
/// assert_eq!(&*named(b"storage").private_data, b"storage");
/// ```
pub trait PrivateBytes<const N: usize> {}

impl<const N: usize, const M: usize> PrivateBytes<N> for Max<M>
where
    Const<N>: ToUInt,
    Const<M>: ToUInt,
    U<N>: IsLessOrEqual<U<M>>,
    LeEq<U<N>, U<M>>: Answer<Is: PrivateWithin<N, M>>,
{
}

impl<const N: usize, const M: usize, Object> Allows<call::PrivateBytes<N>> for Object
where
    Max<M>: PrivateBytes<N>,
    Object: Same<This = PrivateData<M>>,
{
    const SEAL: Seal = Seal;
}

/// The typenum bound of [`PrivateBytes`]; it carries the diagnostic
/// ([R16.15](crate::guide::rules#r16-15)).
///
/// ```compile_fail,E0277
/// use proverbs::cm::{ConnectData, PrivateData};
/// // error: private data of 57 bytes exceeds the 56 bytes that this call carries
/// let long: ConnectData = PrivateData::of(&[0; 57]);
/// ```
#[diagnostic::on_unimplemented(
    message = "private data of {N} bytes exceeds the {M} bytes that this call carries",
    label = "{N} bytes of private data",
    note = "a connect carries 56 bytes, an accept 196, a reject 148; on UDP a request carries 180 and its reply 136"
)]
pub trait PrivateWithin<const N: usize, const M: usize> {}
impl<const N: usize, const M: usize> PrivateWithin<N, M> for Within {}

#[cfg(test)]
mod tests {
    use super::*;

    /// Proves R16.15.
    #[test]
    fn the_bounds_are_those_of_the_messages() {
        assert_eq!(ConnectData::new(&[7; 56]).unwrap().len(), 56);
        let error = ConnectData::new(&[7; 57]).unwrap_err();
        assert_eq!(error.to_string(), "private data 57 exceeds 56");
        assert_eq!((error.min, error.max), (0, 56));
        assert_eq!(&*AcceptData::of(&[1; 196]), &[1; 196]);
        assert!(RejectData::none().is_empty());
        assert!(RejectData::new(&[0; 149]).is_err());
        assert!(LookupData::new(&[0; 181]).is_err());
        assert!(ReplyData::new(&[0; 137]).is_err());
    }
}
