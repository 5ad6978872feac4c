//! What a job cost when it last ran, as far as somebody remembers. Does not know who does, nor where it is kept.

/// What one run of a job took of the machine.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct Cost {
    /// From its start to its end, in milliseconds.
    pub wall_ms: u32,
    /// Of processors, user and system, in milliseconds.
    pub cpu_ms: u32,
    /// The most that its processes held at once, in KiB; 0 if it was not measured.
    pub memory_kib: u32,
}

/// Who remembers: asked for the path of an output, says what the job that made it cost when it last ran.
pub type Past<'p> = &'p dyn Fn(&[u8]) -> Option<Cost>;
