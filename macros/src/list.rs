//! The input: the crate, a queue, a list of work requests, and optionally `unsignaled` or
//! `unchecked`.

use syn::ext::IdentExt;
use syn::parse::{Parse, ParseStream};
use syn::punctuated::Punctuated;
use syn::token::Bracket;
use syn::{Error, Expr, Ident, Result, Token, bracketed};

use crate::expand::Kind;

/// The maximum number of work requests in a chain. Longer lists need the run-time builders.
const MOST: usize = 128;

pub const UNSIGNALED: &str = "unsignaled";
pub const UNCHECKED: &str = "unchecked";

pub struct List {
    /// The `unsafe` before `proverbs`. A program that calls this macro directly must write it, and
    /// thereby promises that `proverbs` names this project's crate.
    pub vouched: Token![unsafe],
    /// `$crate` of `proverbs`, which no program can redefine.
    pub proverbs: Ident,
    pub queue: Expr,
    bracket: Bracket,
    pub requests: Punctuated<Expr, Token![,]>,
    /// `unsignaled` or `unchecked`, if the list has such a word.
    pub how: Option<Ident>,
}

impl Parse for List {
    fn parse(input: ParseStream) -> Result<Self> {
        let vouched = input.parse()?;
        let proverbs = Ident::parse_any(input)?;
        input.parse::<Token![,]>()?;
        let queue = input.parse()?;
        input.parse::<Token![,]>().map_err(|error| {
            Error::new(
                error.span(),
                "expected a list of work requests: `queue, [first, second, ...]`",
            )
        })?;
        if !input.peek(Bracket) {
            return Err(
                input.error("expected a list of work requests in brackets: `[first, second, ...]`")
            );
        }
        let content;
        let bracket = bracketed!(content in input);
        let requests = Punctuated::parse_terminated(&content)?;
        let mut how = None;
        if input.parse::<Option<Token![,]>>()?.is_some() && !input.is_empty() {
            let word: Ident = input.parse()?;
            if word != UNSIGNALED && word != UNCHECKED {
                let text = "expected `unsignaled`, which leaves the last work request unsignaled, \
                            or `unchecked`, in an `unsafe` block";
                return Err(Error::new(word.span(), text));
            }
            how = Some(word);
            input.parse::<Option<Token![,]>>()?;
        }
        Ok(List { vouched, proverbs, queue, bracket, requests, how })
    }
}

impl List {
    /// The word `how`, if the list has it.
    pub fn word(&self, how: &str) -> Option<&Ident> {
        self.how.as_ref().filter(|word| *word == how)
    }

    /// Checks everything that does not need types, and reports all errors together.
    pub fn check(&self, kind: Kind) -> Result<()> {
        let mut errors: Vec<Error> = Vec::new();
        if self.requests.is_empty() {
            let text = "a list of work requests has at least one";
            errors.push(Error::new(self.bracket.span.join(), text));
        }
        if let Some(first) = self.requests.iter().nth(MOST) {
            let text = format!(
                "a chain has at most {MOST} work requests; build longer lists at run time with `{}`",
                kind.builder()
            );
            errors.push(Error::new_spanned(first, text));
        }
        if let (Some(word), Kind::Recv | Kind::SrqRecv) = (self.word(UNSIGNALED), kind) {
            errors.push(Error::new(
                word.span(),
                "leave `unsignaled` out: every receive has a completion",
            ));
        }
        let combine = |mut all: Error, error| {
            all.combine(error);
            all
        };
        errors.into_iter().reduce(combine).map_or(Ok(()), Err)
    }
}
