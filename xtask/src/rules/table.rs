//! The truth tables: `rules/table.toml`, and the test that is made from it.

use std::fmt::Write;
use std::path::Path;

use anyhow::{Context, Result, ensure};
use serde::Deserialize;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Tables {
    table: Vec<Table>,
    pub transition: Transitions,
}

/// For which columns a trait holds, row by row.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Table {
    pub name: String,
    pub title: String,
    pub rules: Vec<String>,
    /// `{}` stands for the column.
    #[serde(rename = "trait")]
    bound: String,
    pub columns: Vec<String>,
    /// The row, and the columns that hold.
    rows: Vec<Vec<String>>,
    /// True of each row; `{}` stands for the row.
    each: Option<String>,
    #[serde(default)]
    pub note: String,
}

/// Attribute structs, and the ways that they lead.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Transitions {
    pub rules: Vec<String>,
    pub rows: Vec<Vec<String>>,
}

pub const TRANSPORTS: [&str; 5] = ["Rc", "Uc", "Ud", "Srd", "Xrc"];
pub const STATES: [&str; 8] = ["Reset", "Init", "Rtr", "Rts", "Draining", "Sqd", "Sqe", "Err"];

impl Table {
    pub fn rows(&self) -> impl Iterator<Item = &str> {
        self.rows.iter().map(|row| row[0].as_str())
    }

    pub fn holds(&self, row: &str, column: &str) -> bool {
        let mut rows = self.rows.iter().filter(|cells| cells[0] == row);
        rows.any(|cells| cells[1..].iter().any(|cell| cell == column))
    }

    /// The bound for a column, as Rust writes it.
    pub fn bound(&self, column: &str) -> String {
        self.bound.replace("{}", column)
    }

    fn assertions(&self, out: &mut String) {
        writeln!(out, "// {} ({}).", self.title, self.rules.join(", ")).expect("a String");
        for row in self.rows() {
            let (yes, no): (Vec<_>, Vec<_>) =
                self.columns.iter().partition(|column| self.holds(row, column));
            let join = |columns: Vec<&String>| {
                columns.iter().map(|column| self.bound(column)).collect::<Vec<_>>().join(", ")
            };
            let (yes, no) = (join(yes), join(no));
            let cells = |yes: &str, no: &str| {
                let line = format!("cells!({row}: yes {yes}; no {no});");
                line.replace("yes ;", "yes;").replace("no )", "no)")
            };
            let line = cells(&yes, &no);
            if line.len() <= 100 || yes.is_empty() || no.is_empty() {
                writeln!(out, "{line}").expect("a String");
            } else {
                writeln!(out, "{}\n{}", cells(&yes, ""), cells("", &no)).expect("a String");
            }
        }
        if let Some(each) = &self.each {
            for row in self.rows() {
                let condition = each.replace("{}", row);
                writeln!(out, "const_assert!({condition});").expect("a String");
            }
        }
    }
}

impl Transitions {
    /// Where `attr` leads from a state, if anywhere.
    pub fn leads(&self, attr: &str, transport: &str, from: &str) -> Option<&str> {
        let way = format!("{transport} {from} -> ");
        let mut rows = self.rows.iter().filter(|cells| cells[0] == attr);
        rows.find_map(|cells| cells[1..].iter().find_map(|cell| cell.strip_prefix(&way)))
    }

    fn assertions(&self, out: &mut String) {
        let rules = self.rules.join(", ");
        writeln!(out, "// Every attribute struct, transport and state ({rules}).")
            .expect("a String");
        for row in &self.rows {
            let (attr, mut yes, mut no, mut never) = (&row[0], vec![], vec![], vec![]);
            for transport in TRANSPORTS {
                let ways = STATES.map(|from| (from, self.leads(attr, transport, from)));
                if ways.iter().all(|(_, to)| to.is_none()) {
                    never.push(transport.to_owned());
                    continue;
                }
                for (from, to) in ways {
                    match to {
                        Some(to) => yes.push(format!("{transport} {from} => {to}")),
                        None => no.push(format!("{transport} {from}")),
                    }
                }
            }
            let (ways, never) = (yes.join(", "), never.join(", "));
            let line = format!("leads!({attr}: {ways}; never {never});\n");
            out.push_str(&line.replace("never )", "never)"));
            list(out, "leads_nowhere", attr, no.into_iter());
        }
    }
}

