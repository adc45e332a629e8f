//! The posting macros of `proverbs`. They build chains of work requests on the stack, in
//! straight-line code. A macro parses its list, checks the list's shape and expands it. The macros
//! do not check the rules of posting: the expansion calls the same functions, with the same bounds,
//! as the methods.

mod expand;
mod list;

use proc_macro::TokenStream;
use syn::parse_macro_input;

use expand::Kind;
use list::List;

/// The expansion of `proverbs::post_send!`, which passes `unsafe $crate` before the list.
#[proc_macro]
pub fn post_send(input: TokenStream) -> TokenStream {
    expand(input, Kind::Send)
}

/// The expansion of `proverbs::post_recv!`.
#[proc_macro]
pub fn post_recv(input: TokenStream) -> TokenStream {
    expand(input, Kind::Recv)
}

/// The expansion of `proverbs::post_srq_recv!`.
#[proc_macro]
pub fn post_srq_recv(input: TokenStream) -> TokenStream {
    expand(input, Kind::SrqRecv)
}

fn expand(input: TokenStream, kind: Kind) -> TokenStream {
    let list = parse_macro_input!(input as List);
    match list.check(kind) {
        Ok(()) => expand::expand(&list, kind).into(),
        Err(error) => error.into_compile_error().into(),
    }
}
