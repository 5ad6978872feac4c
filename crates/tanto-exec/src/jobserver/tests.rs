//! Tests of the jobserver client: what MAKEFLAGS says, and pools of tokens.

use super::*;
use crate::testing::named_pipe;
use std::io::{Read, Write};
use std::os::unix::ffi::OsStrExt;
use tanto_testing::Scratch;

fn parsed(makeflags: &str) -> Result<Address, String> {
    parse(makeflags.as_bytes()).map_err(|why| String::from_utf8(why.message()).unwrap())
}

fn fifo(path: &str) -> Result<Address, String> {
    Ok(Address::Fifo(path.into()))
}

const SEMAPHORE: &str = "Semaphore mode is not supported on Posix!";

#[test]
fn makeflags_without_a_jobserver() {
    for none in ["", " ", "ks", " -j3", "ks -j", "--jobserver", "--jobserver-auth", " --no-print-directory"] {
        assert_eq!(parsed(none), Ok(Address::None), "{none}");
    }
}

#[test]
fn pipes_and_fifos_are_found() {
    assert_eq!(parsed(" -j3 --jobserver-auth=3,4"), Ok(Address::Pipe(3, 4)));
    assert_eq!(parsed("--jobserver-fds=5,6"), Ok(Address::Pipe(5, 6)));
    assert_eq!(parsed("ks\t--jobserver-auth=fifo:/a/b"), fifo("/a/b"));
    assert_eq!(parsed("--jobserver-auth=fifo:"), fifo(""));
}

#[test]
fn the_last_jobserver_option_wins() {
    assert_eq!(parsed("--jobserver-auth=fifo:a --jobserver-auth=fifo:b"), fifo("b"));
    assert_eq!(parsed("-j --jobserver-fds=1,2 --jobserver-auth=fifo:b"), fifo("b"));
    assert_eq!(parsed("--jobserver-auth=fifo:a --jobserver-auth=-1,-1"), Ok(Address::None));
    assert_eq!(parsed("--jobserver-auth=sem --jobserver-auth=3,4"), Ok(Address::Pipe(3, 4)));
    assert_eq!(parsed("--jobserver-auth=3,4 --jobserver-auth=sem"), Err(SEMAPHORE.into()));
}

#[test]
fn negative_descriptors_mean_no_jobserver() {
    for none in ["--jobserver-auth=-2,-2", "--jobserver-auth=3,-1", "--jobserver-auth=-1,3"] {
        assert_eq!(parsed(none), Ok(Address::None), "{none}");
    }
    assert_eq!(parsed("--jobserver-fds=-2,-3"), Ok(Address::Pipe(-2, -3)));
}

#[test]
fn a_dry_run_of_make_has_no_jobserver() {
    assert_eq!(parsed("kn --jobserver-auth=3,4"), Ok(Address::None));
    assert_eq!(parsed("n --jobserver-auth=sem"), Ok(Address::None));
    assert_eq!(parsed(" -n --jobserver-auth=3,4"), Ok(Address::Pipe(3, 4)));
    assert_eq!(parsed("ks n --jobserver-auth=3,4"), Ok(Address::Pipe(3, 4)));
}

#[test]
fn numbers_are_parsed_like_c() {
    assert_eq!(parsed("--jobserver-auth=+1,02x"), Ok(Address::Pipe(1, 2)));
    assert_eq!(parsed("--jobserver-auth=0,99999999999"), Ok(Address::Pipe(0, 1_215_752_191)));
    assert_eq!(parsed("--jobserver-auth=0,99999999999999999999"), Ok(Address::None));
    for bad in ["1", "1,", ",1", "a,b", "1;2", "-,1", ""] {
        assert_eq!(parsed(&format!("--jobserver-auth={bad}")), Err(SEMAPHORE.into()), "{bad}");
        let invalid = format!("Invalid file descriptor pair [{bad}]");
        assert_eq!(parsed(&format!("--jobserver-fds={bad}")), Err(invalid));
    }
}

/// Level, whether only with the status, and text of each notice.
fn messages(connection: &Connection) -> Vec<(Level, bool, String)> {
    let text = |notice: &Notice| String::from_utf8(notice.text.clone()).unwrap();
    connection.notices.iter().map(|n| (n.level, n.with_status, text(n))).collect()
}

#[test]
fn no_jobserver_gives_no_warning() {
    for makeflags in [None, Some(&b""[..]), Some(b"ks -j3"), Some(b"--jobserver-auth=-1,-1")] {
        let connection = connect(makeflags);
        assert!(connection.client.is_none() && connection.notices.is_empty());
    }
}

#[test]
fn unusable_jobservers_are_reported() {
    let connection = connect(Some(b" --jobserver-auth=foo"));
    let text = format!("Ignoring jobserver: {SEMAPHORE} [ --jobserver-auth=foo]");
    assert_eq!(messages(&connection), [(Level::Warning, false, text)]);

    for (path, why) in [
        ("", "Empty fifo path"),
        ("/none", "Error opening fifo for reading: No such file or directory"),
        ("/dev/null", "Not a fifo path: /dev/null"),
    ] {
        let connection = connect(Some(format!("--jobserver-auth=fifo:{path}").as_bytes()));
        assert!(connection.client.is_none());
        let (level, with_status, text) = messages(&connection).pop().unwrap();
        assert_eq!(text, format!("Could not initialize jobserver: {why}"));
        assert_eq!((level, with_status), (Level::Error, false));
    }
}

