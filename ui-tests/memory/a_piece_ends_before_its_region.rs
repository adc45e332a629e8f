// Proves R6.10, ibv_reg_mr(3): a piece ends before its region.
// Enforced by the lifetime of `Piece`.
use proverbs::prelude::*;

fn outlive(pd: &ProtectionDomain) {
    let region = pd.register::<LocalWrite>(64).unwrap();
    let piece = wr::Piece::new(&region, 0..8).unwrap();
    region.destroy().unwrap();
    let _ = wr::Sge::new(7, [piece]);
}

fn main() {}
