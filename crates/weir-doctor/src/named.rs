//! Enums whose values have stable names.

/// Makes an enum from its values, each beside its name: `ALL` of them in this order, and `name`.
macro_rules! named {
    (
        $(#[$of_all:meta])*
        pub enum $all:ident { $($(#[$of_one:meta])* $one:ident = $name:literal,)+ }
    ) => {
        $(#[$of_all])*
        pub enum $all { $($(#[$of_one])* $one,)+ }

        impl $all {
            /// All of them.
            pub const ALL: [$all; [$($name),+].len()] = [$($all::$one),+];

            /// The stable name used in JSON.
            pub fn name(self) -> &'static str {
                match self { $($all::$one => $name,)+ }
            }
        }
    };
}

pub(crate) use named;
