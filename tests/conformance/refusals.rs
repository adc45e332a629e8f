//! Every rejection names the verb, the errno, and the request.

use proverbs::bounded::PrivilegedQkey;
use proverbs::device::{Absence, devices};
use proverbs::prelude::*;

use crate::support::*;

/// Sizes are multiples of eight, so that each buffer can take an atomic's result.
#[test]
fn buffers_of_any_size() {
    let dev = Device::open();
    let pd = dev.ctx.alloc_pd().unwrap();
    for (asked, is) in [(0, 8), (1, 8), (7, 8), (8, 8), (9, 16), (100, 104), (256, 256)] {
        let pool = pd.create_pool(3, asked).unwrap();
        let mut bufs: Vec<Buf> = std::iter::from_fn(|| pool.take()).collect();
        assert_eq!(bufs.len(), 3);
        for (i, buf) in bufs.iter_mut().enumerate() {
            assert_eq!((buf.capacity(), buf.len(), buf.as_ptr().addr() % 8), (is, is, 0));
            buf.fill(i as u8);
        }
        for (i, buf) in bufs.iter().enumerate() {
            assert!(buf.iter().all(|&byte| byte == i as u8), "they do not overlap");
        }
    }
}

fn says<T: std::fmt::Debug>(result: Result<T, proverbs::Error>, text: &str) -> proverbs::Error {
    let error = result.expect_err("it is refused");
    assert_eq!(said(&error), text);
    error
}

#[test]
fn a_missing_device_is_reported() {
    let error = Context::open("no_such_device").unwrap_err();
    assert_eq!(error.verb(), "ibv_open_device");
    match error.kind() {
        // The machine has no device at all.
        ErrorKind::Absent(Absence::Module { .. } | Absence::Device) => {
            assert_eq!(devices().unwrap(), []);
            assert_eq!(error.errno(), Some(libc::ENODEV));
        }
        // Under Miri, in a static program, and without libibverbs.
        ErrorKind::Absent(Absence::Library { file, .. }) => {
            assert_eq!((*file, error.errno()), ("libibverbs.so.1", Some(libc::ELIBACC)));
            assert_eq!(devices().unwrap_err().kind(), error.kind());
        }
        ErrorKind::NotFound(what) => {
            let names = devices().unwrap().into_iter().map(|device| device.name);
            let names = names.collect::<Vec<_>>().join(", ");
            let names = if names.is_empty() { "none" } else { &names };
            let text = "no device is called \"no_such_device\"; devices of this machine: ";
            assert_eq!(*what, format!("{text}{names}"));
            assert_eq!(error.errno(), None);
        }
        _ => panic!("{error}"),
    }
}

/// Proves R2.11, R9.13.
#[test]
fn numbers_beyond_the_device() {
    fails_on!(Iwarp, "R24.4");
    let dev = Device::open();
    let pd = dev.ctx.alloc_pd().unwrap();
    let cq = dev.ctx.create_cq::<Buf>(10).unwrap();
    let most = dev.ctx.query_device().unwrap();
    let (wr, cqe, sge) = (most.max_qp_wr, most.max_cqe, most.max_sge);
    let error = dev.ctx.create_cq::<Buf>(cqe + 1);
    says(error, &format!("ibv_create_cq: cqe {} exceeds {cqe}", cqe + 1));
    let error = dev.ctx.create_cq::<Buf>(0);
    let error = says(error, "ibv_create_cq: EINVAL: Invalid argument (cqe 0)");
    assert_eq!(error.errno(), Some(22));
    let create = |send, recv| pd.create_qp::<Rc, DefaultProfile>(&cq, &cq, Depth { send, recv });
    let text = format!("ibv_create_qp: max_send_wr {} exceeds {wr}", wr + 1);
    let error = says(create(wr, 1), &text);
    let kind = ErrorKind::Limit { what: "max_send_wr", asked: wr as u64 + 1, max: wr.into() };
    assert_eq!(*error.kind(), kind);
    let text = format!("ibv_create_qp: max_recv_wr {} exceeds {wr}", wr + 1);
    says(create(1, wr + 1), &text);
    profile! { ManyPieces { max_send_sge: 33 } }
    let error = pd.create_qp::<Rc, ManyPieces>(&cq, &cq, Depth { send: 1, recv: 1 });
    says(error, &format!("ibv_create_qp: max_send_sge 33 exceeds {sge}"));
    profile! { Scattered { max_recv_sge: 40 } }
    let error = pd.create_qp::<Uc, Scattered>(&cq, &cq, Depth { send: 1, recv: 1 });
    says(error, &format!("ibv_create_qp: max_recv_sge 40 exceeds {sge}"));
    profile! { Inlined { max_inline: 1025 } }
    let error = pd.create_qp::<Ud, Inlined>(&cq, &cq, Depth { send: 2, recv: 1 }).unwrap_err();
    assert_eq!((error.verb(), error.errno()), ("ibv_create_qp", Some(22)));
    assert!(error.to_string().contains("UD with max_send_wr 3, max_recv_wr 1"), "{error}");
    assert!(error.to_string().contains("max_inline_data 1025"), "{error}");
    // None of them booked anything.
    assert_eq!(cq.unbooked(), cq.capacity());
}

