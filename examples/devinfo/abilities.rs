//! The features of this crate on a device, tested by using them.

use proverbs::device::{
    AtomicCap, CqModeration, DeviceAttr, DeviceMemory, FlushGlobal, FlushPersistent,
    MemoryWindows2B, PacketPacing, ResizeSrq, Timestamps,
};
use proverbs::ext::on_demand::OnDemand;
use proverbs::prelude::*;
use proverbs::qp::Max;
use proverbs::rules::HasBothQueues;

use crate::Result;

const DEPTH: Depth = Depth { send: 1, recv: 1 };

/// Profiles that differ only in their inline capacity.
macro_rules! inline_profiles {
    ($($name:ident = $bytes:literal),* $(,)?) => {
        $(profile! { $name { max_inline: $bytes } })*

        /// The largest of these that the device grants to a `T` queue pair. An error if it cannot
        /// create such a queue pair.
        fn most_inline<T: HasBothQueues>(context: &Context, pd: &ProtectionDomain) -> Result<u32> {
            let mut most = 0;
            create::<T, Inline0>(context, pd)?;
            $(if create::<T, $name>(context, pd).is_ok() {
                most = most.max($bytes);
            })*
            Ok(most)
        }
    };
}

inline_profiles! {
    Inline0 = 0, Inline32 = 32, Inline64 = 64, Inline128 = 128, Inline220 = 220, Inline256 = 256,
    Inline512 = 512, Inline1024 = 1024,
}

/// Creates a queue pair and destroys it.
fn create<T: HasBothQueues, P: Profile<Receive = OwnRq, Threads = AnyThread, Entry = Buf>>(
    context: &Context,
    pd: &ProtectionDomain,
) -> Result<()> {
    let cq = context.cq(0).queue_pairs(1, DEPTH).create()?;
    pd.create_qp::<T, P>(&cq, &cq, DEPTH)?;
    Ok(())
}

pub fn show(context: &Context, attr: &DeviceAttr) -> Result<()> {
    println!("    with this crate:");
    may_lack(context)?;
    let pd = context.alloc_pd()?;
    let atomics = attr.atomic_cap != AtomicCap::None;
    let rc = if atomics {
        "SEND, RDMA WRITE, RDMA READ, CMP_AND_SWP, FETCH_AND_ADD"
    } else {
        "SEND, RDMA WRITE, RDMA READ"
    };
    transport("RC", most_inline::<Rc>(context, &pd), rc);
    transport("UC", most_inline::<Uc>(context, &pd), "SEND, RDMA WRITE");
    transport("UD", most_inline::<Ud>(context, &pd), "SEND to any peer, one packet each");

    let pool = pd.create_pool(1, 64)?;
    able("shared receive queue, RC", pd.create_srq::<Rc, Buf, Max<1>, ()>(&pool));
    able("shared receive queue, UD", pd.create_srq::<Ud, Buf, Max<1>, ()>(&pool));
    able("completion channel", context.create_comp_channel());
    able("region open to READ, WRITE, atomics", pd.register::<RemoteAll>(64));
    Ok(())
}

/// Prints the optional features.
fn may_lack(context: &Context) -> Result<()> {
    let abilities = context.abilities()?;
    let tell =
        |what: &str, can: bool| println!("        {what}: {}", if can { "yes" } else { "no" });
    tell("shared receive queues resized", abilities.can::<ResizeSrq>().is_some());
    tell("memory windows of type 2B", abilities.can::<MemoryWindows2B>().is_some());
    let on_demand = abilities.can::<OnDemand<Rc, RemoteReadWrite>>();
    tell("memory on demand for peers on RC, READ and WRITE", on_demand.is_some());
    tell("device memory", abilities.can::<DeviceMemory>().is_some());
    tell("FLUSH, global", abilities.can::<FlushGlobal>().is_some());
    tell("FLUSH, persistent", abilities.can::<FlushPersistent>().is_some());
    tell("ATOMIC WRITE", abilities.can::<proverbs::ext::persistence::AtomicWrite>().is_some());
    tell("timestamps of completions", abilities.can::<Timestamps>().is_some());
    tell("events of completion queues moderated", abilities.can::<CqModeration>().is_some());
    tell("rates of RC queue pairs limited", abilities.can::<PacketPacing<Rc>>().is_some());
    Ok(())
}

fn transport(name: &str, inline: Result<u32>, opcodes: &str) {
    match inline {
        Ok(inline) => println!("        {name}  {opcodes}; inline up to {inline} bytes or more"),
        Err(error) => println!("        {name}  no: {error}"),
    }
}

fn able<T>(what: &str, result: std::result::Result<T, proverbs::Error>) {
    match result {
        Ok(_) => println!("        {what}: yes"),
        Err(error) => println!("        {what}: no: {error}"),
    }
}
