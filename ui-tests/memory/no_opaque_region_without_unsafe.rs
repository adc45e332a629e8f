// Proves R18.44: who registers memory that something else uses promises how it is used.
// Enforced by `unsafe`.
use proverbs::prelude::*;
use std::ptr::NonNull;

fn register(pd: &ProtectionDomain, words: &'static mut [u64; 8]) {
    let base = NonNull::from(words).cast();
    let _ = pd.region::<RemoteWrite>().opaque(base, 64, ());
}

fn main() {}