/// Proves R3.8, R6.3, R6.4.
#[test]
fn memory_of_no_size_and_of_too_much() {
    let dev = Device::open();
    let pd = dev.ctx.alloc_pd().unwrap();
    let none = "ibv_reg_mr: EINVAL: Invalid argument (cannot register 0 bytes)";
    says(pd.register::<RemoteRead>(0), none);
    says(pd.create_pool(0, 64), none);
    let long = "ibv_reg_mr: buffer size 2147483648 exceeds 2147483647";
    says(pd.create_pool(1, 1 << 31), long);
    let error = pd.register::<RemoteRead>(usize::MAX).unwrap_err();
    assert_eq!((error.verb(), error.errno()), ("ibv_reg_mr", Some(12)));
}

#[test]
fn indices_beyond_a_table() {
    let dev = Device::open();
    // rxe has 1024 entries, and returns each of them; loopback has 16.
    let error = dev.ctx.query_gid(9, 0).unwrap_err();
    assert_eq!(error.verb(), "ibv_query_gid");
    assert!(
        error.to_string().ends_with("(port 9 does not exist: this device has 1 port)"),
        "{error}"
    );
    assert!(error.errno().is_some());
    let error = dev.ctx.query_pkey(9, 0).unwrap_err();
    assert_eq!(error.verb(), "ibv_query_pkey");
    assert!(
        error.to_string().ends_with("(port 9 does not exist: this device has 1 port)"),
        "{error}"
    );
}

/// Proves R5.4.
#[test]
fn a_gid_index_that_is_not_filled() {
    fails_on!(IwarpOtherwise, "R24.3");
    let dev = Device::open();
    let pd = dev.ctx.alloc_pd().unwrap();
    let empty = 13;
    assert!(dev.ctx.query_gid(1, empty).map_or(true, |gid| gid.is_zero()));
    let error = pd.create_ah(AddressVector::roce(1, dev.gid(), empty)).unwrap_err();
    assert_eq!(error.verb(), "ibv_create_ah");
    // R5.4: ENODATA.
    assert_eq!(error.errno(), Some(61));
    let text = format!("(port 1, dgid {}, sgid_index 13)", dev.gid());
    assert!(error.to_string().ends_with(&text), "{error}");
}

/// Proves R5.6, R5.7.
#[test]
fn values_beyond_their_bits() {
    assert_eq!(Psn::try_from(1 << 24).unwrap_err().to_string(), "PSN 16777216 exceeds 16777215");
    let error: proverbs::Error = Qpn::try_from(u32::MAX).unwrap_err().into();
    assert_eq!(error.to_string(), "attribute: queue pair number 4294967295 exceeds 16777215");
    assert!(Qkey::new(1 << 31).is_none());
    assert!(PrivilegedQkey::new(1).is_none());
    assert!(ReadDepth::new(0).is_none());
}

/// The two errors are distinct: bytes outside the region, and an unaligned cell.
#[test]
fn out_of_bounds_is_not_misaligned() {
    fails_on!(Iwarp, "R24.4");
    let dev = Device::open();
    let pd = dev.ctx.alloc_pd().unwrap();
    let region = pd.register::<RemoteAll>(64).unwrap();
    let remote = region.remote();
    let mut bytes = [0; 8];
    let outside = [
        region.piece(60, 8).unwrap_err(),
        region.write_at(60, &bytes).unwrap_err(),
        region.read_at(60, &mut bytes).unwrap_err(),
        remote.slice(60, 8).unwrap_err(),
    ];
    for error in outside {
        assert_eq!((error.offset, error.len, error.misaligned), (60, 8, false));
    }
    assert!(!region.piece(0, 1 << 33).unwrap_err().misaligned);
    assert!(remote.atomic(4).unwrap_err().misaligned);
}
