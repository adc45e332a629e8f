//! Generates a program from a seed and its number.

use super::body::{Body, Traits};
use super::call;
use super::habits;
use super::table::{Row, Table};
use crate::dice::Dice;

pub struct Program {
    pub number: u64,
    /// The seed of its turns.
    pub seed: u64,
    pub lines: Vec<String>,
    pub traits: Traits,
}

/// Programs for Miri are shorter, and leave out calls that are too slow in an interpreter.
pub fn draw(table: &Table, seed: u64, number: u64, is_short: bool) -> Program {
    let mut dice = Dice::new(seed, number);
    let seed = dice.seed();
    let mut body = Body::new(table);
    let may_forget = dice.percent(20);
    setup(&mut body, &mut dice, is_short);
    for names in [WINDOWS, GIVEN, PARTS, SESSIONS, BESIDE] {
        if dice.percent(8) {
            make(&mut body, &mut dice, names);
        }
    }
    body.may_leave_out = true;
    let (least, most) = if is_short { (5, 16) } else { (12, 60) };
    let steps = least + dice.below(most - least);
    let mut blocks = 0;
    for _ in 0..steps {
        if dice.percent(4) && blocks == 0 {
            blocks = block(&mut body, &mut dice, is_short);
        }
        step(&mut body, &mut dice, may_forget);
        if blocks > 0 {
            blocks -= 1;
            if blocks == 0 {
                body.close_block();
            }
        }
    }
    if blocks > 0 {
        body.close_block();
    }
    body.may_leave_out = false;
    finish(&mut body, &mut dice);
    Program { number, seed, traits: body.traits, lines: body.lines }
}

/// Opens a block: a loop, a scope, or one that may panic. Returns its number of steps.
fn block(body: &mut Body, dice: &mut Dice, is_short: bool) -> usize {
    match dice.below(3) {
        0 => {
            let rounds = 2 + dice.below(if is_short { 2 } else { 8 });
            body.open_block(&format!("for _ in 0..{rounds} {{"), "}", true);
        }
        1 => body.open_block("{", "}", false),
        _ => body.open_block("w.catch(|| {", "});", false),
    }
    2 + dice.below(6)
}

/// Makes the calls with these names whose arguments exist.
fn make(body: &mut Body, dice: &mut Dice, names: &[&str]) {
    for name in names {
        let row = body.table.rows.iter().find(|row| row.name == *name);
        let row = row.unwrap_or_else(|| panic!("no call is named `{name}`"));
        if let Some(call) = call::choose(body, row, dice, &[]) {
            habits::emit(body, &call);
        }
    }
}

/// A pair of queue pairs whose completions return memory windows, and some bound windows.
const WINDOWS: &[&str] =
    &["pair_for_windows", "memory_for_windows", "bind", "binds_until_it_is_full"];
/// An implicit region, and a pair of queue pairs that sends memory from it.
const GIVEN: &[&str] = &[
    "queue_for_memory_on_demand",
    "pair_for_memory_on_demand",
    "memory_given_at_once",
    "memory_that_the_device_has_does_not_come_back",
    "memory_given_at_once",
    "part",
    "post_send_of_memory_that_was_given",
];
/// Parts of an arena, and work requests that read into them.
const PARTS: &[&str] = &[
    "create_arena",
    "arena_take",
    "arena_take",
    "split_off",
    "narrow",
    "register",
    "remote",
    "fetch_and_add_new",
];
/// Messages from parts, while slices of the other parts are held.
const BESIDE: &[&str] = &["create_arena", "messages_of_parts_beside_slices_of_the_rest"];
/// Sessions, and the other work requests that they post.
const SESSIONS: &[&str] = &[
    "pair_of_sessions",
    "register",
    "remote",
    "pool_take",
    "rdma_read_new",
    "pool_take",
    "rdma_write_new",
];

