//! `cargo xtask lines --extensions`: the number of core files that name each extension.

/// The extensions. Each name of an extension contains one of its words. Its own files are in its
/// folder of `src/ext`.
pub const ALL: [(&str, &str); 11] = [
    ("windows", "indow Mw mw_ _mw MW WithInv LocalInv _INV nvalidat Revocable"),
    ("xrc", "xrc Xrc XRC ToSrq"),
    ("srd", "srd Srd SRD"),
    ("extended-polling", "Extended Ex< _ex( HasField"),
    ("extended-posting", "ExtendedPosting Session session"),
    ("on-demand", "on_demand OnDemand odp Odp mplicit paged Paged"),
    ("persistence", "Flush FLUSH_ atomic_write AtomicWrite ATOMIC_WRITE"),
    ("device-memory", "DeviceMemory _dm dmabuf DmaBuf"),
    ("path-migration", "alt_ AltPath igrat"),
    ("af-ib", "ib_addr IbAddr"),
    ("tuning", "tuning oderation RateLimit rate_limit Ece pacing Pacing"),
];

/// Excluded files: re-exports, and tables of opcodes, flags and errors, which have a row for each
/// extension.
const APART: &str = "lib.rs prelude.rs ext/mod.rs device/attr_ex.rs rules/mod.rs work/flags.rs \
                     work/opcode/mod.rs work/fault.rs work/wc_opcode.rs";

fn names(text: &str, words: &str) -> bool {
    words.split(' ').any(|word| text.contains(word))
}

/// Prints the number of files of each extension, or the files of the named one.
pub fn print(core: &[&(&str, Vec<String>)], only: Option<&str>) {
    let is_apart = |file: &str| APART.split(' ').any(|apart| file == format!("src/{apart}"));
    for (extension, words) in ALL.iter().filter(|it| only.is_none_or(|only| it.0 == only)) {
        // Texts, such as diagnostics, do not count.
        let is_named = |line: &&String| line.split('"').next().is_some_and(|it| names(it, words));
        let own = format!("src/ext/{}/", extension.replace('-', "_"));
        let files = core.iter().filter(|(file, _)| !is_apart(file) && !file.starts_with(&own));
        let counts = files.map(|(file, lines)| (file, lines.iter().filter(is_named).count()));
        let found: Vec<_> = counts.filter(|(_, count)| *count > 0).collect();
        println!("{:>7}  {extension}", found.len());
        for (file, count) in found.iter().filter(|_| only.is_some()) {
            println!("{count:>7}    {file}");
        }
    }
}
