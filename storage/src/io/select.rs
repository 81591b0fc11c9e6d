//! The start-up choice of a backend. Asked once, before any runtime exists; says in one line why it chose.

use std::io;
use std::path::Path;
use std::str::FromStr;

use super::file_name::FileName;
use super::{Io, blocking, os_file, uring};
use crate::base::error::{Error, Result};

/// The `--io` setting.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum IoMode {
    /// io_uring where it works, threads where it is forbidden.
    #[default]
    Auto,
    /// io_uring or no start.
    Uring,
    Threads,
}

impl FromStr for IoMode {
    type Err = String;

    fn from_str(text: &str) -> std::result::Result<Self, String> {
        match text {
            "auto" => Ok(Self::Auto),
            "uring" => Ok(Self::Uring),
            "threads" => Ok(Self::Threads),
            _ => Err(format!("\"{text}\" is none of auto, uring, threads")),
        }
    }
}

/// The chosen backend.
pub struct Selected {
    pub io: Io,
    /// Why io_uring is not used although `auto` would have: one line with cause and cure, for log and system view.
    pub fallback_reason: Option<String>,
}

/// Chooses the backend for the data directory `root`, which is made if missing. Blocks; for the start only.
pub fn select(root: &Path, mode: IoMode) -> Result<Selected> {
    if let Err(e) = os_file::create_directory(root)
        && e.kind() != io::ErrorKind::AlreadyExists
    {
        return Err(Error::Io {
            what: format!("could not create data directory \"{}\"", root.display()),
            reason: e.to_string(),
        });
    }
    if mode == IoMode::Threads {
        return Ok(Selected { io: Io::new(blocking::Blocking::new(root)), fallback_reason: None });
    }
    match (uring::probe(&root.join(FileName::IoProbe.to_string())), mode) {
        (Ok(()), _) => Ok(Selected { io: Io::new(uring::Uring::new(root)), fallback_reason: None }),
        (Err(failure), IoMode::Uring) => Err(Error::Io {
            what: "io_uring is required (io = uring) but not usable".into(),
            reason: failure.to_string(),
        }),
        (Err(failure), _) => Ok(Selected {
            io: Io::new(blocking::Blocking::new(root)),
            fallback_reason: Some(format!("io_uring is not usable, IO runs on threads: {failure}")),
        }),
    }
}

/// What the probe met, and what to do about it.
#[derive(Debug)]
pub(super) struct ProbeFailure {
    pub(super) step: &'static str,
    pub(super) error: io::Error,
}

impl std::fmt::Display for ProbeFailure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} failed ({}); {}", self.step, self.error, cure(&self.error))
    }
}

fn cure(error: &io::Error) -> &'static str {
    match error.raw_os_error() {
        Some(libc::EPERM | libc::EACCES) => {
            "allow it in the container's seccomp profile (--security-opt seccomp=…) and set sysctl kernel.io_uring_disabled=0"
        }
        Some(libc::ENOSYS) => "a kernel from 6.1 on has it; a sandbox may hide it",
        Some(libc::ENOMEM) => "raise the memlock limit (LimitMEMLOCK=infinity, ulimit -l)",
        Some(libc::EINVAL | libc::EOPNOTSUPP) => "a kernel from 6.1 on supports what is needed",
        _ => "see the error",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failure_names_cause_and_cure() {
        for (code, cure) in [
            (libc::EPERM, "seccomp"),
            (libc::ENOSYS, "kernel"),
            (libc::ENOMEM, "LimitMEMLOCK"),
            (libc::EINVAL, "kernel from 6.1"),
        ] {
            let line = ProbeFailure { step: "setup", error: io::Error::from_raw_os_error(code) }.to_string();
            assert!(line.contains("setup") && line.contains(cure) && !line.contains('\n'), "{line}");
        }
    }

    #[test]
    fn modes_read_from_text() {
        assert_eq!("auto".parse(), Ok(IoMode::Auto));
        assert_eq!("uring".parse(), Ok(IoMode::Uring));
        assert_eq!("threads".parse(), Ok(IoMode::Threads));
        assert!("".parse::<IoMode>().is_err());
    }
}
