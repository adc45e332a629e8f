// Proves R18.3, ibv_reg_mr(3): only what owns bytes of which any are a value is memory.
// Enforced by `Memory`.
use proverbs::prelude::*;

fn flags(pd: &ProtectionDomain, flags: Vec<bool>) {
    let _ = pd.register_in::<RemoteWrite, _>(flags);
}

fn bytes(pd: &ProtectionDomain, bytes: [u8; 64]) {
    let _ = pd.create_pool_in(bytes, 64);
}

fn text(pd: &ProtectionDomain, text: String) {
    let _ = pd.register_in::<RemoteWrite, _>(text);
}

fn main() {}
