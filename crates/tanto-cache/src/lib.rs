//! Action cache: results of commands, found again by the content of everything that the command looked at.
