//! The other things that a program does with its values: it drops, forgets, moves, swaps and stores
//! them, sends them to other threads, and panics while they live.

use super::body::{Body, Var};
use super::call::{self, Call};
use super::table::{Mode, Value};
use super::term::Term;
use crate::dice::Dice;

/// Ends a value, because the program needs a value that it borrows, or does not need it any more.
pub fn end(body: &mut Body, id: u32, dice: &mut Dice, may_forget: bool) {
    let Some(var) = body.get(id).cloned() else { return };
    // With a call that takes it and does not return a borrowing value.
    if dice.percent(60) {
        let table = body.table;
        let last = |row: &&super::table::Row| {
            row.takes.len() == 1
                && row.takes[0].mode == Mode::Value
                && row.inherits.is_empty()
                && row.takes[0].ty.name == var.ty.name
        };
        let rows: Vec<_> = table.rows.iter().filter(last).collect();
        if let Some(row) = dice.one(&rows).copied() {
            let all: Vec<u32> = body.vars.iter().map(|var| var.id).filter(|it| *it != id).collect();
            if let Some(call) = call::choose(body, row, dice, &all) {
                return emit(body, &call);
            }
        }
    }
    if may_forget && dice.percent(8) {
        let noted = if body.value(&var.ty).is("plain") { "" } else { "w.forgets(); " };
        body.line(format!("{noted}std::mem::forget(v{id});"));
    } else {
        body.line(format!("drop(v{id});"));
    }
    body.gone(id);
}

/// Writes a call.
pub fn emit(body: &mut Body, call: &Call) {
    let text = call.text(body);
    let instead = match body.may_leave_out {
        true => Some((body.site(), call.instead(body))),
        false => None,
    };
    let (_, differ) = call.kin(body);
    let given = call.done(body);
    let binding = call::binding(&given);
    body.line(match instead {
        None => format!("{binding}{text};"),
        Some((site, instead)) => {
            format!("{binding}if w.does({site}) {{ {text} }} else {{ {instead} }};")
        }
    });
    if differ && !given.is_empty() {
        let made = given.iter().map(|id| format!("v{id}.is_some()")).collect::<Vec<_>>();
        let complaint = "w.complain(\"it was created from objects of two contexts\")";
        body.line(format!("if {} {{ {complaint}; }}", made.join(" || ")));
    }
}

/// Checks that dropped objects have released their entries.
pub fn room(body: &Body, cq: u32) -> String {
    let (qps, srqs) = body.living(cq);
    format!("if let Some(cq) = v{cq}.as_ref() {{ w.room(cq, {qps}, {srqs}); }}")
}