#[test]
fn a_pipe_is_warned_about() {
    let connection = connect(Some(b"--jobserver-auth=1000000,1000001"));
    let info = "Jobserver mode detected: --jobserver-auth=1000000,1000001";
    let error = "Could not initialize jobserver: Invalid file descriptors";
    let warning = String::from_utf8(PIPE_WARNING.to_vec()).unwrap();
    let expected = [
        (Level::Info, true, info.to_owned()),
        (Level::Warning, true, warning),
        (Level::Error, false, error.to_owned()),
    ];
    assert_eq!(messages(&connection), expected);
}

#[test]
fn fifo_tokens_are_taken_and_returned() {
    let dir = Scratch::new("jobserver-fifo");
    let path = named_pipe(&dir, "fifo");
    let pool = TokenPipe::open(&path).unwrap();
    pool.put(b'a').unwrap();
    pool.put(b'b').unwrap();
    let makeflags = [b"-j --jobserver-auth=fifo:", path.as_os_str().as_bytes()].concat();
    let mut client = connect(Some(&makeflags)).client.unwrap();
    let slots: Vec<Slot> = std::iter::from_fn(|| client.acquire()).collect();
    assert_eq!((slots.len(), pool.count().unwrap()), (3, 0));
    slots.into_iter().rev().for_each(|slot| client.release(slot));
    assert!(client.acquire().is_some());
    assert_eq!(pool.take().unwrap(), Some(b'b'));
}

#[test]
fn pipe_tokens_are_taken_and_returned() {
    let (mut reader, mut writer) = std::io::pipe().unwrap();
    writer.write_all(b"x").unwrap();
    let makeflags = format!("--jobserver-auth={},{}", reader.as_raw_fd(), writer.as_raw_fd());
    let mut client = connect(Some(makeflags.as_bytes())).client.unwrap();
    let first = client.acquire().unwrap();
    client.acquire().unwrap();
    assert_eq!(client.acquire(), None);
    // Tanto's own slot is returned last, whichever command ends first: nobody else can use it.
    client.release(first);
    let mut byte = [0];
    reader.read_exact(&mut byte).unwrap();
    assert_eq!(&byte, b"x");
}

#[test]
fn the_implicit_slot_outlives_the_pool() {
    let dir = Scratch::new("jobserver-gone");
    let mut client =
        Client::open(&Address::Fifo(named_pipe(&dir, "fifo").into_os_string().into_encoded_bytes())).unwrap();
    drop(dir);
    let own = client.acquire().unwrap();
    assert_eq!(client.acquire(), None);
    client.release(own);
    assert!(client.acquire().is_some());
}

/// Takes tokens without giving them back.
fn lose(server: &Server, count: usize) {
    let pool = server.client().tokens.count().unwrap();
    (0..count).for_each(|_| assert!(server.client().tokens.take().unwrap().is_some()));
    assert_eq!(server.client().tokens.count().unwrap(), pool - count);
}

#[test]
fn a_server_has_the_given_number_of_slots() {
    let dir = Scratch::new("jobserver-server");
    for server in [Server::pipe(3).unwrap(), Server::fifo(3, &dir.at("slots")).unwrap()] {
        let flags = server.makeflags(b"k");
        assert!(flags.starts_with(b"k -j3 --jobserver-auth="), "{flags:?}");
        let mut other = Client::open(&parse(&flags).unwrap()).unwrap();
        let mut share = Jobserver::Server(server);
        let ours = [share.acquire(0).unwrap(), share.acquire(0).unwrap()];
        let theirs = [other.acquire().unwrap(), other.acquire().unwrap()];
        assert_eq!((share.acquire(0), other.acquire()), (None, None));
        ours.into_iter().for_each(|slot| share.release(slot));
        theirs.into_iter().for_each(|slot| other.release(slot));
        assert_eq!(other.tokens.count().unwrap(), 2);
    }
    assert!(!dir.at("slots").exists());
}

#[test]
fn lost_tokens_are_restored_and_extra_ones_removed() {
    let server = Server::pipe(4).unwrap();
    lose(&server, 2);
    server.restore_tokens();
    assert_eq!(server.client().tokens.count().unwrap(), 3);
    server.client().tokens.put(b'+').unwrap();
    server.restore_tokens();
    assert_eq!(server.client().tokens.count().unwrap(), 3);
    let alone = Server::pipe(1).unwrap();
    alone.restore_tokens();
    assert_eq!(alone.client().tokens.count().unwrap(), 0);
}

#[test]
fn a_fifo_is_private_and_replaces_no_file() {
    use std::os::unix::fs::MetadataExt;
    let dir = Scratch::new("jobserver-mode");
    let server = Server::fifo(2, &dir.at("slots")).unwrap();
    assert_eq!(std::fs::metadata(dir.at("slots")).unwrap().mode() & 0o777, 0o600);
    assert_eq!(server.descriptors(), None);
    dir.write("file", "");
    assert!(Server::fifo(2, &dir.at("file")).unwrap_err().message().starts_with(b"mkfifo "));
}
