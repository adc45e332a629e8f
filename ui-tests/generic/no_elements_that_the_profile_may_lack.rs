// Proves R3.1, ibv_post_send(3): code that is generic over the profile says how many elements it posts.
// Enforced by `AtLeast`: each post has one error, which names the bound to write.
use proverbs::prelude::*;

struct Client<P: Profile>(QueuePair<Rc, Rts, P>);

impl<P: Profile<Entry = Buf, Receive = OwnRq>> Client<P> {
    fn call(&mut self, head: &[u8], body: &[u8], answer: Buf) -> Result<(), PostError<Buf>> {
        self.0.post_recv(wr::Recv::new(answer))?;
        self.0.post_send(wr::Send::inline_list([head, body]))
    }
}

fn main() {}
