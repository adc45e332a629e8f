// R6.10, ibv_reg_mr(3): the legal twin of the test of this name.
use proverbs::prelude::*;

fn outlive(pd: &ProtectionDomain) {
    let region = pd.register::<LocalWrite>(64).unwrap();
    let piece = wr::Piece::new(&region, 0..8).unwrap();
    let _ = wr::Sge::new(7, [piece]);
    region.destroy().unwrap();
}
