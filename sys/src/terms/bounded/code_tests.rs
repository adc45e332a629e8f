//! Values that C represents as codes.

use crate::terms::bounded::*;

#[test]
fn timeouts_are_exponents_and_zero_is_infinite() {
    assert_eq!((Timeout::Infinite.to_c(), Timeout::MS_67.to_c()), (0, 14));
    for exponent in 0..=255 {
        let timeout = Timeout::exponent(exponent);
        assert_eq!(timeout.map(Timeout::to_c), (1..=31).contains(&exponent).then_some(exponent));
        let back = Timeout::from_c(exponent).map(Timeout::to_c);
        assert_eq!(back, (exponent <= 31).then_some(exponent));
    }
}

#[test]
fn seven_rnr_retries_are_infinite() {
    assert_eq!(RnrRetry::Infinite.to_c(), 7);
    for n in 0..=255 {
        let retries = RnrRetries::try_from(n).ok();
        assert_eq!(retries.map(|n| RnrRetry::Times(n).to_c()), (n <= 6).then_some(n));
        assert_eq!(RnrRetry::from_c(n).map(RnrRetry::to_c), (n <= 7).then_some(n));
    }
}

#[test]
fn an_mtu_has_a_code_and_a_number_of_bytes() {
    for (code, bytes) in (1..=5).zip([256, 512, 1024, 2048, 4096]) {
        let mtu = Mtu::from_bytes(bytes).unwrap();
        assert_eq!((mtu.bytes(), Mtu::from_c(code)), (bytes, Some(mtu)));
        assert_eq!(Mtu::from_c(mtu.to_c()), Some(mtu));
        assert_eq!((Mtu::from_bytes(bytes + 1), Mtu::from_bytes(bytes - 1)), (None, None));
    }
    assert_eq!((Mtu::from_c(0), Mtu::from_c(6)), (None, None));
}
