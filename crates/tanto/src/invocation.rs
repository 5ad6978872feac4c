//! The names by which the program is called.

use tanto_ninja::load::NINJA_VERSION;

/// The name by which the program was called.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Invocation {
    /// Behaves as ninja unless an option asks for more.
    Ninja,
    /// Has Tanto's own defaults.
    Tanto,
}

impl Invocation {
    /// Returns the invocation for `argv[0]`. Some distributions install ninja as `ninja-build`.
    pub fn of(program: &[u8]) -> Invocation {
        match program.rsplit(|&byte| byte == b'/').next() {
            Some(b"ninja" | b"ninja-build") => Invocation::Ninja,
            _ => Invocation::Tanto,
        }
    }

    /// The prefix of messages.
    pub fn name(self) -> &'static str {
        match self {
            Invocation::Ninja => "ninja",
            Invocation::Tanto => "tanto",
        }
    }

    /// The output of `--version`.
    pub fn version(self) -> &'static str {
        match self {
            Invocation::Ninja => NINJA_VERSION,
            Invocation::Tanto => concat!("tanto ", env!("CARGO_PKG_VERSION")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn name_decides() {
        assert_eq!(Invocation::of(b"ninja"), Invocation::Ninja);
        assert_eq!(Invocation::of(b"/usr/bin/ninja"), Invocation::Ninja);
        assert_eq!(Invocation::of(b"./ninja-build"), Invocation::Ninja);
        for other in [&b"tanto"[..], b"/opt/ninja/tanto", b"ninja/", b"", b"xninja"] {
            assert_eq!(Invocation::of(other), Invocation::Tanto, "{other:?}");
        }
    }
}
