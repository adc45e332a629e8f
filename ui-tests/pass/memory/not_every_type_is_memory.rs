// R18.3, ibv_reg_mr(3): the legal twin of the test of this name.
use proverbs::prelude::*;

fn flags(pd: &ProtectionDomain, flags: Vec<u8>) {
    let _ = pd.region::<RemoteWrite>().create_in(flags);
}

fn bytes(pd: &ProtectionDomain, bytes: Box<[u8; 64]>) {
    let bytes: Box<[u8]> = bytes;
    let _ = pd.pool(64).create_in(bytes);
}

fn text(pd: &ProtectionDomain, text: String) {
    let _ = pd.region::<RemoteWrite>().create_in(text.into_bytes());
}
