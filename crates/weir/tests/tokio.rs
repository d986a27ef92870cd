//! Ends in async programs: bytes, records and messages of ports in a runtime of one thread, where one
//! task that blocks would block all (docs/contracts/wait.md, 6).

#![cfg(feature = "tokio")]

use futures::{SinkExt, StreamExt};
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use weir::tokio::{
    Listener, PortSink, PortStream, RecordDuplex, RecordSink, RecordStream, StreamReader,
    StreamWriter,
};
use weir::{Ending, ErrorKind, Event, Options, Port, PortOptions, PortWriter, PortWriterOptions};

/// Runs a future to its end, within a time limit.
fn run<T>(future: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime.expect("a runtime").block_on(async {
        tokio::time::timeout(Duration::from_secs(30), future).await.expect("in time")
    })
}

#[test]
fn bytes_pass_through_a_small_pipe() {
    run(async {
        let (writer, reader) = weir::pipe(&Options::new().capacity_bytes(4096)).expect("a pipe");
        let mut writer = StreamWriter::new(writer).expect("registered");
        let mut reader = StreamReader::new(reader).expect("registered");
        let sent: Vec<u8> = (0..1_000_000_u32).map(|at| (at >> 4) as u8).collect();
        let expected = sent.clone();
        let writing = tokio::spawn(async move {
            writer.write_all(&sent).await.expect("written");
            writer.shutdown().await.expect("shut down");
            writer.write_all(b"x").await.expect_err("shut down").kind()
        });
        let mut got = Vec::new();
        reader.read_to_end(&mut got).await.expect("read");
        assert!(got == expected, "other bytes came");
        assert_eq!(writing.await.expect("no panic"), std::io::ErrorKind::BrokenPipe);
    });
}

#[test]
fn records_pass_and_their_end_is_seen() {
    run(async {
        let options = Options::new().capacity_bytes(16_384);
        let (writer, reader) = weir::records(&options).expect("a pipe");
        let mut sink = RecordSink::new(writer).expect("registered");
        let stream = RecordStream::new(reader).expect("registered");
        let sending = tokio::spawn(async move {
            for at in 0..2000_usize {
                sink.send(vec![at as u8; at * 7 % 9000]).await.expect("sent");
            }
            sink.close().await.expect("closed");
        });
        let got: Vec<_> = stream.map(|record| record.expect("received")).collect().await;
        assert_eq!(got.len(), 2000);
        let right = |(at, record): (usize, &Vec<u8>)| *record == vec![at as u8; at * 7 % 9000];
        assert!(got.iter().enumerate().all(right));
        sending.await.expect("no panic");
    });
}

#[test]
fn many_writers_of_a_port_in_one_thread_with_it() {
    run(async {
        let directory = tempfile::tempdir().expect("a directory");
        let name = directory.path().join("port");
        let port = Port::create(&name, &PortOptions::new()).expect("a port");
        let mut stream = PortStream::new(port).expect("registered");
        let options = PortWriterOptions::new().capacity_bytes(8192);
        for seed in 0..5_u8 {
            let writer = PortWriter::connect(&name, &options).expect("a writer");
            let mut sink = PortSink::new(writer).expect("registered");
            tokio::spawn(async move {
                for at in 0..500_usize {
                    sink.send(vec![seed; at % 3000]).await.expect("sent");
                }
                sink.close().await.expect("closed");
            });
        }
        let (mut messages, mut ends) = (0, 0);
        while ends < 5 {
            let message = stream.next().await.expect("it does not end").expect("received");
            match message.received.event {
                Event::Message { bytes } => {
                    assert_eq!(
                        message.bytes.len(),
                        (message.received.sequence as usize - 1) % 3000
                    );
                    assert_eq!(bytes, message.bytes.len());
                    messages += 1;
                }
                Event::Closed(ending) => {
                    assert_eq!(ending, Ending::Closed);
                    ends += 1;
                }
                other => panic!("no pieces were asked for: {other:?}"),
            }
        }
        assert_eq!(messages, 2500);
        assert_eq!(stream.port().counts().expect("mine").open, 0);
    });
}

#[test]
fn a_sink_learns_that_its_reader_is_gone() {
    run(async {
        let (writer, reader) = weir::records(&Options::new()).expect("a pipe");
        let mut sink = RecordSink::new(writer).expect("registered");
        sink.send(b"x".to_vec()).await.expect("sent");
        drop(reader);
        let error = sink.send(b"y".to_vec()).await.expect_err("gone");
        assert_eq!(error.kind(), ErrorKind::Closed);
    });
}

