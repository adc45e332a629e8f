//! The floor of a row: what a program executes at least that has the provider do the same.
//!
//! Each form runs once (but those of C that can only have more), instruction by instruction, and
//! every instruction is disassembled: a store counts if the provider reads a byte of it before it
//! is overwritten, whichever compiler made it and however wide it is. With the calls of the
//! provider and the return, the least that any form of the row gets by with is the floor. (Loading
//! what is stored is left out, as constants need no load, and so are the books.)

use std::collections::HashMap;

use iced_x86::{
    Decoder, DecoderOptions, FlowControl, Instruction, InstructionInfoFactory, OpAccess, Register,
};

use crate::family::all as families;
use crate::run::{check, contenders, forget, is_of, prepare};
use crate::stub::{Library, Step, Stub};

/// Calls before the one that is looked at, so that buffers are known to the queue.
const WARM: u32 = 3;

/// Prints `floor FAMILY/ROW COUNT` for each row.
pub fn all(stub: &Stub, libraries: &[Library], only: &str) -> Result<(), String> {
    let mut decoded = Decoded::default();
    for family in families(stub) {
        let rows = family.rows.iter().filter(|row| row.has_floor && is_of(&family, row, only));
        for row in rows {
            let mut least = None;
            for contender in contenders(&family, row, libraries)? {
                if !is_bare(&contender.name) {
                    continue;
                }
                let label = format!("{}/{}/{}", family.name, row.name, contender.name);
                for i in 0..=WARM {
                    prepare(stub, &family, &contender, &label)?;
                    if i < WARM {
                        // SAFETY: `env` is the world that this family made for its forms.
                        check(&label, unsafe { (contender.form)(contender.env) })?;
                    } else {
                        // SAFETY: the form takes this `env`, stepped or not.
                        let (code, steps) = unsafe { stub.step(contender.form, contender.env) };
                        check(&label, code)?;
                        let count = floor(stub, steps, &mut decoded);
                        least = Some(least.map_or(count, |least: u32| least.min(count)));
                    }
                    forget(&contender);
                }
            }
            let least = least.ok_or("a row has forms")?;
            let least = least as f64 / row.items as f64;
            println!("floor {}/{} {least}", family.name, row.name);
        }
    }
    Ok(())
}

/// Whether a form may have the least: it assembles no work request elsewhere first, and C keeps no
/// books beside.
fn is_bare(form: &str) -> bool {
    !["idiom", "c1", "c2"].iter().any(|books| form.starts_with(books))
}

/// Instructions by their address.
#[derive(Default)]
struct Decoded(HashMap<u64, Instruction>);

impl Decoded {
    fn at(&mut self, rip: u64) -> Instruction {
        /// The longest instruction, bytes.
        const LONGEST: usize = 15;
        *self.0.entry(rip).or_insert_with(|| {
            // SAFETY: the processor ran an instruction that begins here; code goes on behind the
            // last function of an object (its `.fini`), so that the longest instruction is
            // readable.
            let code = unsafe { std::slice::from_raw_parts(rip as *const u8, LONGEST) };
            Decoder::with_ip(64, code, rip, DecoderOptions::NONE).decode()
        })
    }
}

/// Stores that the provider reads, its calls, and the return.
fn floor(stub: &Stub, steps: &[Step], decoded: &mut Decoded) -> u32 {
    let mut factory = InstructionInfoFactory::new();
    // The store that wrote a byte last, and whether the provider has read one of its bytes.
    let mut stored: HashMap<u64, usize> = HashMap::new();
    let mut is_read = Vec::new();
    let (mut entries, mut was_in_stub) = (0, true);
    for step in steps {
        let is_in_stub = stub.has(step.rip);
        let instruction = decoded.at(step.rip);
        entries += (is_in_stub && !was_in_stub) as u32;
        was_in_stub = is_in_stub;
        // A return address is the call's, not a store of its own.
        if !is_in_stub && instruction.flow_control() != FlowControl::Next {
            continue;
        }
        for memory in factory.info(&instruction).used_memory() {
            let register = |register: Register, _, _| value(step, register);
            let Some(at) = memory.virtual_address(0, register) else { continue };
            let bytes = at..at + memory.memory_size().size() as u64;
            let (reads, writes) = accesses(memory.access());
            if is_in_stub && reads {
                for store in bytes.clone().filter_map(|byte| stored.get(&byte)) {
                    is_read[*store] = true;
                }
            }
            if writes {
                for byte in bytes {
                    if is_in_stub {
                        stored.remove(&byte);
                    } else {
                        stored.insert(byte, is_read.len());
                    }
                }
                is_read.push(false);
            }
        }
    }
    // The stub is entered by each call of the provider, and once by the return.
    is_read.iter().filter(|read| **read).count() as u32 + entries
}

/// Whether an access reads, and whether it writes.
fn accesses(access: OpAccess) -> (bool, bool) {
    match access {
        OpAccess::Read | OpAccess::CondRead => (true, false),
        OpAccess::Write | OpAccess::CondWrite => (false, true),
        OpAccess::ReadWrite | OpAccess::ReadCondWrite => (true, true),
        _ => (false, false),
    }
}

/// What a register of an address holds.
fn value(step: &Step, register: Register) -> Option<u64> {
    match register {
        // The bases of the flat segments.
        Register::DS | Register::SS | Register::ES | Register::CS => Some(0),
        _ if register.is_gpr64() => Some(step.registers[register.number()]),
        _ => None,
    }
}
