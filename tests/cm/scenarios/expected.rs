//! The expectations: one transcript for each scenario.
//!
//! A line with the tag `ib|` is for devices with InfiniBand's connection manager (RoCE and
//! InfiniBand), and one with `iw|` for iWARP. Each names the function of Linux 6.1 that causes it.
//! `EVENT I/R T/N "data" L of F`: the depths of initiator and responder, the retries of the
//! transport and of RNR, and the first bytes of the private data, which has L bytes in a field of
//! F. Scenarios about these print them.
//!
//! Observed on Linux 6.1 (rxe and siw) and 7.3 (rxe).

use super::{check, scenes};
use crate::support::{fabric, is_iwarp};

macro_rules! scenarios {
    (
        $($name:ident => $expected:literal;)*
        @of_datagrams {
            $($of_datagrams:ident => $expects:literal;)*
        }
    ) => {
        $(#[test]
        fn $name() {
            check(scenes::$name, $expected);
        })*

        $(#[test]
        fn $of_datagrams() {
            if !is_iwarp() {
                check(scenes::$of_datagrams, $expects);
            }
        })*

        const ALL: &[(&str, &str)] =
            &[$((stringify!($name), $expected)),*, $((stringify!($of_datagrams), $expects)),*];
    };
}

scenarios! {
    the_active_side_leaves => r#"
        ib| server: CONNECT_REQUEST 4/2 3/5 "hello" 5 of 56 # cma.c: cma_set_req_event_data
        iw| server: CONNECT_REQUEST 4/2 0/0 "hello" 5 of 5 # cma.c: iw_conn_req_handler
        passive: rdma_accept: done
        ib| active: CONNECT_RESPONSE 2/2 0/5 "welcome" 7 of 196 # cma.c: cma_ib_handler
        ib| passive: ESTABLISHED 0/0 0/0 0 of 0 # ucma.c: ucma_event_handler
        iw| passive: ESTABLISHED 2/2 0/0 0 of 0 # cma.c: cma_iw_handler
        iw| active: ESTABLISHED 2/2 0/0 "welcome" 7 of 7 # cma.c: cma_iw_handler
        active: rdma_disconnect: done
        passive: DISCONNECTED 0 of 0
        passive: rdma_disconnect: done
        active: DISCONNECTED 0 of 0
        ib| active: TIMEWAIT_EXIT 0 of 0 # cm.c: cm_timewait_handler
        ib| passive: TIMEWAIT_EXIT 0 of 0 # cm.c: cm_timewait_handler
    "#;
    the_passive_side_leaves => r#"
        server: CONNECT_REQUEST "hello"
        passive: rdma_accept: done
        ib| active: CONNECT_RESPONSE "welcome" # cma.c: cma_ib_handler
        passive: ESTABLISHED
        iw| active: ESTABLISHED "welcome" # cma.c: cma_iw_handler
        passive: rdma_disconnect: done
        active: DISCONNECTED
        active: rdma_disconnect: done
        passive: DISCONNECTED
        ib| active: TIMEWAIT_EXIT # cm.c: cm_timewait_handler
        ib| passive: TIMEWAIT_EXIT # cm.c: cm_timewait_handler
    "#;
    an_active_side_is_dropped => r#"
        server: CONNECT_REQUEST "hello"
        passive: rdma_accept: done
        ib| active: CONNECT_RESPONSE "welcome" # cma.c: cma_ib_handler
        passive: ESTABLISHED
        iw| active: ESTABLISHED "welcome" # cma.c: cma_iw_handler
        passive: DISCONNECTED
        passive: rdma_disconnect: done
        ib| passive: TIMEWAIT_EXIT # cm.c: cm_timewait_handler
    "#;
    a_listener_leaves_its_connections => r#"
        server: CONNECT_REQUEST "hello"
        passive: rdma_accept: done
        ib| active: CONNECT_RESPONSE "welcome" # cma.c: cma_ib_handler
        passive: ESTABLISHED
        iw| active: ESTABLISHED "welcome" # cma.c: cma_iw_handler
        again: rdma_bind_addr: done
        active: DISCONNECTED
        active: rdma_disconnect: done
        ib| active: TIMEWAIT_EXIT # cm.c: cm_timewait_handler
    "#;
    no_listener => r#"
        ib| active: REJECTED 8 # cm.c: cm_match_req
        iw| active: rdma_connect: ECONNREFUSED # siw_cm.c: siw_connect
    "#;
    a_wildcard_listens => r#"
        server: CONNECT_REQUEST "hello"
        passive: at the device's address: true
        ib| active: REJECTED 28 # cm.c: cm_rej_handler
        iw| active: REJECTED ECONNRESET # siw_cm.c: siw_proc_mpareply
    "#;
    this_machine => r#"
        server: rdma_bind_addr: done
        server: has a device: false
        ib| server: CONNECT_REQUEST "hello" # cma.c: cma_set_req_event_data
        ib| active: REJECTED 28 # cm.c: cm_rej_handler
        iw| active: rdma_connect: ECONNREFUSED # siw_cm.c: siw_connect
        iw| other: rdma_resolve_addr: EINVAL # cma.c: cma_bind_loopback
        ib| other: rdma_resolve_addr: done # cma.c: cma_bind_loopback
        ib| other: ADDR_RESOLVED # cma.c: cma_resolve_loopback
        ib| other: both ends are the loopback interface's: true # cma.c: cma_bind_loopback
        ib| other: rdma_resolve_route: ENODEV # cma.c: cma_iboe_set_path_rec_l2_fields
    "#;
    the_longest_private_data => r#"
        ib| server: CONNECT_REQUEST 4/2 3/5 "aaaaaaaa" 56 of 56 # cma.c: cma_set_req_event_data
        iw| server: CONNECT_REQUEST 4/2 0/0 "aaaaaaaa" 56 of 56 # cma.c: iw_conn_req_handler
        passive: rdma_accept: done
        ib| active: CONNECT_RESPONSE 2/2 0/5 "bbbbbbbb" 196 of 196 # cma.c: cma_ib_handler
        ib| passive: ESTABLISHED 0/0 0/0 0 of 0 # ucma.c: ucma_event_handler
        ib| server: CONNECT_REQUEST 4/2 3/5 0 of 56 # cma.c: cma_set_req_event_data
        ib| other: REJECTED 28 "cccccccc" 148 of 148 # cm.c: cm_rej_handler
        iw| passive: ESTABLISHED 2/2 0/0 0 of 0 # cma.c: cma_iw_handler
        iw| active: ESTABLISHED 2/2 0/0 "bbbbbbbb" 196 of 196 # cma.c: cma_iw_handler
        iw| server: CONNECT_REQUEST 4/2 0/0 0 of 0 # cma.c: iw_conn_req_handler
        iw| other: REJECTED ECONNRESET "cccccccc" 148 of 148 # siw_cm.c: siw_proc_mpareply
    "#;
    depths_are_agreed_on => r#"
        ib| server: CONNECT_REQUEST 4/2 3/5 0 of 56 # cma.c: cma_set_req_event_data
        ib| active: CONNECT_RESPONSE 2/1 0/5 0 of 196 # cma.c: cma_ib_handler
        ib| passive: ESTABLISHED 0/0 0/0 0 of 0 # ucma.c: ucma_event_handler
        iw| server: CONNECT_REQUEST 4/2 0/0 0 of 0 # cma.c: iw_conn_req_handler
        iw| passive: ESTABLISHED 2/1 0/0 0 of 0 # cma.c: cma_iw_handler
        iw| active: ESTABLISHED 1/2 0/0 0 of 0 # cma.c: cma_iw_handler
    "#;
    rejected => r#"
        ib| server: CONNECT_REQUEST 4/2 3/5 "hello" 5 of 56 # cma.c: cma_set_req_event_data
        iw| server: CONNECT_REQUEST 4/2 0/0 "hello" 5 of 5 # cma.c: iw_conn_req_handler
        passive: rdma_reject: done
        ib| active: REJECTED 28 "no" 2 of 148 # cm.c: cm_rej_handler
        iw| active: REJECTED ECONNRESET "no" 2 of 2 # siw_cm.c: siw_proc_mpareply
    "#;
    a_request_is_dropped => r#"
        server: CONNECT_REQUEST "hello"
        ib| active: REJECTED 28 # cm.c: cm_rej_handler
        iw| active: REJECTED ECONNRESET # siw_cm.c: siw_proc_mpareply
    "#;
    a_listener_is_dropped => r#"
        ib| active: REJECTED 28 # cm.c: cm_rej_handler
        iw| active: REJECTED ECONNRESET # siw_cm.c: siw_proc_mpareply
    "#;
    an_answer_to_no_client => r#"
        server: CONNECT_REQUEST "hello"
        passive: no event
        ib| passive: rdma_init_qp_attr: EINVAL # cm.c: cm_init_qp_init_attr
        iw| passive: rdma_accept: ECONNRESET # siw_cm.c: siw_accept
    "#;
    a_rejection_of_no_client => r#"
        server: CONNECT_REQUEST "hello"
        ib| passive: rdma_reject: EINVAL # cm.c: cm_send_rej_locked
        iw| passive: rdma_reject: ECONNRESET # siw_cm.c: siw_reject
    "#;
    a_request_of_no_client => r#"
        server: CONNECT_REQUEST "hello"
        ib| passive: rdma_init_qp_attr: EINVAL # cm.c: cm_init_qp_init_attr
        iw| passive: rdma_accept: ECONNRESET # siw_cm.c: siw_accept
    "#;
    an_answer_is_refused => r#"
        server: CONNECT_REQUEST "hello"
        passive: rdma_accept: done
        ib| active: CONNECT_RESPONSE "welcome" # cma.c: cma_ib_handler
        ib| passive: REJECTED 28 # cm.c: cm_rej_handler
        iw| active: ESTABLISHED "welcome" # cma.c: cma_iw_handler
        iw| passive: ESTABLISHED # cma.c: cma_iw_handler
    "#;
    an_answer_is_taken_back => r#"
        server: CONNECT_REQUEST "hello"
        passive: rdma_accept: done
        ib| active: CONNECT_RESPONSE "welcome" # cma.c: cma_ib_handler
        ib| active: REJECTED 28 # cm.c: cm_rej_handler
        iw| active: ESTABLISHED "welcome" # cma.c: cma_iw_handler
        iw| active: DISCONNECTED # cma.c: cma_iw_handler
        iw| passive: left ESTABLISHED # cma.c: cma_iw_handler
    "#;
    a_full_backlog => r#"
        iw| second: REJECTED ECONNRESET # siw_cm.c: siw_proc_mpareply
        server: CONNECT_REQUEST "first"
        ib| first: REJECTED 28 # cm.c: cm_rej_handler
        ib| server: CONNECT_REQUEST "second" # cma.c: cma_set_req_event_data
        ib| second: REJECTED 28 # cm.c: cm_rej_handler
        iw| first: REJECTED ECONNRESET # siw_cm.c: siw_proc_mpareply
    "#;
    a_dropped_request_is_overtaken => r#"
        iw| second: REJECTED ECONNRESET # siw_cm.c: siw_proc_mpareply
        server: CONNECT_REQUEST "first"
        server: CONNECT_REQUEST "third"
        ib| third: REJECTED 28 # cm.c: cm_rej_handler
        ib| first: REJECTED 28 # cm.c: cm_rej_handler
        ib| server: CONNECT_REQUEST "second" # cma.c: cma_set_req_event_data
        ib| second: REJECTED 28 # cm.c: cm_rej_handler
        iw| third: REJECTED ECONNRESET # siw_cm.c: siw_proc_mpareply
        iw| first: REJECTED ECONNRESET # siw_cm.c: siw_proc_mpareply
    "#;
    a_full_backlog_goes => r#"
        ib| first: REJECTED 28 # cm.c: cm_rej_handler
        ib| second: REJECTED 8 # cm.c: cm_match_req
        iw| first: REJECTED ECONNRESET # siw_cm.c: siw_proc_mpareply
        iw| second: REJECTED ECONNRESET # siw_cm.c: siw_proc_mpareply
    "#;
    addresses => r#"
        id: rdma_bind_addr of another machine: EADDRNOTAVAIL
        id: rdma_resolve_addr without a route: ENETUNREACH
        id: ADDR_RESOLVED
        id: at the device's address: true
        id: ROUTE_RESOLVED
    "#;
    ports => r#"
        id: rdma_bind_addr of a port that is taken: EADDRINUSE
        id: rdma_bind_addr of a port that is taken, anywhere: EADDRNOTAVAIL
        id: rdma_bind_addr of a port that is taken, for datagrams: done
        id: rdma_bind_addr of a port that is taken, to share it: EADDRINUSE
        id: rdma_bind_addr of a port that is taken everywhere, anywhere: EADDRNOTAVAIL
        id: rdma_bind_addr of a port that is taken everywhere: EADDRNOTAVAIL
        id: rdma_bind_addr to share it: done
        id: rdma_bind_addr to share it: done
        id: rdma_listen: EADDRINUSE
        id: rdma_listen of the other: done
    "#;
    // iWARP does not support datagrams.
    @of_datagrams {
        a_listener_of_another_space => r#"
            active: REJECTED 8
        "#;
        a_service => r#"
            server: CONNECT_REQUEST "who?" 4 of 180
            passive: rdma_accept: done
            active: ESTABLISHED "me" 2 of 136
            active: its queue pair: true
        "#;
        a_service_with_the_longest_data => r#"
            server: CONNECT_REQUEST "aaaaaaaa" 180 of 180
            active: ESTABLISHED "bbbbbbbb" 136 of 136
        "#;
        no_service => r#"
            active: UNREACHABLE 1
        "#;
        a_service_refuses => r#"
            server: CONNECT_REQUEST "who?" 4 of 180
            passive: rdma_reject: done
            active: UNREACHABLE 2 "no" 2 of 136
        "#;
        a_request_for_a_service_is_dropped => r#"
            server: CONNECT_REQUEST "who?"
            active: UNREACHABLE 2
        "#;
        a_service_is_dropped => r#"
            active: UNREACHABLE 2
        "#;
        a_service_with_a_full_backlog => r#"
            second: UNREACHABLE 2
            server: left CONNECT_REQUEST "first"
        "#;
        an_answer_to_nobody => r#"
            server: CONNECT_REQUEST "who?"
            passive: rdma_accept: done
        "#;
    }
}

