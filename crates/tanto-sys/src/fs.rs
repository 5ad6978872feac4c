//! Files, directories and file systems.

pub mod change_boundary;
pub mod dir;
pub mod dir_tree;
pub mod file;
pub mod file_stamp;
pub mod fingerprint;
mod fs_kind;
pub mod inotify;
pub mod lock;
pub mod mounts;
pub mod new_file;
pub mod page_cache;
pub mod private_files;
pub mod spool;
pub mod stat;
pub mod state_dir;
