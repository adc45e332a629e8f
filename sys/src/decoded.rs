//! Structs and enums that are decoded from C's.

/// A struct, and the function that makes it from C's: each field names its source.
macro_rules! decoded {
    (
        $(#[$meta:meta])*
        pub struct $name:ident = $from:ident($($arg:ident: $c:ty),*) {
            $($(#[$doc:meta])* pub $field:ident: $t:ty = $value:expr,)*
        }
    ) => {
        $(#[$meta])*
        pub struct $name {
            $($(#[$doc])* pub $field: $t,)*
        }

        impl $name {
            #[doc(hidden)]
            pub fn $from($($arg: $c),*) -> Self {
                $name { $($field: $value,)* }
            }
        }
    };
}

/// An enum, the C constant for each of its variants, and the variant for other C values.
macro_rules! decoded_enum {
    (
        $(#[$meta:meta])*
        pub enum $name:ident: $c:ty, else $other:ident {
            $($(#[$doc:meta])* $variant:ident = $value:pat,)*
        }
    ) => {
        $(#[$meta])*
        pub enum $name {
            $($(#[$doc])* $variant,)*
        }

        impl $name {
            #[doc(hidden)]
            pub fn from_c(c: $c) -> Self {
                match c {
                    $($value => $name::$variant,)*
                    _ => $name::$other,
                }
            }
        }
    };
}
