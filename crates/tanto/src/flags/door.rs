//! The two doors of the program: ninja's name, and Tanto's own.

use tanto_ninja::load::NINJA_VERSION;

/// Under which name the program was called.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Door {
    /// As `ninja`: whatever a user or a program can notice is ninja's, unless asked for.
    Ninja,
    /// As `tanto`: the defaults are the best we know.
    Tanto,
}

impl Door {
    /// The door of `argv[0]`. Some distributions install ninja as `ninja-build`.
    pub fn of(program: &[u8]) -> Door {
        match program.rsplit(|&byte| byte == b'/').next() {
            Some(b"ninja" | b"ninja-build") => Door::Ninja,
            _ => Door::Tanto,
        }
    }

    /// What stands before a message.
    pub fn name(self) -> &'static str {
        match self {
            Door::Ninja => "ninja",
            Door::Tanto => "tanto",
        }
    }

    /// What `--version` prints.
    pub fn version(self) -> &'static str {
        match self {
            Door::Ninja => NINJA_VERSION,
            Door::Tanto => concat!("tanto ", env!("CARGO_PKG_VERSION")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_name_is_the_door() {
        assert_eq!(Door::of(b"ninja"), Door::Ninja);
        assert_eq!(Door::of(b"/usr/bin/ninja"), Door::Ninja);
        assert_eq!(Door::of(b"./ninja-build"), Door::Ninja);
        for other in [&b"tanto"[..], b"/opt/ninja/tanto", b"ninja/", b"", b"xninja"] {
            assert_eq!(Door::of(other), Door::Tanto, "{other:?}");
        }
    }
}
