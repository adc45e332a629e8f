// R2.4, ibv_post_send(3): the legal twin of ui-tests/flags/no_signaled_in_a_list_where_all_are.rs.
use proverbs::post::SendList;
use proverbs::prelude::*;

profile! { Few { signaling: Selective } }

fn pushed(list: &mut SendList<'_, Rc, Few, 1>, buf: Buf) {
    list.push(wr::Send::new(buf).signaled()).unwrap();
}
