//! The parts of `src/terms` that the inbox uses.

pub mod error {
    //! Errors, as the inbox creates them.

    #[allow(dead_code)] // the text is not read
    #[derive(Debug)]
    pub enum ErrorKind {
        CqTooSmall { asked: u32, free: u32, enough: u32 },
        CqGone,
        CqFull { asked: u32, free: u32 },
        Booked { asked: u32, booked: u32 },
    }

    #[derive(Debug)]
    pub struct Error;

    impl Error {
        pub fn new(_: &str, _: ErrorKind) -> Self {
            Error
        }

        pub fn at_most(_: &str, _: &str, asked: u32, max: u32) -> Result<(), Self> {
            if asked > max { Err(Error) } else { Ok(()) }
        }
    }
}