/// The start of most programs. Without queue pairs, programs do very little.
fn setup(body: &mut Body, dice: &mut Dice, is_short: bool) {
    make(body, dice, &["context", "alloc_pd", "create_pool"]);
    let queues = if is_short { 1 } else { 1 + dice.below(2) };
    for _ in 0..queues {
        if dice.percent(35) {
            make(body, dice, &["create_comp_channel", "cq_on_channel"]);
        } else {
            make(body, dice, &["create_cq"]);
        }
    }
    if dice.percent(35) {
        make(body, dice, &["create_srq", "post_srq_recv_several", "pair_on_srq"]);
        if dice.percent(75) {
            make(body, dice, &["pair_on_srq"]);
        }
    }
    for _ in 0..if is_short { 1 } else { 1 + dice.below(2) } {
        let pair = if dice.percent(60) { "pair_on_one" } else { "pair" };
        make(body, dice, &[pair]);
    }
    if dice.percent(8) {
        make(body, dice, &["context", "alloc_pd", "create_cq", "create_qp"]);
        make(body, dice, &["create_comp_channel", "cq_on_channel"]);
    }
    if dice.percent(10) {
        make(body, dice, &["loud_pool", "quiet_pool", "noisy_pair"]);
        if dice.percent(60) {
            make(body, dice, &["post_recv_of_both_contexts_and_their_pool_goes"]);
        }
    }
    if dice.percent(25) {
        make(body, dice, &["register", "remote"]);
    }
    if dice.percent(70) {
        make(body, dice, &["traffic"]);
    }
    if !is_short || dice.percent(30) {
        make(body, dice, &["create_ah", "add_address_handle", "destination"]);
    }
    // Sequences of several calls, which are unlikely by chance.
    const THEMES: [&[&str]; 10] = [
        &["pool_take", "pool_take", "pool_take"],
        &["pool_take", "freeze", "pool_take", "pool_take", "buf_list_new"],
        &["pool_take", "pool_take", "send_slots_new", "send_list"],
        &["pool_take", "pool_take", "recv_slots_new", "queue_pair_recv_list"],
        &["create_qp", "modify_init", "modify_rtr_of_rc", "modify_rts_of_rc"],
        &["roce_v2_gid", "create_qp", "modify_init", "rc_connector_new"],
        &["pool_take", "pool_take", "register", "remote"],
        &["memory", "pool_in_memory", "take_of_own_memory", "take_of_own_memory"],
        &["memory", "region_in_memory", "remote", "piece"],
        &["pool_of_nests", "pair_of_nests", "take_of_nests"],
    ];
    let theme = dice.one(&THEMES).copied().unwrap_or_default();
    make(body, dice, theme);
}

fn step(body: &mut Body, dice: &mut Dice, may_forget: bool) {
    if dice.percent(14) {
        return habits::any(body, dice, may_forget);
    }
    // Uses values that block others first.
    let eager =
        |ty: &super::term::Term| body.table.values.get(&ty.name).is_some_and(|it| it.is("eager"));
    let waits = body.vars.iter().any(|var| eager(&var.ty)) && dice.percent(60);
    let mut rows: Vec<&Row> = body.table.rows.iter().collect();
    if waits {
        rows.retain(|row| row.takes.iter().any(|arg| eager(&arg.ty)));
    }
    for _ in 0..60 {
        let Some(row) = dice.weighted(&rows, |row| row.weight) else { return };
        if !may_forget && row.flags.iter().any(|flag| flag == "forgets") {
            continue;
        }
        let Some(call) = call::choose(body, row, dice, &[]) else { continue };
        // Usually ends the values in the way. The compiler decides whether that was necessary.
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
        // Ending them may have consumed an argument.
        if clear && call.args.iter().all(|id| body.get(*id).is_some()) {
            return habits::emit(body, &call);
        }
    }
}

/// Drops everything, in any order that borrows allow, and checks that the buffers of dropped
/// objects have returned.
fn finish(body: &mut Body, dice: &mut Dice) {
    for var in body.vars.clone().iter().filter(|var| var.ty.name == "Region") {
        body.line(format!("if let Some(region) = v{}.as_ref() {{ w.untouched(region); }}", var.id));
    }
    let borrowing: Vec<u32> =
        body.vars.iter().filter(|var| !var.borrows.is_empty()).map(|var| var.id).collect();
    drop_all(body, dice, |_, id| !borrowing.contains(&id));
    for var in body.vars.clone().iter().filter(|var| var.ty.name == "Qp" && var.cqs.len() == 1) {
        let (qp, cq) = (var.id, var.cqs[0]);
        let own = ["Served", "ServedRing"].iter().all(|it| var.ty.args[2].name != *it);
        if own && body.get(cq).is_some() {
            let pair = format!("(v{qp}.as_mut(), v{cq}.as_ref())");
            body.line(format!(
                "if let (Some(qp), Some(cq)) = {pair} {{ w.booked(qp, cq); w.bounded(qp); }}"
            ));
        }
    }
    let stays = |body: &Body, id: u32| {
        let value = body.get(id).map(|var| body.value(&var.ty)).unwrap_or_default();
        value.is("cq") || value.is("few")
    };
    if dice.percent(70) {
        drop_all(body, dice, stays);
        let cqs: Vec<u32> =
            body.vars.iter().filter(|var| var.ty.name == "Cq").map(|var| var.id).collect();
        let dry: String = cqs
            .iter()
            .map(|cq| format!("if let Some(cq) = v{cq}.as_mut() {{ w.dry(cq); }} "))
            .collect();
        // Twice: a completion may return a buffer that contains a queue pair. The poller of another
        // completion queue destroys it, and that queue may already have been polled.
        let mut settled = dry.repeat(2);
        settled.push_str("w.home_meanwhile(); ");
        // In one line: checks the returned buffers after all completions were taken.
        cqs.iter().for_each(|cq| settled.push_str(&habits::room(body, *cq)));
        body.line(settled);
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
        let Program { number, seed, .. } = self;
        format!("    Program {{ number: {number}, seed: {seed}, run: {} }},\n", self.name())
    }
}
