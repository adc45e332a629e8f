//! The output: emit each work request into its own slot, link it, post once.

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

    /// The run-time builder to use instead of the macro.
    pub fn builder(self) -> &'static str {
        match self {
            Kind::Send => "send_list",
            Kind::Recv => "recv_list",
            Kind::SrqRecv => "post_srq_recv",
        }
    }
}

/// `Begun` is named with its crate, by `$crate`. So `unsafe` covers only functions of that crate: a
/// `Begun` contains a list of the crate, and the rest is the methods of that list.
///
/// The methods are called on `&mut` and `&` of the post, and the last one on the post itself,
/// exactly as their receivers are declared. So the first step of method lookup finds them, where
/// inherent methods take precedence over the methods of any trait in the user's scope. The
/// expansion names no other path, because users could redefine one. It consists of nested matches,
/// so that temporaries in the user's expressions live until the post, and each work request is
/// emitted as soon as it is evaluated. Names and `unsafe` are hygienic (mixed site). Locations
/// point to the user's code, so that errors appear at the element.
pub fn expand(list: &List, kind: Kind) -> TokenStream {
    let site = Span::mixed_site();
    let name = |what: &str, i: usize| Ident::new(&format!("__{what}{i}"), site);
    let (begun, post) = (Ident::new("__begun", site), Ident::new("__post", site));
    let count = list.requests.len();
    let entries = (0..count).map(|i| name("pending", i));
    // Nested tuples, so that the compiler can recurse through them.
    let known = (0..count).rev().fold(quote_spanned! {site=> () }, |rest, i| {
        let pending = name("pending", i);
        quote_spanned! {site=> (#pending.known, #rest) }
    });
    let (first, last) = (name("at", 0), name("at", count - 1));
    // Errors about the whole list are reported at the word that causes them, or at the queue.
    let at_word = |word: Option<&Ident>| word.map(|word| site.located_at(word.span()));
    let mut body = if let Some(here) = at_word(list.word(UNCHECKED)) {
        // Outside of any `unsafe` except the program's.
        quote_spanned! {here=>
            #post.post_raw([#(#entries.entry),*], #first.cast(), #last.cast())
        }
    } else {
        let finish = match at_word(list.word(UNSIGNALED)) {
            Some(here) => format_ident!("post_unsignaled", span = here),
            None => format_ident!("post", span = site.located_at(list.queue.span())),
        };
        quote_spanned! {site=>
            // SAFETY: all work requests were emitted in order, into slots that still exist, and
            // these are their entries and their known parts.
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
    // The queue stays borrowed until the entries of the list are gone, however the program leaves
    // the list.
    let unfinished = Ident::new("list", site);
    body = quote_spanned! {site=> match (&#post).unfinished() { #unfinished => #body } };
    let queue = &list.queue;
    let at_queue = site.located_at(queue.span());
    let begin = Ident::new(kind.begin(), at_queue);
    let begin = quote_spanned! {at_queue=> (#queue).#begin() };
    let proverbs = &list.proverbs;
    // With the span of the caller's `unsafe`, so that lints about unsafe code find that word.
    // SAFETY: this is the function of proverbs, and returns one of its lists, whose own methods are
    // called in `body`. The entries go from `emit` to `post`.
    let vouch = quote_spanned! {list.vouched.span=>
        unsafe { #proverbs::macros::Begun::vouch(#begun) }
    };
    quote_spanned! {site=>
        match #begin {
            #begun => match #vouch { mut #post => #body }
        }
    }
}

/// Whether a future could be suspended inside these tokens, and be leaked together with the list
/// built so far. This is so if they contain an `await`, or call a macro, which may contain one.
fn may_wait(tokens: TokenStream) -> bool {
    tokens.into_iter().any(|token| match token {
        TokenTree::Group(group) => may_wait(group.stream()),
        TokenTree::Ident(word) => word == "await" || word == "yield",
        TokenTree::Punct(punct) => punct.as_char() == '!',
        TokenTree::Literal(_) => false,
    })
}

/// Emits one work request, and then `rest`. `is_last` says whether it ends a signaled list.
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
    // Spans cannot be joined on stable Rust, but rustc joins the spans of an expression's ends.
    // With `wr` at the first token and `.0` at the last, `wr.0` covers the whole element.
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
    // On unordered transports, some work requests must not follow others.
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
                // SAFETY: the slot is a local variable that lives until the post.
                let #pending = unsafe { (&mut #post).emit(#index #element, #at, #previous) };
                #rest
            }
        }
    }
}
