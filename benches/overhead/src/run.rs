//! Warms up, compares and counts one form after the other.

use std::ffi::c_void;
use std::time::{Duration, Instant};

use crate::family::{Family, Row, all as families};
use crate::stub::{Form, Library, Stub};

/// One way to do a row's work.
struct Contender {
    /// "typed", "fast@gcc -O2" and so on.
    pub name: String,
    pub form: Form,
    /// The form that must post first.
    before: Option<Form>,
    pub env: *mut c_void,
    restore: Restore,
}

/// How to discard outstanding work requests: the form that posted them owns their completions.
#[derive(Clone, Copy)]
enum Restore {
    Twin(Form),
    World(unsafe fn(*mut c_void)),
    Nothing,
}

/// The number of calls before the first counted one.
const WARM: u32 = 3;

/// Runs everything. Each line on stdout is `count FAMILY/ROW/FORM CALLS`; an image that differs is
/// an error.
pub fn all(stub: &Stub, libraries: &[Library], only: &str) -> Result<(), String> {
    let mut errors = Vec::new();
    for family in families(stub) {
        for row in family.rows.iter().filter(|row| is_of(&family, row, only)) {
            let mut expected: Option<(String, Vec<u8>)> = None;
            for contender in contenders(&family, row, libraries)? {
                let label = format!("{}/{}/{}", family.name, row.name, contender.name);
                let image = compare_and_count(stub, &family, row, &contender, &label)?;
                match &expected {
                    None => expected = Some((label, image)),
                    Some((first, wanted)) if *wanted != image => {
                        errors.push(format!("{label} posts different work requests than {first}"));
                    }
                    Some(_) => {}
                }
            }
        }
    }
    if errors.is_empty() { Ok(()) } else { Err(errors.join("\n")) }
}

/// The number of timed calls of a form.
const TIMED: u32 = 400;

/// Calls the forms of a row in turn, and prints the shortest time of an iteration of C with all
/// checks (the fastest of its builds), of safe Rust, and their ratio.
pub fn time(stub: &Stub, libraries: &[Library], only: &str) -> Result<(), String> {
    println!("{:<24} {:>9} {:>9}  Rust / C", "ns", "C2", "Rust");
    for family in families(stub) {
        for row in family.rows.iter().filter(|row| is_of(&family, row, only)) {
            let (mut c, mut rust) = (Duration::MAX, Duration::MAX);
            let contenders = contenders(&family, row, libraries)?;
            for _ in 0..TIMED {
                for contender in &contenders {
                    let shortest = match &*contender.name {
                        "safe" | "typed" => &mut rust,
                        name if name.starts_with("c2") => &mut c,
                        _ => continue,
                    };
                    prepare(stub, &family, contender, row.name)?;
                    let start = Instant::now();
                    // SAFETY: the form takes this `env`.
                    let code = unsafe { (contender.form)(contender.env) };
                    *shortest = start.elapsed().min(*shortest);
                    check(row.name, code)?;
                    forget(contender);
                }
            }
            let [c, rust] = [c, rust].map(|time| time.as_nanos() as f64 / f64::from(row.items));
            let name = format!("{}/{}", family.name, row.name);
            println!("{name:<24} {c:>9.2} {rust:>9.2}  {:.2}", rust / c);
        }
    }
    Ok(())
}

/// Whether the row's name begins with one of `only`, separated by commas.
fn is_of(family: &Family, row: &Row, only: &str) -> bool {
    let name = format!("{}/{}", family.name, row.name);
    only.split(',').any(|only| name.starts_with(only))
}

fn contenders(family: &Family, row: &Row, libraries: &[Library]) -> Result<Vec<Contender>, String> {
    let mut all = Vec::new();
    let after = row.after.map(|name| {
        let before = family.rows.iter().find(|row| row.name == name);
        before.ok_or_else(|| format!("{} needs the row {name}, which does not exist", row.name))
    });
    let after = after.transpose()?;
    for library in libraries {
        let find = |name: &str| {
            library.form(name).ok_or_else(|| format!("{} has no `{name}`", library.name))
        };
        for books in family.twins {
            all.push(Contender {
                // `c2_one` is C2.
                name: format!("{}@{}", books.split('_').next().unwrap_or(books), library.name),
                form: find(&format!("{books}_{}", row.twin))?,
                before: match (after, row.prime) {
                    (Some(before), _) => Some(find(&format!("{books}_{}", before.twin))?),
                    (None, Some((prime, _))) => Some(find(&format!("{books}_{prime}"))?),
                    (None, None) => None,
                },
                env: family.twin.cast(),
                restore: match family.restore {
                    Some(_) => Restore::Twin(find("restore")?),
                    None => Restore::Nothing,
                },
            });
        }
    }
    let rust = if family.twins[0] == "idiom" { "typed" } else { "safe" };
    all.push(Contender {
        name: rust.into(),
        form: row.rust,
        before: after.map(|row| row.rust).or(row.prime.map(|prime| prime.1)),
        env: family.world,
        restore: family.restore.map_or(Restore::Nothing, Restore::World),
    });
    if let Some(form) = row.raw {
        all.push(Contender {
            name: "raw".into(),
            form,
            before: after.and_then(|row| row.raw),
            env: family.twin.cast(),
            restore: Restore::Nothing,
        });
    }
    Ok(all)
}

/// Posts only what the row needs.
fn prepare(stub: &Stub, family: &Family, contender: &Contender, label: &str) -> Result<(), String> {
    stub.reset(family.signal_all);
    stub.hold(family.holds);
    match contender.before {
        // SAFETY: the form's own environment.
        Some(before) => check(label, unsafe { before(contender.env) }),
        None => Ok(()),
    }
}

fn compare_and_count(
    stub: &Stub,
    family: &Family,
    row: &Row,
    contender: &Contender,
    label: &str,
) -> Result<Vec<u8>, String> {
    let mut image = Vec::new();
    for i in 0..WARM + row.calls {
        prepare(stub, family, contender, label)?;
        let counted = i >= WARM;
        let code = if counted {
            // SAFETY: `env` is the world that this family created for its forms.
            unsafe { stub.measure(contender.form, contender.env) }
        } else {
            // SAFETY: the form takes this `env`, counted or not.
            unsafe { (contender.form)(contender.env) }
        };
        check(label, code)?;
        image = stub.image();
        if row.after.is_some() && stub.pending() != 0 {
            return Err(format!("{label} left {} completions", stub.pending()));
        }
        forget(contender);
    }
    if stub.is_counting() {
        stub.dump(label);
    }
    println!("count {label} {}", row.calls * row.items);
    Ok(image)
}

/// Discards outstanding work requests.
fn forget(contender: &Contender) {
    match contender.restore {
        Restore::Twin(restore) => {
            // SAFETY: the twin's own environment.
            unsafe { restore(contender.env) };
        }
        // SAFETY: the family's own world.
        Restore::World(restore) => unsafe { restore(contender.env) },
        Restore::Nothing => {}
    }
}

fn check(label: &str, code: i32) -> Result<(), String> {
    if code == 0 { Ok(()) } else { Err(format!("{label} failed with {code}")) }
}
