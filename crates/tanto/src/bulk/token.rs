//! `tanto bulk token`.

use std::io;
use std::path::Path;
use std::time::{Duration, SystemTime};

use tanto_bulk::config::Config;
use tanto_bulk::error::BulkError;
use tanto_exec::text::table::Table;
use tanto_protocol::{JoinFile, Role, Roles};
use tanto_serve::server_dir;
use tanto_serve::tokens::{self, NewSecret, TokenInfo, TokenKind};

use super::args::{ClientsArgs, TokenAddArgs, TokenCommand, TokenRevokeArgs};
use super::server::{ConfiguredServer, invalid};

/// How long the join file of one client works.
const JOINABLE: Duration = Duration::from_secs(7 * 86_400);

pub fn run(command: &TokenCommand) -> Result<String, BulkError> {
    match command {
        TokenCommand::Add(args) => add(args),
        TokenCommand::List(args) => list(args),
        TokenCommand::Revoke(args) => revoke(args),
    }
}

fn add(args: &TokenAddArgs) -> Result<String, BulkError> {
    let config = args.config.read()?;
    let server = ConfiguredServer::new(&config)?;
    server.prepare()?;
    let exists = args.output.try_exists().map_err(BulkError::io("writing ", &args.output))?;
    if exists {
        return Err(format!("{} exists already", args.output.display()).into());
    }
    let roles = if args.roles.is_empty() { tokens::default_roles() } else { Roles(args.roles.clone()) };
    let is_for_tree = roles.0 == [Role::Tree];
    let new = NewSecret {
        build: config.build_name.clone(),
        name: args.name.clone(),
        roles,
        pool: args.max_clients,
        joinable: if args.pool { args.expires } else { args.expires.min(JOINABLE) },
        lifetime: Some(args.expires),
    };
    let path = args.output.display();
    match args.plain {
        true => add_plain(&server, &new, &args.output).map(|()| format!("{path}: the token\n")),
        false => {
            add_join_file(&server, new, &args.output)?;
            let command = if is_for_tree { "push-tree --join FILE DIR" } else { "client --join FILE" };
            Ok(format!("{path}: copy it to the machine and run 'tanto bulk {command}' there\n"))
        }
    }
}

fn add_plain(server: &ConfiguredServer, new: &NewSecret, output: &Path) -> Result<(), BulkError> {
    let token = tokens::add_token(&server.dir, new).map_err(invalid)?;
    tokens::write_token_file(output, &token).map_err(|error| undo(server, &new.build, &token, output, error))
}

fn add_join_file(server: &ConfiguredServer, new: NewSecret, output: &Path) -> Result<(), BulkError> {
    let url = server.client_url()?;
    let authority = server_dir::trusted_authorities(&server.dir).map_err(invalid)?;
    let secret = tokens::add(&server.dir, &new).map_err(invalid)?;
    let join = JoinFile { url, build: new.build, name: new.name, secret, authority };
    let written = tokens::write_join_file(output, &join);
    written.map_err(|error| undo(server, &join.build, &join.secret, output, error))
}

/// Removes a secret that could not be written: nobody has it.
fn undo(server: &ConfiguredServer, build: &str, secret: &str, output: &Path, error: io::Error) -> BulkError {
    let id = secret.split('.').next().unwrap_or_default();
    match tokens::revoke(&server.dir, build, id) {
        Ok(_) => BulkError::io("writing ", output)(error),
        Err(error) => invalid(error),
    }
}

fn list(args: &ClientsArgs) -> Result<String, BulkError> {
    let config = args.config.read()?;
    let all = tokens::list(&config.server_dir()).map_err(invalid)?;
    let now = SystemTime::now();
    let rows = all.iter().filter(|token| token.build == config.build_name).map(|token| row(token, now));
    let head = ["name", "roles", "kind", "expires", "id"].map(str::to_owned);
    Ok(table(&[head].into_iter().chain(rows).collect::<Vec<_>>()))
}

fn row(token: &TokenInfo, now: SystemTime) -> [String; 5] {
    let kind = match token.kind {
        TokenKind::Client => "token".to_owned(),
        TokenKind::Join { joined, max_clients } => format!("join file, {joined} of {max_clients} joined"),
    };
    let expires = token.expires.map_or("never".to_owned(), |at| match at.duration_since(now) {
        Ok(left) if left.as_secs() >= 2 * 86_400 => format!("in {} days", (left.as_secs() + 43_200) / 86_400),
        Ok(left) => format!("in {} hours", left.as_secs().div_ceil(3_600)),
        Err(_) => "expired".to_owned(),
    });
    [token.name.clone(), token.roles.to_string(), kind, expires, token.id.clone()]
}

fn table(rows: &[[String; 5]]) -> String {
    let mut table = Table::new(&[]);
    rows.iter().for_each(|row| table.row(row.each_ref().map(String::as_bytes)));
    String::from_utf8_lossy(&table.text()).into_owned()
}

fn revoke(args: &TokenRevokeArgs) -> Result<String, BulkError> {
    let config = args.config.read()?;
    let removed = tokens::revoke(&config.server_dir(), &config.build_name, &args.name).map_err(invalid)?;
    Ok(revoked(&removed))
}

/// Revokes the token of one client and its join file, if there are any. Returns a line for each. The join file of a pool
/// stays.
pub fn revoke_client(config: &Config, name: &str) -> Result<String, BulkError> {
    let dir = config.server_dir();
    let is_client = |kind| !matches!(kind, TokenKind::Join { max_clients, .. } if max_clients > 1);
    let all = tokens::list(&dir).map_err(invalid)?;
    let is_it = |token: &&TokenInfo| token.build == config.build_name && token.name == name && is_client(token.kind);
    match all.iter().find(is_it) {
        None => Ok(String::new()),
        Some(token) => tokens::revoke(&dir, &token.build, name).map(|removed| revoked(&removed)).map_err(invalid),
    }
}

fn revoked(removed: &[TokenInfo]) -> String {
    removed.iter().map(|token| format!("revoked {} of {}\n", token.id, token.name)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::UNIX_EPOCH;

    #[test]
    fn tokens_are_listed_in_columns() {
        let token = |name: &str, kind, expires| TokenInfo {
            id: "0123456789ab".into(),
            build: "b".into(),
            name: name.into(),
            roles: tokens::default_roles(),
            created: UNIX_EPOCH,
            expires,
            kind,
        };
        let at = |seconds| Some(UNIX_EPOCH + Duration::from_secs(seconds));
        let rows = [
            row(&token("a", TokenKind::Client, at(90 * 86_400 - 5)), UNIX_EPOCH),
            row(&token("long", TokenKind::Join { joined: 1, max_clients: 2 }, at(3_601)), UNIX_EPOCH),
            row(&token("c", TokenKind::Client, None), UNIX_EPOCH),
            row(&token("d", TokenKind::Client, at(5)), UNIX_EPOCH + Duration::from_secs(6)),
        ];
        let expected = "a     build  token                     in 90 days  0123456789ab\n\
                        long  build  join file, 1 of 2 joined  in 2 hours  0123456789ab\n\
                        c     build  token                     never       0123456789ab\n\
                        d     build  token                     expired     0123456789ab\n";
        assert_eq!(table(&rows), expected);
    }
}