/// One random action, if there is a value for it.
pub fn any(body: &mut Body, dice: &mut Dice, may_forget: bool) {
    let movable = |body: &Body, dice: &mut Dice| -> Vec<Var> {
        let mut vars = body.vars.clone();
        vars.retain(|var| {
            body.may_move(var)
                && !body.value(&var.ty).is("copy")
                && body.in_the_way(var.id, Mode::Value).is_empty()
        });
        let few = dice.percent(10);
        vars.retain(|var| few || !body.value(&var.ty).is("few"));
        vars
    };
    let vars = movable(body, dice);
    let Some(var) = dice.one(&vars).cloned() else { return };
    let id = var.id;
    let alike: Vec<&Var> =
        vars.iter().filter(|other| other.id != id && other.ty == var.ty).collect();
    match dice.below(16) {
        0..=2 => end(body, id, dice, may_forget),
        3..=5 => {
            let Some(other) = dice.one(&alike) else { return };
            swap(body, &var, other);
        }
        6 => {
            let new = moved(body, &var);
            body.line(match dice.below(3) {
                0 => format!("let mut v{new} = v{id};"),
                1 => format!("let mut v{new} = v{id}.map(Box::new).map(|it| *it);"),
                _ => format!("let mut v{new} = std::mem::take(&mut v{id});"),
            });
        }
        7 => {
            let Some(other) = dice.one(&alike) else { return };
            let other = (*other).clone();
            let borrows = [var.borrows.clone(), other.borrows.clone()].concat();
            body.gone(id);
            body.gone(other.id);
            // It is unknown which one comes out of the list, so queues that complete into one of
            // them may complete into any.
            for var in &mut body.vars {
                if var.cqs.contains(&id) || var.cqs.contains(&other.id) {
                    var.cqs.clear();
                }
            }
            let ty = Term { args: vec![var.ty.clone()], ..Term::plain("Vec") };
            let new = body.add(ty, borrows, Vec::new());
            let list = format!("[v{id}, v{}]", other.id);
            body.line(format!(
                "let mut v{new} = Some({list}.into_iter().flatten().collect::<Vec<_>>());"
            ));
        }
        8 | 9 => {
            // With other live values, at most three.
            let mut all = vec![id];
            for other in vars.iter().filter(|other| other.id != id) {
                if all.len() < 3 && dice.percent(20) {
                    all.push(other.id);
                }
            }
            let names: Vec<String> = all.iter().map(|id| format!("v{id}")).collect();
            body.line(format!("w.catch(|| {{ let _held = ({},); planned() }});", names.join(", ")));
            all.into_iter().for_each(|id| body.gone(id));
        }
        10 if body.is_send(&var.ty) => {
            let new = moved(body, &var);
            body.line(format!("let mut v{new} = w.apart(move || v{id});"));
            body.traits.threads = true;
        }
        11 if body.is_send(&var.ty) => {
            body.line(format!("w.apart(move || drop(v{id}));"));
            body.gone(id);
            body.traits.threads = true;
        }
        // When that thread ends, after everything else on it.
        12 if body.is_send(&var.ty) && var.borrows.is_empty() => {
            body.line(format!("w.apart(move || keep_until_exit(v{id}));"));
            body.gone(id);
            body.traits.threads = true;
        }
        13 => nest(body, &var),
        _ => both(body, dice),
    }
}

/// Stores a value in the context of a buffer, which the device may own, and whose pool may be
/// dropped.
fn nest(body: &mut Body, var: &Var) {
    let is_nest = |ty: &Term| ty.name == "NestBuf";
    let Some(nest) = body.vars.iter().rev().find(|var| is_nest(&var.ty)) else { return };
    let (nest, id) = (nest.id, var.id);
    // A pool that its own contents keep alive is never freed.
    let text = var.ty.to_string();
    if text.contains("Nest") || !body.is_send(&var.ty) || !var.borrows.is_empty() {
        return;
    }
    body.line(format!(
        "if let (Some(nest), Some(it)) = (v{nest}.as_mut(), v{id}) {{ w.hides(); *nest.context_mut() = Some(Box::new(it)); }}"
    ));
    body.gone(id);
}

fn swap(body: &mut Body, one: &Var, other: &Var) {
    body.line(format!("std::mem::swap(&mut v{}, &mut v{});", one.id, other.id));
    // From now on each has the borrows of both.
    let borrows = [one.borrows.clone(), other.borrows.clone()].concat();
    let is_cq = body.value(&one.ty).is("cq");
    // In the second iteration of a loop they are swapped back.
    let known = !body.loops.contains(&true);
    for var in &mut body.vars {
        if var.id == one.id {
            (var.borrows, var.cqs) = (borrows.clone(), other.cqs.clone());
            var.root = other.root.filter(|_| known);
        } else if var.id == other.id {
            (var.borrows, var.cqs) = (borrows.clone(), one.cqs.clone());
            var.root = one.root.filter(|_| known);
        } else if is_cq && (var.cqs.contains(&one.id) || var.cqs.contains(&other.id)) {
            // It is unknown which of the two it is. A value that is neither of them does not
            // change.
            var.cqs.retain(|cq| ![one.id, other.id].contains(cq));
            var.cqs.extend([one.id, other.id]);
        }
    }
}

/// Renames a value. References to the old name now refer to the new one.
fn moved(body: &mut Body, var: &Var) -> u32 {
    body.gone(var.id);
    let new = body.add(var.ty.clone(), var.borrows.clone(), var.cqs.clone());
    for other in &mut body.vars {
        other.cqs.iter_mut().filter(|cq| **cq == var.id).for_each(|cq| *cq = new);
        if other.id == new {
            other.root = var.root;
        }
    }
    new
}

