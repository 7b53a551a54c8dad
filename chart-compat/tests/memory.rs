//! What all documents take that are being read: a process of its own, since that is what it is about.

// Helpers outside `#[test]` functions fail like the tests that they serve.
#![allow(clippy::unwrap_used, clippy::panic)]

use chart_compat::memory;
use chart_compat::render::Schema;
use chart_compat::yaml::{self, OutOfRoom, Room};

/// A schema of a chain of as many schemas.
fn chain(length: usize) -> String {
    let links: String =
        (0..length).map(|at| format!("\"d{at}\": {{\"$ref\": \"#/d{}\"}},", at + 1)).collect();
    format!("{{{links}\"d{length}\": {{}}, \"$ref\": \"#/d0\"}}")
}

#[test]
fn schemas_take_so_much_memory() {
    memory::limit_input(16 << 20);
    assert!(Schema::read(chain(1_000).as_bytes()).is_ok());
    for (schema, words) in
        [(chain(40_000), "schemas within it"), ("[],".repeat(1 << 20), "there is memory for 2097152")]
    {
        let told = Schema::read(schema.as_bytes()).err().unwrap();
        assert!(told.contains(words), "{told}");
    }
}

#[test]
fn documents_that_are_read_at_the_same_time_share_memory() {
    memory::limit_input(16 << 20);
    let text = "- a: 1\n".repeat(12_000);
    let read = |room: &Room| yaml::from_slice_within(text.as_bytes(), room).map(drop);
    // Some 8 MiB each.
    let others: Vec<Room> = (0..4).map(|_| Room::default()).collect();
    let outcomes: Vec<bool> = others.iter().map(|room| read(room).is_ok()).collect();
    assert_eq!(outcomes, [true, true, true, false]);
    assert_eq!(others[3].exceeded(), Some(OutOfRoom::Together(24)));
    let told = read(&Room::default()).unwrap_err().to_string();
    assert!(told.ends_with("all documents that are being read take more than 24 MiB of memory"), "{told}");
    // Small ones are read even so.
    assert!(yaml::from_slice("- a: 1\n".repeat(1_000).as_bytes()).is_ok());
    // Who has memory of its own counts there.
    assert!(read(&Room::whole(16 << 20)).is_ok());
    // It is given back.
    drop(others);
    assert!(read(&Room::default()).is_ok());
}
