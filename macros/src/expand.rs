//! The output: emit each work request into a slot of its own, link it, post once.

use proc_macro2::{Ident, Literal, Span, TokenStream, TokenTree};
use quote::{ToTokens, format_ident, quote, quote_spanned};
use syn::Expr;
use syn::spanned::Spanned;

use crate::list::{List, UNCHECKED, UNSIGNALED};

#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    Send,
    Recv,
    SrqRecv,
}

impl Kind {
    fn begin(self) -> &'static str {
        match self {
            Kind::Send => "begin_send",
            Kind::Recv => "begin_recv",
            Kind::SrqRecv => "begin_srq",
        }
    }

    /// The run-time builder that takes over from the macro.
    pub fn builder(self) -> &'static str {
        match self {
            Kind::Send => "send_list",
            Kind::Recv => "recv_list",
            Kind::SrqRecv => "post_srq_recv",
        }
    }
}

/// The methods are called on `&mut` and `&` of the post, and the last on the post itself, just as
/// their receivers are declared: then they are found in the first step of the lookup, where
/// inherent methods come before those of any trait that the user may have in scope. No path is
/// named that the user could have given another meaning.
///
/// Nested matches, so that temporaries in the user's expressions live until the post, and each work
/// request is emitted as soon as it is evaluated. Names and `unsafe` are hygienic (mixed site);
/// locations are the user's, so that errors land on the element.
pub fn expand(list: &List, kind: Kind) -> TokenStream {
    let site = Span::mixed_site();
    let name = |what: &str, i: usize| Ident::new(&format!("__{what}{i}"), site);
    let (begun, post) = (Ident::new("__begun", site), Ident::new("__post", site));
    let count = list.requests.len();
    let entries = (0..count).map(|i| name("pending", i));
    // One in another, so that the compiler goes through them.
    let known = (0..count).rev().fold(quote_spanned! {site=> () }, |rest, i| {
        let pending = name("pending", i);
        quote_spanned! {site=> (#pending.known, #rest) }
    });
    let (first, last) = (name("at", 0), name("at", count - 1));
    // What the whole list asks of the queue is told at the word that asks it, or at the queue.
    let at_word = |word: Option<&Ident>| word.map(|word| site.located_at(word.span()));
    let mut body = if let Some(here) = at_word(list.word(UNCHECKED)) {
        // Outside of any `unsafe` but the program's.
        quote_spanned! {here=>
            #post.post_raw([#(#entries.entry),*], #first.cast(), #last.cast())
        }
    } else {
        let finish = match at_word(list.word(UNSIGNALED)) {
            Some(here) => format_ident!("post_unsignaled", span = here),
            None => format_ident!("post", span = site.located_at(list.queue.span())),
        };
        quote_spanned! {site=>
            // SAFETY: all work requests were emitted in order, into slots that are still there, and
            // these are their entries, and what is known of them.
            unsafe {
                #post.#finish([#(#entries.entry),*], #known, #first.cast(), #last.cast())
            }
        }
    };
    let may_wait = list.requests.iter().skip(1).any(|wr| may_wait(wr.to_token_stream()));
    if may_wait {
        body = quote_spanned! {site=> match (&mut #post).is_finished() { () => #body } };
    }
    for (i, request) in list.requests.iter().enumerate().rev() {
        let is_last = list.how.is_none() && i + 1 == count;
        body = emit(kind, &post, (i, is_last), request, &name, body);
    }
    if may_wait {
        body = quote_spanned! {site=> match (&mut #post).may_be_forgotten() { () => #body } };
    }
    // Whatever way the program leaves the list, its queue is borrowed until its entries are gone.
    let unfinished = Ident::new("list", site);
    body = quote_spanned! {site=> match (&#post).unfinished() { #unfinished => #body } };
    let queue = &list.queue;
    let at_queue = site.located_at(queue.span());
    let begin = Ident::new(kind.begin(), at_queue);
    let begin = quote_spanned! {at_queue=> (#queue).#begin() };
    quote_spanned! {site=>
        match #begin {
            #begun => {
                // SAFETY: whatever it is that the queue began, `vouch` is safe, or gives a list of
                // this crate itself, whose own methods are called below; the entries go from `emit`
                // to `post`.
                match unsafe { #begun.vouch() } { mut #post => #body }
            }
        }
    }
}

/// Whether a future may wait in these tokens, and be forgotten with what is put together then:
/// something is awaited, or a macro is called, which may do so.
fn may_wait(tokens: TokenStream) -> bool {
    tokens.into_iter().any(|token| match token {
        TokenTree::Group(group) => may_wait(group.stream()),
        TokenTree::Ident(word) => word == "await" || word == "yield",
        TokenTree::Punct(punct) => punct.as_char() == '!',
        TokenTree::Literal(_) => false,
    })
}

/// One work request, and the `rest` after it; `is_last` says whether it ends a list that is
/// signaled.
fn emit(
    kind: Kind,
    post: &Ident,
    (i, is_last): (usize, bool),
    request: &Expr,
    name: &dyn Fn(&str, usize) -> Ident,
    rest: TokenStream,
) -> TokenStream {
    let site = Span::mixed_site();
    let here = site.located_at(request.span());
    let (wr, slot, at, pending) =
        (name("wr", i), name("slot", i), name("at", i), name("pending", i));
    // Spans cannot be joined on stable Rust, but rustc joins those of an expression's ends: with
    // `wr` at the first token and `.0` at the last, `wr.0` covers the whole element.
    let last = request.to_token_stream().into_iter().last().map_or(here, |token| token.span());
    let mut field = Literal::usize_unsuffixed(0);
    field.set_span(site.located_at(last));
    let first = Ident::new(&wr.to_string(), here);
    let element = quote_spanned!(here=> #first.#field);
    let previous = match i {
        0 => quote_spanned! {site=> 0 as *mut _ },
        _ => {
            let previous = name("at", i - 1);
            quote_spanned! {site=> #previous.cast() }
        }
    };
    // Where order is not kept, not all may follow all.
    let before = name("before", i);
    let behind = match i {
        0 => quote_spanned! {site=> (&#post).start() },
        _ => {
            let previous = name("pending", i - 1);
            quote_spanned! {site=> (&#previous).opcode() }
        }
    };
    let (behind, index) = match kind {
        Kind::Send => {
            let i = i as u32;
            let behind = quote_spanned! {site=> let #before = #behind; };
            (behind, quote_spanned! {site=> #i, #is_last, #before, })
        }
        Kind::Recv | Kind::SrqRecv => (quote!(), quote!()),
    };
    quote_spanned! {here=>
        match (#request,) {
            #wr => {
                let mut #slot = (&#post).slot(&#element);
                let #at = &raw mut #slot;
                #behind
                // SAFETY: the slot is a local that stays until the post.
                let #pending = unsafe { (&mut #post).emit(#index #element, #at, #previous) };
                #rest
            }
        }
    }
}
