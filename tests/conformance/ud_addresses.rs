//! Address handles: named by index, and destroyed only when no send can name them.

use proverbs::device::{AhIndex, Provider};
use proverbs::loopback::{Fabric, World};
use proverbs::post::PostErrorKind;
use proverbs::prelude::*;

use crate::support::*;

/// Proves R5.3.
#[test]
fn a_removed_handle_serves_its_outstanding_send() {
    fails_on!(Iwarp, "R24.2");
    let mut p = Pair::<Ud>::new();
    let to = p.a.way_to(&p.dev, &p.pd, p.b.qp_num());
    p.b.post_recv(wr::Recv::new(poisoned(&p.pool))).unwrap();
    p.a.post_send(wr::Send::new(filled(&p.pool, b"on its way")).to(to)).unwrap();
    assert!(p.a.remove_address_handle(to.address_handle));
    assert!(!p.a.remove_address_handle(to.address_handle), "it has no name any more");
    // Until the completion was polled, the device may still need it (R5.3).
    assert_eq!(p.a.reap_address_handles(), 1);
    assert_eq!(poll(&p.dev, &mut p.cb, 1).remove(0).datagram().payload(), b"on its way");
    assert_eq!(p.a.reap_address_handles(), 1);
    poll(&p.dev, &mut p.ca, 1);
    assert_eq!(p.a.reap_address_handles(), 0);
}

profile! { Ring { signaling: Selective } }

/// Proves R5.3.
#[test]
fn a_handle_removed_after_unsignaled_sends_waits_for_the_signaled_one() {
    fails_on!(Iwarp, "R24.2");
    fails_on!(NoRings);
    let mut p = Pair::<Ud, Ring>::new();
    let to = p.a.way_to(&p.dev, &p.pd, p.b.qp_num());
    let other = p.a.way_to(&p.dev, &p.pd, p.b.qp_num());
    for _ in 0..3 {
        p.b.post_recv(wr::Recv::new(poisoned(&p.pool))).unwrap();
    }
    let _ = p.a.post_send_unsignaled(wr::Send::inline(b"1").to(to)).unwrap();
    let _ = p.a.post_send_unsignaled(wr::Send::inline(b"2").to(to)).unwrap();
    assert!(p.a.remove_address_handle(to.address_handle));
    assert_eq!(poll(&p.dev, &mut p.cb, 2).len(), 2);
    assert_eq!(p.a.reap_address_handles(), 1);
    p.a.post_send(wr::Send::inline(b"3").to(other)).unwrap();
    let (status, released) = complete(&p.dev, &mut p.ca, &mut p.a, 1).remove(0);
    assert_eq!((status, released.len()), (Ok(()), 0));
    assert_eq!(p.a.reap_address_handles(), 0);
    poll(&p.dev, &mut p.cb, 1);
}

/// A drain whose closure panicked has posted its marker, which names the removed address handle.
///
/// After an interrupted drain the marker's address handle stays alive.
#[test]
fn a_handle_that_a_marker_names_waits_for_it() {
    fails_on!(Iwarp, "R24.2");
    fails_on!(NoRings);
    let mut p = Pair::<Ud, Ring>::new();
    let to = p.a.way_to(&p.dev, &p.pd, p.b.qp_num());
    let mut a = p.a.to_error().unwrap();
    let _ = a.post_send_unsignaled(wr::Send::new(filled(&p.pool, b"flushed")).to(to)).unwrap();
    assert!(a.remove_address_handle(to.address_handle));
    let panics = std::panic::AssertUnwindSafe(|| a.drain(&mut p.ca, |_| panic!("on purpose")));
    assert!(std::panic::catch_unwind(panics).is_err());
    assert_eq!((a.sends_outstanding(), a.reap_address_handles()), (1, 1));
    a.drain(&mut p.ca, |found| drop(found)).unwrap();
    assert_eq!((a.sends_outstanding(), a.reap_address_handles()), (0, 0));
}

/// If completions can arrive in any order, a completion does not cover earlier sends.
#[test]
fn without_an_order_a_removed_handle_waits_for_all_sends() {
    let providers = [(Provider::Efa, false), (Provider::Unknown, false), (Provider::Mlx5, true)];
    for (provider, is_ordered) in providers {
        let world = World::ipv4().provider(provider).personality(Device::personality());
        let mut p = Pair::<Ud>::on(Device::loopback(&Fabric::with(world)), &Wish::new());
        let to = p.a.way_to(&p.dev, &p.pd, p.b.qp_num());
        let other = p.a.way_to(&p.dev, &p.pd, p.b.qp_num());
        p.a.post_send(wr::Send::inline(b"by the handle").to(to)).unwrap();
        assert!(p.a.remove_address_handle(to.address_handle));
        p.a.post_send(wr::Send::inline(b"by another").to(other)).unwrap();
        drop(poll(&p.dev, &mut p.ca, 1));
        let waits = p.a.reap_address_handles();
        assert_eq!((p.a.sends_outstanding(), waits), (1, usize::from(!is_ordered)), "{provider}");
        drop(poll(&p.dev, &mut p.ca, 1));
        assert_eq!(p.a.reap_address_handles(), 0, "{provider}");
    }
}