/// Two actions at the same time, on two threads.
fn both(body: &mut Body, dice: &mut Dice) {
    let Some(one) = side(body, dice, &[]) else { return };
    let taken = one.1.clone();
    let Some(two) = side(body, dice, &taken) else { return };
    body.traits.threads = true;
    let (one_given, two_given) = (one.2(body), two.2(body));
    let (a, b) = (call::pattern(&one_given), call::pattern(&two_given));
    body.line(format!("let ({a}, {b}) = w.both(|| {{ {} }}, || {{ {} }});", one.0, two.0));
}

type Side<'t> = (String, Vec<u32>, Box<dyn FnOnce(&mut Body) -> Vec<u32> + 't>);

/// The action of one thread: it ends an object, or makes a call.
fn side<'t>(body: &mut Body<'t>, dice: &mut Dice, not: &[u32]) -> Option<Side<'t>> {
    if dice.percent(40) {
        let may = |var: &&Var| {
            let value = body.value(&var.ty);
            !not.contains(&var.id)
                && body.is_send(&var.ty)
                && !value.is("copy")
                && !value.is("few")
                && body.may_move(var)
                && body.in_the_way(var.id, Mode::Value).is_empty()
        };
        let vars: Vec<u32> = body.vars.iter().filter(may).map(|var| var.id).collect();
        // Usually queues, because threads share them.
        let is_one = |value: Value| ["qp", "srq", "cq"].iter().any(|role| value.is(role));
        let is_queue = |id: &&u32| body.get(**id).is_some_and(|var| is_one(body.value(&var.ty)));
        let queues: Vec<u32> = vars.iter().filter(is_queue).copied().collect();
        let vars = if dice.percent(75) && !queues.is_empty() { queues } else { vars };
        let id = *dice.one(&vars)?;
        let gone = Box::new(move |body: &mut Body| {
            body.gone(id);
            Vec::new()
        });
        return Some((format!("drop(v{id})"), vec![id], gone));
    }
    let table = body.table;
    let rows: Vec<&super::table::Row> = table.rows.iter().collect();
    for _ in 0..20 {
        let row = dice.weighted(&rows, |row| row.weight)?;
        let send = |ty: &Term| body.is_send(ty);
        let alone = row.flags.iter().any(|flag| flag == "alone");
        if row.panics || alone || !row.gives.iter().all(|ty| ty.is_variable || send(ty)) {
            continue;
        }
        let Some(call) = call::choose(body, row, dice, not) else { continue };
        let clear = |(i, id): (usize, &u32)| {
            let shared = row.takes[i].mode == Mode::Shared;
            let goes =
                |value: Value| value.is("send") && (!shared || value.is("few") || value.is("sync"));
            body.get(*id).is_some_and(|var| goes(body.value(&var.ty)))
                && body.in_the_way(*id, row.takes[i].mode).is_empty()
        };
        if !call.args.iter().enumerate().all(clear) || call.args.is_empty() {
            continue;
        }
        let text = call.text(body);
        // Both threads may use parents, and values that threads can share.
        let mut taken = Vec::new();
        for (arg, id) in row.takes.iter().zip(&call.args) {
            let value = body.get(*id).map(|var| body.value(&var.ty)).unwrap_or_default();
            let is_shared = value.is("few") || value.is("sync") && arg.mode == Mode::Shared;
            if !is_shared {
                taken.push(*id);
            }
        }
        return Some((text, taken, Box::new(move |body: &mut Body| call.done(body))));
    }
    None
}

#[cfg(test)]
mod tests {
    use super::super::table;
    use super::*;

    #[test]
    fn what_is_swapped_leaves_the_other_queue_of_a_queue_pair() {
        let table = table::read().expect("the table");
        let mut body = Body::new(&table);
        let named = Term::plain;
        let cqs = [(); 3].map(|()| body.add(named("Cq"), Vec::new(), Vec::new()));
        body.add(named("Qp"), Vec::new(), cqs[..2].to_vec());
        let [one, two] = [1, 2].map(|at| body.get(cqs[at]).cloned().expect("it lives"));
        swap(&mut body, &one, &two);
        assert_eq!(cqs.map(|cq| body.living(cq)), [(1, 0); 3]);
    }
}
