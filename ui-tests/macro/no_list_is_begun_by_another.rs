// R11.1, ibv_post_send(3): whoever took part in a macro's steps could keep a buffer that is marked as the device's.
// Enforced by `Begun`: only the macros, in their `unsafe`, get the list that a queue begins.
use proverbs::*;

struct Thief<'q>(SendPost<'q, Rc, DefaultProfile>);

impl<'q> std::ops::Deref for Thief<'q> {
    type Target = SendPost<'q, Rc, DefaultProfile>;
    fn deref(&self) -> &Self::Target {
        &self.0
    }
}

impl Thief<'_> {
    fn post(self, [buf]: [Option<Buf>; 1], _: *mut u8, _: *mut u8) -> Option<Buf> {
        buf
    }
}

fn thief(qp: &mut QueuePair<Rc, Rts>) -> Thief<'_> {
    Thief(qp.begin_send().vouch())
}

fn main() {}
