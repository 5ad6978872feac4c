//! Plain old data: types for which every byte pattern is a value, without padding.
//!
//! The traits are `bytemuck`'s. Its derive macros cannot be used: static toolchains do not build procedural macros.

pub use bytemuck::{Pod, Zeroable};

/// Defines structs that are plain old data, with the fields in the given order. Padding between fields is refused. A
/// struct has named fields or one unnamed field.
///
/// ```
/// tanto_sys::pod! {
///     #[derive(Debug)]
///     pub struct Span {
///         pub start: u32,
///         pub length: u32,
///     }
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
            assert!(size_of::<$name>() == 0 $(+ plain::<$kind>())+, "padding between the fields of a pod struct");
        };
        // SAFETY: each field is `Pod`, which the function above requires.
        unsafe impl $crate::bytes::pod::Zeroable for $name {}
        // SAFETY: each field is `Pod`, and the sizes add up, so there is no padding. `repr` fixes the order of the
        // fields, and there are no type parameters.
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
