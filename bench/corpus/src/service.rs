//! Servers on loopback that some pipelines talk to. Each ends with the pipeline.

use crate::corpus::find;
use crate::run::Place;
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// A server that runs.
pub struct Service {
    child: Option<Child>,
    /// To be removed at the end.
    directory: Option<PathBuf>,
}

/// A server that has not come up within this time never will.
const PATIENCE: Duration = Duration::from_secs(20);

impl Service {
    /// Starts the server of this name; what clients need goes into the place's environment.
    pub fn start(name: &str, place: &mut Place) -> Result<Service, String> {
        match name {
            "http" => http(place),
            "sshd" => sshd(place),
            "postgres" => postgres(place),
            "locale" => locale(place),
            _ => Err(format!("no service is named '{name}'")),
        }
    }

    /// The server's first process.
    pub fn pid(&self) -> Option<u32> {
        self.child.as_ref().map(Child::id)
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        if let Some(child) = &mut self.child {
            // SIGINT is PostgreSQL's fast shutdown, and ends the others too.
            let pid = rustix::process::Pid::from_child(child);
            let _ = rustix::process::kill_process(pid, rustix::process::Signal::INT);
            let end = Instant::now() + Duration::from_secs(5);
            while matches!(child.try_wait(), Ok(None)) && Instant::now() < end {
                // sleep: a server needs some milliseconds to shut down.
                std::thread::sleep(Duration::from_millis(5));
            }
            let _ = child.kill();
            let _ = child.wait();
        }
        if let Some(directory) = &self.directory {
            let _ = std::fs::remove_dir_all(directory);
        }
    }
}

fn free_port() -> Result<u16, String> {
    let listener = TcpListener::bind("127.0.0.1:0").map_err(|error| error.to_string())?;
    listener.local_addr().map(|address| address.port()).map_err(|error| error.to_string())
}

fn until(what: &str, is_up: impl Fn() -> bool) -> Result<(), String> {
    let end = Instant::now() + PATIENCE;
    while !is_up() {
        if Instant::now() > end {
            return Err(format!("{what} does not come up"));
        }
        // sleep: between two looks at the server.
        std::thread::sleep(Duration::from_millis(20));
    }
    Ok(())
}

fn quiet(command: &mut Command) -> Result<(), String> {
    let output = command.stdin(Stdio::null()).output();
    let output = output.map_err(|error| format!("{}: {error}", name(command)))?;
    let said = String::from_utf8_lossy(&output.stderr);
    output.status.success().then_some(()).ok_or_else(|| format!("{}: {said}", name(command)))
}

fn name(command: &Command) -> String {
    command.get_program().to_string_lossy().into_owned()
}

fn spawn(command: &mut Command) -> Result<Child, String> {
    let null = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    null.spawn().map_err(|error| format!("{}: {error}", name(command)))
}

fn write(path: &Path, text: &str, mode: u32) -> Result<(), String> {
    let written = std::fs::write(path, text)
        .and_then(|()| std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)));
    written.map_err(|error| format!("{}: {error}", path.display()))
}

fn http(place: &mut Place) -> Result<Service, String> {
    let port = free_port()?;
    let mut python = Command::new("python3");
    python.args(["-m", "http.server", "--bind", "127.0.0.1", &port.to_string()]);
    let service = Service { child: Some(spawn(python.current_dir(&place.data))?), directory: None };
    place.env.insert("HTTP_PORT".into(), port.to_string());
    until("the web server", || TcpStream::connect(("127.0.0.1", port)).is_ok())?;
    Ok(service)
}

