// R26.5, ibv_open_xrcd(3): the legal twin of the test of this name.
use proverbs::device::Can;
use proverbs::ext::xrc::XrcdFile;
use proverbs::prelude::*;

fn with_this(context: &Context, can: &Can<Xrc>) {
    context.open_xrcd(can, XrcdFile::Private).unwrap();
}
