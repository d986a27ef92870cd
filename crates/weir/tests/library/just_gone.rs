//! Processes that open a name while its reader goes away, between their connect and their first
//! message (docs/contracts/port.md, 4).

use crate::common;
use crate::raw;
use rustix::event::{PollFd, PollFlags, poll};
use rustix::net::{
    AddressFamily, SocketAddrUnix, SocketFlags, SocketType, bind, listen, socket_with,
};
use weir::{ErrorKind, Options, PortWriter, PortWriterOptions};

/// Each error says that there is no reader, and not what the kernel reports in that case.
#[test]
fn a_reader_that_goes_while_one_opens_is_no_reader() {
    let opens: [fn(&std::path::Path) -> weir::Result<()>; 2] = [
        |name| PortWriter::connect(name, &PortWriterOptions::new()).map(drop),
        |name| weir::Writer::connect(name, &Options::new()).map(drop),
    ];
    for (number, open) in opens.iter().cycle().take(600).enumerate() {
        let (_directory, name) = common::place();
        let socket = raw::listen(&name);
        let going = std::thread::spawn(move || {
            poll(&mut [PollFd::new(&socket, PollFlags::IN)], None).expect("polled");
            drop(socket);
        });
        // A faster process has already handed its memory over. It cannot tell this from a busy
        // reader.
        if let Err(error) = open(&name) {
            assert_eq!(error.kind(), ErrorKind::NoReader, "round {number}: {error}");
        }
        going.join().expect("no panic");
    }
}

/// Of a process that is gone and was waited for, kernels before 6.15 have no descriptor, and give the error
/// of an invalid argument. A child of such a reader may keep its socket.
#[test]
fn a_reader_that_the_kernel_does_not_find_any_more_is_no_reader() {
    use seccompiler::{SeccompAction, SeccompCmpArgLen, SeccompCmpOp};
    let (_directory, name) = common::place();
    let kind = SocketType::SEQPACKET;
    let socket = socket_with(AddressFamily::UNIX, kind, SocketFlags::CLOEXEC, None);
    let socket = socket.expect("a socket");
    bind(&socket, &SocketAddrUnix::new(&name).expect("short")).expect("bound");
    listen(&socket, 8).expect("listens");
    let asking = std::thread::spawn(move || {
        // The option SO_PEERPIDFD.
        let is_it = (SeccompCmpArgLen::Dword, SeccompCmpOp::Eq, 77);
        let invalid = SeccompAction::Errno(libc::EINVAL as u32);
        common::answer_where(libc::SYS_getsockopt, 2, is_it, invalid);
        PortWriter::connect(&name, &PortWriterOptions::new()).map(drop)
    });
    let error = asking.join().expect("no panic").expect_err("nobody reads");
    assert_eq!(error.kind(), ErrorKind::NoReader, "{error}");
}
