//! A region of no memory: what is written there is gone, and what is read is zero.

#![allow(unsafe_code)] // one verb

use crate::device::ProtectionDomain;
use crate::memory::registered::Registered;
use crate::memory::span::LONGEST_PIECE;
use crate::memory::{HasPieces, LocalWrite, MemoryRegion};
use crate::terms::error::{Error, ErrorKind};

/// In the place of memory, where there is none (ibv_alloc_null_mr(3)).
///
/// Of a region in it, of 4 GiB, pieces are posted as of others: a READ into them brings bytes that
/// nobody keeps, and a SEND or WRITE of them carries zeroes. It has no key for peers.
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
/// a.post_send(wr::RdmaRead::new(nothing.piece(0, 32)?, first.read()))?; // is it there?
/// a.post_send(wr::RdmaWrite::new(nothing.piece(0, 32)?, first.write()))?; // wiped
/// proverbs::loopback::poll(&mut cq, 2)?;
/// let mut now = [1; 33];
/// table.read_at(0, &mut now)?;
/// assert_eq!((&now[..32], now[32]), (&[0; 32][..], 7));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Null(());

impl HasPieces for Null {}

/// The longest message is shorter.
const LEN: usize = LONGEST_PIECE as usize;

impl ProtectionDomain {
    /// Allocates a region of no memory (`ibv_alloc_null_mr`). [`Null`] has an example.
    ///
    /// [Blocks](crate::guide::shutdown) while the device does not answer.
    ///
    /// # Errors
    /// [`ErrorKind::Unsupported`] if the device or its library has no such verb, otherwise
    /// [`ErrorKind::Os`] with the errno.
    #[doc(alias = "ibv_alloc_null_mr")]
    pub fn alloc_null_mr(&self) -> Result<MemoryRegion<LocalWrite, Null>, Error> {
        const VERB: &str = "ibv_alloc_null_mr";
        // SAFETY: the domain is live. The region is the domain's, and new.
        let region = unsafe {
            Registered::without_bytes(self, Null(()), 0, LEN, |_, pd| {
                (pd.control().alloc_null_mr)(pd.as_ptr())
            })
        };
        region.map(MemoryRegion::of).map_err(|(_, errno)| match errno {
            libc::EOPNOTSUPP | libc::ENOSYS => {
                let lacks = format!("{} or its library has none", self.context().name());
                let (asked, instead) = ("a region of no memory".into(), "post memory of a pool");
                Error::new(VERB, ErrorKind::Unsupported { asked, lacks, instead })
            }
            _ => Error::os(VERB, errno, ""),
        })
    }
}
