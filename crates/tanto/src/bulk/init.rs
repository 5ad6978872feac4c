//! `tanto bulk init`: writes the configuration that a user begins with. Does not know what it means.

use std::io::Write;
use std::path::Path;

use tanto_bulk::config::Config;

use super::files::failed;
use super::place::CONFIG;
use crate::flags::door::Door;
use crate::flags::stop::Stop;

/// Writes the file, if there is none. What it prints says where.
pub(crate) fn run(dir: &Path) -> Stop {
    let path = dir.join(CONFIG);
    let name = path.as_os_str().as_encoded_bytes();
    let make = || {
        std::fs::create_dir_all(dir)?;
        std::fs::File::create_new(&path)?.write_all(Config::default().text().as_bytes())
    };
    match make() {
        Ok(()) => Stop::printed([name, b": say in it where the tree is; then 'tanto bulk scan'\n"].concat(), 0),
        Err(error) => Stop::failed(Door::Tanto, "error", &failed("writing ", name, &error)),
    }
}
