//! The least time of each form: the minimum of many calls, those of all forms of a row by turns.
//!
//! A minimum repeats where a mean does not, since other programs only add to it; by turns, so that
//! a slow spell of the machine hits all forms. The stub's part is included, and is the same for
//! all.

use std::time::{Duration, Instant};

use crate::family::all as families;
use crate::run::{check, contenders, forget, is_of, prepare};
use crate::stub::{Library, Stub};

const ROUNDS: u32 = 2000;

/// Prints `time FAMILY/ROW/FORM NANOSECONDS`, of one item, for each form.
pub fn all(stub: &Stub, libraries: &[Library], only: &str) -> Result<(), String> {
    for family in families(stub) {
        for row in family.rows.iter().filter(|row| is_of(&family, row, only)) {
            let forms = contenders(&family, row, libraries)?;
            let mut least = vec![Duration::MAX; forms.len()];
            for _ in 0..ROUNDS {
                for (contender, least) in forms.iter().zip(&mut least) {
                    prepare(stub, &family, contender, row.name)?;
                    let start = Instant::now();
                    // SAFETY: the form's own environment.
                    let code = unsafe { (contender.form)(contender.env) };
                    *least = start.elapsed().min(*least);
                    check(&contender.name, code)?;
                    forget(contender);
                }
            }
            for (contender, least) in forms.iter().zip(&least) {
                let each = least.as_nanos() as f64 / row.items as f64;
                println!("time {}/{}/{} {each:.1}", family.name, row.name, contender.name);
            }
        }
    }
    Ok(())
}
