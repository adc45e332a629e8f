// What is compiled when nothing was generated.
pub const PROGRAMS: &[Program] = &[];