/// An index of another queue pair's table is invalid in a table with fewer entries.
#[test]
fn an_index_beyond_the_table_posts_nothing() {
    fails_on!(Iwarp, "R24.2");
    let mut p = Pair::<Ud>::new();
    let foreign: Vec<_> = (0..9).map(|_| p.b.way_to(&p.dev, &p.pd, p.a.qp_num())).collect();
    for own in 0..4 {
        for &to in &foreign {
            let error = p.a.post_send(wr::Send::inline(b"nobody's").to(to)).unwrap_err();
            assert_eq!(error.kind(), PostErrorKind::UnknownAddressHandle, "{own} of its own");
        }
        p.a.way_to(&p.dev, &p.pd, p.b.qp_num());
    }
    for to in foreign {
        assert!(!p.a.remove_address_handle(to.address_handle));
        assert!(p.b.remove_address_handle(to.address_handle));
    }
}

/// Proves R5.3.
#[test]
fn a_removed_or_foreign_handle_posts_nothing() {
    fails_on!(Iwarp, "R24.2");
    let mut p = Pair::<Ud>::new();
    let to = p.a.way_to(&p.dev, &p.pd, p.b.qp_num());
    p.a.remove_address_handle(to.address_handle);
    // The slot is reused, for another handle.
    let new = p.a.way_to(&p.dev, &p.pd, p.b.qp_num());
    assert_ne!(to.address_handle, new.address_handle);
    let foreign = p.b.way_to(&p.dev, &p.pd, p.a.qp_num());
    for unknown in [to, foreign] {
        let buf = filled(&p.pool, b"nobody's");
        let error = p.a.post_send(wr::Send::new(buf).to(unknown)).unwrap_err();
        assert_eq!(error.kind(), PostErrorKind::UnknownAddressHandle);
        let text = "ibv_post_send: work request 0: the address handle was removed, or belongs to another \
                    queue pair (add one to this queue pair by `add_address_handle`)";
        assert_eq!(error.to_string(), text);
        assert_eq!(error.into_rejected().next().unwrap()[..], *b"nobody's");
    }
    p.b.post_recv(wr::Recv::new(poisoned(&p.pool))).unwrap();
    p.a.post_send(wr::Send::inline(b"known").to(new)).unwrap();
    assert_eq!(poll(&p.dev, &mut p.cb, 1).remove(0).datagram().payload(), b"known");
    poll(&p.dev, &mut p.ca, 1);
}

/// Proves R5.2.
#[test]
fn a_handle_of_another_domain_is_refused() {
    fails_on!(Iwarp, "R24.2");
    let mut p = Pair::<Ud>::new();
    let pd = p.dev.ctx.alloc_pd().unwrap();
    let refused = p.a.add_address_handle(pd.create_ah(p.dev.vector()).unwrap()).unwrap_err();
    assert!(matches!(refused.error.kind(), ErrorKind::PdMismatch { .. }));
    assert!(refused.to_string().contains("the address handle and the queue pair"), "{refused}");
    refused.into_object().destroy().unwrap();
    pd.destroy().unwrap();
}

/// Proves R5.4.
#[test]
fn an_invalid_address_vector_is_refused_with_its_fields() {
    fails_on!(Iwarp, "R24.2");
    let p = Pair::<Ud>::new();
    let error = p.pd.create_ah(AddressVector::infiniband(1, 0)).unwrap_err();
    assert_eq!((error.verb(), error.errno()), ("ibv_create_ah", Some(22)));
    assert!(error.to_string().ends_with("(port 1, dlid 0)"), "{error}");
    let vector = AddressVector { port: 9, ..p.dev.vector() };
    let error = p.pd.create_ah(vector).unwrap_err();
    assert_eq!((error.verb(), error.errno()), ("ibv_create_ah", Some(22)));
    assert!(error.to_string().contains("port 9, dgid "), "{error}");
}

#[test]
fn many_handles_are_added_and_removed() {
    fails_on!(Iwarp, "R24.2");
    let mut p = Pair::<Ud>::new();
    let mut names: Vec<AhIndex> = Vec::new();
    for i in 0..6 {
        let ah = p.pd.create_ah(p.dev.vector()).unwrap();
        let name = p.a.add_address_handle(ah).unwrap();
        assert!(!names.contains(&name));
        names.push(name);
        if i % 2 == 1 {
            assert!(p.a.remove_address_handle(names[i / 2]));
        }
    }
    assert_eq!(p.a.reap_address_handles(), 0);
    assert!(!p.a.remove_address_handle(names[0]));
    assert!(p.a.remove_address_handle(names[5]));
}
