//! Types as in the calls: `Qp<T, Rts, P>`, in which some names are variables.

use std::collections::BTreeMap;
use std::fmt;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Term {
    pub name: String,
    pub args: Vec<Term>,
    pub is_variable: bool,
}

/// The values of the variables.
pub type Bound = BTreeMap<String, Term>;

impl Term {
    pub fn plain(name: &str) -> Term {
        Term { name: name.to_owned(), args: Vec::new(), is_variable: false }
    }

    pub fn variable(name: String) -> Term {
        Term { name, args: Vec::new(), is_variable: true }
    }

    /// Matches this type, with variables, against another without variables. Records their values.
    pub fn is(&self, other: &Term, bound: &mut Bound) -> bool {
        if self.is_variable {
            return match bound.get(&self.name) {
                Some(known) => known == other,
                None => {
                    bound.insert(self.name.clone(), other.clone());
                    true
                }
            };
        }
        self.name == other.name
            && self.args.len() == other.args.len()
            && self.args.iter().zip(&other.args).all(|(a, b)| a.is(b, bound))
    }

    /// With each variable replaced; `None` if one is not known.
    pub fn with(&self, bound: &Bound) -> Option<Term> {
        if self.is_variable {
            return bound.get(&self.name).cloned();
        }
        let args = self.args.iter().map(|arg| arg.with(bound)).collect::<Option<_>>()?;
        Some(Term { name: self.name.clone(), args, is_variable: false })
    }
}

impl fmt::Display for Term {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name)?;
        for (i, arg) in self.args.iter().enumerate() {
            write!(f, "{}{arg}", if i == 0 { "<" } else { ", " })?;
        }
        f.write_str(if self.args.is_empty() { "" } else { ">" })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variables_are_found_once_and_held_to() {
        let of = |args: &[Term]| Term { args: args.to_vec(), ..Term::plain("Qp") };
        let variable = |name: &str| Term::variable(name.to_owned());
        let row = of(&[variable("T"), Term::plain("Rts"), variable("P")]);
        let [rc, rts, ring] = ["Rc", "Rts", "Ring"].map(Term::plain);
        let mut bound = Bound::new();
        assert!(row.is(&of(&[rc, rts.clone(), ring.clone()]), &mut bound));
        assert_eq!(of(&[variable("X")]).with(&bound), None);
        let with = of(&[variable("P")]).with(&bound);
        assert_eq!(with.map(|it| it.to_string()).as_deref(), Some("Qp<Ring>"));
        assert!(!row.is(&of(&[Term::plain("Uc"), rts, ring]), &mut bound));
    }
}
