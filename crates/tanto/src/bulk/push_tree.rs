//! `tanto bulk push-tree`: uploads a package tree for a build.

use std::fs;
use std::path::Path;

use tanto_bulk::error::BulkError;
use tanto_exec::text::units::ByteSize;
use tanto_serve::client::push::{Push, push_tree};
use tanto_serve::client::{Connection, membership};
use tanto_serve::tokens;
use tanto_sys::fs::private_files;

use super::args::PushTreeArgs;
use super::client::client_dir;
use super::server::invalid;

/// Returns a line about the tree.
pub fn run(args: &PushTreeArgs) -> Result<String, BulkError> {
    let join = tokens::read_join_file(&args.join).map_err(BulkError::io("reading ", &args.join))?;
    if !args.tree.join("mk").is_dir() {
        return Err(format!("{}: not a package tree: it has no directory 'mk'", args.tree.display()).into());
    }
    let state = client_dir(args.dir.as_deref(), &join.name)?.join("state");
    create(&state)?;
    let member = membership::member(&join, &state).map_err(invalid)?;
    let connection = Connection::lasting(&join, &member.token, &state).map_err(invalid)?;
    let Push { manifest, files, uploaded, bytes } = push_tree(&connection, &args.tree, &state).map_err(invalid)?;
    let size = ByteSize(bytes);
    Ok(format!(
        "pushed tree {manifest} to {} (build {}): {uploaded} of {files} files uploaded, {size}\n",
        join.url, join.build
    ))
}

fn create(dir: &Path) -> Result<(), BulkError> {
    let failed = |error| BulkError::io("opening ", dir)(error);
    fs::create_dir_all(dir.parent().unwrap_or(dir)).map_err(failed)?;
    private_files::create_dir(dir).map(drop).map_err(failed)
}
