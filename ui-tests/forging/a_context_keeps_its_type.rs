// Proves R11.1, ibv_post_recv(3): a buffer's context goes back to its pool as the type that it had.
// Enforced by `Buf`, `BufList` and `Pool`, which are invariant in it.
use proverbs::prelude::*;

type Any = for<'a> fn(&'a str);
type Static = fn(&'static str);

fn buffer(buf: Buf<Any>) -> Buf<Static> {
    buf
}

fn list(bufs: BufList<Any>) -> BufList<Static> {
    bufs
}

fn pool(pool: Pool<Static>) -> Pool<Any> {
    pool
}

fn main() {}
