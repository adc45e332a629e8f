//! A region without memory: it discards writes and reads as zero.

#![allow(unsafe_code)] // one verb

use crate::device::ProtectionDomain;
use crate::memory::registered::Registered;
use crate::memory::span::LONGEST_PIECE;
use crate::memory::{HasPieces, LocalWrite, MemoryRegion};
use crate::terms::error::{Error, ErrorKind};

/// The memory type of a region that is not backed by memory (ibv_alloc_null_mr(3)).
///
/// The region is almost 4 GiB long, and its pieces are posted like pieces of other regions. A READ
/// into a piece discards the bytes, and a SEND or WRITE of a piece transmits zeroes. The region has
/// no key for peers.
///
/// ```
/// # use proverbs::prelude::*;
/// # profile! { Copier { entry: OpenBuf } }
/// use proverbs::memory::{Null, OpenBuf};
/// # let proverbs::loopback::Pair { mut a, b: _b, mut cq, pd, .. } =
/// #     proverbs::loopback::pair_of::<Copier>()?;
/// let table = pd.register::<RemoteReadWrite>(64)?;
/// table.write_at(0, &[7; 64])?;
/// let nothing: MemoryRegion<LocalWrite, Null> = pd.alloc_null_mr()?;
/// let first = table.remote().slice(0, 32)?;
/// a.post_send(wr::RdmaRead::new(nothing.piece(0, 32)?, first.read()))?; // is it readable?
/// a.post_send(wr::RdmaWrite::new(nothing.piece(0, 32)?, first.write()))?; // writes zeroes
/// proverbs::loopback::poll(&mut cq, 2)?;
/// let mut now = [1; 33];
/// table.read_at(0, &mut now)?;
/// assert_eq!((&now[..32], now[32]), (&[0; 32][..], 7));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Null(());

impl HasPieces for Null {}

/// The longest piece: no message is longer.
const LEN: usize = LONGEST_PIECE as usize;

impl ProtectionDomain {
    /// Allocates a region that is not backed by memory (`ibv_alloc_null_mr`). [`Null`] has an
    /// example.
    ///
    /// [Blocks](crate::guide::shutdown) while the device does not answer.
    ///
    /// # Errors
    /// - [`ErrorKind::Unsupported`]: the device or its library does not have this verb.
    /// - [`ErrorKind::Os`] with the errno.
    #[doc(alias = "ibv_alloc_null_mr")]
    pub fn alloc_null_mr(&self) -> Result<MemoryRegion<LocalWrite, Null>, Error> {
        const VERB: &str = "ibv_alloc_null_mr";
        // SAFETY: the domain is live. The region is new and belongs to the domain.
        let region = unsafe {
            Registered::without_bytes(self, Null(()), 0, LEN, |_, pd| {
                (pd.control().alloc_null_mr)(pd.as_ptr())
            })
        };
        region.map(MemoryRegion::of).map_err(|(_, errno)| match errno {
            libc::EOPNOTSUPP | libc::ENOSYS => {
                let lacks = format!("{} or its library does not support it", self.context().name());
                let (asked, instead) = ("a region without memory".into(), "post memory of a pool");
                Error::new(VERB, ErrorKind::Unsupported { asked, lacks, instead })
            }
            _ => Error::os(VERB, errno, ""),
        })
    }
}
