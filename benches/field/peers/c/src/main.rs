//! C, to compare with: designated initialisers, no books, gcc -O2.

use std::ffi::{c_int, c_void};

use field::{Api, Held, Work};

unsafe extern "C" {
    fn form_new() -> *mut c_void;
    fn form_post(form: *mut c_void) -> c_int;
    fn form_chain4(form: *mut c_void) -> c_int;
    fn form_recv(form: *mut c_void) -> c_int;
    fn form_poll1(form: *mut c_void) -> c_int;
    fn form_poll16(form: *mut c_void) -> c_int;
    fn form_cycle(form: *mut c_void) -> c_int;
}

/// What `form_new` gave.
struct Form(*mut c_void);

macro_rules! call {
    ($($method:ident $function:ident)*) => {
        $(
            #[inline(always)]
            fn $method(&mut self) -> bool {
                // SAFETY: the form is live, and used by one call at a time.
                unsafe { $function(self.0) != 0 }
            }
        )*
    };
}

impl Api for Form {
    const CRATE: &'static str = "C";
    const FORM: &'static str = "libibverbs";
    const HELD: Held = Held {
        lifetime: "nobody",
        range: "device",
        transport: "device",
        state: "device",
        overrun: "nobody",
        refused: "run",
        note: "gcc -O2, designated initialisers, bad_wr is a pointer",
    };
    const OFFERS: &'static [Work] =
        &[Work::Post, Work::Chain4, Work::Recv, Work::Poll1, Work::Poll16, Work::Cycle];

    call! {
        post form_post
        chain4 form_chain4
        recv form_recv
        poll1 form_poll1
        poll16 form_poll16
        cycle form_cycle
    }
}

fn main() {
    // SAFETY: no precondition.
    field::run(Form(unsafe { form_new() }));
}
