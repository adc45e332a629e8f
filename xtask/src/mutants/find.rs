//! Finds places where run-time logic can be changed, and the changes. Only the bodies of functions
//! that run are changed. Excluded are `const fn`, constants, patterns and types, which must be
//! known at compile time; the input and output of macros, which is not parsed as Rust; `Debug` and
//! `Display`, which produce text; and atomic orderings, which the models check.

use std::fmt;
use std::ops::{Range, RangeInclusive};

use anyhow::{Context, Result};
use syn::spanned::Spanned;
use syn::visit::{self, Visit};
use syn::{Attribute, Block, Expr, Item, Lit, Pat, ReturnType, Signature, Stmt, UnOp};

use super::swaps;

/// The syntactic form of a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    /// An expression replaces another.
    Value,
    /// Statements, or none, replace a statement.
    Statement,
    /// A `let` condition does not match.
    Let,
    /// A guard disables a match arm.
    Arm,
    /// A `return` is inserted before the first statement.
    Body,
}

/// One change of one place.
#[derive(Clone, Debug)]
pub struct Candidate {
    /// The path from the root of the crate.
    pub file: String,
    /// `Ring::look`.
    pub function: String,
    /// The bytes that it changes; empty for insertions.
    pub range: Range<usize>,
    pub shape: Shape,
    /// The replacement.
    pub instead: String,
    /// A description: "`<` to `<=`".
    pub what: String,
    /// The first line, counted from 1.
    pub line: usize,
    /// The text of that line.
    pub before: String,
}

impl fmt::Display for Candidate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Candidate { file, line, function, what, .. } = self;
        write!(f, "{file}:{line} {function}: {what}")
    }
}

impl Candidate {
    /// The lines that it changes.
    pub fn lines(&self, text: &str) -> RangeInclusive<usize> {
        self.line..=self.line + text[self.range.clone()].matches('\n').count()
    }

    /// The changed line.
    pub fn after(&self, text: &str) -> String {
        let from = text[..self.range.start].rfind('\n').map_or(0, |at| at + 1);
        let to = text[self.range.end..].find('\n').map_or(text.len(), |at| self.range.end + at);
        let instead = match self.shape {
            Shape::Let => "false".to_owned(),
            Shape::Arm => " if false".to_owned(),
            Shape::Body => format!(" return {}; ", self.instead),
            Shape::Statement if self.instead.is_empty() => "/* deleted */".to_owned(),
            _ => self.instead.clone(),
        };
        let line =
            format!("{}{instead}{}", &text[from..self.range.start], &text[self.range.end..to]);
        line.split_whitespace().collect::<Vec<_>>().join(" ")
    }
}

/// Everything that can be changed in a file.
pub fn candidates(file: &str, text: &str) -> Result<Vec<Candidate>> {
    let parsed = syn::parse_file(text).with_context(|| format!("cannot parse {file}"))?;
    let mut finder = Finder { file, text, scope: Vec::new(), unit: false, found: Vec::new() };
    finder.visit_file(&parsed);
    Ok(finder.found)
}

struct Finder<'t> {
    file: &'t str,
    text: &'t str,
    scope: Vec<String>,
    /// Whether the current function returns `()`.
    unit: bool,
    found: Vec<Candidate>,
}

