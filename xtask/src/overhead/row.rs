//! The counts, row by row.

use crate::callgrind::Counted;

/// One task, in all its forms.
#[derive(Default)]
pub struct Row {
    pub family: String,
    pub name: String,
    /// Form (`fast`, `c0`, `typed`), compiler (empty for Rust) and instructions.
    pub forms: Vec<(String, String, f64)>,
    /// Allocations of each form.
    pub allocations: Vec<f64>,
}

/// Groups counts by row, in the order in which they were taken, with families together.
pub fn from_counts(counted: Counted) -> Vec<Row> {
    let mut rows: Vec<Row> = Vec::new();
    let Counted { each, allocations } = counted;
    for ((label, instructions), allocations) in each.into_iter().zip(allocations) {
        let mut parts = label.splitn(3, '/');
        let mut next = || parts.next().unwrap_or_default().to_owned();
        let (family, name, form) = (next(), next(), next());
        let (form, compiler) = match form.split_once('@') {
            Some((form, compiler)) => (form.to_owned(), compiler.to_owned()),
            None => (form, String::new()),
        };
        let at = rows.iter().position(|row| row.family == family && row.name == name);
        let at = at.unwrap_or_else(|| {
            let after = rows.iter().rposition(|row| row.family == family);
            let at = after.map_or(rows.len(), |last| last + 1);
            rows.insert(at, Row { family, name, ..Row::default() });
            at
        });
        rows[at].forms.push((form, compiler, instructions));
        rows[at].allocations.push(allocations);
    }
    rows
}

impl Row {
    pub fn id(&self) -> String {
        format!("{}/{}", self.family, self.name)
    }

    /// The Rust forms, most important first: typed or safe, then raw.
    pub fn rust(&self) -> impl Iterator<Item = (&str, f64)> {
        self.forms.iter().filter(|form| form.1.is_empty()).map(|form| (form.0.as_str(), form.2))
    }

    /// Typed or safe Rust.
    pub fn ours(&self) -> Option<(&str, f64)> {
        self.rust().find(|(form, _)| *form != "raw")
    }

    /// The smallest count of a C form, with one compiler or (`""`) with any.
    pub fn best(&self, form: &str, compiler: &str) -> Option<f64> {
        let of_form = |f: &&(String, String, f64)| {
            // Selective rows have their own forms: `c0s` is C0.
            !f.1.is_empty() && f.0.trim_end_matches('s') == form && f.1.starts_with(compiler)
        };
        self.forms.iter().filter(of_form).map(|f| f.2).min_by(f64::total_cmp)
    }

    /// Allocations of typed or safe Rust.
    pub fn our_allocations(&self) -> f64 {
        let is_ours = |form: &(String, String, f64)| form.1.is_empty() && form.0 != "raw";
        let at = self.forms.iter().position(is_ours);
        at.and_then(|at| self.allocations.get(at)).copied().unwrap_or_default()
    }

    /// The best C: the fastest, or C with all our checks. (If idiomatic C is faster than the form
    /// that was written to be fastest, it counts as the fastest.)
    pub fn limit(&self) -> Option<f64> {
        if self.keeps_books() {
            return self.best("c2", "");
        }
        let both = [self.best("fast", ""), self.best("idiom", "")];
        both.into_iter().flatten().min_by(f64::total_cmp)
    }

    pub fn keeps_books(&self) -> bool {
        self.family != "caller"
    }
}
