//! Enums whose variants have words that users see and write: variant and word are stated once.

/// Makes the enum, `ALL` (its variants in order), and `word`.
macro_rules! words {
    ($(#[$outer:meta])* pub enum $name:ident { $($(#[$inner:meta])* $variant:ident = $word:literal,)+ }) => {
        $(#[$outer])*
        pub enum $name {
            $($(#[$inner])* $variant,)+
        }

        impl $name {
            /// All, in order.
            pub const ALL: [$name; [$($word),+].len()] = [$($name::$variant),+];

            /// The word that users see and write.
            pub fn word(self) -> &'static str {
                match self {
                    $($name::$variant => $word,)+
                }
            }
        }
    };
}

pub(crate) use words;
