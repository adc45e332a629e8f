// Proves R18.3, ibv_reg_mr(3): only what owns bytes of which any are a value is memory.
// Enforced by `Memory`.
use proverbs::prelude::*;

fn flags(pd: &ProtectionDomain, flags: Vec<bool>) {
    let _ = pd.region::<RemoteWrite>().create_in(flags);
}

fn bytes(pd: &ProtectionDomain, bytes: [u8; 64]) {
    let _ = pd.pool(64).create_in(bytes);
}

fn text(pd: &ProtectionDomain, text: String) {
    let _ = pd.region::<RemoteWrite>().create_in(text);
}

fn main() {}
