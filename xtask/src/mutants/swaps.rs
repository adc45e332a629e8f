//! The replacements for operators, methods and values.

/// Operators and methods of the same types, and constants, which replace each other.
const PAIRS: [(&str, &str); 22] = [
    ("<", "<="),
    ("<", ">="),
    (">", ">="),
    (">", "<="),
    ("==", "!="),
    ("+", "-"),
    ("&&", "||"),
    ("&", "|"),
    ("<<", ">>"),
    ("+=", "-="),
    ("|=", "&="),
    ("min", "max"),
    ("wrapping_add", "wrapping_sub"),
    ("saturating_add", "saturating_sub"),
    ("checked_add", "checked_sub"),
    ("rotate_left", "rotate_right"),
    ("any", "all"),
    ("first", "last"),
    ("push_front", "push_back"),
    ("pop_front", "pop_back"),
    ("fetch_add", "fetch_sub"),
    ("SEND", "RECEIVE"),
];

/// The second replaces the first.
const ONE_WAY: [(&str, &str); 4] = [("*", "+"), ("/", "*"), ("%", "/"), ("^", "|")];

/// The replacements of an operator, a method or a constant of this name.
pub fn instead_of(name: &str) -> impl Iterator<Item = &'static str> {
    let both_ways = PAIRS.into_iter().flat_map(|(one, two)| [(one, two), (two, one)]);
    both_ways.chain(ONE_WAY).filter(move |(of, _)| *of == name).map(|(_, other)| other)
}

/// Whether a method of this name probably returns a `bool`.
pub fn says_yes_or_no(name: &str) -> bool {
    name.starts_with("is_")
        || name.starts_with("has_")
        || ["contains", "starts_with", "ends_with", "any", "all", "eq"].contains(&name)
}

/// Values that a function may return immediately, by the text of its type; "" for `()`.
pub fn defaults(ty: &str) -> &'static [&'static str] {
    let ty: String = ty.split_whitespace().collect();
    match ty.as_str() {
        "" => &[""],
        "bool" => &["true", "false"],
        "u8" | "u16" | "u32" | "u64" | "usize" | "i32" | "c_int" => &["0", "1"],
        _ if ty.starts_with("Option<") => &["None"],
        _ if ty.starts_with("Vec<") => &["Vec::new()"],
        _ => match ty.split_once("Result<") {
            Some(("" | "io::", rest)) if rest.starts_with("()") => &["Ok(())"],
            Some(("" | "io::", rest)) if rest.starts_with("bool") => &["Ok(true)", "Ok(false)"],
            Some(("" | "io::", rest)) if rest.starts_with("Option<") => &["Ok(None)"],
            Some(("" | "io::", rest)) if rest.starts_with("usize") => &["Ok(0)"],
            _ => &[],
        },
    }
}
