//! Shortens a failing program and prints it.

use std::cell::RefCell;
use std::panic::PanicHookInfo;

use crate::program::{Config, Step};
use crate::run;

thread_local! {
    static PANIC: RefCell<String> = const { RefCell::new(String::new()) };
}

/// A panic in a world is a finding; it does not end the run.
pub fn note_panic(info: &PanicHookInfo<'_>) {
    PANIC.set(info.to_string());
}

pub fn noted_panic() -> String {
    PANIC.take()
}

/// A failure message without its numbers: a shorter program must fail in the same way.
fn kind(why: &str) -> String {
    let why = why
        .split_once(": ")
        .filter(|(step, _)| step.starts_with("step "))
        .map_or(why, |(_, why)| why);
    why.chars().filter(|c| c.is_alphabetic() || *c == ' ').collect()
}

/// Removes steps while the program still fails.
fn shorten(config: &Config, mut steps: Vec<Step>, why: &str) -> (Vec<Step>, String) {
    let mut why = why.to_owned();
    let mut piece = steps.len().max(2) / 2;
    while piece > 0 {
        let mut at = 0;
        while at < steps.len() {
            let mut less = steps.clone();
            less.drain(at..(at + piece).min(steps.len()));
            match run::run(config, &less) {
                Err(now) if kind(&now) == kind(&why) => (steps, why) = (less, now),
                _ => at += piece,
            }
        }
        piece /= 2;
    }
    (steps, why)
}

pub fn report(world: u64, mut config: Config, steps: Vec<Step>, why: &str) {
    println!("world {world} fails: {why}\nmaking the program shorter ...");
    let (mut steps, mut why) = shorten(&config, steps, why);
    // Removes the irrelevant faults, and shortens again without them.
    for i in (0..config.faults.len()).rev() {
        let mut less = config.clone();
        less.faults.remove(i);
        match run::run(&less, &steps) {
            Err(now) if kind(&now) == kind(&why) => (config, why) = (less, now),
            _ => {}
        }
    }
    (steps, why) = shorten(&config, steps, &why);
    println!("\n{config:#?}\n");
    for (i, step) in steps.iter().enumerate() {
        println!("{i:>4}  {step:?}");
    }
    println!("\n{why}");
    println!("\nNext: cargo xtask suite simulation -- --world {world}");
}
