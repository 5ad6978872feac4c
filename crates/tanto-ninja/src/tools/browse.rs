//! `-t browse`: a small web server with a page for each target. Each page runs `ninja -t query`, so that it reflects
//! the current manifest.

mod page;

use std::ffi::OsStr;
use std::io::{self, Read, Write};
use std::net::{TcpListener, TcpStream, ToSocketAddrs};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use super::{Context, Flags, Given, ToolError, ToolResult, both, letter, name};
use tanto_sys::error::text as text_of;

use crate::error::Error;

const FLAGS: Flags = Flags {
    known: &[
        both(b'h', "help"),
        both(b'p', "port").with_value(),
        both(b'a', "hostname").with_value(),
        letter(b'f').with_value(),
        name("no-browser"),
    ],
    usage: "\
usage: ninja -t browse [-h] [--port PORT] [--hostname HOSTNAME] [--no-browser] [initial_target]

positional arguments:
  initial_target        Initial target to show (default all)

options:
  -h, --help            show this help message and exit
  --port PORT, -p PORT  Port number to use (default 8000)
  --hostname HOSTNAME, -a HOSTNAME
                        Hostname to bind to (default localhost)
  --no-browser          Do not open a webbrowser on startup.
",
};

/// The maximum number of concurrent requests; more are refused.
const MAX_REQUESTS: usize = 32;
/// The maximum size of a request head in bytes.
const MAX_HEAD: u64 = 64 << 10;
/// The timeout for reading and writing.
const IO_TIMEOUT: Duration = Duration::from_secs(10);

/// The data used by all requests.
struct Server {
    manifest: Vec<u8>,
    initial: Vec<u8>,
}

pub(super) fn run(context: &mut Context<'_, '_>, args: &[Vec<u8>]) -> ToolResult {
    let parsed = FLAGS.parse(context, args)?;
    let [initial] = &parsed.operands[..] else {
        return match parsed.operands.len() {
            0 => serve(context, &parsed, b"all"),
            _ => Err(ToolError::Usage(FLAGS.usage)),
        };
    };
    serve(context, &parsed, initial)
}

/// Serves until the process is killed.
fn serve(context: &mut Context<'_, '_>, parsed: &Given, initial: &[u8]) -> ToolResult {
    let host = String::from_utf8_lossy(parsed.value("hostname").unwrap_or(b"localhost")).into_owned();
    let port = String::from_utf8_lossy(parsed.value("port").unwrap_or(b"8000")).into_owned();
    let port: u16 = port.parse().map_err(|_| Error::from(format!("invalid port '{port}'")))?;
    let failed =
        |error: io::Error| Error::new(&[format!("cannot listen on {host}:{port}: ").as_bytes(), &text_of(&error)]);
    let listener = listen(&host, port).map_err(failed)?;
    let port = listener.local_addr()?.port();
    writeln!(context.out, "Web server running on {host}:{port}, ctl-C to abort...")?;
    context.out.flush()?;
    writeln!(context.err, "Web server pid {}", std::process::id())?;
    if !parsed.has("no-browser") {
        open_browser(format!("http://{host}:{port}/"));
    }
    let server = Arc::new(Server { manifest: context.options.manifest.clone(), initial: initial.to_vec() });
    for connection in listener.incoming() {
        // On errors, such as too many open files, the browser can retry.
        if let Ok(connection) = connection
            && Arc::strong_count(&server) <= MAX_REQUESTS
        {
            let server = Arc::clone(&server);
            let _ = std::thread::Builder::new().spawn(move || server.answer(connection));
        }
    }
    Ok(0)
}

/// Like ninja's server, listens on IPv4 only, and on all addresses for an empty name.
fn listen(host: &str, port: u16) -> io::Result<TcpListener> {
    let host = if host.is_empty() { "0.0.0.0" } else { host };
    let addresses: Vec<_> = (host, port).to_socket_addrs()?.filter(|address| address.is_ipv4()).collect();
    TcpListener::bind(&addresses[..])
}

/// Runs in the background, since a browser may run in the terminal.
fn open_browser(url: String) {
    let browser = std::env::var_os("BROWSER").unwrap_or_else(|| "xdg-open".into());
    let _ = std::thread::Builder::new().spawn(move || Command::new(browser).arg(url).status());
}

impl Server {
    fn answer(&self, mut connection: TcpStream) {
        // The browser may have closed the connection.
        let _ = self.try_answer(&mut connection);
    }

    fn try_answer(&self, connection: &mut TcpStream) -> io::Result<()> {
        connection.set_read_timeout(Some(IO_TIMEOUT))?;
        connection.set_write_timeout(Some(IO_TIMEOUT))?;
        let head = read_head(connection)?;
        let response = match requested(&head) {
            None => response("404 Not Found", "", &page::message(b"not found")),
            Some(target) if target.is_empty() => {
                let mut url = b"/?".to_vec();
                page::percent_encode(&self.initial, &mut url);
                response("302 Found", &format!("Location: {}\r\n", String::from_utf8_lossy(&url)), b"")
            }
            Some(target) => response("200 OK", "", &self.page(&target)?),
        };
        connection.write_all(&response)
    }

    fn page(&self, target: &[u8]) -> io::Result<Vec<u8>> {
        let program = std::env::current_exe()?;
        let arguments = [b"-f", self.manifest.as_slice(), b"-t", b"query", target];
        let output =
            Command::new(program).arg0("ninja").args(arguments.map(OsStr::from_bytes)).stdin(Stdio::null()).output()?;
        Ok(if output.status.success() { page::target(&output.stdout) } else { page::message(&output.stderr) })
    }
}

/// Reads up to the empty line after the request head.
fn read_head(connection: &mut TcpStream) -> io::Result<Vec<u8>> {
    let mut head = Vec::new();
    let mut limited = connection.take(MAX_HEAD);
    let mut chunk = [0; 4096];
    while memchr::memmem::find(&head, b"\r\n\r\n").is_none() {
        match limited.read(&mut chunk)? {
            0 => return Err(io::ErrorKind::UnexpectedEof.into()),
            length => head.extend_from_slice(&chunk[..length]),
        }
    }
    Ok(head)
}

/// Returns the requested target, or an empty one for the first page. `None` for an unknown URL.
fn requested(head: &[u8]) -> Option<Vec<u8>> {
    let mut words = head.split(|byte| *byte == b' ');
    if words.next() != Some(b"GET") {
        return None;
    }
    match words.next()? {
        b"/" => Some(Vec::new()),
        [b'/', b'?', target @ ..] => Some(page::percent_decode(target)),
        _ => None,
    }
}

fn response(status: &str, headers: &str, body: &[u8]) -> Vec<u8> {
    let head = format!(
        "HTTP/1.1 {status}\r\n{headers}Content-Type: text/html; charset=utf-8\r\nContent-Length: {}\r\n\
         Connection: close\r\n\r\n",
        body.len()
    );
    [head.as_bytes(), body].concat()
}

#[cfg(test)]
mod tests {
    use super::requested;

    #[test]
    fn only_targets_and_the_first_page_are_served() {
        assert_eq!(requested(b"GET / HTTP/1.1\r\n\r\n"), Some(Vec::new()));
        assert_eq!(requested(b"GET /?a%20b HTTP/1.1\r\n\r\n"), Some(b"a b".to_vec()));
        assert_eq!(requested(b"GET /favicon.ico HTTP/1.1\r\n\r\n"), None);
        assert_eq!(requested(b"POST / HTTP/1.1\r\n\r\n"), None);
        assert_eq!(requested(b""), None);
    }
}
