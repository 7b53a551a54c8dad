//! Connections that a client keeps outlive the call that opened them: commands and evaluations that block share one runtime.

use std::io::{BufRead as _, BufReader, Write as _};
use std::net::TcpListener;
use std::time::Duration;

use windlass_base::blocking;
use windlass_fetch::http::{Http, Request, Tls};
use windlass_fetch::location::Location;

#[test]
fn one_connection_serves_the_requests_of_several_calls() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/file", listener.local_addr().unwrap());
    // One connection: a second one would get no answer.
    let server = std::thread::spawn(move || {
        let (stream, _) = listener.accept().unwrap();
        let mut lines = BufReader::new(stream.try_clone().unwrap()).lines();
        for _ in 0..2 {
            while !lines.next().expect("the client closed the connection").unwrap().is_empty() {}
            let answer = b"HTTP/1.1 200 OK\r\ncontent-length: 1\r\n\r\nx";
            (&stream).write_all(answer).unwrap();
        }
    });
    let http = Http::new(Duration::from_secs(10), false);
    let tls = Tls::default();
    for _ in 0..2 {
        let bytes = blocking::wait(async || {
            let location = Location::parse(&url).map_err(|e| e.to_string())?;
            http.fetch(Request::get(location, &tls, 1)).await.map_err(|e| e.to_string())
        });
        assert_eq!(bytes.as_deref(), Ok(&b"x"[..]));
    }
    server.join().unwrap();
}
