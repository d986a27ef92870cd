//! Request and reply: clients open a channel each to one server, by its name.
//!
//! ```text
//! cargo run -p weir-mpx --example request_reply
//! ```
//!
//! The program starts itself twice as a client. The server receives the requests of all clients by one
//! call, and learns when a client goes, whether it closes or dies.

use std::path::Path;
use std::process::Command;
use std::time::Duration;
use weir_mpx::{Answer, Mpx, MpxOptions, MpxPeer, MpxPeerOptions, RecordKind};

const CLIENTS: usize = 2;
const REQUESTS: u32 = 100;

/// Answers each request with its bytes in capitals, until all clients have gone.
fn serve(mut server: Mpx) -> weir::Result<()> {
    let mut buffer = vec![0; 64 << 10];
    let mut gone = 0;
    while gone < CLIENTS {
        let (mut opened, mut replies) = (Vec::new(), Vec::new());
        server.receive_each(&mut buffer, |record| match record.kind {
            RecordKind::Open => opened.push(record.channel),
            RecordKind::Data => replies.push((record.channel, record.bytes.to_ascii_uppercase())),
            RecordKind::Close(_) => gone += 1,
            _ => {}
        })?;
        let accept = opened.into_iter().map(Answer::Accept);
        // A client waits for its reply before it asks again, so that there is always room for one.
        let reply = replies.iter().map(|(channel, bytes)| Answer::Send(*channel, bytes));
        server.answer(&accept.chain(reply).collect::<Vec<_>>())?;
    }
    Ok(())
}

fn ask(server: &Path) -> weir::Result<()> {
    let options = MpxPeerOptions::new().connect_timeout(Duration::from_secs(10));
    let mut client = MpxPeer::connect(server, &options)?;
    let channel = client.open(b"capitals")?;
    let mut buffer = vec![0; 64 << 10];
    for number in 0..REQUESTS {
        client.send(channel, format!("request {number}").as_bytes())?;
        let mut reply = Vec::new();
        while reply.is_empty() {
            client.receive_each(&mut buffer, |record| {
                if record.kind == RecordKind::Data {
                    reply = record.bytes.to_vec();
                }
            })?;
        }
        assert_eq!(reply, format!("REQUEST {number}").as_bytes());
    }
    client.close(channel)
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    if let Some(server) = std::env::args().nth(1) {
        return Ok(ask(Path::new(&server))?);
    }
    let name = std::env::temp_dir().join(format!("request-reply-{}", std::process::id()));
    let server = Mpx::create(&name, &MpxOptions::new())?;
    let start = || Command::new(std::env::current_exe()?).arg(&name).spawn();
    let clients = (0..CLIENTS).map(|_| start()).collect::<std::io::Result<Vec<_>>>()?;
    serve(server)?;
    for mut client in clients {
        assert!(client.wait()?.success());
    }
    println!("{CLIENTS} clients had {REQUESTS} replies each");
    Ok(())
}
