//! Connection options (ECE), which rdma_cm carries between the devices of a fabric.

use proverbs::cm::*;
use proverbs::ext::tuning::Ece;
use proverbs::loopback::{Fabric, Personality, World};
use proverbs::{ErrorKind, post_send, wr};

use crate::fabric::{asked_with, next};
use crate::steps::done;
use crate::support::end;

const WITH: bool = true;

fn asks(ece: bool) -> ConnParam {
    ConnParam { ece, ..ConnParam::default() }
}

fn answers(ece: bool) -> AcceptParam {
    AcceptParam { ece, ..AcceptParam::default() }
}

/// The options that each side received, and its own: the active one first.
fn agreed(
    personality: Personality,
    [active, passive]: [bool; 2],
    offer: Option<u32>,
) -> [(Option<Ece>, Option<Ece>); 2] {
    let fabric = Fabric::with(World::ipv4().personality(personality));
    let (one, two) = (fabric.open_device(), fabric.open_device());
    let channel = EventChannel::on(&fabric).unwrap();
    let ((pending, _there), request, _listening) =
        asked_with(&fabric, &channel, [&one, &two], &asks(active), |qp| {
            if let Some(options) = offer {
                let ece = qp.query_ece().unwrap();
                qp.set_ece(Ece { options, ..ece }).unwrap();
            }
        });
    let heard = request.id.remote_ece().unwrap();
    let (qp, mut here) = end(&request.id, 2);
    let accepted = request.accept(qp, &answers(passive)).unwrap();
    let mut a = done(pending.advance(&next(&channel, EventKind::ConnectResponse)));
    let b = done(accepted.advance(&next(&channel, EventKind::Established)));
    assert_eq!(b.id.remote_ece().unwrap(), heard, "while the connection exists");
    post_send!(a.qp, [wr::Send::inline(b"across")]).unwrap();
    assert_eq!(here.receive().data(), b"across");
    let answer = a.id.remote_ece().unwrap();
    [(answer, a.qp.query_ece().ok()), (heard, b.qp.query_ece().ok())]
}

/// Proves R23.1.
#[test]
fn both_sides_agree_on_common_options() {
    for personality in [Personality::Plain, Personality::Mlx5, Personality::worst(3)] {
        let [(answer, active), (heard, passive)] = agreed(personality, [WITH; 2], Some(0b1));
        let vendor_id = active.unwrap().vendor_id;
        let taken = Some(Ece { vendor_id, options: 0b1 });
        assert_eq!([answer, active, heard, passive], [taken; 4]);
    }
}

/// Proves R23.1.
#[test]
fn a_side_without_options_is_connected_without() {
    // A side without options sends none, and its queue pair is unchanged.
    let [(answer, active), (heard, passive)] = agreed(Personality::Plain, [WITH, false], Some(0b1));
    assert_eq!((answer, active), (None, heard), "the active side keeps its offer");
    assert_eq!((heard.unwrap().options, passive.unwrap().options), (0b1, 0b101));
    let [(answer, _), (heard, passive)] = agreed(Personality::Plain, [false, WITH], None);
    assert_eq!((answer, heard, passive.unwrap().options), (None, None, 0b101));
    // A device that has none.
    assert_eq!(agreed(Personality::Rxe, [WITH; 2], None), [(None, None); 2]);
}

#[test]
fn a_request_is_rejected_because_of_its_options() {
    let fabric = Fabric::new();
    let (one, two) = (fabric.open_device(), fabric.open_device());
    let channel = EventChannel::on(&fabric).unwrap();
    let ((pending, mut active), request, _listening) =
        asked_with(&fabric, &channel, [&one, &two], &asks(WITH), |_| {});
    request.reject_ece(&RejectData::of(b"without")).unwrap();
    let event = next(&channel, EventKind::Rejected);
    let Progress::Failed(refused) = pending.advance(&event) else { panic!("it was refused") };
    let ErrorKind::Rejected { reason: 35, private_data } = refused.error.kind() else {
        panic!("{}", refused.error)
    };
    assert!(private_data.starts_with(b"without\0"));
    let NotConnected::Failed { qp, .. } = refused.into_object() else { panic!("it was sent") };
    active.drain(qp);
}