/// This needs a network on which every address seems to exist, as in a guest.
#[test]
fn a_missing_answer() {
    let is_guest = std::env::var("PROVERBS_ADDRESS").is_ok_and(|at| at == "10.77.0.1");
    if is_iwarp() || fabric().is_none() && !is_guest {
        return println!("not run: the network resolves neighbours, or TCP gives up");
    }
    // `cm.c: cm_process_send_error`
    check(
        scenes::nobody_answers,
        r#"
        active: UNREACHABLE ETIMEDOUT
        other: UNREACHABLE ETIMEDOUT
        "#,
    );
}

/// A line for only some devices names the kernel's source, and differs from the lines for the
/// others.
#[test]
fn a_difference_names_its_source() {
    for (name, expected) in ALL {
        let tagged = |line: &&str| line.starts_with("ib| ") || line.starts_with("iw| ");
        for line in expected.lines().map(str::trim).filter(tagged) {
            let source = line.split_once(" # ").map(|(_, source)| source);
            assert!(source.is_some_and(|source| source.contains(".c: ")), "{name}: {line}");
        }
        let is_tagged = expected.lines().map(str::trim).any(|line| tagged(&line));
        let differs = super::lines(expected, false) != super::lines(expected, true);
        assert_eq!(is_tagged, differs, "{name}");
    }
}
