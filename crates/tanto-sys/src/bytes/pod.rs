//! Types that are nothing but their bytes: any bytes of their size are a value, and none is left out. Does not know
//! what they are for.
//!
//! `bytemuck` has the traits. Its derive macros cannot be used: a compiler for static programs builds none.

pub use bytemuck::{Pod, Zeroable};

/// Makes structs of plain fields plain themselves, with the fields in memory as they are written. Gaps between fields
/// are refused. A struct may have named fields, or one without a name.
///
/// ```
/// tanto_sys::pod! {
///     /// A place.
///     #[derive(Debug)]
///     pub struct Span {
///         /// The first byte.
///         pub at: u32,
///         /// How many bytes.
///         pub length: u32,
///     }
///     /// A number.
///     pub struct Number(pub u32);
/// }
/// ```
///
/// ```compile_fail
/// tanto_sys::pod! {
///     struct Gap {
///         long: u64,
///         short: u32,
///     }
/// }
/// ```
///
/// ```compile_fail
/// tanto_sys::pod! {
///     struct Flag(bool);
/// }
/// ```
#[macro_export]
macro_rules! pod {
    () => {};
    (
        $(#[$about:meta])* $seen:vis struct $name:ident {
            $($(#[$field_about:meta])* $field_seen:vis $field:ident: $kind:ty),+ $(,)?
        }
        $($rest:tt)*
    ) => {
        $(#[$about])*
        #[derive(Clone, Copy)]
        #[repr(C)]
        $seen struct $name { $($(#[$field_about])* $field_seen $field: $kind),+ }
        $crate::pod!(@is $name: $($kind),+);
        $crate::pod!($($rest)*);
    };
    (
        $(#[$about:meta])* $seen:vis struct $name:ident($(#[$field_about:meta])* $field_seen:vis $kind:ty);
        $($rest:tt)*
    ) => {
        $(#[$about])*
        #[derive(Clone, Copy)]
        #[repr(transparent)]
        $seen struct $name($(#[$field_about])* $field_seen $kind);
        $crate::pod!(@is $name: $kind);
        $crate::pod!($($rest)*);
    };
    (@is $name:ident: $($kind:ty),+) => {
        const _: () = {
            const fn plain<T: $crate::bytes::pod::Pod>() -> usize {
                size_of::<T>()
            }
            assert!(size_of::<$name>() == 0 $(+ plain::<$kind>())+, "a plain struct has no gaps between its fields");
        };
        // SAFETY: each field is plain, which the function above asks for.
        unsafe impl $crate::bytes::pod::Zeroable for $name {}
        // SAFETY: each field is plain, as above, and there is nothing between them: the sizes add up. The order of the
        // fields is fixed by `repr`, and there are no type parameters.
        unsafe impl $crate::bytes::pod::Pod for $name {}
    };
}

#[cfg(test)]
mod tests {
    pod! {
        struct Pair {
            left: u16,
            right: Number,
        }
        #[derive(PartialEq, Debug)]
        struct Number(u16);
    }

    #[test]
    fn a_struct_is_its_bytes() {
        let pairs: &[Pair] = bytemuck::cast_slice(&[1_u16, 2, 3, 4]);
        assert_eq!((pairs.len(), pairs[1].left, pairs[1].right), (2, 3, Number(4)));
    }
}
