//! C by the best hand, to compare with, by each compiler: arguments are `gcc=FILE` and
//! `clang=FILE`, what each made of `form.c`.

use std::env::args;
use std::ffi::{CString, c_int, c_void};
use std::mem::transmute;

use field::{Api, Form, Held, PAYLOAD, Work};

unsafe extern "C" {
    fn form_new(payload: *const [u8; PAYLOAD.len()]) -> *mut c_void;
}

/// What `form_new` gave, and what one compiler made of its functions.
struct Compiled<const BY_CLANG: bool> {
    form: *mut c_void,
    object: *mut c_void,
}

impl<const BY_CLANG: bool> Compiled<BY_CLANG> {
    fn new(file: &str) -> Self {
        let path = CString::new(file).expect("a path");
        // SAFETY: form.c has no constructors.
        let object = unsafe { libc::dlopen(path.as_ptr(), libc::RTLD_NOW) };
        assert!(!object.is_null(), "cannot load {file}");
        // SAFETY: the payload is static.
        Compiled { form: unsafe { form_new(&PAYLOAD) }, object }
    }

    fn find(&self, name: &str) -> *mut c_void {
        let name = CString::new(format!("form_{name}")).expect("a name");
        // SAFETY: an open object, and a name that ends.
        let symbol = unsafe { libc::dlsym(self.object, name.as_ptr()) };
        assert!(!symbol.is_null(), "form.c has no {name:?}");
        symbol
    }
}

impl<const BY_CLANG: bool> Api for Compiled<BY_CLANG> {
    const CRATE: &'static str = "C";
    const FORM: &'static str = if BY_CLANG { "clang" } else { "gcc" };
    const HELD: Held = Held {
        lifetime: "nobody",
        range: "device",
        transport: "device",
        state: "device",
        overrun: "nobody",
        refused: "run",
        note: "bad_wr is a pointer",
    };
    const OFFERS: &'static [Work] = &[
        Work::Post,
        Work::Chain4,
        Work::Recv,
        Work::Poll1,
        Work::Poll16,
        Work::Cycle,
        Work::Loop,
        Work::Length,
        Work::Chain,
        Work::Inline,
        Work::Echo,
        Work::Echo8,
    ];

    fn function(&self, work: Work) -> Option<(Form, *mut c_void)> {
        // SAFETY: the functions of these names have this type.
        let function = unsafe { transmute::<*mut c_void, Form>(self.find(work.name())) };
        Some((function, self.form))
    }

    fn post_before(&mut self, n: usize) -> bool {
        let (post, form) = self.function(Work::Post).expect("it is there");
        // SAFETY: the form is live, and used by one call at a time.
        (0..n).all(|_| unsafe { post(form) } == 0)
    }

    fn receive_before(&mut self, n: usize) -> bool {
        type Receive = unsafe extern "C" fn(*mut c_void, c_int) -> c_int;
        // SAFETY: the function of this name has this type.
        let receive = unsafe { transmute::<*mut c_void, Receive>(self.find("receive")) };
        // SAFETY: the form is live, and used by one call at a time.
        unsafe { receive(self.form, n as c_int) == 0 }
    }
}

fn main() {
    for argument in args().skip(1) {
        match argument.split_once('=') {
            Some(("gcc", file)) => field::run(Compiled::<false>::new(file)),
            Some(("clang", file)) => field::run(Compiled::<true>::new(file)),
            _ => panic!("{argument} is not gcc=FILE or clang=FILE"),
        }
    }
}
