//! Pipes, sockets and waiting for descriptors.

pub mod epoll;
pub mod event_fd;
pub mod poll;
pub mod seqpacket;
pub mod token_pipe;
pub mod unix_socket;
