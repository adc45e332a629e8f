//! Lanes: domains whose objects one thread uses, so that the provider needs no locks.

#![allow(unsafe_code)] // two verbs

use std::sync::Arc;

use crate::device::ProtectionDomain;
use crate::sys::handle;
use crate::terms::error::Error;
use crate::terms::threads::InLane;

/// A lane of a protection domain: a parent domain with a thread domain (`ibv_alloc_td`,
/// `ibv_alloc_parent_domain`). Its objects stay on this thread, so the provider omits locks.
///
/// [`alloc_lane`](ProtectionDomain::alloc_lane) creates a lane, [`create_cq`](Lane::create_cq) its
/// completion queues, [`create_srq`](ProtectionDomain::create_srq) its shared receive queues, and
/// [`create_qp`](ProtectionDomain::create_qp) its queue pairs, whose profile has `threads: InLane`.
/// These objects cannot be mixed with others: a queue pair of a lane needs completion queues of a
/// lane, and other queue pairs cannot use these.
///
/// None of them is `Send` ([R17.8](crate::guide::rules#r17-8)). Regions, pools, buffers and address
/// handles do not belong to a lane. Create them from the protection domain, on any thread, and use
/// them with the queue pairs of all its lanes. So a program with many threads has one domain, and
/// each thread creates its own lane. A queue pair must be connected on the thread that uses it, but
/// endpoints that peers exchange can move between threads.
///
/// On a device without thread domains, lanes have the same types, but use locks.
/// [`has_thread_domain`](Lane::has_thread_domain) and
/// [`is_single_threaded`](crate::CompletionQueue::is_single_threaded) report this
/// ([R17.2](crate::guide::rules#r17-2)).
///
/// ```
/// # use proverbs::prelude::*;
/// use proverbs::device::Lane;
/// use proverbs::qp::InLane;
/// profile! { Fast { threads: InLane } }
///
/// # let proverbs::loopback::Pair { context: _context, pd, .. } = proverbs::loopback::pair()?;
/// let depth = Depth { send: 8, recv: 8 };
/// let workers: Vec<_> = (0..2)
///     .map(|_| {
///         let pd = pd.clone();
///         std::thread::spawn(move || -> Result<bool, proverbs::Error> {
///             let lane: Lane = pd.alloc_lane()?;
///             let cq = lane.create_cq(64)?;
///             let qp = lane.create_qp::<Rc, Fast>(&cq, &cq, depth)?;
///             // ... connect it, post, poll ...
///             drop(qp);
///             Ok(lane.has_thread_domain() && cq.is_single_threaded())
///         })
///     })
///     .collect();
/// for worker in workers {
///     assert!(worker.join().map_err(|_| "panicked")??); // this device supports them
/// }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub type Lane = ProtectionDomain<InLane>;

impl ProtectionDomain {
    /// Creates a [`Lane`] of this domain for the calling thread (`ibv_alloc_td`,
    /// `ibv_alloc_parent_domain`). If the device does not support thread domains, the lane uses the
    /// provider's locks ([R17.2](crate::guide::rules#r17-2)).
    ///
    /// [Blocks](crate::guide::shutdown) while the device does not answer.
    ///
    /// On mlx5 each lane has its own doorbell page.
    ///
    /// # Errors
    /// [`ErrorKind::Os`](crate::ErrorKind::Os) with the errno: ENOMEM if the device has no doorbell
    /// page left. EOPNOTSUPP is not an error.
    #[doc(alias("ibv_alloc_td", "ibv_dealloc_td", "ibv_alloc_parent_domain", "ibv_td"))]
    #[doc(alias = "ibv_parent_domain_init_attr")]
    pub fn alloc_lane(&self) -> Result<Lane, Error> {
        let parent = self.handle();
        let (control, context) = (parent.control(), parent.parents().context.clone());
        // The domain itself, as a lane that ends separately.
        let without = || {
            let (parents, keeper) = (parent.parents().context.clone().into(), parent.clone());
            // SAFETY: the domain is live, and belongs to this provider, as long as its handle,
            // which is the keeper.
            let handle =
                unsafe { handle::Pd::kept(parent.ptr(), control, parents, Box::new(keeper)) };
            Ok(Lane::of(Arc::new(handle), self.id()))
        };
        // SAFETY: its handle keeps the context open.
        let td = match unsafe { (control.alloc_td)(context.as_ptr()) } {
            // SAFETY: the object was just created, and has no other owner.
            Ok(td) => unsafe { handle::Td::new(td, control, context.clone()) },
            Err(libc::EOPNOTSUPP | libc::ENOSYS) => return without(),
            Err(errno) => return Err(Error::os("ibv_alloc_td", errno, "")),
        };
        // SAFETY: both domains are live, belong to one context, and are the parents of the result.
        match unsafe { (control.alloc_parent_domain)(parent.as_ptr(), td.as_ptr()) } {
            Ok(joint) => {
                let joins = Some(handle::Joined { td, pd: parent.clone() });
                let parents = handle::PdParents { context, joins };
                // SAFETY: the object was just created, and has no other owner.
                let handle = unsafe { handle::Pd::new(joint, control, parents) };
                Ok(Lane::of(Arc::new(handle), self.id()))
            }
            Err(libc::EOPNOTSUPP | libc::ENOSYS) => without(),
            Err(errno) => Err(Error::os("ibv_alloc_parent_domain", errno, "")),
        }
    }
}

impl Lane {
    /// Whether the lane has a thread domain. If not, the device does not support them, and queue
    /// pairs and shared receive queues of the lane use the provider's locks
    /// ([R17.2](crate::guide::rules#r17-2)).
    pub fn has_thread_domain(&self) -> bool {
        self.handle().parents().joins.is_some()
    }
}