impl Finder<'_> {
    fn of(&self, what: &impl Spanned) -> &str {
        &self.text[what.span().byte_range()]
    }

    fn add(&mut self, range: Range<usize>, shape: Shape, instead: String, what: String) {
        let line = self.text[..range.start].matches('\n').count() + 1;
        let before = self.text.lines().nth(line - 1).unwrap_or_default().trim().to_owned();
        let (file, function) = (self.file.to_owned(), self.scope.join("::"));
        self.found.push(Candidate { file, function, range, shape, instead, what, line, before });
    }

    fn value(&mut self, place: &impl Spanned, instead: String, what: String) {
        self.add(place.span().byte_range(), Shape::Value, instead, what);
    }

    fn function(&mut self, attrs: &[Attribute], sig: &Signature, block: &Block) {
        if sig.constness.is_some() || !is_built(attrs) || block.stmts.is_empty() {
            return;
        }
        self.scope.push(sig.ident.to_string());
        let outer = std::mem::replace(&mut self.unit, matches!(sig.output, ReturnType::Default));
        let at = block.brace_token.span.open().byte_range().end;
        let ty = match &sig.output {
            ReturnType::Default => "",
            ReturnType::Type(_, ty) => self.of(ty),
        };
        for instead in swaps::defaults(ty) {
            // The body already returns this.
            let body = self.of(block).trim_matches(['{', '}', ' ', '\n']);
            if body != *instead {
                let what = format!("the body returns `{instead}`").replace(" ``", " at once");
                self.add(at..at, Shape::Body, (*instead).to_owned(), what);
            }
        }
        self.visit_block(block);
        match block.stmts.last() {
            Some(Stmt::Expr(last, None)) if self.unit && is_action(last) => {
                self.value(last, "()".to_owned(), "statement deleted".to_owned());
            }
            _ => {}
        }
        self.unit = outer;
        self.scope.pop();
    }

    fn condition(&mut self, cond: &Expr, is_loop: bool) {
        match cond {
            Expr::Let(_) => self.add(
                cond.span().byte_range(),
                Shape::Let,
                String::new(),
                "`let` does not match".to_owned(),
            ),
            _ if self.of(cond).contains("let ") => {}
            _ => {
                self.value(cond, "false".to_owned(), "condition to `false`".to_owned());
                // An endless loop would not show that a test detects the change.
                if !is_loop {
                    self.value(cond, "true".to_owned(), "condition to `true`".to_owned());
                }
            }
        }
    }

    fn expression(&mut self, expr: &Expr) {
        match expr {
            Expr::Binary(binary) => {
                let (left, right) =
                    (self.of(&binary.left).to_owned(), self.of(&binary.right).to_owned());
                let op = self.of(&binary.op).to_owned();
                for other in swaps::instead_of(&op) {
                    // Compound assignments are in the table too, and are expressions of type `()`.
                    let what = format!("`{op}` to `{other}`");
                    self.value(expr, format!("{left} {other} {right}"), what);
                }
            }
            Expr::Unary(unary) if matches!(unary.op, UnOp::Not(_)) => {
                let inner = self.of(&unary.expr).to_owned();
                self.value(expr, inner, "`!` removed".to_owned());
            }
            Expr::Lit(lit) => match &lit.lit {
                Lit::Int(int) => {
                    let Ok(value) = int.base10_parse::<u128>() else { return };
                    let suffix = int.suffix();
                    let mut add = |other: u128, way: &str| {
                        let what =
                            format!("`{}` {way} 1", self.text[int.span().byte_range()].to_owned());
                        self.value(expr, format!("{other}{suffix}"), what);
                    };
                    add(value + 1, "+");
                    if value > 0 {
                        add(value - 1, "-");
                    }
                }
                Lit::Bool(bool) => {
                    let other = !bool.value;
                    self.value(expr, other.to_string(), format!("`{}` to `{other}`", bool.value));
                }
                _ => {}
            },
            Expr::MethodCall(call) => {
                let name = call.method.to_string();
                for other in swaps::instead_of(&name) {
                    let (whole, at) = (expr.span().byte_range(), call.method.span().byte_range());
                    let head = &self.text[whole.start..at.start];
                    let instead = format!("{head}{other}{}", &self.text[at.end..whole.end]);
                    self.value(expr, instead, format!("`{name}` to `{other}`"));
                }
                if swaps::says_yes_or_no(&name) {
                    self.value(expr, format!("!({})", self.of(expr)), format!("`{name}` negated"));
                }
            }
            Expr::Macro(call) if call.mac.path.is_ident("matches") => {
                self.value(expr, format!("!({})", self.of(expr)), "`matches!` negated".to_owned());
            }
            // Constants only.
            Expr::Path(path) if self.of(path).ends_with(char::is_uppercase) => {
                let name = path.path.segments.last().map(|last| last.ident.to_string());
                let name = name.unwrap_or_default();
                for other in swaps::instead_of(&name) {
                    let head = self.of(expr).strip_suffix(&name).unwrap_or_default().to_owned();
                    self.value(expr, format!("{head}{other}"), format!("`{name}` to `{other}`"));
                }
            }
            Expr::Range(range) => {
                let Some(end) = &range.end else { return };
                if !matches!(**end, Expr::Lit(_)) {
                    let text = self.of(end).to_owned();
                    for op in ["+", "-"] {
                        self.value(end, format!("({text}) {op} 1"), format!("end of range {op} 1"));
                    }
                }
            }
            Expr::If(branch) => self.condition(&branch.cond, false),
            Expr::While(again) => self.condition(&again.cond, true),
            Expr::Match(choice) => {
                let last = choice.arms.last().filter(|last| last.guard.is_none());
                let rest = last.is_some_and(|last| is_rest(&last.pat));
                for (i, arm) in choice.arms.iter().enumerate() {
                    if let Some((_, guard)) = &arm.guard {
                        self.condition(guard, false);
                    } else if rest && i + 1 < choice.arms.len() {
                        let end = arm.pat.span().byte_range().end;
                        self.add(end..end, Shape::Arm, String::new(), "arm never taken".to_owned());
                    }
                    if matches!(*arm.body, Expr::Assign(_)) || is_compound(&arm.body) {
                        self.value(&arm.body, "()".to_owned(), "statement deleted".to_owned());
                    }
                }
            }
            _ => {}
        }
    }
}

