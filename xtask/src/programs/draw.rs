//! A program, drawn from a seed and its number.

use super::body::{Body, Traits};
use super::call::{self};
use super::dice::Dice;
use super::habits;
use super::table::{Row, Table};

pub struct Program {
    pub number: u64,
    pub lines: Vec<String>,
    pub traits: Traits,
}

/// What programs are drawn for.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum For {
    Native,
    /// Shorter, and without what takes an interpreter too long.
    Miri,
}

pub fn draw(table: &Table, seed: u64, number: u64, what: For) -> Program {
    let mut dice = Dice::new(seed, number);
    let mut body = Body::new(table);
    let may_forget = dice.percent(25);
    setup(&mut body, &mut dice);
    let most = if what == For::Miri { 35 } else { 60 };
    let steps = 10 + dice.below(most - 10);
    let mut blocks = 0;
    for _ in 0..steps {
        if dice.percent(4) && blocks == 0 {
            blocks = block(&mut body, &mut dice);
        }
        step(&mut body, &mut dice, may_forget);
        if blocks > 0 {
            blocks -= 1;
            if blocks == 0 {
                body.close_block();
            }
        }
    }
    body.close_block();
    finish(&mut body, &mut dice);
    Program { number, traits: body.traits, lines: body.lines }
}

/// A block begins: a loop, a scope, or one that may panic. How many steps it has.
fn block(body: &mut Body, dice: &mut Dice) -> usize {
    match dice.below(3) {
        0 => {
            let rounds = 2 + dice.below(8);
            body.open_block(&format!("for _ in 0..{rounds} {{"), "}", true);
        }
        1 => body.open_block("{", "}", false),
        _ => body.open_block("w.catch(|| {", "});", false),
    }
    2 + dice.below(6)
}

fn setup(body: &mut Body, dice: &mut Dice) {
    let make = |body: &mut Body, dice: &mut Dice, name: &str| {
        let rows = body.table.rows.iter().filter(|row| row.name == name);
        for row in rows {
            if let Some(call) = call::choose(body, row, dice, &[]) {
                habits::emit(body, &call, dice);
            }
        }
    };
    make(body, dice, "context");
    make(body, dice, "ProtectionDomain::alloc_pd");
    make(body, dice, "Context::alloc_pd");
    make(body, dice, "ProtectionDomain::create_pool");
    for _ in 0..1 + dice.below(2) {
        if dice.percent(20) {
            make(body, dice, "Context::create_comp_channel");
            make(body, dice, "Context::create_cq_on");
        } else {
            make(body, dice, "Context::create_cq");
        }
    }
    if dice.percent(30) {
        make(body, dice, "ProtectionDomain::create_srq");
        make(body, dice, "pair on srq");
    }
    for _ in 0..1 + dice.below(2) {
        let pair = if dice.percent(60) { "pair on one" } else { "pair" };
        make(body, dice, pair);
    }
    if dice.percent(25) {
        make(body, dice, "ProtectionDomain::register");
        make(body, dice, "MemoryRegion::remote");
    }
    make(body, dice, "traffic");
    make(body, dice, "ProtectionDomain::create_ah");
    make(body, dice, "QueuePair::add_address_handle");
    make(body, dice, "destination");
}

fn step(body: &mut Body, dice: &mut Dice, may_forget: bool) {
    if dice.percent(16) {
        return habits::any(body, dice, may_forget);
    }
    // What stands in the way of others is used before they are.
    let eager = |ty: &super::term::Term| body.table.values.get(&ty.name).is_some_and(|it| it.eager);
    let waits = body.vars.iter().any(|var| eager(&var.ty)) && dice.percent(60);
    let mut rows: Vec<&Row> = body.table.rows.iter().collect();
    if waits {
        rows.retain(|row| row.takes.iter().any(|arg| eager(&arg.ty)));
    }
    let all: usize = rows.iter().map(|row| row.weight as usize).sum();
    for _ in 0..60 {
        let row = weighted(&rows, dice.below(all));
        // A drain that waits for what was forgotten takes seconds.
        let slow = row.flags.iter().any(|flag| flag == "slow");
        if slow && (body.traits.forgets || body.traits.stuck) && !dice.percent(2) {
            continue;
        }
        let Some(call) = call::choose(body, row, dice, &[]) else { continue };
        // What is in the way ends, most times: the compiler knows better than we.
        let stubborn = dice.percent(3);
        let mut clear = true;
        for (arg, id) in row.takes.iter().zip(&call.args) {
            for other in body.in_the_way(*id, arg.mode) {
                if call.args.contains(&other) {
                    continue;
                }
                let movable = body.get(other).is_some_and(|var| body.may_move(var));
                if movable && !stubborn {
                    habits::end(body, other, dice, may_forget);
                } else {
                    clear &= stubborn;
                }
            }
        }
        // Ending them may have taken an argument along.
        if clear && call.args.iter().all(|id| body.get(*id).is_some()) {
            return habits::emit(body, &call, dice);
        }
    }
}

fn weighted<'t>(rows: &[&'t Row], mut at: usize) -> &'t Row {
    for row in rows {
        let weight = row.weight as usize;
        if at < weight {
            return row;
        }
        at -= weight;
    }
    rows[0]
}

/// Everything is dropped, in any order that borrows allow; on the way, what is gone must have come home.
fn finish(body: &mut Body, dice: &mut Dice) {
    for var in body.vars.clone().iter().filter(|var| var.ty.name == "Region") {
        body.line(format!("if let Some(region) = v{}.as_ref() {{ w.untouched(region); }}", var.id));
    }
    let stays = |body: &Body, id: u32| {
        let value = body.get(id).map(|var| body.value(&var.ty)).unwrap_or_default();
        value.role == "cq" || value.few
    };
    if dice.percent(60) {
        drop_all(body, dice, stays);
        let cqs: Vec<u32> =
            body.vars.iter().filter(|var| var.ty.name == "Cq").map(|var| var.id).collect();
        let dry =
            cqs.iter().map(|cq| format!("if let Some(cq) = v{cq}.as_mut() {{ w.dry(cq); }} "));
        let mut settled: String = dry.collect();
        if !body.traits.forgets && !body.traits.broken {
            settled.push_str("w.home(\"while the completion queues live\");");
        }
        // In one line: what is home is asked when all completions were taken.
        body.line(settled);
        cqs.iter().for_each(|cq| habits::room(body, *cq));
    }
    drop_all(body, dice, |_, _| false);
}

fn drop_all(body: &mut Body, dice: &mut Dice, stays: impl Fn(&Body, u32) -> bool) {
    loop {
        let free = |var: &&super::body::Var| {
            body.in_the_way(var.id, super::table::Mode::Value).is_empty() && !stays(body, var.id)
        };
        let ready: Vec<u32> = body.vars.iter().filter(free).map(|var| var.id).collect();
        let Some(id) = dice.one(&ready).copied() else { return };
        body.line(format!("drop(v{id});"));
        body.gone(id);
    }
}

impl Program {
    pub fn name(&self) -> String {
        format!("program_{}", self.number)
    }

    pub fn text(&self) -> String {
        format!("fn {}(w: &World) {{\n{}\n}}\n", self.name(), self.lines.join("\n"))
    }

    /// For the list of programs.
    pub fn entry(&self) -> String {
        let forgets = self.traits.forgets;
        format!(
            "    Program {{ number: {}, forgets: {forgets}, run: {} }},\n",
            self.number,
            self.name()
        )
    }
}
