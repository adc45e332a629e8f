//! `src/terms`, what of it the inbox names.

pub mod error {
    //! Errors, as the inbox makes them.

    #[allow(dead_code)] // nobody reads what it says
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
