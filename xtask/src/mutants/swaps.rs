//! What is exchanged for what.

/// Operators that have the same types.
pub fn operators(op: &str) -> &'static [&'static str] {
    match op {
        "<" => &["<=", ">="],
        "<=" => &["<", ">"],
        ">" => &[">=", "<="],
        ">=" => &[">", "<"],
        "==" => &["!="],
        "!=" => &["=="],
        "+" => &["-"],
        "-" => &["+"],
        "*" => &["+"],
        "/" => &["*"],
        "%" => &["/"],
        "&&" => &["||"],
        "||" => &["&&"],
        "&" => &["|"],
        "|" => &["&"],
        "^" => &["|"],
        "<<" => &[">>"],
        ">>" => &["<<"],
        "+=" => &["-="],
        "-=" => &["+="],
        "|=" => &["&="],
        "&=" => &["|="],
        _ => &[],
    }
}

/// Methods that are called alike.
pub fn methods(name: &str) -> &'static [&'static str] {
    match name {
        "min" => &["max"],
        "max" => &["min"],
        "wrapping_add" => &["wrapping_sub"],
        "wrapping_sub" => &["wrapping_add"],
        "saturating_add" => &["saturating_sub"],
        "saturating_sub" => &["saturating_add"],
        "checked_add" => &["checked_sub"],
        "checked_sub" => &["checked_add"],
        "rotate_left" => &["rotate_right"],
        "any" => &["all"],
        "all" => &["any"],
        "first" => &["last"],
        "last" => &["first"],
        "push_front" => &["push_back"],
        "push_back" => &["push_front"],
        "pop_front" => &["pop_back"],
        "pop_back" => &["pop_front"],
        "fetch_add" => &["fetch_sub"],
        "fetch_sub" => &["fetch_add"],
        _ => &[],
    }
}

/// Whether a method of this name gives a `bool`, as far as a name can say.
pub fn says_yes_or_no(name: &str) -> bool {
    name.starts_with("is_")
        || name.starts_with("has_")
        || ["contains", "starts_with", "ends_with", "any", "all", "eq"].contains(&name)
}

/// Constants of the same type that mean the opposite.
pub fn constant(name: &str) -> Option<&'static str> {
    match name {
        "SEND" => Some("RECEIVE"),
        "RECEIVE" => Some("SEND"),
        _ => None,
    }
}

/// Values that a function may return at once, by how its type is spelt; "" for none.
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
