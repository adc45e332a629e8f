// Compiled if no programs were generated.
pub const PROGRAMS: &[Program] = &[];
