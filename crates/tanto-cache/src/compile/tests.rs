//! Tests of reading compiles.
