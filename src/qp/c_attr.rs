//! The structs of the attributes of transitions, which set them in their C form.

pub(crate) use crate::sys::attr::transition::{Attr, Fill};

/// A struct of [`attributes`]. Seals the transitions: other crates can implement [`Fill`], but they
/// cannot name this trait.
pub trait OwnAttributes: Fill {}

/// Structs of attributes. Each field is set by the method of [`Attr`] with its name; `: Default` is
/// for structs whose fields are all optional. (`derive` would compare `RcRts<P>` only if `P`
/// implements the comparison.)
macro_rules! attributes {
    ($(
        $(#[$meta:meta])*
        pub struct $name:ident $(<$p:ident>)? $(: $default:ident)? {
            $($(#[$doc:meta])* pub $field:ident: $t:ty $(= $usual:expr)?,)*
        } $(new { $(#[$new:meta])* })?
    )*) => {$(
        $(#[$meta])*
        #[derive(Debug)]
        pub struct $name $(<$p: Profile = crate::DefaultProfile>)? {
            $($(#[$doc])* pub $field: $t,)*
        }

        impl $(<$p: Profile>)? Fill for $name $(<$p>)? {
            fn fill(&self, attr: &mut Attr) {
                $(attr.$field(self.$field);)*
            }
        }

        impl $(<$p: Profile>)? $crate::qp::c_attr::OwnAttributes for $name $(<$p>)? {}

        by_fields!($name $(<$p: Profile>)?: $($field),*);
        attributes! { @default $($default)? $name [$($p)?] $($field)* }
        attributes! {
            @new $([$(#[$new])*])? $name [$($p)?] [] [] $($field: $t $(= $usual)?,)*
        }
    )*};
    (@default $name:ident [$($p:ident)?] $($field:ident)*) => {};
    (@default Default $name:ident [$($p:ident)?] $($field:ident)*) => {
        impl $(<$p: Profile>)? Default for $name $(<$p>)? {
            fn default() -> Self {
                $name { $($field: Default::default(),)* }
            }
        }
    };
    (@new $name:ident $($rest:tt)*) => {};
    (@new [$($new:tt)*] $name:ident [$($p:ident)?]
        [$($arg:ident: $t:ty,)*] [$($field:ident: $usual:expr,)*]
    ) => {
        impl $(<$p: Profile>)? $name $(<$p>)? {
            $($new)*
            pub fn new($($arg: $t),*) -> Self {
                $name { $($arg,)* $($field: $usual,)* }
            }
        }
    };
    (@new $new:tt $name:ident $p:tt [$($args:tt)*] $usual:tt
        $arg:ident: $t:ty, $($rest:tt)*
    ) => {
        attributes! { @new $new $name $p [$($args)* $arg: $t,] $usual $($rest)* }
    };
    (@new $new:tt $name:ident $p:tt $args:tt [$($usual:tt)*]
        $field:ident: $t:ty = $value:expr, $($rest:tt)*
    ) => {
        attributes! { @new $new $name $p $args [$($usual)* $field: $value,] $($rest)* }
    };
}

pub(crate) use attributes;
