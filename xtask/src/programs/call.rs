//! One call: chooses its arguments among the live values, and generates its text.

use super::body::Body;
use super::table::{Mode, Row, Where, entry_of, replace};
use super::term::{Bound, Term};
use crate::dice::Dice;

/// A row with its arguments and variables.
pub struct Call<'t> {
    pub row: &'t Row,
    pub args: Vec<u32>,
    pub bound: Bound,
}

/// Chooses arguments among the live values; `None` if some are missing. `not` are already used.
pub fn choose<'t>(body: &Body<'_>, row: &'t Row, dice: &mut Dice, not: &[u32]) -> Option<Call<'t>> {
    for _ in 0..4 {
        let mut bound = Bound::new();
        let Some(args) = arguments(body, row, dice, not, &mut bound) else { continue };
        if settle(row, dice, &mut bound) && fits(body, row, &args) {
            return Some(Call { row, args, bound });
        }
    }
    None
}

fn arguments(
    body: &Body,
    row: &Row,
    dice: &mut Dice,
    not: &[u32],
    bound: &mut Bound,
) -> Option<Vec<u32>> {
    let mut args: Vec<u32> = Vec::new();
    for arg in &row.takes {
        let fits = |bound: &Bound| {
            let free = |id: &u32| !args.contains(id) && !not.contains(id);
            let all = body.vars.iter().filter(|var| free(&var.id));
            let all = all.filter(|var| {
                let mut bound = bound.clone();
                arg.ty.is(&var.ty, &mut bound)
                    && row.wheres.iter().all(|it| may(it, &bound))
                    && (arg.mode != Mode::Value
                        || body.value(&var.ty).is("copy")
                        || body.may_move(var))
            });
            all.map(|var| var.id).collect::<Vec<_>>()
        };
        let mut found = fits(bound);
        // Prefers new values.
        if found.len() > 3 && dice.percent(50) {
            found.drain(..found.len() - 3);
        }
        let id = *dice.one(&found)?;
        let ty = &body.get(id)?.ty;
        // Rarely loses these.
        if arg.mode == Mode::Value && body.value(ty).is("few") && !dice.percent(20) {
            return None;
        }
        arg.ty.is(ty, bound);
        args.push(id);
    }
    Some(args)
}

/// Whether the variables known so far are in the set.
fn may(it: &Where, bound: &Bound) -> bool {
    let Where::In(name, set) = it else { return true };
    bound.get(name).is_none_or(|known| set.contains(&known.name))
}

/// Chooses the variables that the arguments do not determine.
fn settle(row: &Row, dice: &mut Dice, bound: &mut Bound) -> bool {
    row.wheres.iter().all(|it| match it {
        Where::In(name, set) => match bound.get(name) {
            Some(known) => set.contains(&known.name),
            None => match dice.one(set) {
                Some(one) => bound.insert(name.clone(), Term::plain(one)).is_none(),
                None => false,
            },
        },
        Where::Entry(name, of) => {
            let Some(is) = bound.get(of).and_then(|of| entry_of(&of.name)) else { return false };
            Term::plain(is).name == bound.entry(name.clone()).or_insert(Term::plain(is)).name
        }
    })
}

fn fits(body: &Body, row: &Row, args: &[u32]) -> bool {
    let Some((qp, cq)) = row.at else { return true };
    body.get(args[qp]).is_some_and(|qp| qp.cqs == [args[cq]])
}

