//! The posting macros of `proverbs`: chains of work requests on the stack, in straight-line code.
//! parse -> check the shape -> expand. The macros do not check the rules of posting: the expansion
//! calls the same functions, with the same bounds, as the methods.

mod expand;
mod list;

use proc_macro::TokenStream;
use syn::parse_macro_input;

use expand::Kind;
use list::List;

/// Posts a chain of send work requests: `post_send!(qp, [first, second, ...])`.
///
/// Each element is an expression of a work request, evaluated in order, outside any `unsafe`. The
/// chain is built on the stack and posted with one call of `ibv_post_send`. On a queue pair with
/// selective signaling the last work request is signaled; `post_send!(qp, [...], unsignaled)`
/// leaves it unsignaled and returns an `Unsettled` that must be used.
///
/// On a queue pair whose entry is `Raw`, `unsafe { post_send!(qp, [...], unchecked) }` posts a
/// chain without the crate's bookkeeping, under the contract of `post_send_unchecked`. Only work
/// requests with a signaled flag are signaled, and the error is a `RawPostError` with the index of
/// `bad_wr`. `post_recv!` and `post_srq_recv!` have the same form.
///
/// The result is `Ok`, or a `PostError` with the index of C's `bad_wr` and the entries of all work
/// requests that the device did not accept. If an expression panics or returns with `?`, nothing is
/// posted and the work requests so far are dropped. Until then the queue pair is borrowed, so such
/// an expression cannot destroy or move it (R11.1).
#[proc_macro]
pub fn post_send(input: TokenStream) -> TokenStream {
    expand(input, Kind::Send)
}

/// Posts a chain of receives: `post_recv!(qp, [first, second, ...])`, with one call of
/// `ibv_post_recv`.
///
/// Everything else is the same as for `post_send!`.
#[proc_macro]
pub fn post_recv(input: TokenStream) -> TokenStream {
    expand(input, Kind::Recv)
}

/// Posts a chain of receives to a shared receive queue: `post_srq_recv!(srq, [first, second,
/// ...])`, with one call of `ibv_post_srq_recv`.
///
/// Everything else is the same as for `post_send!`.
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
