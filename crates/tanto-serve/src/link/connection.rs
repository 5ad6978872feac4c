//! One connection to a coordinator's control socket: greeting, the request `link`, then messages in both directions.

use std::io;
use std::path::{Path, PathBuf};
use std::pin::pin;
use std::time::Duration;

use tanto_protocol::{Message, MessageError, ToServer};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader, BufWriter};
use tokio::net::UnixStream;
use tokio::net::unix::{OwnedReadHalf, OwnedWriteHalf};
use tokio::sync::mpsc;

use super::{Link, Outgoing, Received};

const GREETING: &[u8] = b"tanto bulk 1\n";
/// The words of the first request: the length of all, the length of the only one, and itself.
const LINK_REQUEST: &[u8] = b"\x08\0\0\0\x04\0\0\0link";
/// How long the greetings may take.
const GREETING_TIME: Duration = Duration::from_secs(10);
/// How long reading may go on when writing has failed.
const LAST_MESSAGES_TIME: Duration = Duration::from_secs(1);

#[derive(Debug, thiserror::Error)]
pub(super) enum LinkError {
    #[error("{}: {source}", path.display())]
    Entry { path: PathBuf, source: io::Error },
    #[error("{}: {source}", path.display())]
    Connect { path: PathBuf, source: io::Error },
    #[error("the connection failed: {0}")]
    Connection(#[from] io::Error),
    #[error("it does not speak the protocol of this version")]
    Greeting,
    #[error("it sent a message that is not understood: {0}")]
    Message(#[from] MessageError),
    #[error("it calls itself '{0}'")]
    OtherBuild(String),
}

pub(super) struct End {
    pub(super) error: LinkError,
    /// The coordinator had answered.
    pub(super) was_up: bool,
}

/// The socket of a state directory, which the entry is or names in its first line.
fn socket_path(entry: &Path) -> Result<PathBuf, LinkError> {
    let failed = |source| LinkError::Entry { path: entry.to_owned(), source };
    if std::fs::metadata(entry).map_err(failed)?.is_dir() {
        return Ok(entry.join("socket"));
    }
    let text = std::fs::read_to_string(entry).map_err(failed)?;
    Ok(Path::new(text.lines().next().unwrap_or_default()).join("socket"))
}

pub(super) async fn run(link: &Link, entry: &Path, received: &Received, log: fn(&str)) -> End {
    let mut was_up = false;
    let error = match relay(link, entry, received, log, &mut was_up).await {
        Ok(never) => match never {},
        Err(error) => error,
    };
    End { error, was_up }
}

/// Ends only with an error.
async fn relay(
    link: &Link,
    entry: &Path,
    received: &Received,
    log: fn(&str),
    was_up: &mut bool,
) -> Result<std::convert::Infallible, LinkError> {
    let path = socket_path(entry)?;
    let connected = UnixStream::connect(&path).await;
    let (reader, mut writer) = connected.map_err(|source| LinkError::Connect { path, source })?.into_split();
    let mut reader = BufReader::with_capacity(64 << 10, reader);
    let opened = tokio::time::timeout(GREETING_TIME, open(link, &mut reader, &mut writer));
    opened.await.map_err(|_| io::Error::from(io::ErrorKind::TimedOut))??;
    *was_up = true;
    log(&format!("build '{}': linked with its coordinator", link.build));
    let (sender, outgoing) = mpsc::unbounded_channel();
    link.state().outgoing = Some(sender);
    let mut reading = pin!(read(link, reader, received));
    let write_error = tokio::select! {
        end = &mut reading => return end,
        Err(error) = write(outgoing, writer) => error,
    };
    // A coordinator that has ended may have sent something before.
    tokio::time::timeout(LAST_MESSAGES_TIME, reading).await.unwrap_or(Err(write_error))
}

async fn open(
    link: &Link,
    reader: &mut BufReader<OwnedReadHalf>,
    writer: &mut OwnedWriteHalf,
) -> Result<(), LinkError> {
    writer.write_all(&[GREETING, LINK_REQUEST].concat()).await?;
    let mut greeting = Vec::new();
    (&mut *reader).take(GREETING.len() as u64).read_until(b'\n', &mut greeting).await?;
    if greeting.is_empty() {
        return Err(io::Error::from(io::ErrorKind::UnexpectedEof).into());
    }
    if greeting != GREETING {
        return Err(LinkError::Greeting);
    }
    match read_message(reader).await? {
        ToServer::Build { name } if name == link.build => Ok(()),
        ToServer::Build { name } => Err(LinkError::OtherBuild(name)),
        _ => Err(LinkError::Greeting),
    }
}

async fn read(
    link: &Link,
    mut reader: BufReader<OwnedReadHalf>,
    received: &Received,
) -> Result<std::convert::Infallible, LinkError> {
    loop {
        match read_message(&mut reader).await? {
            ToServer::Answer { number, answer } => link.answer(number, answer),
            ToServer::Gauges { gauges } => link.set_gauges(gauges),
            other => received(other).await,
        }
    }
}

async fn read_message(reader: &mut BufReader<OwnedReadHalf>) -> Result<ToServer, LinkError> {
    let length = reader.read_u32_le().await? as usize;
    if length > ToServer::MAX_BYTES {
        return Err(MessageError::TooLong { bytes: length, max: ToServer::MAX_BYTES }.into());
    }
    let mut bytes = Vec::new();
    (&mut *reader).take(length as u64).read_to_end(&mut bytes).await?;
    if bytes.len() < length {
        return Err(io::Error::from(io::ErrorKind::UnexpectedEof).into());
    }
    Ok(ToServer::decode(&bytes)?)
}

async fn write(
    mut outgoing: mpsc::UnboundedReceiver<Outgoing>,
    writer: OwnedWriteHalf,
) -> Result<std::convert::Infallible, LinkError> {
    let mut writer = BufWriter::with_capacity(64 << 10, writer);
    while let Some(message) = outgoing.recv().await {
        writer.write_u32_le(message.bytes.len() as u32).await?;
        writer.write_all(&message.bytes).await?;
        if outgoing.is_empty() {
            writer.flush().await?;
        }
    }
    Err(io::Error::from(io::ErrorKind::BrokenPipe).into())
}
