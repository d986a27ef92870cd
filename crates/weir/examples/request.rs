//! A request and its reply: a child serves, its parent asks.

use std::process::Command;
use std::time::Duration;
use weir::{Listener, Options, RecordDuplex};

fn serve(path: &str) -> weir::Result<()> {
    let mut client = RecordDuplex::connect(path, &Options::new())?;
    let mut request = [0; 64];
    while let Some(bytes) = client.reader.receive(&mut request)? {
        request[..bytes].reverse();
        client.writer.send(&request[..bytes])?;
    }
    Ok(())
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    if let Some(path) = std::env::args().nth(1) {
        return Ok(serve(&path)?);
    }
    let path = std::env::temp_dir().join(format!("request-{}", std::process::id()));
    let listener = Listener::bind(&path)?;
    let mut child = Command::new(std::env::current_exe()?).arg(&path).spawn()?;
    let mut server: RecordDuplex = listener.accept()?;
    let mut reply = [0; 64];
    // A server that has died is an error at once; one that hangs, after ten seconds.
    let bytes = server.request_timeout(b"stressed", &mut reply, Duration::from_secs(10))?;
    println!("stressed: {}", String::from_utf8_lossy(&reply[..bytes]));
    drop(server);
    child.wait()?;
    Ok(())
}
