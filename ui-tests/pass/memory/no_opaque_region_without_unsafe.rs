// R18.44: the legal twin of the test of this name.
use proverbs::prelude::*;
use std::ptr::NonNull;

fn register(pd: &ProtectionDomain, words: &'static mut [u64; 8]) {
    let base = NonNull::from(words).cast();
    // SAFETY: the reference is given up, and nothing else touches the words.
    let _ = unsafe { pd.region::<RemoteWrite>().opaque(base, 64, ()) };
}