/// A task that waits for an end does not hold up others, and another thread can wake it.
#[test]
fn waiting_blocks_nobody() {
    run(async {
        let (mut writer, reader) = weir::records(&Options::new()).expect("a pipe");
        let mut stream = RecordStream::new(reader).expect("registered");
        let waiting = tokio::spawn(async move { stream.next().await });
        let mut ticks = 0;
        while ticks < 20 {
            // sleep: the other task waits during this time, and this one continues.
            tokio::time::sleep(Duration::from_millis(1)).await;
            ticks += 1;
        }
        assert!(!waiting.is_finished());
        let sending = std::thread::spawn(move || writer.send(b"late").expect("sent"));
        let got = waiting.await.expect("no panic").expect("a record").expect("received");
        assert_eq!(got, b"late");
        sending.join().expect("no panic");
    });
}

/// Each poll answered with the same error, so that who takes all that comes never ended.
#[test]
fn streams_end_where_nothing_can_come_any_more() {
    run(async {
        let (port, handle) = Port::unnamed(&PortOptions::new()).expect("a port");
        let mut stream = PortStream::new(port).expect("registered");
        let mut writer = PortWriter::open(&handle, &PortWriterOptions::new()).expect("a writer");
        writer.send(b"hello").expect("sent");
        drop((writer, handle));
        let messages: Vec<_> =
            stream.by_ref().take(9).map(|one| one.expect("received")).collect().await;
        assert_eq!(messages.len(), 2, "a message and the end of its writer");
        assert!(stream.next().await.is_none());
    });
}

/// Each poll answered that the memory is invalid.
#[test]
fn a_stream_of_records_ends_after_a_memory_that_is_invalid() {
    run(async {
        let (writer, reader) = weir::Handle::record_pair(&Options::new()).expect("a pipe");
        let (memory, _socket) = writer.into_descriptors();
        let page = rustix::param::page_size() as u64;
        rustix::io::pwrite(&memory, &[0xff; 64], page).expect("written");
        let reader = weir::RecordReader::open(reader).expect("opened");
        let stream = RecordStream::new(reader).expect("registered");
        let came: Vec<_> = stream.take(9).collect().await;
        let kinds: Vec<_> = came.iter().map(|one| one.as_ref().err().map(|e| e.kind())).collect();
        assert_eq!(kinds, [Some(ErrorKind::Corrupt)]);
    });
}

/// A task that waits for messages hears of a writer that is resumed.
#[test]
fn a_writer_of_a_stream_can_be_suspended_and_resumed() {
    run(async {
        let directory = tempfile::tempdir().expect("a directory");
        let name = directory.path().join("port");
        let port = Port::create(&name, &PortOptions::new()).expect("a port");
        let mut stream = PortStream::new(port).expect("registered");
        let mut writer = PortWriter::connect(&name, &PortWriterOptions::new()).expect("a writer");
        writer.send(b"1").expect("sent");
        let first = stream.next().await.expect("one").expect("received");
        stream.port().suspend(first.received.writer).expect("there");
        writer.send(b"2").expect("sent");
        let time = Duration::from_millis(20);
        tokio::time::timeout(time, stream.next()).await.expect_err("it is suspended");
        stream.port().resume(first.received.writer).expect("there");
        let second = stream.next().await.expect("one").expect("received");
        assert_eq!(second.bytes, b"2");
    });
}

/// Answers each record with itself, and returns how the client ended.
async fn echo(mut client: RecordDuplex) -> Option<Ending> {
    while let Some(request) = client.receive().await.expect("received") {
        client.send(&request).await.expect("sent");
    }
    client.ending().expect("here")
}

fn channel() -> (RecordDuplex, RecordDuplex) {
    let options = Options::new().capacity_bytes(8192);
    let (one, other) = weir::RecordDuplex::pair(&options).expect("a channel");
    let registered = |side| RecordDuplex::new(side).expect("registered");
    (registered(one), registered(other))
}

