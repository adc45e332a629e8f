//! The sets of types for a variable of a call: the name of a set, and its members. A member that is
//! listed twice is drawn twice as often. As a type the set is its first member, so that the calls
//! compile.

use super::*;

macro_rules! sets {
    ($($name:ident: $first:ident $($member:ident)*;)*) => {
        $(pub type $name = $first;)*
        /// All members are types.
        pub type Members = ($(PhantomData<$first>, $(PhantomData<$member>,)*)*);
    };
}

sets! {
    AnyTransport: Rc Uc Ud;
    AnyConnected: Rc Uc;
    AnyShares: Rc Ud;
    AnyStops: Uc Ud;
    AnyPostsSends: Rts Rts Draining Sqd Err;
    AnyPostsRecvs: Init Rtr Rts Rts Draining Sqd Sqe;
    AnyRests: Rts Rts Err;
    AnyFails: Init Rtr Rts Rts Draining Sqd Sqe Err;
    AnyState: Reset Init Rtr Rts Draining Sqd Sqe Err;
    AnyBegun: Init Rtr Rts Draining Sqd Sqe Err;
    AnyProfile: DefaultProfile DefaultProfile Ring Lists Mixed MixedRing Direct;
    AnyShared: Served ServedRing;
    AnySelective: Ring ServedRing MixedRing;
    AnyMarked: DefaultProfile Lists Mixed Direct;
    AnyMixed: Mixed MixedRing;
    AnySeveral: Lists Mixed MixedRing;
    AnyNoisy: Noisy NoisyRing;
    AnyQuiet: DefaultProfile Ring Lists Mixed MixedRing Direct Served ServedRing;
    AnyDirect: Direct;
    AnyEntry: Buf Buf Buf AnyBuf AnyBuf BufList;
    AnyOpen: RemoteRead RemoteWrite RemoteReadWrite RemoteAtomic RemoteAll;
    AnyWritable: RemoteWrite RemoteReadWrite RemoteAll;
    AnyReadable: RemoteRead RemoteReadWrite RemoteAll;
    AnyAtomic: RemoteAtomic RemoteAll;
    AnyPrivate: Octets Words Leaked Mapping Pages;
    AnyMemory: Octets Words Leaked Mapping Pages SharedMapping;
    AnyNest: Nests;
    AnyWindowed: Mixed;
    AnyBufs: DefaultProfile Ring Direct;
    AnyGives: Octets Octets Words Leaked Mapping;
    AnyPaging: Rc Rc Rc Uc;
    AnyPaged: Sends Sends Writes SendsAndWrites;
    AnySendsPaged: Sends SendsAndWrites;
    AnyWritesPaged: Writes SendsAndWrites;
    AnyPostsBoth: Rts Rts Draining Sqd;
    AnyAlsoConnected: Rc Uc;
}
