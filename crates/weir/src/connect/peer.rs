//! Who is at the other end of a connection, and how it ended.

/// The process at the other end, as the kernel reports it.
///
/// ```
/// use weir::{Port, PortOptions, PortWriter, PortWriterOptions};
/// # let directory = tempfile::tempdir().expect("a directory");
/// # let name = directory.path().join("log");
/// let mut port = Port::create(&name, &PortOptions::new())?;
/// let mut writer = PortWriter::connect(&name, &PortWriterOptions::new())?;
/// writer.send(b"started")?;
/// let identity = port.receive(&mut [0; 64])?.identity;
/// println!("process {} of user {}", identity.pid, identity.uid);
/// assert_eq!(identity.pid, std::process::id() as i32);
/// # Ok::<(), weir::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct Identity {
    /// The process that connected; 0 if its pid namespace is not visible from here.
    pub pid: i32,
    /// Its user. A user without a number in this user namespace is the kernel's overflow user.
    pub uid: u32,
    /// Its group.
    pub gid: u32,
}

/// How the other end of a pipe, a writer of a port, or a channel of an mpx ended.
///
/// ```
/// use weir::{Ending, Event, Port, PortOptions, PortWriter, PortWriterOptions};
/// # let directory = tempfile::tempdir().expect("a directory");
/// # let name = directory.path().join("log");
/// let mut port = Port::create(&name, &PortOptions::new())?;
/// let writer = PortWriter::connect(&name, &PortWriterOptions::new())?;
/// drop(writer);
/// let received = port.receive(&mut [0; 64])?;
/// assert_eq!(received.event, Event::Closed(Ending::Closed));
/// # Ok::<(), weir::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Ending {
    /// It closed its end.
    Closed,
    /// It went without closing its end: its process died, or executed another program.
    Died,
    /// This side shut it out: it broke the protocol, or was not wanted any longer.
    ShutOut,
}