/// Accepting blocked a thread, so that a runtime of one thread stood still.
#[test]
fn a_listener_accepts_many_in_one_thread_with_them() {
    run(async {
        let directory = tempfile::tempdir().expect("a directory");
        let name = directory.path().join("channels");
        let inner = weir::Listener::bind(&name).expect("bound");
        let listener = std::sync::Arc::new(Listener::new(inner).expect("registered"));
        // More than are taken off the kernel's queue at a time, by two tasks.
        let accepting: Vec<_> = (0..2)
            .map(|_| {
                let listener = listener.clone();
                tokio::spawn(async move {
                    let mut serving = Vec::new();
                    for _ in 0..25 {
                        let side: weir::RecordDuplex = listener.accept().await.expect("accepted");
                        let side = RecordDuplex::new(side).expect("registered");
                        serving.push(tokio::spawn(echo(side)));
                    }
                    serving
                })
            })
            .collect();
        let mut clients = Vec::new();
        for number in 0..50_u32 {
            let side = weir::RecordDuplex::connect(&name, &Options::new()).expect("connected");
            let mut client = RecordDuplex::new(side).expect("registered");
            clients.push(tokio::spawn(async move {
                let request = number.to_le_bytes();
                for _ in 0..10 {
                    assert_eq!(client.request(&request).await.expect("a reply"), request);
                }
            }));
            if number % 10 == 0 {
                // The others get on, and the listener waits again.
                tokio::task::yield_now().await;
            }
        }
        for client in clients {
            client.await.expect("no panic");
        }
        for accepted in accepting {
            for serving in accepted.await.expect("no panic") {
                assert_eq!(serving.await.expect("no panic"), Some(Ending::Closed));
            }
        }
    });
}

/// A pipe that comes where a channel is accepted, one who sends nothing, and one who is not there yet.
#[test]
fn a_listener_that_waits_hears_whoever_connects() {
    run(async {
        let directory = tempfile::tempdir().expect("a directory");
        let name = directory.path().join("pipes");
        let inner = weir::Listener::bind(&name).expect("bound");
        let listener = Listener::new(inner).expect("registered");
        let silent = std::os::unix::net::UnixStream::connect(&name);
        let waiting = tokio::time::timeout(Duration::from_millis(20), listener.accept());
        let waited: Result<weir::Result<weir::Reader>, _> = waiting.await;
        assert!(waited.is_err(), "nobody has connected with a memory");
        let connecting = std::thread::spawn({
            let name = name.clone();
            move || weir::Writer::connect(&name, &Options::new()).expect("connected")
        });
        let reader: weir::Reader = listener.accept().await.expect("accepted");
        drop(connecting.join().expect("no panic"));
        let mut reader = StreamReader::new(reader).expect("registered");
        assert_eq!(reader.read(&mut [0; 8]).await.expect("the end"), 0);
        assert_eq!(reader.ending().expect("here"), Some(Ending::Closed));
        let _writer = weir::Writer::connect(&name, &Options::new()).expect("connected");
        let wrong: weir::Result<weir::RecordDuplex> = listener.accept().await;
        assert_eq!(wrong.expect_err("a pipe").kind(), ErrorKind::Invalid);
        drop(silent);
    });
}

/// A request that was given up left its reply to the next one.
#[test]
fn a_request_that_is_given_up_leaves_the_next_its_own_reply() {
    run(async {
        let (mut client, mut server) = channel();
        // Long replies: more of them than there is room for.
        for number in 0..6_u8 {
            let time = Duration::from_millis(5);
            let late = tokio::time::timeout(time, client.request(&[number])).await;
            assert!(late.is_err(), "nobody has answered");
        }
        let serving = tokio::spawn(async move {
            let mut requests = Vec::new();
            while let Some(request) = server.receive().await.expect("received") {
                requests.push(request[0]);
                server.send(&vec![request[0]; 3000]).await.expect("sent");
            }
            requests
        });
        for number in 100..110 {
            let reply = client.request(&[number]).await.expect("a reply");
            assert_eq!(reply, vec![number; 3000], "its own");
        }
        drop(client);
        let requests = serving.await.expect("no panic");
        assert_eq!(requests, [&[0][..], &(100..110).collect::<Vec<u8>>()].concat());
    });
}

#[test]
fn a_side_of_a_channel_that_is_gone_is_an_error_of_its_requests() {
    run(async {
        let (mut client, server) = channel();
        let waiting = tokio::spawn(async move {
            let error = client.request(b"anybody?").await.expect_err("nobody");
            (error.kind(), client.ending().expect("here"))
        });
        tokio::task::yield_now().await;
        drop(server);
        assert_eq!(waiting.await.expect("no panic"), (ErrorKind::Closed, Some(Ending::Closed)));
        let (writer, reader) = weir::records(&Options::new()).expect("a pipe");
        let mut stream = RecordStream::new(reader).expect("registered");
        assert_eq!(stream.ending().expect("here"), None);
        drop(writer);
        assert!(stream.next().await.is_none());
        assert_eq!(stream.ending().expect("here"), Some(Ending::Closed));
    });
}