impl Call<'_> {
    /// The expression of the call, whose type is an Option of its result, a tuple of Options, or
    /// `()`.
    pub fn text(&self, body: &mut Body) -> String {
        let code = self.code(body);
        let code = if self.row.panics { format!("w.catch(|| {{ {code} }});") } else { code };
        let code = match self.row.settles {
            Some(at) => {
                let (qps, srqs) = body.living(self.args[at]);
                format!("{code} w.room({}, {qps}, {srqs});", self.row.takes[at].name)
            }
            None => code,
        };
        let none = self.nothing();
        if self.args.is_empty() {
            return format!("{{ {code} }}");
        }
        let mut names = Vec::new();
        let mut values = Vec::new();
        for (arg, id) in self.row.takes.iter().zip(&self.args) {
            let mutable = if arg.mode == Mode::Value { "mut " } else { "" };
            names.push(format!("Some({mutable}{})", arg.name));
            values.push(match arg.mode {
                Mode::Value => format!("v{id}"),
                Mode::Shared => format!("v{id}.as_ref()"),
                Mode::Exclusive => format!("v{id}.as_mut()"),
            });
        }
        let (names, values) = (names.join(", "), values.join(", "));
        let (names, values) = match self.args.len() {
            // Moved as a whole, because values that the other arm does not move would stay
            // borrowed.
            1 => (names, format!("{{ {values} }}")),
            _ => (format!("({names})"), format!("({values})")),
        };
        format!("match {values} {{ {names} => {{ {code} }} _ => {none} }}")
    }

    /// The value of a call that is not made.
    fn nothing(&self) -> String {
        match self.row.gives.len() {
            0 => "()".to_owned(),
            1 => "None".to_owned(),
            n => format!("({})", vec!["None"; n].join(", ")),
        }
    }

    /// The code for a turn that leaves out the call: drops the values that the call would take.
    pub fn instead(&self, body: &Body) -> String {
        let taken = self.row.takes.iter().zip(&self.args).filter(|(arg, id)| {
            let copy = body.get(**id).is_some_and(|var| body.value(&var.ty).is("copy"));
            arg.mode == Mode::Value && !copy
        });
        let drops: String = taken.map(|(_, id)| format!("drop(v{id}); ")).collect();
        format!("{drops}{}", self.nothing())
    }

    /// The row's code, with its choices, and each variable replaced.
    fn code(&self, body: &mut Body) -> String {
        let mut code = String::new();
        for (name, words) in &self.row.pick {
            let site = body.site();
            let picked = match &words[..] {
                [word] => word.clone(),
                words => format!("w.pick({site}, [{}])", words.join(", ")),
            };
            code.push_str(&format!("let {name} = {picked}; "));
        }
        code.push_str(&self.row.code);
        let bound = self.bound.iter().map(|(name, term)| (name.clone(), term.to_string()));
        let mut words: Vec<(String, String)> = bound.collect();
        words.push(("ALIKE".to_owned(), self.alike(body).to_string()));
        replace(&code, &words)
    }

    /// The argument that a value is used for.
    fn at(&self, id: u32) -> usize {
        self.args.iter().position(|arg| *arg == id).unwrap_or_default()
    }

    /// Whether all arguments that belong to a context are known to belong to the same one.
    fn alike(&self, body: &Body) -> bool {
        let roots = self.args.iter().map(|id| body.get(*id).and_then(|var| var.root));
        let all: Option<Vec<u32>> = roots.collect();
        all.is_some_and(|all| all.windows(2).all(|two| two[0] == two[1]))
    }

    /// The common context of the arguments, unless it is unknown: the first context, and whether
    /// another argument has a different one.
    pub fn kin(&self, body: &Body) -> (Option<u32>, bool) {
        let root = |at: &usize| body.get(self.args[*at]).and_then(|var| var.root);
        let of = if self.row.kin.is_empty() {
            (0..self.args.len()).collect()
        } else {
            self.row.kin.clone()
        };
        let roots: Vec<u32> = of.iter().filter_map(root).collect();
        let first = roots.first().copied();
        let all = roots.len() == self.row.kin.len() && !self.row.kin.is_empty();
        (first, all && roots.iter().any(|root| Some(*root) != first))
    }

    /// Adds the new values, and removes the moved ones.
    pub fn done(&self, body: &mut Body) -> Vec<u32> {
        let (root, _) = self.kin(body);
        let is_queue = |id: &&u32| body.get(**id).is_some_and(|var| var.ty.name == "Cq");
        let queues: Vec<u32> = self.args.iter().filter(is_queue).copied().collect();
        let mut given = Vec::new();
        let mut borrows: Vec<(u32, bool)> = Vec::new();
        for at in &self.row.borrows {
            borrows.push((self.args[*at], self.row.takes[*at].mode == Mode::Exclusive));
        }
        for at in self.row.borrows.iter().chain(&self.row.inherits) {
            borrows.extend(body.get(self.args[*at]).iter().flat_map(|var| var.borrows.clone()));
        }
        let moved = self.row.takes.iter().zip(&self.args);
        let moved = moved.filter(|(arg, _)| arg.mode == Mode::Value);
        let cqs_of = |id: &u32| body.get(*id).map_or(Vec::new(), |var| var.cqs.clone());
        let before: Vec<u32> = moved.flat_map(|(_, id)| cqs_of(id)).collect();
        for (i, ty) in self.row.gives.iter().enumerate() {
            let Some(ty) = ty.with(&self.bound) else { continue };
            let on = &self.row.on;
            let cqs = if on.len() > 1 && on.len() == self.row.gives.len() {
                vec![self.args[on[i]]]
            } else if on.is_empty() {
                before.clone()
            } else {
                on.iter().map(|at| self.args[*at]).collect()
            };
            let is_qp = body.value(&ty).is("qp");
            given.push((ty, if is_qp { cqs } else { Vec::new() }));
        }
        for (arg, id) in self.row.takes.iter().zip(&self.args) {
            let copy = body.get(*id).is_some_and(|var| body.value(&var.ty).is("copy"));
            if arg.mode == Mode::Value && !copy {
                body.gone(*id);
            }
        }
        body.traits.open |= self.row.flags.iter().any(|flag| flag == "open");
        let new = |(ty, cqs): (Term, _)| {
            // A value from a list can have any context.
            let is_new = self.args.is_empty() && ty.name == "Context";
            let id = body.add(ty, borrows.clone(), cqs);
            if let Some(var) = body.vars.last_mut() {
                var.root = if is_new { Some(id) } else { root };
            }
            id
        };
        let given: Vec<u32> = given.into_iter().map(new).collect();
        // A completion queue that is passed by value and returned gets another name.
        let took =
            |id: &&u32| self.row.takes[self.at(**id)].mode == Mode::Value && queues.contains(id);
        if let (Some(old), [new]) = (self.args.iter().find(took), &given[..]) {
            let all = body.vars.iter_mut().flat_map(|var| var.cqs.iter_mut());
            all.filter(|cq| *cq == old).for_each(|cq| *cq = *new);
        }
        given
    }
}

/// `let (mut v1, mut v2) = `, or nothing.
pub fn binding(given: &[u32]) -> String {
    if given.is_empty() { String::new() } else { format!("let {} = ", pattern(given)) }
}

/// `(mut v1, mut v2)`
pub fn pattern(given: &[u32]) -> String {
    let names: Vec<String> = given.iter().map(|id| format!("mut v{id}")).collect();
    match &names[..] {
        [] => "_".to_owned(),
        [one] => one.clone(),
        all => format!("({})", all.join(", ")),
    }
}