impl<'ast> Visit<'ast> for Finder<'_> {
    fn visit_item(&mut self, item: &'ast Item) {
        match item {
            Item::Fn(f) => self.function(&f.attrs, &f.sig, &f.block),
            Item::Mod(m) if is_built(&m.attrs) => visit::visit_item_mod(self, m),
            Item::Trait(t) => {
                self.scope.push(t.ident.to_string());
                visit::visit_item_trait(self, t);
                self.scope.pop();
            }
            Item::Impl(i) if is_built(&i.attrs) => {
                let words = i.trait_.as_ref().and_then(|(_, path, _)| path.segments.last());
                if words.is_some_and(|last| last.ident == "Debug" || last.ident == "Display") {
                    return;
                }
                let name =
                    self.of(&i.self_ty).split('<').next().unwrap_or_default().trim().to_owned();
                self.scope.push(name);
                visit::visit_item_impl(self, i);
                self.scope.pop();
            }
            _ => {}
        }
    }

    fn visit_impl_item_fn(&mut self, f: &'ast syn::ImplItemFn) {
        self.function(&f.attrs, &f.sig, &f.block);
    }

    fn visit_trait_item_fn(&mut self, f: &'ast syn::TraitItemFn) {
        if let Some(block) = &f.default {
            self.function(&f.attrs, &f.sig, block);
        }
    }

    fn visit_stmt(&mut self, stmt: &'ast Stmt) {
        let attrs = match stmt {
            Stmt::Local(local) => &local.attrs,
            Stmt::Expr(Expr::Call(call), _) => &call.attrs,
            Stmt::Expr(Expr::MethodCall(call), _) => &call.attrs,
            Stmt::Expr(Expr::Unsafe(block), _) => &block.attrs,
            _ => &Vec::new(),
        };
        if !is_built(attrs) {
            return;
        }
        if let Stmt::Expr(expr, semi) = stmt {
            let range = stmt.span().byte_range();
            if is_action(expr) && (semi.is_some() || matches!(expr, Expr::ForLoop(_))) {
                let what = "statement deleted".to_owned();
                self.add(range.clone(), Shape::Statement, String::new(), what);
            }
            if let (Expr::Try(tried), Some(_)) = (expr, semi) {
                let instead = format!("let _ = {};", self.of(&tried.expr));
                self.add(range, Shape::Statement, instead, "error ignored".to_owned());
            }
        }
        visit::visit_stmt(self, stmt);
    }

    fn visit_expr(&mut self, expr: &'ast Expr) {
        self.expression(expr);
        visit::visit_expr(self, expr);
    }

    fn visit_expr_repeat(&mut self, repeat: &'ast syn::ExprRepeat) {
        self.visit_expr(&repeat.expr);
    }

    fn visit_expr_const(&mut self, _: &'ast syn::ExprConst) {}
    fn visit_attribute(&mut self, _: &'ast Attribute) {}
    fn visit_type(&mut self, _: &'ast syn::Type) {}
    fn visit_pat(&mut self, _: &'ast Pat) {}
    fn visit_path(&mut self, _: &'ast syn::Path) {}
    fn visit_generics(&mut self, _: &'ast syn::Generics) {}
    fn visit_angle_bracketed_generic_arguments(
        &mut self,
        _: &'ast syn::AngleBracketedGenericArguments,
    ) {
    }
    fn visit_macro(&mut self, _: &'ast syn::Macro) {}
    fn visit_impl_item_const(&mut self, _: &'ast syn::ImplItemConst) {}
    fn visit_trait_item_const(&mut self, _: &'ast syn::TraitItemConst) {}
}

/// Whether this is part of the tested build, with the features for users on this machine.
fn is_built(attrs: &[Attribute]) -> bool {
    attrs.iter().filter(|attr| attr.path().is_ident("cfg")).all(|attr| {
        let text = attr.meta.require_list().map_or(String::new(), |list| list.tokens.to_string());
        let feature = text.replace(' ', "");
        ["tokio", "serde", "loopback", "cm"]
            .iter()
            .any(|name| feature == format!("feature=\"{name}\""))
    })
}

/// Whether a statement can be left out. Branches that are not taken are covered by changing the
/// condition.
fn is_action(expr: &Expr) -> bool {
    match expr {
        Expr::Call(call) if is_hint(&call.func) => false,
        Expr::Call(_) | Expr::MethodCall(_) | Expr::Assign(_) | Expr::Unsafe(_) | Expr::Try(_) => {
            true
        }
        Expr::ForLoop(_) | Expr::Match(_) => true,
        _ => is_compound(expr),
    }
}

/// Only tells the compiler which path is cold, and has no other effect.
fn is_hint(called: &Expr) -> bool {
    matches!(called, Expr::Path(called) if called.path.is_ident("seldom"))
}

/// Whether an expression is a compound assignment such as `a += b`.
fn is_compound(expr: &Expr) -> bool {
    let Expr::Binary(binary) = expr else { return false };
    let op = binary.op.span().source_text().unwrap_or_default();
    op.ends_with('=') && !["==", "!=", "<=", ">="].contains(&op.as_str())
}

/// Whether a pattern matches everything.
fn is_rest(pat: &Pat) -> bool {
    match pat {
        Pat::Wild(_) => true,
        Pat::Ident(ident) => {
            ident.subpat.is_none() && ident.ident.to_string().starts_with(char::is_lowercase)
        }
        _ => false,
    }
}
