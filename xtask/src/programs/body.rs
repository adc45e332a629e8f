//! A program that is being generated: its lines, and the live values.

use super::table::{Mode, Table, Value};
use super::term::Term;

/// A value in scope, always an `Option` in the program.
#[derive(Clone)]
pub struct Var {
    pub id: u32,
    pub ty: Term,
    /// The values that it borrows, and whether exclusively.
    pub borrows: Vec<(u32, bool)>,
    /// The completion queues that it completes into.
    pub cqs: Vec<u32>,
    /// The nesting depth of blocks.
    pub level: usize,
    /// The context that it comes from, if known.
    pub root: Option<u32>,
}

/// The features of a program that determine how it may be run.
#[derive(Clone, Copy, Default)]
pub struct Traits {
    pub threads: bool,
    /// Memory that peers can access.
    pub open: bool,
}

pub struct Body<'t> {
    pub table: &'t Table,
    pub lines: Vec<String>,
    pub vars: Vec<Var>,
    pub level: usize,
    /// The enclosing blocks, innermost last, and whether each is a loop.
    pub loops: Vec<bool>,
    tails: Vec<&'static str>,
    pub traits: Traits,
    /// The number of shared receive queues so far.
    srqs: usize,
    next: u32,
    sites: u32,
    /// Whether its turns may leave out calls.
    pub may_leave_out: bool,
}

impl<'t> Body<'t> {
    pub fn new(table: &'t Table) -> Self {
        Body {
            table,
            lines: Vec::new(),
            vars: Vec::new(),
            level: 0,
            loops: Vec::new(),
            tails: Vec::new(),
            traits: Traits::default(),
            srqs: 0,
            next: 0,
            sites: 0,
            may_leave_out: false,
        }
    }

    pub fn line(&mut self, text: impl Into<String>) {
        self.lines.push(format!("{}{}", "    ".repeat(self.level + 1), text.into()));
    }

    /// A place where a turn makes a choice.
    pub fn site(&mut self) -> u32 {
        self.sites += 1;
        self.sites
    }

    pub fn value(&self, ty: &Term) -> Value {
        self.table.values.get(&ty.name).copied().unwrap_or_default()
    }

    pub fn add(&mut self, ty: Term, borrows: Vec<(u32, bool)>, cqs: Vec<u32>) -> u32 {
        self.next += 1;
        self.srqs += (self.value(&ty).is("srq")) as usize;
        let id = self.next;
        self.vars.push(Var { id, ty, borrows, cqs, level: self.level, root: None });
        id
    }

    pub fn get(&self, id: u32) -> Option<&Var> {
        self.vars.iter().find(|var| var.id == id)
    }

    pub fn gone(&mut self, id: u32) {
        self.vars.retain(|var| var.id != id);
    }

    /// The values whose borrows prevent this use of `id`.
    pub fn in_the_way(&self, id: u32, mode: Mode) -> Vec<u32> {
        let stands = |var: &&Var| {
            let of = var.borrows.iter().filter(|(of, _)| *of == id);
            of.into_iter().any(|(_, exclusive)| *exclusive || mode != Mode::Shared)
        };
        self.vars.iter().filter(stands).map(|var| var.id).collect()
    }

    /// Whether it may be moved here. A value from outside a loop must not be moved in the loop.
    pub fn may_move(&self, var: &Var) -> bool {
        !self.loops[var.level.min(self.loops.len())..].contains(&true)
    }

    pub fn open_block(&mut self, head: &str, tail: &'static str, is_loop: bool) {
        self.line(head);
        self.level += 1;
        self.loops.push(is_loop);
        self.tails.push(tail);
    }

    /// Values that were created in the block end with it.
    pub fn close_block(&mut self) {
        let Some(tail) = self.tails.pop() else { return };
        self.level -= 1;
        self.loops.pop();
        self.line(tail);
        let level = self.level;
        self.vars.retain(|var| var.level <= level);
    }

    /// The maximum number of live queue pairs that may complete into `cq`, or of live shared
    /// receive queues.
    fn count(&self, role: &str, cq: u32) -> usize {
        fn of(body: &Body, ty: &Term, role: &str) -> usize {
            // A Vec has at most as many elements as a program puts into it.
            let all: usize = ty.args.iter().map(|arg| of(body, arg, role)).sum();
            (body.value(ty).is(role)) as usize + if ty.name == "Vec" { 3 * all } else { 0 }
        }
        let may = |var: &&Var| role != "qp" || var.cqs.is_empty() || var.cqs.contains(&cq);
        self.vars.iter().filter(may).map(|var| of(self, &var.ty, role)).sum()
    }

    /// The maximum number of live queue pairs and shared receive queues that complete into `cq`. A
    /// queue pair keeps its shared receive queue alive.
    pub fn living(&self, cq: u32) -> (usize, usize) {
        match self.count("qp", cq) {
            0 => (0, self.count("srq", cq)),
            qps => (qps, self.srqs),
        }
    }

    /// Whether all of its contents may move to another thread.
    pub fn is_send(&self, ty: &Term) -> bool {
        if ty.name == "Vec" {
            return ty.args.iter().all(|arg| self.is_send(arg));
        }
        self.value(ty).is("send")
    }
}