/// `assertion!(row: a, b)`, no longer than a line of this project.
fn list(out: &mut String, assertion: &str, row: &str, items: impl Iterator<Item = String>) {
    let items: Vec<_> = items.collect();
    let line = format!("{assertion}!({row}: {});", items.join(", "));
    if items.is_empty() {
    } else if line.len() <= 100 {
        writeln!(out, "{line}").expect("a String");
    } else {
        for some in items.chunks(7) {
            writeln!(out, "{assertion}!({row}: {});", some.join(", ")).expect("a String");
        }
    }
}

impl Tables {
    pub fn read(root: &Path) -> Result<Tables> {
        let path = root.join("rules/table.toml");
        let text = std::fs::read_to_string(&path).context("rules/table.toml")?;
        let tables: Tables = toml::from_str(&text).context("rules/table.toml")?;
        for table in &tables.table {
            for cells in &table.rows {
                ensure!(!cells.is_empty(), "table {}: a row without a name", table.name);
                let known = |cell| table.columns.contains(cell);
                let unknown = cells[1..].iter().find(|cell| !known(cell));
                ensure!(unknown.is_none(), "table {}: no column {unknown:?}", table.name);
            }
        }
        Ok(tables)
    }

    pub fn all(&self) -> impl Iterator<Item = &Table> {
        self.table.iter()
    }

    pub fn get(&self, name: &str) -> Result<&Table> {
        let found = self.table.iter().find(|table| table.name == name);
        found.with_context(|| format!("rules/table.toml has no table `{name}`"))
    }

    /// The tables that prove something of `rule`; for proofs of the form `table:name`.
    pub fn rules_of(&self, name: &str) -> Option<&[String]> {
        match name {
            "transition" => Some(&self.transition.rules),
            _ => self.get(name).ok().map(|table| &table.rules[..]),
        }
    }

    /// The text of `tests/truth_table.rs`.
    pub fn test(&self) -> Result<String> {
        let mut out = String::from(include_str!("truth_table.in"));
        for table in &self.table {
            table.assertions(&mut out);
        }
        self.transition.assertions(&mut out);
        self.product(&mut out)?;
        Ok(out)
    }

    /// Every work request on every queue pair: one line an opcode and transport, one
    /// number an initiator depth, one bit an address, fence, signaling and mark.
    fn product(&self, out: &mut String) -> Result<()> {
        let [opcode, issued] = [self.get("opcode")?, self.get("initiator")?];
        let (address, fence) = (self.get("address")?, self.get("fence")?);
        let (signaled, posting) = (self.get("signaled")?, self.get("state")?);
        let receive = self.get("receive")?;
        out.push_str(include_str!("sends.in"));
        for op in opcode.rows() {
            for transport in TRANSPORTS {
                let columns = ["Reads", "NoReads"].map(|initiator| {
                    let mut groups = Vec::new();
                    for a in address.rows() {
                        for f in fence.rows() {
                            let legal = opcode.holds(op, transport)
                                && issued.holds(op, initiator)
                                && address.holds(a, transport)
                                && fence.holds(f, transport);
                            let marks = signaled.columns.iter().flat_map(|m| {
                                signaled.rows().map(move |g| legal && signaled.holds(g, m))
                            });
                            groups.push(marks.map(|yes| if yes { '1' } else { '0' }).collect());
                        }
                    }
                    let groups: Vec<String> = groups;
                    format!("0b{}", groups.join("_"))
                });
                // The one destination that is right there, or any.
                let mut right = address.rows().filter(|a| address.holds(a, transport));
                let address = right.next().context("no destination is right")?;
                let legal = opcode.holds(op, transport);
                let states = bits(|state| legal && posting.holds(state, "CanPostSend"));
                let columns = columns.join(", ");
                writeln!(out, "sends!({op} {address} on {transport}: {columns}, {states});")?;
            }
        }
        writeln!(
            out,
            "// What `post_recv` takes, by state: from a queue of its own, from a shared one, and from none."
        )?;
        for transport in TRANSPORTS {
            let columns = ["OwnRq", "SharedRq", "NoRq"].map(|source| {
                let own = receive.holds(source, "HasRecvQueue");
                bits(|state| own && posting.holds(state, "CanPostRecv"))
            });
            writeln!(out, "receives!({transport}: {});", columns.join(", "))?;
        }
        Ok(())
    }
}

/// One bit a state, from RESET to ERR.
fn bits(holds: impl Fn(&str) -> bool) -> String {
    let bits = STATES.iter().map(|state| if holds(state) { '1' } else { '0' });
    format!("0b{}", bits.collect::<String>())
}