/// A server with a host key and a user key of its own, made for this run.
fn sshd(place: &mut Place) -> Result<Service, String> {
    let port = free_port()?;
    let home = fresh(&place.data.join("sshd"))?;
    for key in ["host_key", "user_key"] {
        let mut keygen = Command::new("ssh-keygen");
        quiet(keygen.args(["-q", "-t", "ed25519", "-N", "", "-f"]).arg(home.join(key)))?;
    }
    let public = std::fs::read_to_string(home.join("user_key.pub")).map_err(|e| e.to_string())?;
    write(&home.join("authorized"), &public, 0o600)?;
    let shown = home.display();
    write(
        &home.join("config"),
        &format!(
            "Port {port}\nListenAddress 127.0.0.1\nHostKey {shown}/host_key\nPidFile none\n\
             AuthorizedKeysFile {shown}/authorized\nPasswordAuthentication no\nUsePAM no\n\
             StrictModes no\nPermitRootLogin prohibit-password\nMaxStartups 100\n"
        ),
        0o600,
    )?;
    write(
        &place.data.join("ssh_config"),
        &format!(
            "Host there\n  HostName 127.0.0.1\n  Port {port}\n  IdentityFile {shown}/user_key\n  \
             IdentitiesOnly yes\n  StrictHostKeyChecking no\n  UserKnownHostsFile /dev/null\n  \
             LogLevel ERROR\n  BatchMode yes\n"
        ),
        0o600,
    )?;
    let _ = std::fs::create_dir_all("/run/sshd");
    // sshd starts itself anew for each connection and wants its own whole path.
    let program = find("sshd").ok_or("sshd is not installed")?;
    let mut sshd = Command::new(program);
    let child = spawn(sshd.arg("-D").arg("-f").arg(home.join("config")))?;
    let service = Service { child: Some(child), directory: Some(home) };
    until("sshd", || TcpStream::connect(("127.0.0.1", port)).is_ok())?;
    Ok(service)
}

/// A cluster with the orders in one table; it runs as the user `postgres` if this is root.
fn postgres(place: &mut Place) -> Result<Service, String> {
    let root = rustix::process::geteuid().is_root();
    let base = fresh(&std::env::temp_dir().join(format!("weir-corpus-{}", std::process::id())))?;
    if root {
        quiet(Command::new("chown").arg("postgres").arg(&base))?;
    }
    let user = |program: &str| {
        let mut command = Command::new(if root { "setpriv" } else { program });
        if root {
            command.args(["--reuid=postgres", "--regid=postgres", "--clear-groups", program]);
        }
        command.current_dir("/").env("LC_ALL", "C");
        command
    };
    let cluster = base.join("cluster");
    let admin = if root { "root" } else { "corpus" };
    quiet(user("initdb").args(["-A", "trust", "-N", "-U", admin, "-D"]).arg(&cluster))?;
    let mut server = user("postgres");
    server.arg("-D").arg(&cluster).arg("-k").arg(&base);
    server.args(["-c", "listen_addresses=", "-c", "fsync=off"]);
    let service = Service { child: Some(spawn(&mut server)?), directory: Some(base.clone()) };
    let socket = base.display().to_string();
    for (name, value) in [("PGHOST", socket.as_str()), ("PGUSER", admin)] {
        place.env.insert(name.into(), value.into());
    }
    let client = |program: &str| place.command(Path::new(program));
    let runs = |mut command: Command| command.output().is_ok_and(|output| output.status.success());
    until("PostgreSQL", || runs(client("pg_isready")))?;
    quiet(client("createdb").arg("corpus"))?;
    let table = "create table orders (id int, customer text, country text, price numeric, \
                 quantity int, note text)";
    quiet(client("psql").args(["-q", "corpus", "-c", table]))?;
    quiet(client("psql").args(["-q", "corpus", "-c", "\\copy orders from orders.csv csv header"]))?;
    Ok(service)
}

/// The locale en_US.UTF-8, compiled into the directory of the inputs.
fn locale(place: &mut Place) -> Result<Service, String> {
    let directory = place.data.join("locales");
    if !directory.join("en_US.UTF-8").exists() {
        std::fs::create_dir_all(&directory).map_err(|error| error.to_string())?;
        let mut localedef = Command::new("localedef");
        localedef.args(["-i", "en_US", "-f", "UTF-8"]).arg(directory.join("en_US.UTF-8"));
        quiet(&mut localedef)?;
    }
    place.env.insert("LOCPATH".into(), directory.display().to_string());
    Ok(Service { child: None, directory: None })
}

fn fresh(directory: &Path) -> Result<PathBuf, String> {
    let _ = std::fs::remove_dir_all(directory);
    let made = std::fs::create_dir_all(directory);
    made.map_err(|error| format!("{}: {error}", directory.display()))?;
    Ok(directory.to_owned())
}
